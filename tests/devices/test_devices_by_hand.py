"""Words between devices from nothing: sets of words that are passed on, with none of iosim's code.

Every word is a tuple; a device is a set of them. What crosses a link is counted as it is passed on.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from iosim.core.problem import Attention, AttentionBackward
from iosim.devices import count_links, on_devices
from iosim.devices.bounds import LINK_BOUNDS, Setting, link_bounds
from iosim.devices.bounds.attention import corners, hull, sharded_rows_words
from iosim.devices.bounds.products import accessed
from iosim.devices.closed import total_of
from iosim.devices.problems import FeedForward, Gather, SumOver, WeightGradient
from iosim.devices.report import devices_report
from iosim.devices.timing import device_times
from iosim.models.hardware import machine

Links = Counter[tuple[int, int]]
GRID = [(1, 1), (7, 1), (1, 4), (3, 8), (8, 2), (9, 2), (10, 4), (12, 3), (13, 5), (5, 13)]


def runs(n: int, parts: int) -> list[list[int]]:
    """Positions one after the other to the part that is not full yet."""
    full = [n // parts + (1 if k < n % parts else 0) for k in range(parts)]
    found: list[list[int]] = [[] for _ in range(parts)]
    k = 0
    for i in range(n):
        while len(found[k]) == full[k]:
            k += 1
        found[k].append(i)
    return found


def rows_of(sharding: str, n: int, P: int) -> list[list[int]]:
    if sharding == "striped":
        return [[i for i in range(n) if i % P == p] for p in range(P)]
    if sharding == "zigzag":
        halves = runs(n, 2 * P)
        return [halves[p] + halves[2 * P - 1 - p] for p in range(P)]
    return runs(n, P)


def send(links: Links, p: int, to: int, words: set[Any]) -> None:
    if p != to and words:
        links[p, to] += len(words)


def ring(held: list[set[Any]], times: int) -> Links:
    """Everything that a device has goes to the next one, so often."""
    P, links = len(held), Counter[tuple[int, int]]()
    for _ in range(times):
        for p in range(P):
            send(links, p, (p + 1) % P, held[p])
        held = [held[(p - 1) % P] for p in range(P)]
    return links


def spread(held: list[set[Any]]) -> Links:
    """An all-gather: what came last goes on, until all have all."""
    P, links = len(held), Counter[tuple[int, int]]()
    every, have, last = set().union(*held), [set(x) for x in held], [set(x) for x in held]
    for _ in range(P - 1):
        for p in range(P):
            send(links, p, (p + 1) % P, last[p])
        last = [last[(p - 1) % P] for p in range(P)]
        have = [x | y for x, y in zip(have, last, strict=True)]
    assert all(x == every for x in have)
    return links


def collect(parts: list[set[Any]]) -> Links:
    """A reduce-scatter: the sum of part k ends on device k, with one summand of each device."""
    P, links = len(parts), Counter[tuple[int, int]]()
    for k, part in enumerate(parts):
        summed = set()
        for step in range(P):
            at = (k + 1 + step) % P
            summed.add(at)
            if step < P - 1:
                send(links, at, (at + 1) % P, part)
        assert at == k
        assert summed == set(range(P))
    return links


def keys(rows: list[list[int]], heads: int, d: int, names: str) -> list[set[Any]]:
    return [set(itertools.product(names, range(heads), mine, range(d))) for mine in rows]


def moved(before: dict[Any, int], after: dict[Any, int], each: int) -> Links:
    links = Counter[tuple[int, int]]()
    for word, p in before.items():
        if p != after[word]:
            links[p, after[word]] += each
    return links


def owners(parts: list[list[int]]) -> dict[int, int]:
    return {i: p for p, part in enumerate(parts) for i in part}


def check_counts(
    name: str, problem: Any, P: int, links: Links, sharding: str = "contiguous"
) -> None:
    instance = on_devices(name, problem, P, sharding)
    counts = count_links(instance)
    want = {link: words for link, words in links.items() if words}
    assert counts.links == want, (name, problem, P, sharding)
    assert counts.sent == tuple(sum(w for (p, _), w in want.items() if p == q) for q in range(P))
    assert counts.received == tuple(
        sum(w for (_, p), w in want.items() if p == q) for q in range(P)
    )
    assert counts.most == max((*counts.sent, *counts.received))
    assert total_of(instance.schedule.program, instance.sizes, P) == sum(want.values())


@pytest.mark.parametrize("sharding", ["contiguous", "zigzag", "striped"])
def test_rings_and_gathers_of_attention(sharding: str) -> None:
    for (N, P), (groups, group, d) in zip(
        GRID, itertools.cycle([(1, 1, 2), (2, 3, 1), (3, 1, 2)]), strict=False
    ):
        given = {"N": N, "d": d, "heads": groups * group, "kv_heads": groups, "causal": P % 2 == 0}
        held = keys(rows_of(sharding, N, P), groups, d, "KV")
        check_counts("ring-attention", Attention(**given), P, ring(held, P - 1), sharding)
        check_counts("all-gather-attention", Attention(**given), P, spread(held), sharding)
        links = ring(held, P - 1)
        links.update(ring(keys(rows_of(sharding, N, P), groups, d, "kv"), P))  # dK and dV come home
        check_counts("ring-attention-backward", AttentionBackward(**given), P, links, sharding)


def test_all_to_alls_and_layers_and_gradients_and_collectives() -> None:
    for N, P in GRID:
        for groups, group, d in ((1, 2, 3), (3, 1, 2), (8, 2, 1)):
            rows, heads = owners(runs(N, P)), owners(runs(groups, P))
            every = list(itertools.product(range(N), range(groups)))
            before = {(i, g): rows[i] for i, g in every}
            after = {(i, g): heads[g] for i, g in every}
            links = moved(before, after, (group + 2) * d)
            links.update(moved(after, before, group * d))
            check_counts(
                "ulysses-attention", Attention(N, d, groups * group, kv_heads=groups), P, links
            )
        width, other = 3, 5
        parts = [set(itertools.product(part, range(width))) for part in runs(N, P)]
        both = spread(parts)
        both.update(collect(parts))
        for name in ("tensor-parallel", "tensor-sequence-parallel"):
            check_counts(name, FeedForward(N, width, other), P, both)
        check_counts("data-parallel", WeightGradient(other, N, width), P, both)
        check_counts("data-parallel-sharded", WeightGradient(other, N, width), P, collect(parts))
        words = [set(part) for part in runs(N, P)]
        check_counts("all-gather", Gather(N), P, spread(words))
        check_counts("reduce-scatter", SumOver(N, P), P, collect(words))
        both = spread(words)
        both.update(collect(words))
        check_counts("all-reduce", SumOver(N, P), P, both)
        tree = Counter[tuple[int, int]]()
        for p in range(1, P):  # its parent lacks its lowest one
            parent = int(f"{p:b}"[::-1].replace("1", "0", 1)[::-1], 2)
            tree[p, parent] += N
            tree[parent, p] += N
        check_counts("tree-all-reduce", SumOver(N, P), P, tree)


@pytest.mark.parametrize("sharding", ["contiguous", "zigzag", "striped"])
@pytest.mark.parametrize("causal", [False, True])
def test_causal_work_in_every_round(sharding: str, causal: bool) -> None:
    for N, P in ((9, 2), (12, 3), (17, 4), (5, 7)):
        rows, d, heads = rows_of(sharding, N, P), 2, 3
        work = [
            [
                4
                * d
                * heads
                * sum(j <= i or not causal for i in rows[p] for j in rows[(p - t) % P])
                for p in range(P)
            ]
            for t in range(P)
        ]
        ringed = on_devices("ring-attention", Attention(N, d, heads, causal=causal), P, sharding)
        counts = count_links(ringed)
        assert counts.flop == tuple(map(sum, zip(*work, strict=True)))
        assert sum(counts.flop) == 4 * d * heads * (N * (N + 1) // 2 if causal else N * N)
        longest = max(len(x) for x in rows)
        step = 0.25 + 2 * d * heads * longest * 2 / 8
        times = device_times(ringed, 2.0, 8.0, 0.25, "fp16")
        assert times.compute_s == pytest.approx(sum(max(each) / 2 for each in work))
        assert times.communication_s == pytest.approx((P - 1) * step)
        assert times.written_s == pytest.approx(
            sum(max(max(each) / 2, step) for each in work[:-1]) + max(work[-1]) / 2
        )


def test_memory_of_a_ring_and_of_a_gather_by_sets() -> None:
    for N, P in ((12, 3), (13, 5), (3, 4)):
        d, groups, group = 2, 2, 3
        rows = rows_of("zigzag", N, P)
        own = [len(mine) * groups * group * (2 * d + 2) for mine in rows]  # Q, O, m, l
        problem = Attention(N, d, groups * group, kv_heads=groups)
        held = [len(x) for x in keys(rows, groups, d, "KV")]
        most = [
            max(held[(p - t) % P] + held[(p - t - 1) % P] for t in range(P - 1)) for p in range(P)
        ]
        counts = count_links(on_devices("ring-attention", problem, P, "zigzag"))
        assert counts.peak == tuple(a + b for a, b in zip(own, most, strict=True))
        counts = count_links(on_devices("all-gather-attention", problem, P, "zigzag"))
        every = sum(held)
        assert counts.peak == tuple(a + b + every for a, b in zip(own, held, strict=True))


def cost(
    split: dict[Any, list[int]], q: list[int], k: list[int], P: int, words: tuple[int, int]
) -> int:
    """Words over d: a device needs each row of Q and of K and V of its pairs that it lacks."""
    total = 0
    for p in range(P):
        mine = [pair for pair, devices in split.items() if p in devices]
        total += words[0] * len({(h, i) for h, i, _ in mine if q[i] != p})
        total += words[1] * len({j for _, _, j in mine if k[j] != p})
    return total


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 4)])
def test_no_split_and_no_sharding_that_was_tried_is_below_the_bound_on_sharded_rows(
    rows: int, columns: int
) -> None:
    """Splits by rows, columns, rectangles and at random, improved pair by pair.

    Rows of Q and of K and V are sharded apart from each other, at most ⌈N/P⌉ to a device.
    """
    draw, nearest = random.Random(7), math.inf
    for _ in range(120):
        N, P, G = draw.randint(1, 6), draw.randint(1, 7), draw.randint(1, 3)
        causal = draw.random() < 0.4
        places = [p for p in range(P) for _ in range(-(-N // P))]
        q, k = (draw.sample(places, N) for _ in range(2))
        pairs = [
            (h, i, j) for h in range(G) for i in range(N) for j in range(N) if j <= i or not causal
        ]
        kind = draw.randrange(4)
        across = draw.randint(1, P)
        split = {
            (h, i, j): [
                (
                    q[i],
                    k[j],
                    draw.randrange(P),
                    (i * across // N + across * (j * (P // across) // N)) % P,
                )[kind]
            ]
            for h, i, j in pairs
        }
        kind_of = AttentionBackward if rows == 3 else Attention
        problem = kind_of(N, 1, G, kv_heads=1, causal=causal)
        bound = sharded_rows_words(Setting(problem, P, 10**6, {}), rows, columns)
        least = cost(split, q, k, P, (rows, columns))
        for _ in range(25):
            pair = draw.choice(pairs)
            before, split[pair] = split[pair], [draw.randrange(P)]
            now = cost(split, q, k, P, (rows, columns))
            if now > least:
                split[pair] = before
            least = min(least, now)
        assert least >= bound, (N, P, G, causal, q, k)
        if bound:
            nearest = min(nearest, least / bound)
    assert nearest < 1.1  # a bound a tenth higher would have been broken


def test_the_bound_where_it_can_be_worked_out() -> None:
    """Chords and corners by hand, also where P doesn't divide N, and where devices have no row."""

    def words(N: int, P: int, G: int = 1, causal: bool = False, back: bool = False) -> Fraction:
        problem = (AttentionBackward if back else Attention)(N, 1, G, kv_heads=1, causal=causal)
        bound = LINK_BOUNDS["sharded-rows-backward" if back else "sharded-rows"]
        return Fraction(bound.words(Setting(problem, P, 1, {})))

    for N, P in ((12, 3), (64, 8), (6, 6)):
        assert words(N, P) == Fraction(4 * N * (P - 1), P + 1)
        assert words(N, P, G=P) == 2 * N * (P - 1)
        assert words(N, P, back=True) == Fraction(7 * N * (P - 1), P + 1)
        assert words(N, P, G=P, back=True) <= 4 * N * (P - 1)
    # N = 10, P = 4: n = 3; 25 scores each, between (9, 0) and (100, 28)
    assert words(10, 4) == 4 * 28 * Fraction(25 - 9, 100 - 9)
    # N = 3, P = 5: n = 1; 9/5 scores each, between (1, 0) and (9, 8)
    assert words(3, 5) == 5 * 8 * Fraction(9 - 5, 5) / 8
    assert words(5, 1) == words(1, 5) == words(5, 1, G=3, causal=True) == 0
    # N = 4, n = 2, G = 4, causal: all 40 scores with b = N = 4 and a = 10/4: 8·(a − 2) + 2·(b − 2)
    assert corners(4, 2, 4, 2, 2, causal=True)[-1] == (40, pytest.approx(8, rel=1e-9))
    # N = 4, P = 2, causal: T = 10, n = 2; 5 scores each; (4, 0) and (10, 2(a + b) − 8 at ab = 10)
    assert float(words(4, 2, causal=True)) == pytest.approx(
        2 * (4 * math.sqrt(10) - 8) / 6, rel=1e-9
    )


def test_least_access_at_the_sides_of_its_cases() -> None:
    """Al Daas et al.: P = m/n and P = mn/k² are where cases meet, and P = 1 takes all of it."""
    for m, n, k in ((32, 8, 2), (64, 64, 64), (100, 10, 10), (50, 5, 1)):
        assert accessed((m, n, k), 1) == pytest.approx(m * n + m * k + n * k)
        first, second = m // n, m * n // k**2
        assert accessed((n, k, m), first) == pytest.approx(m * n / first + 2 * m * k / first)
        assert accessed((k, m, n), second) == pytest.approx(3 * k * k)
        values = [accessed((m, n, k), P) for P in range(1, second + 50)]
        assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 4)])
def test_no_choice_of_rows_lies_below_the_hull(rows: int, columns: int) -> None:
    """Lemma 3 with the costs of both theorems: a rows of each head of Q, b rows of K and V."""
    for N, G, causal in itertools.product((1, 3, 5, 6), (1, 2), (False, True)):
        most = N * (N + 1) // 2 if causal else N * N
        for n in range(1, N + 1):
            points = corners(N, n, G, rows, columns, causal)
            for b, *a in itertools.product(range(N + 1), repeat=1 + G):
                scores = sum(min(x * b, most) for x in a)
                paid = columns * max(0, b - n) + rows * sum(max(0, x - n) for x in a)
                assert hull(points, Fraction(scores)) <= paid, (N, n, a, b)


@pytest.mark.parametrize("whole", ["Q", "K", "V", "O"])
def test_rows_that_are_not_sharded_have_no_bound(whole: str) -> None:
    placement = {name: "" if name == whole else "N" for name in "QKVO"}
    (found,) = link_bounds(Setting(Attention(8, 2), 2, 100, placement))
    assert (found.words, found.outside) == (0, "rows are not sharded")


def test_what_a_device_has_at_first_is_no_transfer() -> None:
    """Two products of 64 rows: X on every device costs nothing, X that is sharded is gathered."""
    problem = FeedForward(64, 64, 512)
    for name, parts in (("tensor-parallel", 1), ("tensor-sequence-parallel", 2)):
        placement = on_devices(name, problem, 8).schedule.placement
        words = LINK_BOUNDS["memory-independent"].words(Setting(problem, 8, 10**6, placement))
        assert words == pytest.approx(parts * 64 * 64 * 7 / 8, rel=1e-9)
    ragged = FeedForward(5, 3, 11)  # H 55 words and Y 15 over 4 devices: 14 and 4; of W2 9
    placement = on_devices("tensor-parallel", ragged, 4).schedule.placement
    words = LINK_BOUNDS["memory-independent"].words(Setting(ragged, 4, 10**6, placement))
    assert words == pytest.approx(2 * math.sqrt(55 * 9 / 4) + 55 / 4 - (14 + 9 + 4))
    gradient = WeightGradient(4096, 64, 64)
    for name in ("data-parallel", "data-parallel-sharded"):
        placement = on_devices(name, gradient, 8).schedule.placement
        words = LINK_BOUNDS["memory-independent"].words(Setting(gradient, 8, 10**6, placement))
        assert words == pytest.approx(64 * 64 * 7 / 8, rel=1e-9)


def test_a_latency_of_nothing_is_none() -> None:
    ring = on_devices("ring-attention", Attention(64, 4), 4)
    times = devices_report(ring, machine("h200"), latency_s=0.0).times
    assert times is not None
    assert times.communication_s == pytest.approx(3 * 2 * 16 * 4 * 2 / 450e9)
    later = devices_report(ring, machine("h200")).times
    assert later is not None
    assert later.communication_s == pytest.approx(times.communication_s + 3 * 2.6e-6)


def test_sums_need_a_summand_of_every_device() -> None:
    for rows, placement, why in (
        (3, {"X": "rows", "dY": "rows", "dW": ""}, "some devices have no rows"),
        (9, {"X": "width", "dY": "", "dW": "width"}, "not every device has summands"),
        (9, {"X": "rows", "dY": "rows", "dW": ""}, None),
    ):
        setting = Setting(WeightGradient(rows, 2, 2), 4, 9, placement)
        found = {x.bound.name: x for x in link_bounds(setting)}
        assert (found["summed"].outside, found["summed"].words) == (why, 0 if why else 2 * 3 * 4)
