"""The loops of `iosim.pebbling.annealing`: one text, compiled with numba where it is installed.

A *sequence* is an order of operations, each of which may come again in a game with recomputation.
`play` plays one with clairvoyant eviction; `anneal` changes one at random and keeps what
is not much worse.  Everything lies in integer and real columns: arrays when compiled, lists
otherwise.  Random numbers are those of Lehmer's generator, so that both give the same schedules.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NEVER = (1 << 40) + 1  # later than all; odd: not before the value is made again
UNLIMITED = 1 << 60  # more words than any schedule moves
LOAD, STORE, MAKE, DELETE = 0, 1, 2, 3
VOID = -1  # the target of an operation that does nothing
# Places in the column of counters.
LENGTH, COST, BEST_LENGTH, BEST_COST, RANDOM, STEPS = range(6)


class FlatGame(NamedTuple):
    """A game, whose ragged columns have the places where rows start in a column of their own.

    Attributes:
        M: words of fast memory.
        again: whether a value may be computed again.
        reads_at, reads: operands of each operation.
        target: of each operation.
        terms, output, inputs: of each value: how many operations write it; whether it is one.
        before_at, before, after_at, after: operations on either side of each.
        maker, words: of each value.
        width: operands of an operation at most.
        switches: four operations for each term that has two ways.
        chances: the e^−x of x = k/64, as −ln of numbers at random.
    """

    M: int
    again: bool
    reads_at: Any
    reads: Any
    target: Any
    terms: Any
    output: Any
    inputs: Any
    before_at: Any
    before: Any
    after_at: Any
    after: Any
    maker: Any
    words: Any
    width: int
    switches: Any
    chances: Any


class Playing(NamedTuple):
    """Playing for playing a sequence.

    Attributes:
        after_read, after_made: when operands and targets are used next, after each place.
        following, done, red, dirty, blue, held: of each value, at the present.
        resident: the red values.
        marked, kept: for moving operations.
        log: pairs of a move and a value, or an operation, from place 1 on; place 0 says up to
            where.
    """

    after_read: Any
    after_made: Any
    following: Any
    done: Any
    red: Any
    dirty: Any
    blue: Any
    held: Any
    resident: Any
    marked: Any
    kept: Any
    log: Any


class Sequences(NamedTuple):
    """The sequence, the one that is tried and the best, with weights of the first and the last."""

    counters: Any
    now: Any
    trial: Any
    best: Any
    weights: Any
    best_weights: Any


def draw(counters: Any, below: int) -> int:
    """A random number from 0 to below − 1."""
    counters[RANDOM] = counters[RANDOM] * 48271 % 2147483647
    number: int = counters[RANDOM] // 7 % below
    return number


def note(log: Any, move: int, of: int) -> None:
    """Write a move down."""
    at = log[0]
    log[at], log[at + 1], log[0] = move, of, at + 2


def play(
    game: FlatGame, room: Playing, sequence: Any, length: int, weights: Any, most: int, logged: bool
) -> int:
    """The transfers of a sequence, or more than `most` where they are more.

    `evict` says what is evicted.  A value whose next use comes after it is computed again is
    deleted at once.
    """
    M, again, reads_at, reads, target, terms, output = game[:7]
    words, log, width = game.words, room.log, game.width
    after_read, after_made, following, done, red, dirty, blue, held, resident = room[:9]
    start_uses(game, room, sequence, length)
    count, taken, cost = 0, 0, 0  # resident values, and the words that they take
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
        start, stop = reads_at[u], reads_at[u + 1]
        for k in range(start, stop):
            held[reads[k]] = t + 1
            if not red[reads[k]]:
                over += words[reads[k]]
        if over > 0:
            count, taken, stored = evict(game, room, weights, t, over, count, taken, logged)
            cost += stored
        for k in range(start, stop):
            v = reads[k]
            if not red[v]:
                cost += words[v]
                taken += words[v]
                red[v] = 1
                resident[count] = v
                count += 1
                if logged:
                    note(log, LOAD, v)
        if not red[x]:
            if adds:
                cost += words[x]
                if logged:
                    note(log, LOAD, x)
            red[x] = 1
            taken += words[x]
            resident[count] = x
            count += 1
        if logged:
            note(log, MAKE, u)
        done[x] += 1
        if adds:
            blue[x] = 0
        if not blue[x]:
            dirty[x] = 1
            if output[x] and (again or done[x] == terms[x]):
                cost += words[x]
                dirty[x], blue[x] = 0, 1
                if logged:
                    note(log, STORE, x)
        if cost > most:
            return cost
        for k in range(start, stop):
            following[reads[k]] = after_read[t * width + k - reads_at[u]]
        following[x] = after_made[t]
        k = 0
        while k < count:
            v = resident[k]
            if following[v] & 1:
                count -= 1
                taken -= words[v]
                resident[k] = resident[count]
                red[v] = dirty[v] = 0
                if logged:
                    note(log, DELETE, v)
            else:
                k += 1
    return cost


def start_uses(game: FlatGame, room: Playing, sequence: Any, length: int) -> None:
    """Start a sequence, and find when operands and targets are used next, after each place."""
    reads_at, reads, target, width = game.reads_at, game.reads, game.target, game.width
    after_read, after_made, following = room.after_read, room.after_made, room.following
    done = room.done
    for v in range(len(done)):
        following[v] = NEVER
        done[v] = 0
        room.red[v] = 0
        room.dirty[v] = 0
        room.held[v] = 0
        room.blue[v] = game.inputs[v]
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
        adds = after_made[t] > 0 and not game.again
        after_made[t] = following[x]
        following[x] = 2 * t if adds else 2 * t + 1
        for k in range(reads_at[u], reads_at[u + 1]):
            after_read[t * width + k - reads_at[u]] = following[reads[k]]
            following[reads[k]] = 2 * t
    for v in range(len(done)):
        done[v] = 0


def evict(
    game: FlatGame,
    room: Playing,
    weights: Any,
    t: int,
    over: int,
    count: int,
    taken: int,
    logged: bool,
) -> tuple[int, int, int]:
    """Evict this many words before place `t`.

    What has the largest product of the time to its next use and its weight; a value without a blue
    pebble counts for less, as the last weight says, since it must be stored.

    Returns the resident values that are left, their words, and those that are stored.
    """
    words, log, red, dirty = game.words, room.log, room.red, room.dirty
    resident, held, following = room.resident, room.held, room.following
    dearer, cost = weights[len(weights) - 1], 0
    while over > 0:
        best = -1
        most_far = -1.0
        for k in range(count):
            v = resident[k]
            if held[v] != t + 1:
                far = (following[v] - 2 * t) * weights[v]
                if dirty[v]:
                    far *= dearer
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
            room.blue[v] = 1
            if logged:
                note(log, STORE, v)
        if logged:
            note(log, DELETE, v)
        over -= words[v]
        taken -= words[v]
    return count, taken, cost


def move(game: FlatGame, room: Playing, counters: Any, trial: Any) -> int:
    """Move an operation forwards or backwards, with those that must stay on its side of it.

    Returns the place before which the sequence is unchanged.
    """
    before_at, before, after_at, after = game.before_at, game.before, game.after_at, game.after
    marked, kept = room.marked, room.kept
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


def make_again(game: FlatGame, room: Playing, counters: Any, trial: Any) -> bool:
    """Compute an operand once more, just before its use, perhaps with operands of its own."""
    reads_at, reads, maker, kept = game.reads_at, game.reads, game.maker, room.kept
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


def leave_out(counters: Any, trial: Any) -> bool:
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


def switch(game: FlatGame, counters: Any, trial: Any) -> int:
    """Let a term be added on the fly that was made apart, or the other way round.

    Returns the place before which the sequence is unchanged.
    """
    switches = game.switches
    at = 4 * draw(counters, len(switches) // 4)
    start: int = counters[LENGTH]
    for q in range(counters[LENGTH]):
        for k in range(4):
            if trial[q] == switches[at + k]:
                trial[q] = switches[at + (k + 2) % 4]
                start = min(start, q)
                break
    return start


def anneal(
    game: FlatGame, room: Playing, sequences: Sequences, steps: int, heat: float, fall: float
) -> float:
    """Try this many changes; returns the heat reached.

    A change that costs d more is kept where d ≤ heat · −ln(a random number).
    """
    counters, now, trial = sequences.counters, sequences.now, sequences.trial
    weights, chances = sequences.weights, game.chances
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
        elif game.again and kind < 3:
            changed = make_again(game, room, counters, trial)
        elif game.again and kind < 6:
            changed = leave_out(counters, trial)
        elif kind < 3 and len(game.switches) > 0:
            start = switch(game, counters, trial)
            changed = True
        else:
            start = move(game, room, counters, trial)
            changed = True
        if changed:
            allowed = counters[COST] + int(heat * chances[draw(counters, len(chances))])
            cost = play(game, room, trial, counters[LENGTH], weights, allowed, False)
            if cost <= allowed:
                counters[COST] = cost
                for k in range(start, counters[LENGTH]):
                    now[k] = trial[k]
                if cost < counters[BEST_COST]:
                    counters[BEST_COST] = cost
                    counters[BEST_LENGTH] = counters[LENGTH]
                    for k in range(counters[LENGTH]):
                        sequences.best[k] = trial[k]
                    for k in range(values + 1):
                        sequences.best_weights[k] = weights[k]
            else:
                counters[LENGTH] = length
                for k in range(start, length):
                    trial[k] = now[k]
                if at >= 0:
                    weights[at] = weight
        heat *= fall
    counters[STEPS] += steps
    return heat
