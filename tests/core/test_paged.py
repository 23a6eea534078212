"""A cache in pages: positions that are read from a table, counted to the word, the table too."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import Memory, blocks
from sizes import examples

import iosim
from iosim.base.errors import InputError, ProgramError
from iosim.bounds import bound
from iosim.core import problem as problem_module
from iosim.core.counting import symbols
from iosim.core.problem import BaseProblem, PagedAttention, Tensor
from iosim.core.program.walk import UNKNOWN, walk
from iosim.core.trace import tally
from iosim.core.units import bytes_of
from iosim.gpu.emitter.kernels import emit
from iosim.gpu.run.interpreter import interpret
from iosim.gpu.run.memory import dtype_of

PAGED = iosim.algorithm("paged")
FORMULAS = {
    x: symbols.count(PAGED.program_for(PagedAttention.plain_form(x))) for x in ((), ("causal",))
}


def by_hand(p: PagedAttention, t: dict[str, int], hbm: Any) -> Memory:
    """Paged decoding word by word; shares no code with iosim."""
    mem = Memory(**{name: value.tolist() for name, value in hbm.items()})
    per, table = p.heads // p.kv_heads, hbm["table"].astype(int)
    for b, g in itertools.product(range(p.batch), range(p.kv_heads)):
        for I in blocks(p.N, t["B_r"]):
            rows = list(itertools.product(range(per), I))
            for at in rows:
                for x in range(p.d):
                    mem.load("Q", b, g, *at, x)
                    mem.write(0.0, "O", b, g, *at, x)
                mem.write(-1e30, "m", *at)
                mem.write(0.0, "l", *at)
            past = min(p.N_k, I.stop + p.N_k - p.N) if p.causal else p.N_k
            for n, J in enumerate(blocks(past, p.page)):
                mem.load("table", b, n)
                where = table[b, n], g
                for j, x in itertools.product(J, range(p.d)):
                    mem.load("K", *where, j - J.start, x)
                for at, j in itertools.product(rows, J):
                    s = sum(
                        mem.get("Q", b, g, *at, x) * mem.get("K", *where, j - J.start, x)
                        for x in range(p.d)
                    )
                    hidden = p.causal and j > at[1] + p.N_k - p.N
                    mem.write(-math.inf if hidden else s, "s", *at, j)
                for j, x in itertools.product(J, range(p.d)):
                    mem.drop("K", *where, j - J.start, x)
                    mem.load("V", *where, j - J.start, x)
                for at in rows:
                    top = max(mem.get("m", *at), *(mem.get("s", *at, j) for j in J))
                    shrink = math.exp(mem.get("m", *at) - top)
                    weights = {j: math.exp(mem.get("s", *at, j) - top) for j in J}
                    mem.write(top, "m", *at)
                    mem.write(mem.get("l", *at) * shrink + sum(weights.values()), "l", *at)
                    for x in range(p.d):
                        more = sum(
                            w * mem.get("V", *where, j - J.start, x) for j, w in weights.items()
                        )
                        mem.write(mem.get("O", b, g, *at, x) * shrink + more, "O", b, g, *at, x)
                    for j in J:
                        mem.drop("s", *at, j)
                for j, x in itertools.product(J, range(p.d)):
                    mem.drop("V", *where, j - J.start, x)
                mem.drop("table", b, n)
            for at in rows:
                for x in range(p.d):
                    mem.write(mem.get("O", b, g, *at, x) / mem.get("l", *at), "O", b, g, *at, x)
                    mem.store("O", b, g, *at, x)
                    mem.drop("O", b, g, *at, x)
                    mem.drop("Q", b, g, *at, x)
                mem.drop("m", *at)
                mem.drop("l", *at)
    assert not mem.fast, "the oracle leaks"
    return mem


@st.composite
def caches(draw: st.DrawFn) -> tuple[PagedAttention, dict[str, int], bool]:
    kv_heads, N, causal = draw(st.integers(1, 2)), draw(st.integers(1, 4)), draw(st.booleans())
    problem = PagedAttention(
        N_k=draw(st.integers(N if causal else 1, 14)),
        d=draw(st.integers(1, 3)),
        heads=kv_heads * draw(st.integers(1, 3)),
        kv_heads=kv_heads,
        page=draw(st.integers(1, 6)),
        batch=draw(st.integers(1, 3)),
        N=N,
        causal=causal,
    )
    return problem, {"B_r": draw(st.integers(1, 5))}, draw(st.booleans())


@examples(3 / 5)
@given(caches())
def test_every_count_of_paged_decoding_agrees(case: Any) -> None:
    problem, tiles, shared = case
    program = PAGED.program_for(problem)
    instance = iosim.bind(program, problem.sizes, tiles)
    hbm = problem.random(seed=5)
    if shared:  # sequences may have pages in common, and a page may stand twice
        pages = problem.sizes["pages"]
        hbm["table"] = np.random.default_rng(1).integers(pages, size=hbm["table"].shape) * 1.0
    counts, top = iosim.count(instance), iosim.peak(instance)
    want = problem.reference(hbm)
    for lanes in (1, 2**18):
        run = iosim.simulate(instance, iosim.Machine(top), hbm, lanes=lanes)
        assert (run.counts, run.peak_words) == (counts, top)
        assert iosim.max_error({"O": run.outputs["O"]}, want) < 1e-12
    assert tally(instance) == counts
    assert FORMULAS[problem.form.options].at(problem.sizes, tiles) == (counts, top)
    many = iosim.count_many(program, problem.sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(counts)
    assert int(iosim.peak_many(program, problem.sizes | tiles)) == top
    mem = by_hand(problem, tiles, hbm)
    assert dict(counts) == dict(mem.moved)
    assert mem.peak == top
    mine = np.array([mem.hbm["O"][at] for at in np.ndindex(want["O"].shape)])
    np.testing.assert_allclose(mine.reshape(want["O"].shape), want["O"], rtol=1e-12, atol=1e-12)


def test_pages_in_any_order_are_attention() -> None:
    """Against the attention problem, whose keys lie in order."""
    problem = PagedAttention(N_k=13, d=4, heads=6, kv_heads=2, page=4, N=3, causal=True)
    hbm = problem.random(seed=3)
    pages = hbm["table"][0].astype(int)
    assert sorted(pages) == list(range(4))
    assert list(pages) != sorted(pages)
    K, V = (np.stack([hbm[x][pages, g].reshape(-1, 4)[:13] for g in range(2)]) for x in ("K", "V"))
    flat = iosim.Attention(3, 4, 6, N_k=13, kv_heads=2, causal=True)
    want = flat.reference({"Q": hbm["Q"][0], "K": K, "V": V})["O"]
    np.testing.assert_allclose(problem.reference(hbm)["O"][0], want, rtol=1e-12)


def test_the_words_that_the_docstring_says() -> None:
    problem = PagedAttention(N_k=50, d=8, heads=12, kv_heads=4, page=16, batch=3, N=5)
    for B_r in (1, 2, 5):
        counts = iosim.count(iosim.bind(PAGED.program, problem.sizes, {"B_r": B_r}))
        sweeps, R = -(-5 // B_r), 3 * 5
        assert counts.total_words == 3 * 4 * (2 * R * 8 + sweeps * (2 * 50 * 8 + 4))
        assert counts["load", "table"] == 3 * 4 * sweeps * 4


def test_compulsory_words_are_reached_but_for_the_table() -> None:
    problem = PagedAttention(N_k=16384, d=128, heads=32, kv_heads=8, page=16, batch=64)
    best = iosim.optimal_tiles(PAGED.program_for(problem), problem, 24576)
    words = bound("paged-compulsory").words(problem, 24576)
    own = 64 * (2 * 32 * 128 + 2 * 8 * 16384 * 128)
    assert words == own + 64 * 1024
    assert best.total_words == own + 8 * 64 * 1024  # every head of K reads the table
    assert best.total_words < 1.0003 * words


@examples(1 / 2)
@given(caches(), st.integers(1, 200))
def test_no_schedule_beats_the_bound_and_tiles_are_optimal(case: Any, M: int) -> None:
    problem, _, _ = case
    program = PAGED.program_for(problem)
    every = [iosim.bind(program, problem.sizes, {"B_r": B}) for B in range(1, problem.N + 1)]
    fit = [iosim.count(x).total_words for x in every if iosim.peak(x) <= M]
    if not fit:
        with pytest.raises(iosim.CapacityError):
            iosim.optimal_tiles(program, problem, M)
        return
    assert iosim.optimal_tiles(program, problem, M).total_words == min(fit)
    if not problem.causal:
        assert min(fit) >= bound("paged-compulsory").words(problem, M)


@pytest.mark.parametrize(
    ("sizes", "B_r"),
    [
        ({"N_k": 45, "d": 16, "heads": 4, "kv_heads": 2, "page": 16, "batch": 2}, 1),
        ({"N_k": 48, "d": 20, "heads": 6, "kv_heads": 2, "page": 20, "N": 5, "causal": True}, 3),
        ({"N_k": 33, "d": 16, "heads": 2, "kv_heads": 2, "page": 32, "batch": 3, "N": 4}, 4),
    ],
)
def test_kernels_count_themselves_and_are_right(sizes: Any, B_r: int) -> None:
    problem = PagedAttention(**sizes)
    hbm = problem.random()
    instance = iosim.bind(PAGED.program_for(problem), problem.sizes, {"B_r": B_r})
    emitted = emit(instance)
    outcome = interpret(emitted, hbm)
    assert outcome.counts == iosim.count(instance)
    np.testing.assert_allclose(outcome.outputs["O"], problem.reference(hbm)["O"], atol=2e-5)
    assert "t = load_word(table_ptr + " in emitted.source
    assert "K_ptr + t * " in emitted.source


def test_a_table_has_four_bytes_a_word() -> None:
    problem = PagedAttention(N_k=64, d=16, heads=2, kv_heads=1, page=16)
    program = PAGED.program_for(problem)
    table = program.tensor("table")
    counts = iosim.count(iosim.bind(program, problem.sizes, {"B_r": 1}))
    found = bytes_of(counts, program.tensors, "fp16")
    assert found["load", "table"] == 4 * 4
    assert found["load", "K"] == 2 * 64 * 16
    assert [dtype_of(table, x) for x in ("fp16", "fp32")] == ["int32", "int32"]


def test_a_stream_says_which_positions_only_the_data_tells() -> None:
    problem = PagedAttention(N_k=5, d=2, heads=1, kv_heads=1, page=3)
    moved = list(walk(iosim.bind(PAGED.program_for(problem), problem.sizes, {"B_r": 1})))
    tables = [x.ranges for x in moved if x.tensor == "table"]
    assert tables == [((0, 1), (0, 1)), ((0, 1), (1, 2))]
    keys = [x.ranges for x in moved if x.tensor == "K"]
    assert keys == [(UNKNOWN, (0, 1), (0, 3), (0, 2)), (UNKNOWN, (0, 1), (0, 2), (0, 2))]
    assert [x.words for x in moved if x.tensor == "K"] == [6, 4]


def wrong(change: Callable[[Any], Any], reference: bool = True) -> list[str]:
    """What the machine, a kernel's run and the reference say of a wrong table."""
    problem = PagedAttention(N_k=5, d=16, heads=2, kv_heads=1, page=3, batch=2)
    hbm = problem.random()
    hbm["table"] = change(hbm["table"])
    instance = iosim.bind(PAGED.program_for(problem), problem.sizes, {"B_r": 1})
    said = []
    for act in (
        lambda: iosim.simulate(instance, iosim.Machine(10**4), hbm),
        lambda: interpret(emit(instance), hbm),
        *([lambda: problem.reference(hbm)] if reference else []),
    ):
        with pytest.raises(InputError) as error:
            act()
        said.append(str(error.value))
    assert all("\n" not in x for x in said)
    return said


def test_bad_tables_are_refused_in_one_line() -> None:
    def set_entry(value: float) -> Callable[[Any], Any]:
        def change(table: Any) -> Any:
            table[1, 0] = value
            return table

        return change

    for value, told in ((4.0, "4"), (-1.0, "-1"), (0.5, "0.5"), (math.nan, "nan")):
        message = f"table[1, 0] = {told} is not a position on pages: give whole numbers in 0..3"
        assert wrong(set_entry(value)) == [message] * 3
    for said in wrong(lambda table: table[:, :1], reference=False):
        assert "table has shape (2, 1), the problem needs (2, 2)" in said


def test_bad_sizes_are_refused_in_one_line() -> None:
    sizes = {"N_k": 5, "d": 2, "heads": 4, "kv_heads": 2, "page": 3}
    for more, said in (
        ({"kv_heads": 3}, "kv_heads = 3 does not divide heads = 4: give a divisor"),
        ({"page": 0}, "page = 0 is outside 1"),
        ({"N": 6, "causal": True}, "N_k = 5 keys are fewer than N = 6 causal rows"),
    ):
        with pytest.raises(InputError) as error:
            PagedAttention(**sizes | more)
        assert said in str(error.value)


# -- the language -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Gather(BaseProblem):
    """Y[k] = X[where[k]]: rows in another order."""

    n: int = problem_module.axis("rows of Y", letters="k")
    m: int = problem_module.axis("rows of X")
    c: int = problem_module.axis("columns")

    kind: ClassVar[str] = "gather"
    inputs: ClassVar[tuple[Tensor, ...]] = (
        Tensor("X", ("m", "c")),
        Tensor("where", ("n",), wide=True, positions="m"),
    )
    outputs: ClassVar[tuple[Tensor, ...]] = (Tensor("Y", ("n", "c")),)

    def reference(self, hbm: Any) -> Any:
        return {"Y": hbm["X"][hbm["where"].astype(int)]}


def gather(b: iosim.Builder) -> None:
    for k in b.grid("n"):
        at = b.load("where", k, name="at")
        x = b.load("X", b.at(at, "m"), "c")
        b.free(at)
        b.store(x, "Y", k, "c")
        b.free(x)


def test_a_gather_in_lanes_and_one_by_one() -> None:
    program = iosim.build("gather", Gather, gather)
    assert "load  x ← X[@at, :]" in iosim.show(program)
    for n, m, c in itertools.product((1, 4, 9), (1, 3), (1, 17)):
        problem = Gather(n, m, c)
        hbm = problem.random(seed=n)
        instance = iosim.bind(program, problem.sizes, {})
        for lanes in (1, 20, 2**18):
            run = iosim.simulate(instance, iosim.Machine(c + 1), hbm, lanes=lanes)
            np.testing.assert_array_equal(run.outputs["Y"], problem.reference(hbm)["Y"])
            assert run.counts == iosim.count(instance) == tally(instance)
            assert run.counts["load", "where"] == n


def test_positions_come_as_they_were_loaded() -> None:
    def changed(b: iosim.Builder) -> None:
        for k in b.grid("n"):
            at = b.load("where", k, name="at")
            b.op("zero", at)
            b.free(b.load("X", b.at(at, "m"), "c"), at)

    def from_zeros(b: iosim.Builder) -> None:
        at = b.zeros("at")
        b.free(b.load("X", b.at(at, "m"), "c"), at)

    def numbers(b: iosim.Builder) -> None:
        for k in b.points("m"):
            for j in b.points("c"):
                at = b.load("X", k, j, name="at")
                b.free(b.load("X", b.at(at, "m"), "c", name="row"), at)

    def stored(b: iosim.Builder) -> None:
        for k in b.points("n"):
            at = b.load("where", k, name="at")
            row = b.load("X", b.at(at, "m"), "c")
            b.store(row, "X", b.at(at, "m"), "c")
            b.free(row, at)

    def late(b: iosim.Builder) -> None:
        for k in b.grid("n"):
            at = b.load("where", k, name="at")
            here = b.at(at, "m")
            b.free(at)
            b.free(b.load("X", here, "c"))

    for schedule, said in (
        (changed, "@at is not a position on m: at must be one word as it was loaded from a tensor"),
        (from_zeros, "@at is not a position on m"),
        (numbers, "@at is not a position on m"),
        (stored, "@at: only loads take a position that is read, and one each"),
        (late, "@at is used after at was freed: load it again"),
    ):
        with pytest.raises(ProgramError) as error:
            iosim.build("wrong", Gather, schedule)
        assert said in str(error.value)


def test_a_word_that_is_gone_is_missed() -> None:
    """A tree by hand that frees the position before it is used."""
    program = iosim.build("gather", Gather, gather)
    (loop,) = program.body
    at, x, free, *rest = loop.body
    swapped = replace(program, body=(replace(loop, body=(at, free, x, *rest)),))
    problem = Gather(3, 4, 2)
    with pytest.raises(iosim.ResidencyError, match="a position is read from at"):
        iosim.simulate(iosim.bind(swapped, problem.sizes, {}), iosim.Machine(9), problem.random())
