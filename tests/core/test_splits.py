"""Derived axes, numbers of tiles, and Flash-Decoding: every count agrees, whatever is ragged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Memory, blocks
from sizes import examples
from strategies import Square, split_schedules

import iosim
from iosim.base.errors import ProgramError
from iosim.core.counting import symbols
from iosim.core.program.canonical import canonical
from iosim.core.program.check import check
from iosim.core.program.index import Number
from iosim.core.program.ops import OPS
from iosim.core.trace import tally
from iosim.gpu.emitter.kernels import emit
from iosim.gpu.run.interpreter import interpret

pytestmark = pytest.mark.numbers

SPLIT = iosim.algorithm("split_kv")
FORMULAS: dict[Any, Any] = {}


def by_hand(problem: iosim.Attention, t: dict[str, int], hbm: Any) -> Memory:
    """Flash-Decoding word by word, for any mask without sinks; shares no code with iosim."""
    N, d, e, K = problem.N, problem.d, problem.values, problem.keys
    per = problem.heads // problem.groups
    left, right = problem.limits
    shift = K - N if problem.align == "lower right" else 0
    names = {x: hbm[x].reshape(-1, *hbm[x].shape[-2:]).tolist() for x in "QKV"}
    mem = Memory(**names)

    def sees(i: int, j: int) -> bool:
        own = i + shift
        return (left is None or j >= own - left) and (right is None or j <= own + right)

    def parts(I: range) -> list[range]:
        """The splits of what rows I see."""
        first = 0 if left is None else min(max(I.start + shift - left, 0), K)
        past = K if right is None else max(first, min(I.stop + shift + right, K))
        return list(blocks(past, t["B_s"], first))

    for g in range(problem.groups):
        for I in blocks(N, t["B_r"]):
            rows = [(h, i) for h in range(g * per, g * per + per) for i in I]  # stacked
            for n, S in enumerate(parts(I)):
                for at in rows:
                    for x in range(d):
                        mem.load("Q", *at, x)
                    mem.write(-1e30, "m", *at)
                    mem.write(0.0, "l", *at)
                    for x in range(e):
                        mem.write(0.0, "o", *at, x)
                for J in blocks(S.stop, t["B_c"], S.start):
                    for j, x in itertools.product(J, range(d)):
                        mem.load("K", g, j, x)
                    for at, j in itertools.product(rows, J):
                        s = sum(mem.get("Q", *at, x) * mem.get("K", g, j, x) for x in range(d))
                        mem.write(s if sees(at[1], j) else -math.inf, "s", *at, j)
                    for j, x in itertools.product(J, range(d)):
                        mem.drop("K", g, j, x)
                    for j, x in itertools.product(J, range(e)):
                        mem.load("V", g, j, x)
                    for at in rows:
                        top = max(mem.get("m", *at), *(mem.get("s", *at, j) for j in J))
                        shrink = math.exp(mem.get("m", *at) - top)
                        for j in J:
                            mem.write(math.exp(mem.get("s", *at, j) - top), "s", *at, j)
                        total = sum(mem.get("s", *at, j) for j in J)
                        mem.write(mem.get("l", *at) * shrink + total, "l", *at)
                        mem.write(top, "m", *at)
                        for x in range(e):
                            more = sum(mem.get("s", *at, j) * mem.get("V", g, j, x) for j in J)
                            mem.write(mem.get("o", *at, x) * shrink + more, "o", *at, x)
                    for j, x in itertools.product(J, range(e)):
                        mem.drop("V", g, j, x)
                    for at, j in itertools.product(rows, J):
                        mem.drop("s", *at, j)
                for at in rows:
                    for x in range(d):
                        mem.drop("Q", *at, x)
                    for name, key in (("m_part", "m"), ("l_part", "l")):
                        mem.fast[name, n, *at] = mem.fast.pop((key, *at))
                        mem.store(name, n, *at)
                        mem.drop(name, n, *at)
                    for x in range(e):
                        mem.fast["O_part", n, *at, x] = mem.fast.pop(("o", *at, x))
                        mem.store("O_part", n, *at, x)
                        mem.drop("O_part", n, *at, x)
    for g in range(problem.groups):
        for I in blocks(N, t["B_r"]):
            rows = [(h, i) for h in range(g * per, g * per + per) for i in I]
            for at in rows:
                mem.write(-1e30, "m", *at)
                mem.write(0.0, "l", *at)
                for x in range(e):
                    mem.write(0.0, "O", *at, x)
            for n, _ in enumerate(parts(I)):
                for at in rows:
                    mem.load("m_part", n, *at)
                    mem.load("l_part", n, *at)
                    for x in range(e):
                        mem.load("O_part", n, *at, x)
                for at in rows:
                    m2, l2 = mem.get("m_part", n, *at), mem.get("l_part", n, *at)
                    top = max(mem.get("m", *at), m2)
                    a, b = math.exp(mem.get("m", *at) - top), math.exp(m2 - top)
                    mem.write(mem.get("l", *at) * a + l2 * b, "l", *at)
                    mem.write(top, "m", *at)
                    for x in range(e):
                        o = mem.get("O", *at, x) * a + mem.get("O_part", n, *at, x) * b
                        mem.write(o, "O", *at, x)
                        mem.drop("O_part", n, *at, x)
                    mem.drop("m_part", n, *at)
                    mem.drop("l_part", n, *at)
            for at in rows:
                total = mem.get("l", *at)
                for x in range(e):
                    mem.write(mem.get("O", *at, x) / (total or 1.0), "O", *at, x)
                    mem.store("O", *at, x)
                    mem.drop("O", *at, x)
                mem.drop("m", *at)
                mem.drop("l", *at)
    assert not mem.fast, "the oracle leaks"
    return mem


@st.composite
def decodings(draw: st.DrawFn) -> tuple[iosim.Attention, dict[str, int]]:
    """Attention with any options but sinks, and any tiles."""
    heads = draw(st.sampled_from([1, 2, 4]))
    options: dict[str, Any] = {"N_k": draw(st.integers(1, 12))}
    if draw(st.booleans()):
        options["d_v"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        options["kv_heads"] = draw(st.sampled_from([x for x in (1, 2, 4) if heads % x == 0]))
    options["causal"] = draw(st.booleans())
    if draw(st.booleans()):
        limit = st.none() | st.integers(0, 4)
        options["window"] = (draw(limit), draw(limit))
    options["align"] = draw(st.sampled_from(["lower right", "upper left"]))
    problem = iosim.Attention(draw(st.integers(1, 8)), draw(st.integers(1, 3)), heads, **options)
    return problem, {x: draw(st.integers(1, 12), label=x) for x in ("B_r", "B_c", "B_s")}


def agree(problem: iosim.Attention, tiles: dict[str, int]) -> None:
    program = SPLIT.program_for(problem)
    instance = iosim.bind(program, problem.sizes, tiles)
    hbm = problem.random(seed=3)
    counts, top = iosim.count(instance), iosim.peak(instance)
    want = problem.reference(hbm)
    for lanes in (1, 2**18):
        run = iosim.simulate(instance, iosim.Machine(max(1, top)), hbm, lanes=lanes)
        assert (run.counts, run.peak_words) == (counts, top)
        assert iosim.max_error({"O": run.outputs["O"]}, want) < 1e-12
    assert tally(instance) == counts
    if program not in FORMULAS:
        FORMULAS[program] = symbols.count(program)
    assert FORMULAS[program].at(problem.sizes, tiles) == (counts, top)
    many = iosim.count_many(program, problem.sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(counts)
    assert int(iosim.peak_many(program, problem.sizes | tiles)) == top
    mem = by_hand(problem, tiles, hbm)
    assert {k: v for k, v in counts if v} == {k: v for k, v in mem.moved.items() if v}
    assert mem.peak == top
    O = want["O"].reshape(problem.heads, problem.N, problem.values)
    mine = np.array([mem.hbm["O"][at] for at in np.ndindex(O.shape)]).reshape(O.shape)
    np.testing.assert_allclose(mine, O, rtol=1e-12, atol=1e-12)


@examples(3 / 5)
@given(decodings())
def test_every_count_of_flash_decoding_agrees(case: Any) -> None:
    agree(*case)


def test_rows_and_splits_that_see_nothing() -> None:
    """Rows above the keys see nothing and are 0; rows of a block may miss its later splits."""
    tiles = {"B_r": 3, "B_c": 2, "B_s": 2}
    agree(iosim.Attention(7, 2, N_k=3, causal=True), tiles)
    agree(iosim.Attention(9, 2, N_k=9, causal=True), {**tiles, "B_r": 9})
    problem = iosim.Attention(7, 2, N_k=3, causal=True)
    instance = iosim.bind(SPLIT.program_for(problem), problem.sizes, tiles)
    O = iosim.simulate(instance, iosim.Machine(99), problem.random()).outputs["O"]
    assert not O[0, :4].any()
    assert O[0, 4:].all()


def test_the_words_that_the_docstring_says() -> None:
    problem = iosim.Attention(6, 5, 3, N_k=22, d_v=4)
    N, d, e, K = 6, 5, 4, 22
    for B_r, B_s in itertools.product((1, 4, 6), (3, 7, 22)):
        tiles = {"B_r": B_r, "B_c": 2, "B_s": B_s}
        instance = iosim.bind(SPLIT.program_for(problem), problem.sizes, tiles)
        S = -(-K // B_s)
        own = S * N * d + -(-N // B_r) * K * (d + e) + 2 * S * N * (e + 2) + N * e
        assert iosim.count(instance).total_words == 3 * own
        flash2 = iosim.algorithm("flash2").program_for(problem)
        other = iosim.count(iosim.bind(flash2, problem.sizes, {"B_r": B_r, "B_c": 2}))
        assert 3 * own - other.total_words == 3 * ((S - 1) * N * d + 2 * S * N * (e + 2))


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": (3, 1)}, {"kv_heads": 1, "causal": True}]
)
def test_the_search_is_exact(options: dict[str, Any]) -> None:
    """Every tile of a small problem tried; also where B_s is given."""
    problem = iosim.Attention(7, 2, 2, N_k=9, **options)
    program = SPLIT.program_for(problem)
    every = {
        (r, c, s): iosim.bind(program, problem.sizes, {"B_r": r, "B_c": c, "B_s": s})
        for r, c, s in itertools.product(range(1, 8), range(1, 10), range(1, 10))
    }
    words = {at: iosim.count(x).total_words for at, x in every.items()}
    peaks = {at: iosim.peak(x) for at, x in every.items()}
    for M in (9, 14, 20, 33, 60):
        for fixed in ({}, {"B_s": 1}, {"B_s": 4}):
            fit = [words[at] for at in every if peaks[at] <= M and fixed.get("B_s", at[2]) == at[2]]
            if not fit:
                with pytest.raises(iosim.CapacityError):
                    iosim.optimal_tiles(program, problem, M, fixed=fixed)
                continue
            found = iosim.optimal_tiles(program, problem, M, fixed=fixed)
            assert found.total_words == min(fit), (M, fixed)


def test_the_split_is_solved_for() -> None:
    """Words fall with B_s also under a mask, which is proved, so the search tries none of them."""
    from iosim.core.tiling.plan import plans

    for problem in (iosim.Attention(8, 4, N_k=9), iosim.Attention(8, 4, N_k=9, causal=True)):
        (plan,) = plans(SPLIT.program_for(problem), frozenset())
        assert "B_s" in plan.solvable
        assert "B_c" in plan.spare


def test_the_rule_fills_a_gpu() -> None:
    rule = SPLIT.rules["flash-decoding"]
    problem = iosim.Attention(1, 128, 32, N_k=2**17)
    tiles = rule(problem, 10**6)
    assert tiles == {"B_r": 1, "B_c": 64, "B_s": 26240}
    assert 132 <= 32 * -(-(2**17) // tiles["B_s"]) < 132 + 32
    many = iosim.Attention(4096, 128, 32, N_k=4096)
    assert rule(many, 10**6)["B_s"] == 4096


@pytest.mark.parametrize(
    ("options", "tiles"),
    [
        ({"N_k": 45}, {"B_r": 16, "B_c": 16, "B_s": 20}),
        ({"N_k": 64, "d_v": 20}, {"B_r": 16, "B_c": 16, "B_s": 32}),
        ({"N_k": 50, "causal": True, "kv_heads": 1}, {"B_r": 16, "B_c": 16, "B_s": 16}),
        ({"N_k": 70, "window": (20, 3)}, {"B_r": 20, "B_c": 16, "B_s": 24}),
        ({"N_k": 20, "causal": True}, {"B_r": 16, "B_c": 16, "B_s": 16}),
    ],
)
def test_kernels_count_themselves_and_are_right(options: Any, tiles: dict[str, int]) -> None:
    problem = iosim.Attention(33, 16, 2, **options)
    hbm = problem.random()
    instance = iosim.bind(SPLIT.program_for(problem), problem.sizes, tiles)
    outcome = interpret(emit(instance), hbm)
    assert outcome.counts == iosim.count(instance)
    np.testing.assert_allclose(outcome.outputs["O"], problem.reference(hbm)["O"], atol=2e-5)


def test_merge_is_the_softmax_of_both_parts() -> None:
    rng = np.random.default_rng(0)
    s, v = rng.normal(size=(4, 9)) * 30, rng.normal(size=(9, 3))

    def part(cut: slice) -> list[Any]:
        m = s[:, cut].max(axis=1)
        p = np.exp(s[:, cut] - m[:, None])
        return [p @ v[cut], m, p.sum(axis=1)]

    def merged(a: list[Any], b: list[Any]) -> Any:
        o, _, l = OPS["merge"].numpy(*a, *b)
        return o / l[:, None]

    p = np.exp(s - s.max(axis=1, keepdims=True))
    want = p @ v / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(merged(part(slice(0, 4)), part(slice(4, 9))), want, rtol=1e-12)
    whole = part(slice(0, 9))
    for low in (-np.inf, -1e30):
        nothing = [np.zeros((4, 3)), np.full(4, low), np.zeros(4)]
        for pair in ((nothing, whole), (whole, nothing)):
            np.testing.assert_allclose(merged(*pair), want, rtol=1e-12)
        o, m, l = OPS["merge"].numpy(*nothing, *nothing)
        assert not o.any()
        assert not l.any()
        assert not np.isnan(m).any()


# -- the language -----------------------------------------------------------------------------


def test_a_derived_axis_by_points_by_numbers_and_whole() -> None:
    """Sums of tiles go to scratch, one column for each; later they are read point by point."""

    def schedule(b: iosim.Builder) -> None:
        B, C = b.tile_sizes("n", "B", "C")
        tiles = b.split_axis("tiles", "n", B, letters="t")
        b.scratch("T", tiles, "m")
        for t in b.grid("n", B):
            for i in b.tiles("n", C, t.start, t.stop):
                b.free(b.load("A", i, "m"))
            x = b.zeros("x", "m")
            b.store(x, "T", b.number(t), "m")
            b.free(x)
        b.free(b.load("T", tiles, "m"))
        for p in b.points(tiles):
            b.free(b.load("T", p, "m"))

    program = iosim.build("tiles", Square, schedule)
    assert "store T[#t, :] ← x" in iosim.show(program)
    assert "for tiles0 in tiles:" in iosim.show(program)
    formula = symbols.count(program)
    for n, m, B, C in itertools.product((1, 5, 7), (1, 3), (1, 2, 3, 7), (1, 2, 9)):
        sizes, tiles = {"n": n, "m": m}, {"B": B, "C": C}
        instance = iosim.bind(program, sizes, tiles)
        assert instance.env["tiles"] == -(-n // min(B, n))
        counts, top = iosim.count(instance), iosim.peak(instance)
        run = iosim.simulate(instance, iosim.Machine(top), {"A": np.ones((n, m))})
        assert run.counts == counts == tally(instance)
        assert run.peak_words == top
        assert formula.at(sizes, tiles) == (counts, top)
        assert int(iosim.peak_many(program, sizes | tiles)) == top
        assert counts["load", "T"] == 2 * m * -(-n // min(B, n))
        assert not run.outputs["T"].any()
    words = {
        B: iosim.count(iosim.bind(program, {"n": 50, "m": 3}, {"B": B, "C": 1})).total_words
        for B in range(1, 51)
    }
    problem = Square(50, 3)
    for M in (3, 60, 70, 153):
        every = {B: iosim.bind(program, problem.sizes, {"B": B, "C": 1}) for B in words}
        fit = [words[B] for B, instance in every.items() if iosim.peak(instance) <= M]
        if fit:
            assert iosim.optimal_tiles(program, problem, M).total_words == min(fit)


@given(split_schedules())
@examples(3 / 2)
def test_random_schedules_over_the_tiles_of_loops(case: Any) -> None:
    program, sizes, tiles = case
    instance = iosim.bind(program, sizes, tiles)
    counts, top = iosim.count(instance), iosim.peak(instance)
    run = iosim.simulate(instance, iosim.Machine(top), {})
    assert run.counts == counts == tally(instance)
    assert run.peak_words == top
    assert symbols.count(program).at(sizes, tiles) == (counts, top)
    many = iosim.count_many(program, sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(counts)
    assert int(iosim.peak_many(program, sizes | tiles)) == top


@examples(1 / 2)
@given(split_schedules(most=5), st.integers(1, 60))
def test_random_schedules_are_tiled_optimally(case: Any, M: int) -> None:
    program, sizes, _ = case
    names = [(p.name, sizes[p.axis]) for p in program.params]
    best = None
    for values in itertools.product(*(range(1, n + 1) for _, n in names)):
        tiles = dict(zip((name for name, _ in names), values, strict=True))
        instance = iosim.bind(program, sizes, tiles)
        if iosim.peak(instance) <= M:
            words = iosim.count(instance).total_words
            best = words if best is None else min(best, words)
    problem = Square(**sizes)
    if best is None:
        with pytest.raises(iosim.CapacityError):
            iosim.optimal_tiles(program, problem, M)
    else:
        assert iosim.optimal_tiles(program, problem, M).total_words == best


def misuse(act: Callable[[iosim.Builder, Any], Any]) -> str:
    def schedule(b: iosim.Builder) -> None:
        B, _ = b.tile_sizes("n", "B", "C")
        b.split_axis("tiles", "n", B)
        b.scratch("T", "tiles", "m")
        for t in b.tiles("n", B):
            act(b, t)

    with pytest.raises(ProgramError) as error:
        iosim.build("misuse", Square, schedule)
    return str(error.value)


def test_misuse_is_refused_in_one_line() -> None:
    def ends_elsewhere(b: iosim.Builder, t: Any) -> None:
        for u in b.tiles("n", "C"):
            b.number(u)

    def twice(b: iosim.Builder, t: Any) -> None:
        b.split_axis("again", "n", "B")
        b.number(t)

    def bound(b: iosim.Builder, t: Any) -> None:
        b.free(b.load("T", b.span("tiles", 0, 1), "m"))

    def named(b: iosim.Builder, t: Any) -> None:
        b.free(b.load("A", b.span("n", 0, "tiles"), "m"))

    cases = {
        "no axis is made of the tiles of n by C: declare it with split_axis()": ends_elsewhere,
        "make the axes tiles, again: name one": twice,
        "E is a tile size along a derived axis": lambda b, t: b.tile_sizes("tiles", "E"),
        "tiles is a derived axis, and bounds nothing": bound,
        "tiles is a derived axis, and bounds": named,
        "axis 'm' has the name of another size": lambda b, t: b.split_axis("m", "n", "B"),
        "'D' is not a tile size along n": lambda b, t: b.split_axis("new", "n", "D"),
        "give an open tile": lambda b, t: b.number("n"),
        "a position is one word": lambda b, t: b.at(b.load("A", t, "m"), "n"),
        "may be longer than m": lambda b, t: b.free(b.load("A", "n", b.within(t, "m"))),
    }
    for said, act in cases.items():
        message = misuse(act)
        assert said in message
        assert "\n" not in message


def test_trees_by_hand_are_checked() -> None:
    """A number on an axis of other tiles could leave it."""
    program = SPLIT.program
    (axis,) = program.derived
    with pytest.raises(ProgramError, match="is not a position on splits"):
        check(replace(program, derived=(replace(axis, step="B_c"),)))
    with pytest.raises(ProgramError, match="has no step along"):
        check(replace(program, derived=(replace(axis, step="nothing"),)))


@pytest.mark.parametrize(("n", "m", "B"), [(10, 7, 3), (12, 12, 4), (9, 20, 2), (5, 3, 5)])
def test_numbers_beside_parts_that_follow_the_tile(n: int, m: int, B: int) -> None:
    """The machine finds each lane's place by itself, as parts begin where their tiles do."""

    def schedule(b: iosim.Builder) -> None:
        (B,) = b.tile_sizes("n", "B")
        tiles = b.split_axis("tiles", "n", B)
        b.scratch("T", tiles, "n", "m")
        b.scratch("U", tiles, "n", "m")
        for t in b.grid("n", B):
            x = b.load("A", "n", part := b.span("m", t.start, t.stop))
            b.store(x, "T", b.number(t), "n", part)
            b.free(x)
        for t in b.grid("n", B):
            x = b.load("T", b.number(t), "n", part := b.span("m", t.start, t.stop))
            b.store(x, "U", b.number(t), "n", part)
            b.free(x)

    program = iosim.build("slices", Square, schedule)
    instance, A = iosim.bind(program, {"n": n, "m": m}, {"B": B}), np.random.rand(n, m)
    want = np.full((-(-n // B), n, m), np.nan)
    for k, start in enumerate(range(0, n, B)):
        here = slice(start, min(start + B, n))
        want[k, :, here] = A[:, here]
    for lanes in (1, 3, 2**18):
        run = iosim.simulate(instance, iosim.Machine(n * m), {"A": A}, lanes=lanes)
        np.testing.assert_array_equal(run.outputs["T"], want)
        np.testing.assert_array_equal(run.outputs["U"], want)
        assert run.counts == iosim.count(instance)


def test_parts_must_be_stored_by_their_own_split() -> None:
    """In a grid, what is stored is indexed by the tile or by its number."""

    def schedule(by_number: bool) -> Callable[[iosim.Builder], None]:
        def trace(b: iosim.Builder) -> None:
            (B,) = b.tile_sizes("n", "B")
            b.split_axis("tiles", "n", B)
            b.scratch("T", "tiles", "m")
            for t in b.grid("n", B):
                x = b.zeros("x", "m") if by_number else b.zeros("x", "tiles", "m")
                b.store(x, "T", b.number(t) if by_number else "tiles", "m")
                b.free(x)

        return trace

    iosim.build("parts", Square, schedule(True))
    with pytest.raises(ProgramError, match="must always be indexed by i in one place"):
        iosim.build("parts", Square, schedule(False))


def test_a_program_without_derived_axes_reads_as_before() -> None:
    assert "derived" not in canonical(iosim.algorithm("flash2").program)
    assert '"derived":[{"name":"splits","of":' in canonical(SPLIT.program)
    assert '"type":"Number"' in canonical(SPLIT.program)
    assert str(Number(iosim.core.program.index.Tile("s", "N_k"), "splits")) == "#s"


def test_sinks_are_refused() -> None:
    problem = iosim.Attention(8, 2, window=(2, 0), sinks=1, N_k=8)
    with pytest.raises(iosim.InputError, match="split_kv does not support sinks: choose"):
        SPLIT.program_for(problem)
