"""The loops of `iosim.pebbling.annealing`: one text, compiled with numba where it is installed.

A *sequence* is an order of operations, each of which may come again in a game with recomputation.
`played` plays one with clairvoyant eviction; `annealed_some` changes one at random and keeps what
is not much worse.  Everything lies in integer and real columns: arrays when compiled, lists
otherwise.  Random numbers are those of Lehmer's generator, so that both give the same schedules.
"""

from __future__ import annotations

from typing import Any

NEVER = 1 << 40  # later than all
UNLIMITED = 1 << 60  # more words than any schedule moves
LOAD, STORE, MAKE, DELETE = 0, 1, 2, 3
VOID = -1  # the target of an operation that does nothing
# Places in the column of counters.
LENGTH, COST, BEST_LENGTH, BEST_COST, RANDOM, STEPS = range(6)


def draw(counters: Any, below: int) -> int:
    """A random number from 0 to below − 1."""
    counters[RANDOM] = counters[RANDOM] * 48271 % 2147483647
    number: int = counters[RANDOM] // 7 % below
    return number


def played(
    game: Any, room: Any, sequence: Any, length: int, weights: Any, most: int, log: Any, logged: int
) -> int:
    """The transfers of a sequence, or more than `most` where they are more.

    What is evicted is what has the largest product of the time to its next use and its weight; a
    value without a blue pebble counts for less, as the last weight says, since it must be stored.
    A value whose next use comes after it is computed again is deleted at once.

    `log`, where `logged` is not 0, gets pairs of a move and a value, or an operation, or −1.
    """
    M, again, reads_at, reads, target, terms, output, inputs = game[:8]
    words, width = game[13:15]
    after_read, after_made, following, done, red, dirty, blue, held, resident = room[:9]
    values = len(done)
    for v in range(values):
        following[v] = NEVER
        done[v] = 0
        red[v] = 0
        dirty[v] = 0
        held[v] = 0
        blue[v] = inputs[v]
    # Forwards, the operations before it into its target; backwards, what is used next and when.
    for t in range(length):
        x = target[sequence[t]]
        if x != VOID:
            after_made[t] = done[x]
            done[x] += 1
    for t in range(length - 1, -1, -1):
        u = sequence[t]
        x = target[u]
        if x == VOID:
            continue
        adds = after_made[t] > 0 and not again
        after_made[t] = following[x]
        following[x] = 2 * t if adds else 2 * t + 1
        for k in range(reads_at[u], reads_at[u + 1]):
            after_read[t * width + k - reads_at[u]] = following[reads[k]]
            following[reads[k]] = 2 * t
    for v in range(values):
        done[v] = 0
    count = 0  # resident values, and the words that they take
    taken = 0
    cost = 0
    noted = 0
    for t in range(length):
        u = sequence[t]
        x = target[u]
        if x == VOID:
            continue
        adds = done[x] > 0 and not again
        held[x] = t + 1
        over = taken - M
        if not red[x]:
            over += words[x]
        for k in range(reads_at[u], reads_at[u + 1]):
            held[reads[k]] = t + 1
            if not red[reads[k]]:
                over += words[reads[k]]
        while over > 0:
            best = -1
            most_far = -1.0
            for k in range(count):
                v = resident[k]
                if held[v] != t + 1:
                    far = (following[v] - 2 * t) * weights[v]
                    if dirty[v]:
                        far *= weights[values]
                    if far > most_far:
                        most_far = far
                        best = k
            v = resident[best]
            count -= 1
            resident[best] = resident[count]
            red[v] = 0
            if dirty[v]:
                cost += words[v]
                dirty[v] = 0
                blue[v] = 1
                if logged:
                    log[noted] = STORE
                    log[noted + 1] = v
                    noted += 2
            if logged:
                log[noted] = DELETE
                log[noted + 1] = v
                noted += 2
            over -= words[v]
            taken -= words[v]
        for k in range(reads_at[u], reads_at[u + 1]):
            v = reads[k]
            if not red[v]:
                cost += words[v]
                taken += words[v]
                red[v] = 1
                resident[count] = v
                count += 1
                if logged:
                    log[noted] = LOAD
                    log[noted + 1] = v
                    noted += 2
        if not red[x]:
            if adds:
                cost += words[x]
                if logged:
                    log[noted] = LOAD
                    log[noted + 1] = x
                    noted += 2
            red[x] = 1
            taken += words[x]
            resident[count] = x
            count += 1
        if logged:
            log[noted] = MAKE
            log[noted + 1] = u
            noted += 2
        done[x] += 1
        if adds:
            blue[x] = 0
        if not blue[x]:
            dirty[x] = 1
            if output[x] and (again or done[x] == terms[x]):
                cost += words[x]
                dirty[x] = 0
                blue[x] = 1
                if logged:
                    log[noted] = STORE
                    log[noted + 1] = x
                    noted += 2
        if cost > most:
            return cost
        for k in range(reads_at[u], reads_at[u + 1]):
            following[reads[k]] = after_read[t * width + k - reads_at[u]]
        following[x] = after_made[t]
        k = 0
        while k < count:
            v = resident[k]
            if following[v] == NEVER or following[v] % 2 == 1:
                count -= 1
                taken -= words[v]
                resident[k] = resident[count]
                red[v] = 0
                dirty[v] = 0
                if logged:
                    log[noted] = DELETE
                    log[noted + 1] = v
                    noted += 2
            else:
                k += 1
    if logged:
        log[noted] = -1
    return cost


def moved(game: Any, room: Any, counters: Any, trial: Any) -> int:
    """Move an operation forwards or backwards, with those that must stay on its side of it.

    Returns the place before which the sequence is unchanged.
    """
    before_at, before, after_at, after = game[8:12]
    marked, kept = room[9], room[10]
    length = counters[LENGTH]
    i = draw(counters, length)
    reach = 4 if draw(counters, 2) else (16 if draw(counters, 2) else length)
    if draw(counters, 2):
        p = max(0, i - 1 - draw(counters, reach))
        # Those from p to i that it depends on go before all others.
        n = 0
        for q in range(i, p - 1, -1):
            u = trial[q]
            if q == i or marked[u]:
                for k in range(before_at[u], before_at[u + 1]):
                    marked[before[k]] = 1
                kept[n] = u
                n += 1
            else:
                trial[q + n] = u
        for k in range(n):
            trial[p + k] = kept[n - 1 - k]
        for k in range(n):
            u = kept[k]
            for j in range(before_at[u], before_at[u + 1]):
                marked[before[j]] = 0
        return p
    p = min(length - 1, i + 1 + draw(counters, reach))
    n = 0
    for q in range(i, p + 1):
        u = trial[q]
        if q == i or marked[u]:
            for k in range(after_at[u], after_at[u + 1]):
                marked[after[k]] = 1
            kept[n] = u
            n += 1
        else:
            trial[q - n] = u
    for k in range(n):
        trial[p - n + 1 + k] = kept[k]
        u = kept[k]
        for j in range(after_at[u], after_at[u + 1]):
            marked[after[j]] = 0
    return i


def again_before(game: Any, room: Any, counters: Any, trial: Any) -> bool:
    """Compute an operand once more, just before its use, perhaps with operands of its own."""
    reads_at, reads = game[2], game[3]
    maker = game[12]
    kept = room[10]
    length = counters[LENGTH]
    t = draw(counters, length)
    u = trial[t]
    n = 0
    while n < 6:
        v = reads[reads_at[u] + draw(counters, reads_at[u + 1] - reads_at[u])]
        if maker[v] < 0:
            break
        u = maker[v]
        kept[n] = u
        n += 1
        if draw(counters, 2):
            break
    if n == 0 or length + n > len(trial):
        return False
    for q in range(length - 1, t - 1, -1):
        trial[q + n] = trial[q]
    for k in range(n):
        trial[t + k] = kept[n - 1 - k]
    counters[LENGTH] = length + n
    return True


def left_out(counters: Any, trial: Any) -> bool:
    """Leave a computation out that is not the first of its vertex."""
    length = counters[LENGTH]
    t = draw(counters, length)
    found = False
    for q in range(t):
        if trial[q] == trial[t]:
            found = True
    if not found:
        return False
    for q in range(t, length - 1):
        trial[q] = trial[q + 1]
    counters[LENGTH] = length - 1
    return True


def switched(game: Any, counters: Any, trial: Any) -> int:
    """Let a term be added on the fly that was made apart, or the other way round.

    Returns the place before which the sequence is unchanged.
    """
    switches = game[15]
    at = 4 * draw(counters, len(switches) // 4)
    start: int = counters[LENGTH]
    for q in range(counters[LENGTH]):
        for k in range(4):
            if trial[q] == switches[at + k]:
                trial[q] = switches[at + (k + 2) % 4]
                start = min(start, q)
                break
    return start


def annealed_some(
    game: Any,
    room: Any,
    counters: Any,
    now: Any,
    trial: Any,
    best: Any,
    weights: Any,
    best_weights: Any,
    chances: Any,
    steps: int,
    heat: float,
    fall: float,
    log: Any,
) -> float:
    """Try so many changes; returns the heat reached.

    `now` is the sequence, `best` the best so far.  `chances` are the e^−x of x = k/64: a change
    that costs d more is kept where d ≤ heat · −ln(a random number).
    """
    again = game[1]
    values = len(weights) - 1
    for _ in range(steps):
        length = counters[LENGTH]
        kind = draw(counters, 16)
        at = -1
        weight = 0.0
        start = 0
        if kind == 0:
            at = draw(counters, values + 1)
            weight = weights[at]
            if at == values:
                weights[at] = 0.125 * (1 + draw(counters, 10))
            else:
                weights[at] = 0.25 * (1 << draw(counters, 5))
            changed = True
        elif again and kind < 3:
            changed = again_before(game, room, counters, trial)
        elif again and kind < 6:
            changed = left_out(counters, trial)
        elif kind < 3 and len(game[15]) > 0:
            start = switched(game, counters, trial)
            changed = True
        else:
            start = moved(game, room, counters, trial)
            changed = True
        if changed:
            allowed = counters[COST] + int(heat * chances[draw(counters, len(chances))])
            cost = played(game, room, trial, counters[LENGTH], weights, allowed, log, 0)
            if cost <= allowed:
                counters[COST] = cost
                for k in range(start, counters[LENGTH]):
                    now[k] = trial[k]
                if cost < counters[BEST_COST]:
                    counters[BEST_COST] = cost
                    counters[BEST_LENGTH] = counters[LENGTH]
                    for k in range(counters[LENGTH]):
                        best[k] = trial[k]
                    for k in range(values + 1):
                        best_weights[k] = weights[k]
            else:
                counters[LENGTH] = length
                for k in range(start, length):
                    trial[k] = now[k]
                if at >= 0:
                    weights[at] = weight
        heat *= fall
    counters[STEPS] += steps
    return heat
