"""Schedules that stack the rows of a group of heads: grouped_rows and decode."""

from __future__ import annotations

import functools
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracle import Memory, blocks
from sizes import examples

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.core.counting import symbols
from iosim.core.problem import Attention
from iosim.core.tiling.gpu import gpu_tiles
from iosim.core.trace import tally
from iosim.gpu import emit, interpret, l2
from iosim.gpu.reports import _cases, validate
from iosim.gpu.run.job import Job

# -- by hand ----------------------------------------------------------------------------------


def sees(p: Any, i: int, j: int) -> bool:
    """Whether row i sees column j, from the fields of a problem."""
    left, right = p.window or (None, None)
    right = 0 if p.causal else right
    keys = p.N if p.N_k is None else p.N_k
    own = i + (keys - p.N if p.align == "lower right" else 0)
    return (right is None or j <= own + right) and (left is None or j >= own - left or j < p.sinks)


def by_hand(p: Any, tiles: dict[str, int], hbm: Any) -> Memory:
    """Both schedules, word by word; a group of one head where none is given."""
    mem = Memory(**{x: hbm[x].tolist() for x in "QKV"})
    keys, width = p.N_k or p.N, p.d_v or p.d
    group, B_c = p.heads // (p.kv_heads or p.heads), tiles["B_c"]
    sinks = p.sinks if p.window and p.window[0] is not None else 0

    def at(g: int, u: int, i: int) -> tuple[int, ...]:
        return (g, i) if p.kv_heads is None else (g, u, i)

    for g in range(p.kv_heads or p.heads):
        for I in blocks(p.N, tiles.get("B_r", p.N)):
            rows = [(u, i) for u in range(group) for i in I]
            for u, i in rows:
                for x in range(p.d):
                    mem.load("Q", *at(g, u, i), x)
                for y in range(width):
                    mem.write(0.0, "O", *at(g, u, i), y)
                mem.write(-math.inf, "max", u, i)
                mem.write(0.0, "sum", u, i)
            seen = [j for j in range(keys) if any(sees(p, i, j) for i in I)]
            for part in ([j for j in seen if j < sinks], [j for j in seen if j >= sinks]):
                for J in ([*part[k : k + B_c]] for k in range(0, len(part), B_c)):
                    _tile(mem, p, g, rows, J, width, at)
            for u, i in rows:
                for y in range(width):
                    total = mem.get("sum", u, i) or 1.0
                    mem.write(mem.get("O", *at(g, u, i), y) / total, "O", *at(g, u, i), y)
                    mem.store("O", *at(g, u, i), y)
                    mem.drop("O", *at(g, u, i), y)
                for x in range(p.d):
                    mem.drop("Q", *at(g, u, i), x)
                mem.drop("max", u, i)
                mem.drop("sum", u, i)
    assert not mem.fast
    return mem


def _tile(mem: Memory, p: Any, g: int, rows: Any, J: Any, width: int, at: Any) -> None:
    for j in J:
        for x in range(p.d):
            mem.load("K", g, j, x)
    for u, i in rows:
        for j in J:
            terms = (mem.get("Q", *at(g, u, i), x) * mem.get("K", g, j, x) for x in range(p.d))
            mem.write(math.fsum(terms) if sees(p, i, j) else -math.inf, "S", u, i, j)
    for j in J:
        for x in range(p.d):
            mem.drop("K", g, j, x)
    for j in J:
        for y in range(width):
            mem.load("V", g, j, y)
    for u, i in rows:
        scores = {j: mem.get("S", u, i, j) for j in J if mem.get("S", u, i, j) > -math.inf}
        if scores:
            top = max(mem.get("max", u, i), *scores.values())
            shrink = math.exp(mem.get("max", u, i) - top)
            weights = {j: math.exp(s - top) for j, s in scores.items()}
            mem.write(mem.get("sum", u, i) * shrink + sum(weights.values()), "sum", u, i)
            mem.write(top, "max", u, i)
            for y in range(width):
                more = sum(w * mem.get("V", g, j, y) for j, w in weights.items())
                key = ("O", *at(g, u, i), y)
                mem.write(mem.get(*key) * shrink + more, *key)
        for j in J:
            mem.drop("S", u, i, j)
    for j in J:
        for y in range(width):
            mem.drop("V", g, j, y)


def output(p: Any, hbm: Any) -> Any:
    """The textbook formula in float64, head by head, from full score matrices."""
    keys, width = p.N_k or p.N, p.d_v or p.d
    Q, share = hbm["Q"].reshape(p.heads, p.N, p.d), p.heads // (p.kv_heads or p.heads)
    O = np.zeros((p.heads, p.N, width))
    seen = np.array([[sees(p, i, j) for j in range(keys)] for i in range(p.N)])
    for h in range(p.heads):
        K, V = hbm["K"][h // share], hbm["V"][h // share]
        for i in np.flatnonzero(seen.any(axis=1)):
            s = K[seen[i]] @ Q[h, i]
            w = np.exp(s - s.max())
            O[h, i] = w @ V[seen[i]] / w.sum()
    return O.reshape(*hbm["Q"].shape[:-1], width)


# -- five ways --------------------------------------------------------------------------------


@functools.cache
def formula(program: Any) -> Any:
    return symbols.count(program)


def check(name: str, p: Any, tiles: dict[str, int]) -> None:
    program = iosim.algorithm(name).program_for(p)
    instance = iosim.bind(program, p.sizes, tiles)
    counts, top = iosim.count(instance), iosim.peak(instance)
    hbm = p.random(seed=7)
    mem = by_hand(p, dict(instance.values), hbm)
    assert {k: v for k, v in counts if v} == {k: v for k, v in mem.moved.items() if v}
    assert mem.peak == top
    for lanes in (1, 33, 2**18):
        run = iosim.simulate(instance, iosim.Machine(top), hbm, lanes=lanes)
        assert run.counts == counts == tally(instance)
        assert run.peak_words == top
        np.testing.assert_allclose(run.outputs["O"], output(p, hbm), rtol=1e-11, atol=1e-12)
    stored = [mem.hbm["O"][at] for at in np.ndindex(run.outputs["O"].shape)]
    np.testing.assert_allclose(np.ravel(run.outputs["O"]), stored, rtol=1e-11, atol=1e-12)
    many = iosim.count_many(program, p.sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(counts)
    assert int(iosim.peak_many(program, p.sizes | tiles)) == top
    assert formula(program).at(p.sizes, tiles) == (counts, top)


LIMIT = st.none() | st.integers(0, 9)


@st.composite
def grouped(draw: st.DrawFn) -> tuple[str, Any, dict[str, int]]:
    """Either schedule with any options, ragged, and tiles that may be larger than their axis."""
    name = draw(st.sampled_from(["grouped_rows", "decode"]))
    kv = draw(st.integers(1, 2) if name == "grouped_rows" else st.none() | st.integers(1, 2))
    keys = draw(st.integers(1, 9) if name == "decode" else st.none() | st.integers(1, 9))
    p = Attention(
        draw(st.integers(1, 7)),
        draw(st.integers(1, 3)),
        (kv or 1) * draw(st.integers(1, 3)),
        N_k=keys,
        kv_heads=kv,
        d_v=draw(st.none() | st.integers(1, 3)),
        causal=draw(st.booleans()),
        window=draw(st.none() | st.tuples(LIMIT, LIMIT)),
        sinks=draw(st.integers(0, 4)),
        align=draw(st.sampled_from(["lower right", "upper left"])),
    )
    names = ("B_r", "B_c") if name == "grouped_rows" else ("B_c",)
    return name, p, {x: draw(st.integers(1, 9), label=x) for x in names}


@pytest.mark.numbers
@given(grouped())
@examples(6 / 5)
@example(("grouped_rows", Attention(7, 2, 6, kv_heads=2, N_k=3, causal=True), {"B_r": 3, "B_c": 2}))
@example(("decode", Attention(5, 2, 6, kv_heads=2, N_k=8, window=(9, 1), sinks=2), {"B_c": 3}))
@example(
    ("decode", Attention(9, 1, 2, kv_heads=1, N_k=4, align="upper left", causal=True), {"B_c": 3})
)
def test_every_count_agrees(case: Any) -> None:
    check(*case)


@pytest.mark.parametrize(
    ("name", "tiles"), [("grouped_rows", {"B_r": 3, "B_c": 4}), ("decode", {"B_c": 4})]
)
def test_the_agreement_can_fail(
    name: str, tiles: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    p = Attention(7, 2, 6, N_k=9, kv_heads=2, causal=True)
    check(name, p, tiles)
    for wrong in ({**p.as_dict, "causal": False}, {**p.as_dict, "window": (3, None)}):
        other = by_hand(Attention(**wrong), tiles, p.random(seed=7))
        monkeypatch.setitem(globals(), "by_hand", lambda *_, other=other: other)
        with pytest.raises(AssertionError):
            check(name, p, tiles)
        monkeypatch.undo()


# -- what the docstrings say --------------------------------------------------------------------


@pytest.mark.parametrize("N_k", [50, 53])
def test_words_and_peak_of_grouped_rows(N_k: int) -> None:
    entry = iosim.algorithm("grouped_rows")
    for group, B_r, B_c, d_v in ((1, 5, 3, 8), (4, 1, 1, 11), (6, 7, 9, 5), (3, 40, 2, 8)):
        p = Attention(40, 8, 2 * group, kv_heads=2, N_k=N_k, d_v=d_v)
        instance = iosim.bind(entry.program_for(p), p.sizes, {"B_r": B_r, "B_c": B_c})
        words = group * 40 * (8 + d_v) + -(-40 // B_r) * N_k * (8 + d_v)
        assert iosim.count(instance).total_words == 2 * words
        held = group * B_r * (8 + d_v + 2 + B_c) + B_c * max(8, d_v)
        assert iosim.peak(instance) == held
        flash2 = iosim.algorithm("flash2").program_for(p)
        alone = iosim.count(iosim.bind(flash2, p.sizes, {"B_r": B_r, "B_c": B_c}))
        assert alone["load", "K"] == group * iosim.count(instance)["load", "K"]


def test_a_group_of_one_head_is_flash2() -> None:
    p = Attention(100, 8, 3, kv_heads=3)
    for M in (40, 300, 2000):
        words = [
            iosim.optimal_tiles(iosim.algorithm(x).program_for(p), p, M).total_words
            for x in ("grouped_rows", "flash2")
        ]
        assert words[0] == words[1]


def test_grouping_saves_nothing_from_the_leading_term_and_everything_where_a_group_fits() -> None:
    long, step = Attention(2**14, 64, 32, kv_heads=8), Attention(1, 64, 32, kv_heads=8, N_k=2**14)
    grouped, flash2 = (iosim.algorithm(x) for x in ("grouped_rows", "flash2"))

    def words(entry: Any, p: Any, M: int) -> int:
        return iosim.optimal_tiles(entry.program_for(p), p, M).total_words

    for M in (2**14, 2**16):
        assert words(grouped, long, M) == pytest.approx(words(flash2, long, M), rel=0.05)
        assert words(grouped, long, M) == pytest.approx(32 * 4 * 2**28 * 64**2 / M, rel=0.2)
    assert words(flash2, step, 2**14) / words(grouped, step, 2**14) == pytest.approx(4, rel=0.01)


DECODING = [
    Attention(1, 128, 32, N_k=16384, kv_heads=8),
    Attention(1, 128, 32, N_k=16384),
    Attention(1, 64, 2048, N_k=4097, kv_heads=512, d_v=80),
    Attention(5, 128, 64, N_k=1001, kv_heads=8, causal=True),
    Attention(16, 64, 32, N_k=8192, kv_heads=1, causal=True),
    Attention(16, 128, 16, N_k=65536, kv_heads=4, causal=True, window=(4096, None)),
    Attention(9, 64, 8, N_k=50_000, kv_heads=4, causal=True, window=(1000, None), sinks=4),
]


def compulsory(p: Any) -> int:
    """Words of the rows and columns in use, by asking of every column whether some row sees it."""
    columns = sum(any(sees(p, i, j) for i in range(p.N)) for j in range(p.N_k))
    width = p.d + (p.d_v or p.d)
    return p.heads * p.N * width + (p.kv_heads or p.heads) * columns * width


@pytest.mark.numbers
@pytest.mark.parametrize("p", DECODING, ids=repr)
def test_decode_is_compulsory_from_the_memory_on_that_holds_the_rows_of_a_group(p: Any) -> None:
    """Bar: within 1.001 of what is compulsory; it moves exactly that."""
    entry = iosim.algorithm("decode")
    program = entry.program_for(p)
    d_v, group = p.d_v or p.d, p.heads // (p.kv_heads or p.heads)
    least = group * p.N * (p.d + d_v + 3) + max(p.d, d_v)
    assert iosim.smallest_capacity(program, p) == least
    with pytest.raises(CapacityError, match=f"use M >= {least}"):
        iosim.optimal_tiles(program, p, least - 1)
    for M in (least, 2 * least, 2**17):
        if least <= M:
            best = iosim.optimal_tiles(program, p, M)
            assert best.total_words == compulsory(p)
            assert set(best.tiles) == {"B_c"}
            assert entry.regime.holds(p, M)
    assert compulsory(p) / iosim.optimal_tiles(program, p, least).total_words <= 1.001


def test_grouped_rows_with_optimal_tiles_decodes_alike() -> None:
    for p in DECODING:
        if p.kv_heads is None:
            continue
        program = iosim.algorithm("grouped_rows").program_for(p)
        least = iosim.smallest_capacity(iosim.algorithm("decode").program_for(p), p)
        assert iosim.optimal_tiles(program, p, least).total_words == compulsory(p)


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": (5, 2), "sinks": 3}], ids=repr
)
def test_tiles_are_those_of_brute_force(options: Any) -> None:
    entry = iosim.algorithm("grouped_rows")
    p = Attention(10, 2, 6, kv_heads=2, N_k=9, **options)
    program = entry.program_for(p)
    found = []
    for B_r in range(1, 11):
        for B_c in range(1, 10):
            instance = iosim.bind(program, p.sizes, {"B_r": B_r, "B_c": B_c})
            found.append((iosim.count(instance).total_words, iosim.peak(instance)))
    least = min(peak for _, peak in found)
    assert iosim.smallest_capacity(program, p) == least
    for M in (least, 30, 41, 60, 97, 150, 260, 400):
        if least <= M:
            best = iosim.optimal_tiles(program, p, M)
            assert best.total_words == min(words for words, peak in found if peak <= M)


def test_what_they_need_is_said() -> None:
    for name, needs in (("grouped_rows", "kv_heads"), ("decode", "N_k")):
        said = re.escape(f"{name} needs {needs}: give that, or choose naive or flash1 or flash2")
        with pytest.raises(InputError, match=said):
            iosim.algorithm(name).program_for(Attention(9, 4, 2))


# -- kernels --------------------------------------------------------------------------------------

KERNELS = [
    ("grouped_rows", Attention(37, 20, 6, kv_heads=2, N_k=50, d_v=24), {"B_r": 16, "B_c": 16}),
    ("grouped_rows", Attention(40, 16, 6, kv_heads=2, causal=True), {"B_r": 8, "B_c": 16}),
    (
        "grouped_rows",
        Attention(21, 16, 3, kv_heads=1, N_k=40, window=(7, 3), sinks=3),
        {"B_r": 5, "B_c": 16},
    ),
    ("grouped_rows", Attention(33, 16, 4, kv_heads=1, N_k=20, causal=True), {"B_r": 3, "B_c": 5}),
    ("decode", Attention(1, 32, 16, kv_heads=2, N_k=70), {"B_c": 32}),
    ("decode", Attention(1, 16, 3, N_k=33), {"B_c": 16}),
    ("decode", Attention(5, 16, 6, kv_heads=2, N_k=41, causal=True), {"B_c": 16}),
    (
        "decode",
        Attention(16, 16, 8, kv_heads=2, N_k=64, causal=True, window=(20, None), sinks=2),
        {"B_c": 32},
    ),
]


@pytest.mark.parametrize(("name", "p", "tiles"), KERNELS, ids=repr)
def test_kernels_count_themselves(name: str, p: Any, tiles: dict[str, int]) -> None:
    instance = iosim.bind(iosim.algorithm(name).program_for(p), p.sizes, tiles)
    hbm = p.random(seed=3)
    outcome = interpret(emit(instance), hbm)
    assert outcome.counts == iosim.count(instance)
    assert iosim.max_error(outcome.outputs, {"O": output(p, hbm)}) < 1e-5


def test_waves_of_one_program_share_nothing() -> None:
    """With one program at a time DRAM delivers every load; with all at once, each word once."""
    p = Attention(37, 16, 6, kv_heads=2, N_k=50)
    job = Job.of("grouped_rows", p, {"B_r": 16, "B_c": 16}, dtype="fp16")
    assert l2.wave_bytes(job, 1) == 2 * iosim.count(job.instance).load_words
    assert l2.wave_bytes(job, 1000) == 2 * (6 * 37 * 16 + 2 * 2 * 50 * 16)


def test_a_report_says_where_a_schedule_has_no_case() -> None:
    said = "decode run no case of dense, causal: choose other cases or schedules"
    with pytest.raises(InputError, match=said):
        _cases.least_capacity(("decode",), ("dense", "causal"), (64,))
    (job,) = validate.validate_jobs(("decode",), (64,), (8192,), (1024,), cases=("dense", "decode"))
    assert _cases.least_capacity(("decode",), ("decode",), (64,)) <= 8192
    assert job.variant == {"N_k": 1024, "kv_heads": 2}


@pytest.mark.parametrize("p", DECODING[:5], ids=repr)
def test_a_gpu_streams_the_cache_in_powers_of_two(p: Any) -> None:
    program = iosim.algorithm("decode").program_for(p)
    least = iosim.smallest_capacity(program, p, lattice="pow2")
    for M in (least, max(least, 2**15)):
        best = gpu_tiles(program, p, M)
        assert best.total_words == compulsory(p)
        assert best.tiles["B_c"] & (best.tiles["B_c"] - 1) == 0
        assert best.tiles["B_c"] >= 16
