"""Masks in emitted kernels: right outputs and counts, and no mask where a tile is whole."""

from __future__ import annotations

import itertools
import time
import types

import numpy as np
import pytest
import walking

import iosim
from iosim.core.program.ops import OPS
from iosim.core.units import bytes_of
from iosim.gpu import EmitError, emit, interpret, l2
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.unmasked import UNKNOWN

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

# Ragged along both axes; a shift either way; rows that see nothing, some of a tile and all of it.
PROBLEMS = {
    "causal": iosim.Attention(37, 24, 2, causal=True),
    "whole": iosim.Attention(64, 16, causal=True),
    "window": iosim.Attention(37, 16, window=(5, 3)),
    "narrow": iosim.Attention(45, 16, window=(0, 0)),
    "left": iosim.Attention(37, 16, window=(9, None)),
    "right": iosim.Attention(37, 16, window=(None, 18)),
    "sinks": iosim.Attention(50, 16, window=(7, 0), sinks=3),
    "shifted": iosim.Attention(20, 16, N_k=45, causal=True),
    "upper": iosim.Attention(20, 16, N_k=45, causal=True, align="upper left"),
    "unseen": iosim.Attention(45, 16, N_k=20, causal=True),
    "unseen window": iosim.Attention(53, 16, N_k=20, window=(3, 2), align="upper left"),
    "groups": iosim.Attention(37, 24, 4, kv_heads=2, causal=True),
}

SUPPORTED = [
    (algorithm.name, case)
    for algorithm in iosim.all_algorithms("attention")
    for case, problem in PROBLEMS.items()
    if algorithm.supports(problem.form)
]


def check(algorithm, problem, tiles, dtype="fp32"):
    """Output of the reference, counts of the model, and the machine's own output."""
    instance = iosim.bind(algorithm.program_for(problem), problem.sizes, tiles)
    hbm = problem.random(seed=1)
    outcome = interpret(emit(instance), hbm, dtype)
    got, want = {"O": outcome.outputs["O"]}, problem.reference(hbm)
    assert iosim.max_error(got, want) < {"fp32": 3e-6, "fp16": 4e-3}[dtype]
    assert outcome.counts == iosim.count(instance)
    strict = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
    assert iosim.max_error(strict.outputs, want) < 1e-12


def tiles_of(program, turn):
    """Tiles of 16, 32 and 20 in turn: whole, and padded; holds empty, in between and whole."""
    sides = itertools.cycle([(16, 32, 20), (32, 20, 16), (20, 16, 32)][turn])
    return {p.name: next(sides) if p.least else (0, 7, 10**6)[turn] for p in program.params}


@pytest.mark.numbers
@pytest.mark.parametrize("case", PROBLEMS)
@pytest.mark.parametrize(
    "name", ["flash1", "flash2", "flash2_chunked", "small_cache", "spill_rows"]
)
def test_every_schedule_under_every_mask(name, case):
    algorithm, problem = iosim.algorithm(name), PROBLEMS[case]
    turn = list(PROBLEMS).index(case) % 3
    check(algorithm, problem, tiles_of(algorithm.program_for(problem), turn))


@pytest.mark.numbers
@pytest.mark.parametrize("tiles", [(16, 16), (16, 32), (32, 16), (16, 20), (20, 16), (64, 16)])
@pytest.mark.parametrize("case", ["causal", "window", "sinks", "shifted", "unseen window"])
def test_tiles_of_every_kind(case, tiles):
    algorithm, problem = iosim.algorithm("flash2"), PROBLEMS[case]
    check(algorithm, problem, dict(zip(("B_r", "B_c"), tiles, strict=True)))
    check(algorithm, problem, dict(zip(("B_r", "B_c"), tiles, strict=True)), "fp16")


def ranges(text, at):
    """The loops over columns in the text of a kernel: (first, last, step), and whether masked.

    Args:
        at: the values of names that are known.
    """
    lines = text.splitlines()
    found = []
    for k, line in enumerate(x.strip() for x in lines):
        if line.startswith("j_"):
            name, value = line.split(" = ", 1)
            if "to_" not in value.replace("j_to", ""):
                at[name] = eval(value, {}, at)
        elif line.startswith("for j in "):
            inside = itertools.takewhile(lambda x: x.startswith(" " * 8), lines[k + 1 :])
            body = "\n".join(inside)
            over = line.removeprefix("for j in ").rstrip(":").replace(UNKNOWN, "0")
            found.append((eval(over, {}, at), body))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_tile_is_masked_where_a_row_does_not_see_all_of_it(seed):
    """Against every pair of a row and a column; short tiles may be masked in any case."""
    rng = np.random.default_rng(seed)
    N, N_k = (int(x) for x in rng.integers(1, 200, 2))
    window = tuple(None if rng.random() < 0.3 else int(rng.integers(0, 90)) for _ in range(2))
    if window == (None, None):
        window = (None, 0)
    align = str(rng.choice(["upper left", "lower right"]))
    problem = iosim.Attention(N, 16, N_k=N_k, window=window, align=align)
    B_r, B_c = (int(x) for x in rng.choice([16, 32, 20, 64, 50], 2))
    program = iosim.algorithm("flash2").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": B_r, "B_c": B_c})
    text = emit(instance).source
    shift = N_k - N if align == "lower right" else 0
    left, right = (10**6 if x is None else x for x in window)
    B_r, B_c = min(B_r, N), min(B_c, N_k)
    for i in range(0, N, B_r):
        covered = []
        for positions, body in ranges(text, {"i": i}):
            for j in positions:
                rows = np.arange(i, min(i + B_r, N))[:, None] + shift
                columns = np.arange(j, min(j + B_c, N_k))[None, :]
                whole = ((columns >= rows - left) & (columns <= rows + right)).all()
                full = (rows.size, columns.size) == (B_r, B_c)
                covered.append(j)
                if " > (" in body or " < (" in body:
                    assert not (whole and full), (i, j)
                else:
                    assert whole, (i, j)
                    if B_c in (16, 32, 64):  # a block of another size is always masked
                        assert columns.size == B_c
                        assert "j_in" not in body
        assert covered == sorted(set(covered))


def test_the_text_of_a_causal_kernel_has_two_loops_and_the_first_has_no_mask():
    problem = iosim.Attention(1000, 64, causal=True)
    program = iosim.algorithm("flash2").program_for(problem)
    text = emit(iosim.bind(program, problem.sizes, {"B_r": 64, "B_c": 32})).source
    first, second = text.split("for j in ")[1:]
    assert "tl.where" not in first
    assert "mask=" not in first
    assert "tl.where" in second
    assert "mask=j_in" in second


def test_a_count_under_a_mask_adds_up_the_mask_of_each_index():
    """Of a mask over rows and columns Triton 3.6 leaves out a row: at N 1,001 and d 128 in each
    masked tile of 32 rows, a tile in a head."""
    tiles = {"B_r1": 32, "B_c1": 32, "B_d1": 128, "W1": 0, "B_d2": 128, "B_r2": 32, "B_c2": 32}
    for name, at in (("flash2", {"B_r": 32, "B_c": 32}), ("spill_rows", tiles)):
        algorithm, problem = iosim.algorithm(name), iosim.Attention(101, 128, 2, causal=True)
        emitted = emit(iosim.bind(algorithm.program_for(problem), problem.sizes, at))
        assert interpret(emitted, problem.random()).counts == iosim.count(emitted.instance)
        lines = emitted.source.splitlines()
        counted = {x.strip() for x in lines if x.strip().startswith("if COUNT: ")}
        assert "if COUNT: loaded_K += positions(j_in) * 128" in counted
        assert not any("[" in x or "unmasked" in x for x in counted)
    assert "if COUNT: stored_S += positions(i_in) * positions(j_in)" in counted


def test_what_an_operation_says_of_whole_tiles_holds():
    """Every mask, at every number around its limits, against its meaning in NumPy."""
    rng = np.random.default_rng(0)
    masks = {name: spec for name, spec in OPS.items() if spec.whole}
    assert set(masks) == {"mask_after", "mask_before", "drop_after", "drop_before"}
    for spec in masks.values():
        for rows, columns in itertools.product((1, 2, 5, 8), repeat=2):
            s = rng.uniform(1, 2, (rows, columns))
            least, most = spec.whole(rows, columns)
            for a in range(-12, 13):
                same = np.array_equal(spec.numpy(s, a)[0], s)
                assert same == ((least is None or a >= least) and (most is None or a <= most))


def test_a_loop_whose_mask_names_an_inner_tile_is_not_split():
    """Its number isn't known where the loop begins; the inner loop is split."""

    def schedule(b):
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        b.scratch("S", "heads", "N", "N")
        for h in b.grid("heads"):
            for i in b.tiles("N", B_r):
                q = b.load("Q", h, i, "d")
                for j in b.tiles("N", B_c, stop=i.stop):
                    k, s = b.load("K", h, j, "d"), b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, k)
                    b.op("drop_after", s, a=i.start - j.start)
                    b.store(s, "S", h, i, j)
                    b.free(k, s)
                b.free(q)

    program = iosim.build("scores", iosim.Attention, schedule)
    problem = iosim.Attention(70, 16)
    instance = iosim.bind(program, problem.sizes, {"B_r": 32, "B_c": 16})
    source = emit(instance).source
    assert source.count("for i in") == 1
    assert source.count("for j in") == 2
    hbm = problem.random()
    outcome = interpret(emit(instance), hbm)
    for i in range(70):
        seen = hbm["K"][0, : i + 1] @ hbm["Q"][0, i]
        np.testing.assert_allclose(outcome.outputs["S"][0, i, : i + 1], seen, rtol=1e-4, atol=1e-5)
    assert outcome.counts == iosim.count(instance)


# -- buffers that follow a tile ---------------------------------------------------------------


def against_the_machine(program, problem, tiles):
    instance = iosim.bind(program, problem.sizes, tiles)
    hbm = problem.random(seed=2)
    run = iosim.simulate(instance, iosim.Machine(10**6), hbm)
    outcome = interpret(emit(instance), hbm)
    np.testing.assert_allclose(outcome.outputs["O"], run.outputs["O"], rtol=1e-4, atol=1e-4)
    assert outcome.counts == run.counts == iosim.count(instance)
    return emit(instance).source


def softmax_over(parts, loop=iosim.Builder.grid, holds=()):
    """Softmax attention over parts of the keys, each in a buffer of its own.

    Args:
        parts: of a builder, a tile of rows and the holds → spans of keys.
    """

    def schedule(b):
        (B_r,) = b.tile_sizes("N", "B_r")
        held = [b.stationary("N", name) for name in holds]
        for h in b.grid("heads"):
            for i in loop(b, "N", B_r):
                m, l, o = b.lowest("m", i), b.zeros("l", i), b.zeros("o", i, "d")
                q = b.load("Q", h, i, "d")
                for part in parts(b, i, *held):
                    k, v = b.load("K", h, part, "d"), b.load("V", h, part, "d")
                    s = b.zeros("s", i, part)
                    b.op("matmul_nt", s, q, k)
                    b.op("online_softmax", o, m, l, s, v)
                    b.free(k, v, s)
                b.op("finish", o, l)
                b.store(o, "O", h, i, "d")
                b.free(q, o, m, l)

    return iosim.build("parts", iosim.Attention, schedule)


@pytest.mark.parametrize("W", [0, 5, 16, 37])
@pytest.mark.parametrize("ends", ["prefix", "diagonal", "shifted"])
def test_a_buffer_over_what_rows_see(W, ends):
    """Its block holds the longest; where it is empty, a maximum over it changes nothing."""

    def parts(b, i, held):
        start, stop = {
            "prefix": (0, i.stop),
            "diagonal": (i.start, i.stop),
            "shifted": (i.start - 5, i.stop + 3),
        }[ends]
        return b.span("N", 0, 1), b.span("N", start, stop, within=(0, held))

    program = softmax_over(parts, holds=["W"])
    text = against_the_machine(program, iosim.Attention(37, 16, 2), {"B_r": 16, "W": W})
    assert ("N_part" in text) == (W > 0)  # an empty hold leaves no trace


def test_a_maximum_over_nothing_leaves_no_number():
    """All of a row's maximum may come from a buffer that is empty at first."""

    def parts(b, i):
        return b.span("N", 0, i.start - 16), b.span("N", i.start, i.stop)

    program = softmax_over(parts, loop=iosim.Builder.tiles)
    for N, B_r in ((53, 16), (64, 16), (40, 20)):
        text = against_the_machine(program, iosim.Attention(N, 16), {"B_r": B_r})
        assert "if 0 < N_part_stop:" in text


def after_a_loop(b, kind):
    """Scores beyond a ragged edge are −inf when a loop begins that makes them 0, if it runs."""
    B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
    for h in b.grid("heads"):
        kept, cut = b.load("K", h, "N", "d"), b.load("V", h, "N", "d", name="cut")
        for i in b.tiles("N", B_r):
            q, o, s = b.load("Q", h, i, "d"), b.zeros("o", i, "d"), b.zeros("s", i, "N")
            m, l = b.low("m", i), b.zeros("l", i)
            b.op("matmul_nt", s, q, kept)
            b.op("row_stats", m, l, s)
            for j in b.tiles("N", B_c, stop=i.start):
                if kind == "unrolled":
                    t = b.zeros("t", i, j)
                    b.op("matmul_nt", t, q, cut[j])
                    b.free(t)
                b.op("matmul_nn", o, s, kept)
            b.op("matmul_nn", o, s, kept)
            b.store(o, "O", h, i, "d")
            b.free(q, o, s, m, l)
        b.free(kept, cut)


def after_a_branch(b):
    """Columns of o beyond d are −inf, then 0 where a row's maximum is taken, then summed over."""
    (B_r,) = b.tile_sizes("N", "B_r")
    for h in b.grid("heads"):
        for i in b.tiles("N", B_r):
            q, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
            m, l = b.low("m", i), b.zeros("l", i)
            top, total = b.low("top", i), b.zeros("total", i)
            b.op("row_stats", top, total, o)
            part = b.span("N", 0, i.start)
            k, v, s = b.load("K", h, part, "d"), b.load("V", h, part, "d"), b.zeros("s", i, part)
            b.op("matmul_nt", s, q, k)
            b.op("online_softmax", o, m, l, s, v)
            b.free(k, v, s)
            first = b.span("N", 0, 8)
            k, t, w = b.load("K", h, first, "d"), b.zeros("t", i, first), b.zeros("w", i, "d")
            b.op("matmul_nt", t, o, k)
            b.op("matmul_nn", w, t, k)
            b.store(w, "O", h, i, "d")
            b.free(q, o, m, l, top, total, k, t, w)


def after_a_mask(b):
    """A mask that hides no column but those beyond the edge, and a sum over all."""
    (B_r,) = b.tile_sizes("N", "B_r")
    for h in b.grid("heads"):
        k = b.load("K", h, "N", "d")
        for i in b.grid("N", B_r):
            q, o, s = b.load("Q", h, i, "d"), b.zeros("o", i, "d"), b.zeros("s", i, "N")
            b.op("matmul_nt", s, q, k)
            b.op("mask_after", s, a=i.start * 0 + "N" - 1)
            b.op("matmul_nn", o, s, k)
            b.store(o, "O", h, i, "d")
            b.free(q, o, s)
        b.free(k)


@pytest.mark.parametrize("name", ["loop", "unrolled", "branch", "mask"])
@pytest.mark.parametrize(("N", "d"), [(37, 24), (45, 40)])
def test_what_may_not_run_may_leave_an_edge_as_it_was(name, N, d):
    schedule = {"branch": after_a_branch, "mask": after_a_mask}.get(
        name, lambda b: after_a_loop(b, name)
    )
    program = iosim.build(name, iosim.Attention, schedule)
    tiles = {p.name: 16 for p in program.params}
    against_the_machine(program, iosim.Attention(N, d, 2), tiles)


def test_the_number_of_a_tile_whose_loop_follows_another():
    """Its loop starts at a number here, which has no name in the kernel."""

    def schedule(b):
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        parts = b.split_axis("parts", "N", B_c)
        b.scratch("P", "heads", parts, "N", wide=True)
        for h in b.grid("heads"):
            for i in b.tiles("N", B_r):
                for start in (0, i.start):
                    for j in b.tiles("N", B_c, start, i.stop):
                        x = b.zeros("x", i)
                        b.store(x, "P", h, b.number(j), i)
                        b.free(x)
                q = b.load("Q", h, i, "d")
                b.store(q, "O", h, i, "d")
                b.free(q)

    program = iosim.build("numbers", iosim.Attention, schedule)
    against_the_machine(program, iosim.Attention(37, 16), {"B_r": 16, "B_c": 16})


@pytest.mark.parametrize(("N", "W", "B_c"), [(37, 20, 16), (37, 37, 16), (64, 48, 32), (40, 7, 16)])
def test_a_held_buffer_may_be_cut_by_a_loop_that_follows_a_tile(N, W, B_c):
    """Rows beyond the loop's end are held, and not added."""

    def schedule(b):
        held = b.stationary("N", "W")
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        for h in b.grid("heads"):
            k = b.load("K", h, b.span("N", 0, held), "d")
            v = b.load("V", h, b.span("N", 0, held), "d")
            for i in b.grid("N", B_r):
                q, o = b.load("Q", h, i, "d"), b.zeros("o", i, "d")
                for j in b.tiles("N", B_c, 0, i.stop - 3, within=(0, held)):
                    s = b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, k[j])
                    b.op("matmul_nn", o, s, v[j])
                    b.free(s)
                b.store(o, "O", h, i, "d")
                b.free(q, o)
            b.free(k, v)

    program = iosim.build("kept", iosim.Attention, schedule)
    against_the_machine(program, iosim.Attention(N, 16), {"B_r": 16, "B_c": B_c, "W": W})


def test_cuts_that_follow_a_tile_and_have_no_fixed_parts_are_refused():
    def trace(b, start, change):
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        for h in b.grid("heads"):
            k = b.load("K", h, "N", "d")
            for i in b.tiles("N", B_r):
                q = b.load("Q", h, i, "d")
                for j in b.tiles("N", B_c, i.start if start else 0, i.stop):
                    s = b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, k[j])
                    if change:
                        b.op("zero", k[j])
                    b.free(s)
                b.free(q)
            b.free(k)

    for start, change, said in (
        (True, False, "loop j follows an outer tile and does not always start where k does"),
        (False, True, "zero changes k.j., and loop j follows an outer tile"),
    ):
        program = iosim.build("cut", iosim.Attention, lambda b, s=start, c=change: trace(b, s, c))
        instance = iosim.bind(program, {"N": 40, "d": 16, "heads": 1}, {"B_r": 16, "B_c": 16})
        with pytest.raises(EmitError, match=said):
            emit(instance)


def test_the_longest_items_start_first():
    problem = iosim.Attention(64, 16, 2, causal=True)
    program = iosim.algorithm("flash2").program_for(problem)
    tiles = {"B_r": 16, "B_c": 16}
    source = emit(iosim.bind(program, problem.sizes, tiles)).source
    assert "h = item % 2\n" in source  # of all heads
    assert "i = (3 - item // 2) * 16" in source
    for window in ((5, 0), (5, None)):  # as long as the others, or longest first anyway
        problem = iosim.Attention(64, 16, 2, window=window)
        program = iosim.algorithm("flash2").program_for(problem)
        assert "i = item % 4 * 16" in emit(iosim.bind(program, problem.sizes, tiles)).source


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize(("name", "case"), SUPPORTED)
def test_sectors_of_loops_that_follow_tiles_against_a_walk_over_every_row(name, case, dtype):
    algorithm, problem = iosim.algorithm(name), PROBLEMS[case]
    program = algorithm.program_for(problem)
    for turn in range(3):
        instance = iosim.bind(program, problem.sizes, tiles_of(program, turn))
        want = walking.sectors(instance, dtype)
        found = {key: n for key, n in layout.sector_bytes(instance, dtype).items() if n}
        assert found == {key: n for key, n in want.items() if n}


def test_a_vector_that_starts_within_a_sector_is_asked_for_in_two_requests():
    """Counted on an H200: 10,144 bytes of loads and 10,256 of stores beyond the model's."""
    problem = iosim.Attention(1001, 128, 2, N_k=1501, d_v=32, causal=True)
    program = iosim.algorithm("flash1").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": 64, "B_c": 256})
    found = layout.sector_bytes(instance, "fp16")
    model = bytes_of(iosim.count(instance), program.tensors, "fp16")
    beyond = {
        way: sum(found[key] - n for key, n in model.items() if key[0] == way)
        for way in ("load", "store")
    }
    assert beyond == {"load": 10144, "store": 10256}
    assert found == walking.sectors(instance, "fp16")


def test_whole_vectors_move_as_masked_ones_do():
    """The compiler gives all loads of a vector one layout, and a mask would split wider ones."""
    problem = iosim.Attention(1001, 64, 2, causal=True)
    program = iosim.algorithm("flash1").program_for(problem)
    source = emit(iosim.bind(program, problem.sizes, {"B_r": 64, "B_c": 256})).source
    lines = [line for line in source.splitlines() if " = load_vector(" in line]
    assert any("tl.full(" in line for line in lines)  # of portions without a mask
    assert all("single_64" in line for line in lines)


def test_a_tile_that_is_whole_though_its_loop_has_larger_steps_has_no_mask():
    """16 sinks in a tile of up to 256 columns: a mask would split their stores into words."""
    problem = iosim.Attention(1001, 64, 2, causal=True, window=(208, None), sinks=16)
    program = iosim.algorithm("spill_rows").program_for(problem)
    tiles = {"B_r1": 128, "B_c1": 256, "B_d1": 64, "W1": 64, "B_d2": 64, "B_r2": 128, "B_c2": 256}
    source = emit(iosim.bind(program, problem.sizes, tiles)).source
    stores = [line for line in source.splitlines() if "tl.store(S_ptr" in line]
    assert ["j_in" in line for line in stores] == [False, True]
    assert ["single_256" in line for line in stores] == [False, True]


def test_stores_under_an_edge_that_follows_a_tile_move_word_by_word():
    """Even where all edges lie at sectors: the compiler cannot see that."""
    problem = iosim.Attention(1008, 64, 2, window=(304, 16))
    program = iosim.algorithm("spill_rows").program_for(problem)
    tiles = {"B_r1": 128, "B_c1": 256, "B_d1": 64, "W1": 64, "B_d2": 64, "B_r2": 128, "B_c2": 256}
    source = emit(iosim.bind(program, problem.sizes, tiles)).source
    stores = [line for line in source.splitlines() if "tl.store(S_ptr" in line]
    masked = [line for line in stores if "j_in" in line]
    assert masked
    assert all("single_256" in line for line in masked)


def test_sectors_of_a_long_causal_schedule_take_no_walk():
    """A minute, transfer by transfer; the words are whole sectors here, so they are known."""
    problem = iosim.Attention(16384, 64, 32, causal=True)
    for name, tiles in (("flash2", {"B_r": 16, "B_c": 16}), ("flash1", {"B_r": 16, "B_c": 16})):
        program = iosim.algorithm(name).program_for(problem)
        instance = iosim.bind(program, problem.sizes, tiles)
        started = time.perf_counter()
        found = layout.sector_bytes(instance, "fp16")
        assert time.perf_counter() - started < 2
        assert found == bytes_of(iosim.count(instance), program.tensors, "fp16")


@pytest.mark.parametrize("model", ["footprint", "wave", "swept", "predicted", "drift"])
def test_models_of_dram_refuse_what_follows_a_tile(model):
    problem = iosim.Attention(64, 16, causal=True)
    program = iosim.algorithm("flash2").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": 16, "B_c": 16})
    job = types.SimpleNamespace(instance=instance, sizes=problem.sizes, dtype="fp16")
    go = {
        "footprint": lambda: l2.footprint_bytes(instance, "fp16"),
        "wave": lambda: l2.wave_bytes(job, 4),
        "swept": lambda: l2.swept_bytes(job),
        "predicted": lambda: l2.predicted_bytes(job, 4, 2**20),
        "drift": lambda: l2.drift_bytes(np.zeros((4, 2), np.int64), job, [1.0]),
    }[model]
    said = "the models of DRAM reads don't know flash2, where a loop or a buffer follows"
    with pytest.raises(EmitError, match=said):
        go()


# -- names ------------------------------------------------------------------------------------


def named(names):
    """Softmax attention whose buffers are called like what a kernel has names for."""

    def schedule(b):
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        b.scratch(names["scratch"], "heads", "N", wide=True)
        for h in b.grid("heads"):
            for i in b.grid("N", B_r):
                q = b.load("Q", h, i, "d", name=names["q"])
                o, m, l = b.zeros(names["o"], i, "d"), b.lowest("m", i), b.zeros(names["l"], i)
                for j in b.tiles("N", B_c, stop=i.stop):
                    k, v = b.load("K", h, j, "d", name=names["k"]), b.load("V", h, j, "d")
                    s = b.zeros(names["s"], i, j)
                    b.op("matmul_nt", s, q, k)
                    b.op("mask_after", s, a=i.start - j.start)
                    b.op("online_softmax", o, m, l, s, v)
                    b.free(k, v, s)
                b.op("finish", o, l)
                b.store(l, names["scratch"], h, i)
                b.store(o, "O", h, i, "d")
                b.free(q, o, m, l)

    return schedule


KERNELS_OWN = [
    "to_16",
    "single_32",
    "item",
    "unmasked",
    "load_vector",
    "words_ptr",
    "COUNT",
    "tl",
    "triton",
    "loaded_K",
    "stored_O",
    "Q_ptr",
    "i_in",
    "d_in",
    "j_start",
    "j_stop",
    "j_to",
    "j_from",
    "i",
    "j",
    "h",
    "_top",
    "_shrink",
    "LOG2E",
    "min",
    "max",
    "range",
    "float",
    "kernel",
]


@pytest.mark.numbers
@pytest.mark.parametrize("own", KERNELS_OWN)
@pytest.mark.parametrize("what", ["q", "k", "s", "o", "l"])
@pytest.mark.parametrize(("N", "d"), [(20, 16), pytest.param(37, 24, marks=pytest.mark.slow)])
def test_a_buffer_may_have_a_name_of_the_kernels_own(own, what, N, d):
    usual = {"q": "q", "k": "k", "s": "s", "o": "o", "l": "l", "scratch": "L"}
    program = iosim.build("kernel", iosim.Attention, named(usual | {what: own}))
    problem = iosim.Attention(N, d)
    instance = iosim.bind(program, problem.sizes, {"B_r": 16, "B_c": 16})
    hbm = problem.random()
    outcome = interpret(emit(instance), hbm)
    want = iosim.Attention(N, d, causal=True).reference(hbm)
    assert iosim.max_error({"O": outcome.outputs["O"]}, want) < 3e-6
    assert outcome.counts == iosim.count(instance)


@pytest.mark.numbers
@pytest.mark.parametrize("name", ["words", "gate", "clock", "K_ptr", "tl", "item"])
@pytest.mark.parametrize(
    "kernel", ["unmasked", "load vector", "load_vector", "tl", "2 passes", "class"]
)
def test_a_tensor_and_a_program_may_have_them_too(name, kernel):
    usual = {"q": "q", "k": "k", "s": "s", "o": "o", "l": "l", "scratch": name}
    program = iosim.build(kernel, iosim.Attention, named(usual))
    problem = iosim.Attention(20, 16)
    instance = iosim.bind(program, problem.sizes, {"B_r": 16, "B_c": 16})
    outcome = interpret(emit(instance, clock=False), problem.random())
    want = iosim.Attention(20, 16, causal=True).reference(problem.random())
    assert iosim.max_error({"O": outcome.outputs["O"]}, want) < 3e-6
    assert outcome.counts == iosim.count(instance)


def test_a_part_and_a_buffer_that_is_called_like_it():
    """o[x] becomes o_0, o_1, …, and here o_1 is a buffer of its own."""

    def schedule(b):
        (B_d,), (B_r, B_c) = b.tile_sizes("d", "B_d"), b.tile_sizes("N", "B_r", "B_c")
        for h in b.grid("heads"):
            for i in b.grid("N", B_r):
                o = b.zeros("o", i, "d")
                for j in b.tiles("N", B_c):
                    q, k = b.load("Q", h, i, "d"), b.load("K", h, j, "d")
                    s = b.zeros("o_1", i, j)
                    b.op("matmul_nt", s, q, k)
                    for x in b.tiles("d", B_d):
                        v = b.load("V", h, j, x)
                        b.op("matmul_nn", o[x], s, v)
                        b.free(v)
                    b.free(q, k, s)
                b.store(o, "O", h, i, "d")
                b.free(o)

    program = iosim.build("parts", iosim.Attention, schedule)
    problem = iosim.Attention(20, 40)
    hbm = problem.random()
    instance = iosim.bind(program, problem.sizes, {"B_d": 16, "B_r": 16, "B_c": 16})
    run = iosim.simulate(instance, iosim.Machine(10**5), hbm)
    outcome = interpret(emit(instance), hbm)
    np.testing.assert_allclose(outcome.outputs["O"], run.outputs["O"], rtol=1e-4, atol=1e-4)
    assert outcome.counts == run.counts
