"""Attention with options, held against what is written out by hand in masked_oracle.py."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import masked_oracle
import numpy as np
import pytest
from hypothesis import assume, find, given
from masked_oracle import attention, case, words
from sizes import draws, examples
from strategies import MOST_CELLS, attention_options, attention_programs

import iosim
from iosim.core.algorithms import _shape
from iosim.core.counting import symbols
from iosim.core.program.ir import Program
from iosim.core.trace import tally


def by_hand(problem: Any, hbm: Any) -> Any:
    """The output, a score at a time, in the shape of the program's O."""
    Q = hbm["Q"].reshape(problem.heads, problem.N, problem.d)
    O = attention(case(**problem.as_dict), Q.tolist(), hbm["K"].tolist(), hbm["V"].tolist())
    return np.array(O).reshape([problem.sizes[a] for a in problem.form.tensor("O").axes])


# -- what a row sees --------------------------------------------------------------------------


def small(most: int, limits: tuple[int | None, ...]) -> Iterator[Any]:
    """Every mask of small sizes, alone and combined."""
    sizes = range(1, most + 1)
    for N, N_k in itertools.product(sizes, (None, *sizes)):
        for left, right, sinks in itertools.product(limits, limits, (0, 1, 3, most + 2)):
            for causal, align in itertools.product((False, True), ("lower right", "upper left")):
                yield iosim.Attention(
                    N, 1, 1, N_k=N_k, causal=causal, window=(left, right), sinks=sinks, align=align
                )


def check_what_is_seen(problem: Any) -> None:
    c = case(**problem.as_dict)
    sees = [[c.sees(i, j) for j in range(c.N_k)] for i in range(c.N)]
    seen = problem.sees(*np.ogrid[: c.N, : c.N_k])
    assert np.broadcast_to(seen, (c.N, c.N_k)).tolist() == sees
    assert problem.pairs == c.heads * sum(map(sum, sees))
    assert problem.rows_used == sum(map(any, sees))
    assert problem.columns_used == sum(map(any, zip(*sees, strict=True)))
    assert problem.sizes.get("unseen", 0) == c.N_k - problem.columns_used


@pytest.mark.numbers
def test_pairs_rows_and_columns_are_those_that_are_seen() -> None:
    for problem in small(4, (None, 0, 1, 3, 6)):
        check_what_is_seen(problem)


@pytest.mark.slow
def test_pairs_rows_and_columns_of_larger_masks() -> None:
    for problem in small(8, (None, 0, 1, 2, 5, 7, 12)):
        check_what_is_seen(problem)


@given(attention_options(most=12))
@examples(2)
def test_what_is_seen_with_any_options(problem: Any) -> None:
    check_what_is_seen(problem)


# -- the reference ----------------------------------------------------------------------------


@given(attention_options())
@examples(2)
def test_the_reference_is_the_formula_by_hand(problem: Any) -> None:
    hbm = problem.random(seed=5)
    got, want = problem.reference(hbm)["O"], by_hand(problem, hbm)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.torch
@pytest.mark.parametrize("options", ["causal", "mask", "grouped", "everything"])
def test_the_reference_is_what_pytorch_computes(options: str) -> None:
    """Boolean masks, `is_causal` (upper left) and `enable_gqa`; rows that see nothing are 0."""
    torch = pytest.importorskip("torch")
    attend = torch.nn.functional.scaled_dot_product_attention
    sizes = itertools.product((1, 5, 9), (1, 4, 12), (1, 3))
    for (N, N_k, kv_heads), d_v in zip(sizes, itertools.cycle((2, 4, 7)), strict=False):
        grouped = {"kv_heads": kv_heads} if options in ("grouped", "everything") else {}
        masks: dict[str, Any] = {
            "causal": {"causal": True, "align": "upper left"},
            "mask": {"window": (2, 1), "sinks": 1},
            "grouped": {},
            "everything": {"window": (3, None), "sinks": 2, "causal": True},
        }[options]
        problem = iosim.Attention(N, 4, 6, N_k=N_k, d_v=d_v, **grouped, **masks)
        hbm = problem.random(seed=N + N_k)
        Q, K, V = (torch.from_numpy(hbm[x]) for x in "QKV")
        how: dict[str, Any] = {"enable_gqa": bool(grouped)}
        if options == "causal":
            how["is_causal"] = True
        elif masks:
            c = case(**problem.as_dict)
            how["attn_mask"] = torch.tensor([[c.sees(i, j) for j in range(N_k)] for i in range(N)])
        out = attend(Q.reshape(1, 6, N, 4), K[None], V[None], scale=1.0, **how)[0].numpy()
        want = problem.reference(hbm)["O"]
        np.testing.assert_allclose(out.reshape(want.shape), want, rtol=1e-12, atol=1e-13)
        assert np.isfinite(out).all()


# -- words of every schedule ------------------------------------------------------------------


@functools.cache
def formula(program: Program) -> Any:
    return symbols.count(program)


def check_agreement(
    algorithm: Any, problem: Any, tiles: dict[str, int], *, in_symbols: bool = False
) -> None:
    """Oracle, closed form, machine, stream, arrays and sympy agree; the output is right."""
    program = algorithm.program_for(problem)
    instance = iosim.bind(program, problem.sizes, tiles)
    closed, top = iosim.count(instance), iosim.peak(instance)
    by_oracle = words(algorithm.name, case(**problem.as_dict), tiles)
    assert {k: v for k, v in closed if v} == {k: v for k, v in by_oracle.moved.items() if v}
    assert top == by_oracle.peak

    hbm = problem.random(seed=1)
    run = iosim.simulate(instance, iosim.Machine(max(1, top)), hbm)
    assert run.counts == closed == tally(instance)
    assert run.peak_words == top
    many = iosim.count_many(program, problem.sizes | tiles)
    assert {key: int(n) for key, n in many.items()} == dict(closed)
    assert int(iosim.peak_many(program, problem.sizes | tiles)) == top
    if in_symbols:
        assert formula(program).at(problem.sizes, tiles) == (closed, top)

    assert np.isfinite(run.outputs["O"]).all()
    np.testing.assert_allclose(run.outputs["O"], by_hand(problem, hbm), rtol=1e-12, atol=1e-12)


@pytest.mark.numbers
@given(attention_programs(most=draws(13, 7)))
@examples(3 / 2)
def test_every_count_agrees(drawn: Any) -> None:
    check_agreement(*drawn)


@pytest.mark.numbers
@examples(1 / 5)
@given(attention_programs(most=draws(9, 5)))
def test_the_formula_agrees_too(drawn: Any) -> None:
    check_agreement(*drawn, in_symbols=True)


# One problem for each thing that options change.
CASES: dict[str, dict[str, Any]] = {
    "causal": {"causal": True},
    "rows that see nothing": {"causal": True, "N_k": 3},
    "columns that no row sees": {"causal": True, "N_k": 9, "align": "upper left"},
    "chunk of a long cache": {"causal": True, "window": (2, None), "N_k": 11},
    "window": {"window": (2, 1)},
    "window beyond the ends": {"window": (9, 8)},
    "sinks": {"causal": True, "window": (1, None), "sinks": 2},
    "sinks beyond the keys": {"window": (1, 0), "sinks": 30},
    "cross": {"N_k": 4, "d_v": 2},
    "multi-query": {"kv_heads": 1, "causal": True},
    "everything": {"N_k": 8, "d_v": 4, "kv_heads": 2, "causal": True, "window": (3, 5), "sinks": 1},
}


@pytest.mark.numbers
@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("name", [a.name for a in iosim.all_algorithms("attention")])
def test_each_schedule_with_each_option(name: str, what: str) -> None:
    algorithm = iosim.algorithm(name)
    problem = iosim.Attention(7, 3, 4, **CASES[what])
    if not algorithm.supports(problem.form):
        with pytest.raises(iosim.InputError, match=f"^{name} (does not support|needs) .*choose "):
            algorithm.program_for(problem)
        return
    params = algorithm.program_for(problem).params
    for B in (1, 2, 5, 11):
        check_agreement(algorithm, problem, {p.name: B for p in params})


def test_a_schedule_without_an_oracle_is_told_to_write_one(monkeypatch: Any) -> None:
    monkeypatch.delitem(masked_oracle.SCHEDULES, "flash2")
    with pytest.raises(AssertionError, match=r"write flash2 by hand in tests/masked_oracle\.py"):
        check_agreement(iosim.algorithm("flash2"), iosim.Attention(3, 2), {"B_r": 1, "B_c": 1})


CORNERS: dict[str, Callable[[Any], Any]] = {
    "more rows than columns": lambda p: p.causal and p.keys < p.N,
    "rows that see nothing": lambda p: p.rows_used < p.N,
    "columns that no row sees": lambda p: p.columns_used < p.keys,
    "a window beyond the ends": lambda p: p.window and min(x or 0 for x in p.window) > p.N,
    "sinks beyond the keys": lambda p: p.form.mask and p.form.mask.sinks and p.sinks > p.keys,
    "sinks apart from a window": lambda p: (
        p.form.mask and p.form.mask.sinks and p.sinks < p.shift - p.limits[0]
    ),
    "one head of keys": lambda p: p.kv_heads == 1 < p.heads,
    "a head of keys for each": lambda p: p.kv_heads == p.heads > 1,
    "PyTorch's causal mask": lambda p: p.causal and p.align == "upper left" and p.keys > p.N,
    "most options": lambda p: len(p.as_dict) >= 9,
    "no options": lambda p: len(p.as_dict) == 3,
}


def test_the_strategy_reaches_every_corner() -> None:
    """And it shrinks to a problem without options where none is needed."""
    reached: set[str] = set()

    @examples(3)
    @given(attention_options())
    def look(problem: Any) -> None:
        reached.update(name for name, has in CORNERS.items() if has(problem))

    look()
    assert reached == set(CORNERS)
    shrunk = find(attention_options(), lambda p: p.N > 2)
    assert shrunk.as_dict == {"N": 3, "d": 1, "heads": 1}


def moved_edge(edge: str, by: int) -> Callable[[Any], Any]:
    """Columns that rows see, with one end moved."""

    def wrong(right: Any) -> Any:
        def shifted(b: Any, i: Any) -> Any:
            start, stop = right(b, i)
            return (start + by, stop) if edge == "start" else (start, stop + by)

        return shifted

    return wrong


BROKEN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a column too many at the left": ("visible_columns", moved_edge("start", -1)),
    "a column too few at the left": ("visible_columns", moved_edge("start", 1)),
    "a column too many at the right": ("visible_columns", moved_edge("stop", 1)),
    "a column too few at the right": ("visible_columns", moved_edge("stop", -1)),
    "one more column in sight": ("reach", lambda right: lambda mask: right(mask) + 1),
    "another diagonal": ("shift", lambda right: lambda mask: right(mask) + 1),
    "nothing hidden": ("hide", lambda right: lambda *_, **__: None),
}


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("name", [a.name for a in iosim.all_algorithms("attention")])
def test_a_schedule_with_a_wrong_bound_is_found(what: str, name: str, monkeypatch: Any) -> None:
    """In whatever of `_shape` it calls; each is found, and nothing is without what it calls."""
    algorithm = replace(iosim.algorithm(name))  # it has traced nothing yet
    options: dict[str, Any] = {"N_k": 15, "kv_heads": 1, "causal": True, "window": (3, None)}
    if "right" in what:  # where a block of all rows leaves some columns out, too
        options["align"] = "upper left"
    options = {k: v for k, v in options.items() if k not in algorithm.lacks}
    problem = iosim.Attention(9, 2, **options)
    part, wrong = BROKEN[what]
    called = []

    def changed(*args: Any, **kw: Any) -> Any:
        called.append(part)
        return wrong_part(*args, **kw)

    wrong_part = wrong(getattr(_shape, part))
    for module in list(sys.modules.values()):
        if module.__name__.startswith("iosim.core.algorithms") and hasattr(module, part):
            monkeypatch.setattr(module, part, changed)
    tiles = {p.name: 2 for p in algorithm.program_for(problem).params}
    cut_off = "window" not in options and what == "a column too many at the left"
    if called and not cut_off:
        with pytest.raises((AssertionError, iosim.IosimError)):
            check_agreement(algorithm, problem, tiles)
    else:
        check_agreement(algorithm, problem, tiles)
        assert cut_off or part == "visible_columns" or not {"causal", "window"} & options.keys()


# -- tiles ------------------------------------------------------------------------------------


def by_trying(algorithm: Any, problem: Any) -> list[tuple[int, int]]:
    """Words and peak of every tiling, by hand."""
    params = algorithm.program_for(problem).params
    ranges = [range(p.least, problem.sizes[p.axis] + 1) for p in params]
    c = case(**problem.as_dict)
    found = []
    for values in itertools.product(*ranges):
        mem = words(algorithm.name, c, {p.name: v for p, v in zip(params, values, strict=True)})
        found.append((sum(mem.moved.values()), mem.peak))
    return found


def check_tiles(algorithm: Any, problem: Any, capacities: int) -> None:
    """The tiles that are found are the best ones that there are, for some capacities."""
    program = algorithm.program_for(problem)
    found = by_trying(algorithm, problem)
    peaks = sorted({peak for _, peak in found})
    assert iosim.smallest_capacity(program, problem) == peaks[0]
    if peaks[0] > 1:
        with pytest.raises(iosim.CapacityError):
            iosim.optimal_tiles(program, problem, peaks[0] - 1)
    for M in {*peaks[:: max(1, len(peaks) // capacities)], peaks[-1]}:
        best = iosim.optimal_tiles(program, problem, M)
        mem = words(algorithm.name, case(**problem.as_dict), dict(best.tiles))
        assert mem.peak <= M
        assert best.total_words == sum(mem.moved.values()) == min(w for w, x in found if x <= M)


# Sizes at which every tiling can be tried by hand.
SMALL = {
    "naive": (3, 1),
    "small_cache": (3, 2),
    "spill_rows": (3, 2),
    "flash2_chunked": (5, 2),
    "flash2_log": (5, 2),
    "flash2_parts": (5, 1),
    "small_tiles": (2, 2),
}


@pytest.mark.numbers
@pytest.mark.parametrize(
    "what",
    [
        pytest.param(what, marks=[] if what in ("causal", "everything") else pytest.mark.slow)
        for what in CASES
    ],
)
@pytest.mark.parametrize("name", [a.name for a in iosim.all_algorithms("attention")])
def test_tiles_are_the_best_of_all(name: str, what: str) -> None:
    algorithm = iosim.algorithm(name)
    N, d = SMALL.get(name, (8, 2))
    options = dict.fromkeys(algorithm.needs, 8) | CASES[what]
    options = {k: v for k, v in options.items() if k not in algorithm.lacks}
    if "N_k" in options:
        options["N_k"] = max(1, N * options["N_k"] // 8)
    if "kv_heads" in options:
        options["kv_heads"] = 1
    check_tiles(algorithm, iosim.Attention(N, d, 2, **options), 4)


@pytest.mark.slow
@examples(3 / 10)
@given(attention_programs(most=11))
def test_tiles_are_the_best_of_all_at_length(drawn: Any) -> None:
    algorithm, problem, _ = drawn
    params = algorithm.program_for(problem).params
    assume(math.prod(problem.sizes[p.axis] + 1 - p.least for p in params) <= MOST_CELLS)
    check_tiles(algorithm, problem, 8)


@pytest.mark.parametrize("W", [0, 5, 20, 21, 30, 45])
def test_rows_that_nothing_sees_are_not_kept(W):
    """Aligned at the upper left, 20 causal rows see the first 20 of 45 keys."""
    problem = iosim.Attention(20, 4, N_k=45, causal=True, align="upper left")
    program = iosim.algorithm("flash2_keep").program_for(problem)
    tiles = {"W": W, "B_r": 8, "B_c": 8}
    instance, hbm = iosim.bind(program, problem.sizes, tiles), problem.random()
    counts = iosim.count(instance)
    rest = sum(max(0, min(i + 8, 20) - W) for i in range(0, 20, 8))
    assert counts["load", "K"] == counts["load", "V"] == 4 * (min(W, 20) + rest)
    run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
    assert (run.counts, run.peak_words) == (counts, iosim.peak(instance))
    assert iosim.max_error(run.outputs, problem.reference(hbm)) < 1e-12
    assert symbols.count(program).at(problem.sizes, tiles) == (counts, iosim.peak(instance))
    many = iosim.count_many(program, problem.sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(counts)


def test_a_hold_ends_by_a_limit():
    with pytest.raises(iosim.ProgramError, match="W ends by N, which is not a limit: name one"):
        iosim.build("held", iosim.Attention, lambda b: b.stationary("N", "W", "N"))
