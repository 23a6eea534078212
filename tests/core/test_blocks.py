"""Block masks: loops over the marked pairs of tiles, counted in closed form at any pattern."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sizes import examples
from walking import agree, by_walking

import iosim
from iosim.cli import options
from iosim.core.algorithms.block_sparse import ALGORITHM
from iosim.core.counting import block_mask_sums, symbols
from iosim.core.counting.numbers import peak_at
from iosim.core.problem import BlockSparse, axis
from iosim.core.program.block_masks import BlockMask
from iosim.core.program.canonical import canonical
from iosim.core.tiling.rules import choose_tiles
from iosim.gpu.emitter.kernels import EmitError
from iosim.gpu.l2 import footprint_bytes
from iosim.report.sparsity import sparsity, tallest

pytestmark = pytest.mark.numbers

PROGRAM = iosim.algorithm("block_sparse").program


def scores_times_v(b: Any, B_r: Any, B_c: Any) -> None:
    """The marked tiles of S, stored before, times V."""
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            o = b.zeros("o", i, "d")
            for j in b.tiles("N_k", B_c, where=("blocks", i)):
                s, v = b.load("S", h, i, j), b.load("V", h, j, "d")
                b.op("matmul_nn", o, s, v)
                b.free(s, v)
            b.store(o, "O", h, i, "d")
            b.free(o)


def stream_keys(b: Any) -> None:
    """Grid loops under a mask, chunks of d inside them, and a second loop under the same mask."""
    B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
    (B_d,) = b.tile_sizes("d", "B_d")
    b.scratch("S", "heads", "N", "N_k")
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            for j in b.grid("N_k", B_c, where=("blocks", i)):
                s = b.zeros("s", i, j)
                for x in b.tiles("d", B_d):
                    q, k = b.load("Q", h, i, x), b.load("K", h, j, x)
                    b.op("matmul_nt", s, q, k)
                    b.free(q, k)
                b.store(s, "S", h, i, j)
                b.free(s)
    scores_times_v(b, B_r, B_c)


def stream_rows(b: Any) -> None:
    """Keys stay and rows stream past: the mask's rows are tiles of keys; O is added up."""
    B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
    for h in b.grid("heads"):
        for i in b.grid("N", B_r):
            o = b.zeros("o", i, "d")
            b.store(o, "O", h, i, "d")
            b.free(o)
        for j in b.tiles("N_k", B_c):
            k = b.load("K", h, j, "d")
            for i in b.tiles("N", B_r, where=("by_keys", j)):
                q, o, s = b.load("Q", h, i, "d"), b.load("O", h, i, "d"), b.zeros("s", i, j)
                b.op("matmul_nt", s, q, k)
                b.op("matmul_nn", o, s, k)
                b.store(o, "O", h, i, "d")
                b.free(q, o, s)
            b.free(k)


def single_rows(b: Any) -> None:
    """A row of the mask for each row of Q, and a loop between; two masks in one program."""
    (B_c,) = b.tile_sizes("N_k", "B_c")
    (B_d,) = b.tile_sizes("d", "B_d")
    for h in b.grid("heads"):
        for i in b.grid("N"):
            q = b.load("Q", h, i, "d")
            for x in b.tiles("d", B_d):
                for j in b.tiles("N_k", B_c, where=("fine", i)):
                    b.free(b.load("K", h, j, x))
                for j in b.tiles("N_k", "N_k", where=("coarse", i)):
                    b.free(b.load("V", h, j, x))
            b.store(q, "O", h, i, "d")
            b.free(q)


def built(schedule: Any) -> Any:
    return iosim.build(schedule.__name__, BlockSparse, schedule)


PROGRAMS = {"block_sparse": PROGRAM} | {
    f.__name__: built(f) for f in (stream_keys, stream_rows, single_rows)
}
FORMULAS = {name: symbols.count(program) for name, program in PROGRAMS.items()}


def shapes(sizes: Any, tiles: Any) -> dict[str, tuple[int, int]]:
    """The shapes of all masks, by hand."""
    rows = -(-sizes["N"] // min(tiles["B_r"], sizes["N"]))
    columns = -(-sizes["N_k"] // min(tiles["B_c"], sizes["N_k"]))
    return {
        "blocks": (rows, columns),
        "by_keys": (columns, rows),
        "fine": (sizes["N"], columns),
        "coarse": (sizes["N"], 1),
    }


@st.composite
def cases(draw: Any) -> Any:
    name = draw(st.sampled_from(sorted(PROGRAMS)))
    problem = BlockSparse(
        *(draw(st.integers(1, 9)) for _ in range(2)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 2)),
    )
    tiles = {
        "B_r": draw(st.integers(1, 6)),
        "B_c": draw(st.integers(1, 6)),
        "B_d": draw(st.integers(1, 4)),
    }
    share, seed = draw(st.sampled_from([0, 0.15, 0.5, 0.9, 1])), draw(st.integers(0, 2**20))
    rng = np.random.default_rng(seed)
    masks = {x: rng.random(s) < share for x, s in shapes(problem.sizes, tiles).items()}
    return name, problem, tiles, masks


def only(name: str, tiles: Any, masks: Any) -> tuple[dict[str, int], dict[str, Any]]:
    """The tiles and the masks that a program has."""
    used = {"stream_rows": ["by_keys"], "single_rows": ["fine", "coarse"]}.get(name, ["blocks"])
    params = {p.name for p in PROGRAMS[name].params}
    return {k: v for k, v in tiles.items() if k in params}, {k: masks[k] for k in used}


@given(cases())
@examples(5 / 2)
def test_every_count_agrees_at_any_pattern(case: Any) -> None:
    """Machine, closed form, sympy, arrays, stream, and a walk over positions."""
    name, problem, tiles, masks = case
    tiles, masks = only(name, tiles, masks)
    _, top = agree(PROGRAMS[name], problem.sizes, tiles, FORMULAS[name], masks)
    instance = iosim.bind(PROGRAMS[name], problem.sizes, tiles, masks)
    held: list[tuple[int, tuple[str, ...], dict[str, tuple[int, int]]]] = []

    def record_moment(words: int, buffers: Any, at: Any) -> None:
        edges = {e for e in at if not isinstance(e, str)}
        where = {e.tile.var: [0, 0] for e in edges}
        for e in edges:
            where[e.tile.var][e.end == "stop"] = at[e]
        held.append((words, tuple(buffers), {k: (a, b) for k, (a, b) in where.items()}))

    by_walking(PROGRAMS[name], problem.sizes, tiles, record_moment, masks)
    found = peak_at(instance)
    assert found.words == top
    assert (top, found.buffers, found.tiles) in held


@examples(3 / 5)
@given(cases())
@example(("", BlockSparse(7, 5, 2), {"B_r": 3, "B_c": 2}, {"blocks": np.zeros((3, 3), bool)}))
def test_outputs_are_those_of_the_mask_spread_over_positions(case: Any) -> None:
    _, problem, tiles, masks = case
    tiles, masks = only("block_sparse", tiles, masks)
    instance = iosim.bind(PROGRAM, problem.sizes, tiles, masks)
    hbm = problem.random(seed=3)
    B_r, B_c = min(tiles["B_r"], problem.N), min(tiles["B_c"], problem.N_k)
    want = np.zeros((problem.heads, problem.N, problem.d))
    weights = np.exp(np.einsum("hid,hjd->hij", hbm["Q"], hbm["K"]))
    for i, j in np.ndindex(problem.N, problem.N_k):
        weights[:, i, j] *= masks["blocks"][i // B_r, j // B_c]
    some = weights.sum(axis=2) > 0
    want[some] = (np.einsum("hij,hjd->hid", weights, hbm["V"]))[some]
    want[some] /= weights.sum(axis=2)[some][:, None]
    for lanes in (1, 2**18):
        run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm, lanes=lanes)
        np.testing.assert_allclose(run.outputs["O"], want, rtol=1e-10, atol=1e-12)
    seen = problem.scores(masks["blocks"], B_r, B_c)
    np.testing.assert_allclose(problem.reference(hbm, seen)["O"], want, rtol=1e-10, atol=1e-12)


def by_hand(problem: BlockSparse, B_r: int, B_c: int, mask: Any) -> tuple[Any, int]:
    """Words and peak of the schedule, as sums over its tiles: no closed form."""
    moved: Counter[Any] = Counter()
    peak = 0
    for r, i in enumerate(range(0, problem.N, B_r)):
        rows = min(B_r, problem.N - i)
        own = rows * (2 * problem.d + 2)
        peak = max(peak, own)
        moved["load", "Q"] += rows * problem.d * problem.heads
        moved["store", "O"] += rows * problem.d * problem.heads
        for c, j in enumerate(range(0, problem.N_k, B_c)):
            if mask[r][c]:
                columns = min(B_c, problem.N_k - j)
                moved["load", "K"] += columns * problem.d * problem.heads
                moved["load", "V"] += columns * problem.d * problem.heads
                peak = max(peak, own + columns * (rows + problem.d))
    return moved, peak


def random_mask(rng: Any, problem: BlockSparse, B_r: int, B_c: int, share: float) -> Any:
    mask = rng.random((-(-problem.N // B_r), -(-problem.N_k // B_c))) < share
    mask[rng.integers(len(mask))] = False
    mask[:, rng.integers(mask.shape[1])] = False
    return mask


@pytest.mark.parametrize("share", [0, 0.01, 0.1, 0.6, 1])
def test_words_and_peak_are_sums_over_the_marked_tiles(share: float) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        problem = BlockSparse(*map(int, rng.integers(100, 1000, 2)), 16, 2)
        B_r, B_c = map(int, rng.integers(3, 100, 2))
        mask = random_mask(rng, problem, B_r, B_c, share)
        instance = iosim.bind(PROGRAM, problem.sizes, {"B_r": B_r, "B_c": B_c}, {"blocks": mask})
        moved, peak = by_hand(problem, B_r, B_c, mask)
        assert {k: v for k, v in iosim.count(instance) if v} == {
            k: v for k, v in moved.items() if v
        }
        assert iosim.peak(instance) == peak


def test_a_mask_that_marks_all_is_dense_attention() -> None:
    tiles = {"B_r": 5, "B_c": 7}
    dense = iosim.Attention(23, 4, 2, N_k=31)
    full = np.ones((5, 5), bool)
    instance = iosim.bind(PROGRAM, BlockSparse(23, 31, 4, 2).sizes, tiles, {"blocks": full})
    flash2 = iosim.bind(iosim.algorithm("flash2").program_for(dense), dense.sizes, tiles)
    assert iosim.count(instance) == iosim.count(flash2)
    assert iosim.peak(instance) == iosim.peak(flash2)


def test_counting_does_not_walk_the_tiles() -> None:
    """A mask of 10⁶ blocks; the formula needs four numbers of it."""
    problem = BlockSparse(2**20, 2**20, 64)
    mask = np.tri(1024, dtype=bool)
    tiles = {"B_r": 1024, "B_c": 1024}
    instance = iosim.bind(PROGRAM, problem.sizes, tiles, {"blocks": mask})
    assert iosim.count(instance)["load", "K"] == 1024 * 1025 // 2 * 1024 * 64
    assert instance.env["blocks_marked"] == 1024 * 1025 // 2


def test_the_agreement_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that forgets that the last tiles are short, or a mask read the other way round."""
    problem, tiles = BlockSparse(7, 5, 2), {"B_r": 3, "B_c": 3}
    mask = {"blocks": np.array([[1, 0], [1, 1], [0, 1]], bool)}
    agree(PROGRAM, problem.sizes, tiles, None, mask)
    with monkeypatch.context() as patch:
        whole = block_mask_sums._ways
        patch.setattr(
            block_mask_sums, "_ways", lambda a, s: {**whole(a, s), True: block_mask_sums.Poly()}
        )
        with pytest.raises(AssertionError):
            agree(
                iosim.build("fresh", BlockSparse, ALGORITHM.schedule),
                problem.sizes,
                tiles,
                None,
                mask,
            )
    square, other = BlockSparse(6, 5, 2), {"blocks": np.array([[1, 0], [1, 1]], bool)}
    agree(PROGRAM, square.sizes, tiles, None, other)
    at = BlockMask.marked
    monkeypatch.setattr(BlockMask, "marked", lambda self, r, c: at(self, c, r))
    with pytest.raises(AssertionError):
        agree(PROGRAM, square.sizes, tiles, None, other)


# -- what is refused --------------------------------------------------------------------------

SIZES, TILES = BlockSparse(10, 12, 2).sizes, {"B_r": 4, "B_c": 5}


@pytest.mark.parametrize(
    ("masks", "says"),
    [
        ({}, "needs the block mask blocks"),
        ({"blocks": np.ones((2, 2), bool)}, "is 2 × 2, and the tiles make 3 × 3"),
        ({"blocks": np.ones(3, bool)}, "is 3, and the tiles make 3 × 3"),
        ({"blocks": np.bool_(True)}, "is a single word, and the tiles make 3 × 3"),
        ({"blocks": np.ones((3, 3))}, "is of dtype float64: give a boolean array of 3 × 3"),
        ({"blocks": "yes"}, "is of dtype <U3: give a boolean"),
        ({"blocks": [[True], [True, False]]}, "block mask blocks has rows of unequal lengths"),
        ({"block": np.ones((3, 3), bool)}, "has no block mask 'block': did you mean 'blocks'"),
        ([1], "bind takes masks by name"),
    ],
)
def test_a_mask_that_does_not_fit_is_one_line(masks: Any, says: str) -> None:
    with pytest.raises(iosim.InputError) as error:
        iosim.bind(PROGRAM, SIZES, TILES, masks)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_program_without_masks_takes_none() -> None:
    flash2, problem = iosim.algorithm("flash2").program, iosim.Attention(8, 2)
    with pytest.raises(iosim.InputError, match="no block mask 'blocks': give none"):
        iosim.bind(flash2, problem.sizes, {"B_r": 2, "B_c": 2}, {"blocks": np.ones((4, 4), bool)})


def test_what_has_no_way_with_masks_says_so() -> None:
    problem = BlockSparse(10, 12, 2)
    instance = iosim.bind(PROGRAM, SIZES, TILES, {"blocks": np.ones((3, 3), bool)})
    with pytest.raises(iosim.InputError, match=r"block mask blocks marks.*no search can choose"):
        iosim.optimal_tiles(PROGRAM, problem, 100)
    with pytest.raises(iosim.InputError, match=r"block mask blocks marks.*no search can choose"):
        iosim.smallest_capacity(PROGRAM, problem)
    with pytest.raises(EmitError, match="a block mask skips tiles"):
        footprint_bytes(instance, "fp32")
    with pytest.raises(iosim.InputError, match=r"which scores are needed.*got nothing"):
        problem.reference(problem.random())
    with pytest.raises(iosim.InputError, match=r"got an array of shape \(3, 3\)"):
        problem.reference(problem.random(), np.ones((3, 3), bool))


def refused(schedule: Any) -> str:
    with pytest.raises(iosim.ProgramError) as error:
        iosim.build("bad", BlockSparse, schedule)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_marks_without_a_clear_meaning_are_refused() -> None:
    def loops(b: Any, inner: Any, **more: Any) -> None:
        B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
        for i in b.grid("N", B_r, *more.get("rows", ())):
            for j in b.tiles(
                "N_k", B_c, *more.get("columns", ()), where=more.get("where", ("m", i))
            ):
                inner(b, i, j, B_c)

    def nothing(*_: Any) -> None:
        pass

    def follows(b: Any, i: Any, j: Any, B_c: str) -> None:
        b.free(b.zeros("x", b.span("N", i.start)))

    def twice(b: Any, i: Any, j: Any, B_c: str) -> None:
        for _ in b.tiles("N_k", B_c, where=("other", i)):
            pass

    def another(b: Any) -> None:
        B_r, B_c = b.tile_sizes("N", "B_r", "B_s")
        for step in (B_r, B_c):
            for i in b.grid("N", step):
                for _ in b.tiles("N", B_r, where=("m", i)):
                    pass

    assert "runs where 'm'" in refused(lambda b: loops(b, nothing, where="m"))
    assert "'a b' is not a name" in refused(lambda b: loops(b, nothing, where=("a b", None)))
    assert "where m and None: give an open tile" in refused(
        lambda b: loops(b, nothing, where=("m", None))
    )
    assert "run over the whole axis" in refused(lambda b: loops(b, nothing, columns=(1,)))
    assert "run over the whole axis" in refused(lambda b: loops(b, nothing, rows=(0, 3)))
    assert "a span names i.start" in refused(lambda b: loops(b, follows))
    assert "both have a block mask" in refused(lambda b: loops(b, twice))
    assert "give each shape a mask of its own" in refused(another)

    class Named(BlockSparse):
        """An axis with a mask's number for a name."""

    def clash(b: Any) -> None:
        b.tile_sizes("N", "m_marked")
        loops(b, nothing)

    assert "m_marked, of a block mask, is the name of a size" in refused(clash)


def test_count_takes_a_mask_from_a_file(tmp_path: Any) -> None:
    """The words by formula and by the machine; what is wrong is one line and exit 2."""
    good, bad, text = (str(tmp_path / x) for x in ("good.npy", "bad.npy", "text.npy"))
    np.save(good, np.tri(3, dtype=bool))
    np.save(bad, np.ones((2, 3), bool))
    (tmp_path / "text.npy").write_text("no array")
    base = ["count", "block_sparse", "--N", "10", "--N-k", "12", "--d", "2", "--json"]
    tiles = ["--tiles", "B_r=4,B_c=5"]

    def run_command(*more: str) -> Any:
        command = [sys.executable, "-m", "iosim", *base, *more]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    for engine in ("formula", "simulate"):
        done = run_command("--M", "70", *tiles, "--mask", f"blocks={good}", "--engine", engine)
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["by_tensor"]["load"] == {"K": 54, "Q": 20, "V": 54}
    for words, says in (
        (["--M", "70", *tiles, "--mask", f"blocks={bad}"], "is 2 × 3, and the tiles make 3 × 3"),
        (["--M", "70", *tiles, "--mask", f"blocks={text}"], "it is not an array of NumPy"),
        (["--M", "70", *tiles, "--mask", f"blocks={text}x"], "No such file"),
        (["--M", "70", *tiles, "--mask", "blocks"], "names no file"),
        (["--M", "70", *tiles], "needs the block mask blocks"),
        (["--M", "70", "--mask", f"blocks={good}"], "no search can choose"),
        (["--M", "7", *tiles, "--mask", f"blocks={good}"], "use M >= 54"),
    ):
        done = run_command(*words)
        assert done.returncode == 2, done
        assert done.stderr.startswith("iosim: ")
        assert done.stderr.count("\n") == 1
        assert says in done.stderr
    with pytest.raises(iosim.InputError, match="flash2 takes no block mask: leave blocks out"):
        choose_tiles(iosim.algorithm("flash2"), iosim.Attention(8, 2), 100, "auto", {"blocks": 1})


def test_a_damaged_mask_is_one_line(tmp_path: Any) -> None:
    """Each byte of a header replaced in turn, files that are cut off or claim to be huge."""
    good, path = tmp_path / "good.npy", tmp_path / "mask.npy"
    np.save(good, np.tri(3, dtype=bool))
    whole = good.read_bytes()
    huge = whole.replace(b"(3, 3)", b"(9" + b"9" * 15 + b", 3)")
    several = tmp_path / "several.npz"
    np.savez(several, a=np.tri(3, dtype=bool))
    broken = [whole[:k] + x + whole[k + 1 :] for k in range(80) for x in (b"(", b'"', b"\xff", b"")]
    said = []
    for data in (*broken, whole[:60], whole[:-1], b"", huge, several.read_bytes()):
        path.write_bytes(data)
        try:
            (found,) = options.masks(f"blocks={path}").values()
        except iosim.InputError as error:
            said.append(str(error))
        else:
            said.append("")
            assert isinstance(found, np.ndarray)
    refused = f"can't read {path}: it is not an array of NumPy; save a mask with numpy.save()"
    assert {*said} == {"", refused}
    assert said[-5:] == [refused] * 5


# -- Proposition 4 ----------------------------------------------------------------------------


def marks(kind: str, rows: int, columns: int, share: float) -> Any:
    r, c = np.arange(rows)[:, None], np.arange(columns)
    if kind == "random":
        return np.random.default_rng(rows).random((rows, columns)) < share
    if kind == "banded":
        return np.abs(c / columns - r / rows) < share / 2
    return (r + c) % round(1 / share) == 0


@pytest.mark.parametrize("kind", ["random", "banded", "strided"])
@pytest.mark.parametrize(
    ("d", "N"), [(16, 2**14), (64, 2**14), pytest.param(64, 2**16, marks=pytest.mark.slow)]
)
def test_proposition_4_holds_with_its_constant_at_any_pattern(kind: str, d: int, N: int) -> None:
    """2Nd + 4N²d²s/M·(1 + 3/2d + rounding), and within that of the bound for these pairs."""
    for x in (4, 9, 25):
        for share in (1 / 2, 1 / 5, 1 / 16):
            M = x * d * d
            B_r = tallest(d, M, 1)
            mask = marks(kind, -(-N // B_r), N, share)
            found = sparsity(BlockSparse(N, N, d, 2), M, {"B_r": B_r, "B_c": 1}, mask)
            rounding = M / (2 * d * B_r) + B_r / N / share * (kind == "random") + 2 * B_r / N
            assert 4 <= found.constant <= 4 * rounding * (1 + 0.01)
            assert found.bound >= found.leading * (1 - 1e-9)
            words = found.constant / 4 * found.leading + 4 * N * d
            assert words == pytest.approx(found.words)
            assert found.words <= found.bound * rounding * 1.01 + 4 * N * d


@examples(3 / 5)
@given(cases(), st.integers(0, 60))
def test_words_are_never_below_the_bound(case: Any, more: int) -> None:
    """At any pattern, in little more memory than its blocks need; pairs are its scores."""
    _, problem, tiles, masks = case
    tiles, masks = only("block_sparse", tiles, masks)
    M = iosim.peak(iosim.bind(PROGRAM, problem.sizes, tiles, masks)) + more
    found = sparsity(problem, M, tiles, masks["blocks"])
    B_r, B_c = min(tiles["B_r"], problem.N), min(tiles["B_c"], problem.N_k)
    seen = problem.scores(masks["blocks"], B_r, B_c)
    assert found.pairs == problem.heads * seen.sum()
    assert found.words >= found.bound * (1 - 1e-12)


def test_a_pattern_that_does_not_fit_says_what_would() -> None:
    problem = BlockSparse(64, 64, 4)
    with pytest.raises(iosim.CapacityError, match="needs 176 words, M is 175: choose smaller"):
        sparsity(problem, 175, {"B_r": 8, "B_c": 8}, np.eye(8, dtype=bool))
    with pytest.raises(iosim.CapacityError, match="use M >= 27"):
        tallest(8, 26, 1)
    with pytest.raises(iosim.InputError, match="is 4 × 4, and the tiles make 8 × 8"):
        sparsity(problem, 999, {"B_r": 8, "B_c": 8}, np.eye(4, dtype=bool))


# -- values -----------------------------------------------------------------------------------


def test_instances_hash_compare_and_travel() -> None:
    rng = np.random.default_rng(0)
    mask = rng.random((3, 3)) < 0.5
    one, same = (iosim.bind(PROGRAM, SIZES, TILES, {"blocks": m}) for m in (mask, mask.copy()))
    other = iosim.bind(PROGRAM, SIZES, TILES, {"blocks": ~mask})
    again = iosim.bind(PROGRAM, SIZES, TILES, dict(one.masks))
    assert one == same == again == pickle.loads(pickle.dumps(one))
    assert len({one, same, again, other}) == 2
    mask[:] = True
    assert one == same
    held = dict(one.masks)["blocks"]
    assert not held.array.flags.writeable
    assert held.row_sums.sum() == one.env["blocks_marked"]


def test_the_mask_is_in_the_listing_and_in_the_canonical_form() -> None:
    assert "for j in N_k by B_c where blocks[i, j]:" in iosim.show(PROGRAM)

    def schedule(b: Any, name: str) -> None:
        B_r, B_c = b.tile_sizes("N", "B_r")[0], b.tile_sizes("N_k", "B_c")[0]
        for i in b.grid("N", B_r):
            for _ in b.tiles("N_k", B_c, **({"where": (name, i)} if name else {})):
                pass

    texts = {
        canonical(iosim.build("p", BlockSparse, lambda b, n=name: schedule(b, n)))
        for name in ("", "a", "b")
    }
    assert len(texts) == 3
    assert sum("marks" in text for text in texts) == 2


def test_a_problem_of_ones_own_may_have_masks() -> None:
    from dataclasses import dataclass

    from iosim.core.problem import BaseProblem, Tensor

    @dataclass(frozen=True)
    class Pieces(BaseProblem):
        """Y = X in some tiles."""

        side: int = axis("rows", letters="ij")
        kind = "pieces"
        inputs = (Tensor("X", ("side", "side")),)
        outputs = (Tensor("Y", ("side", "side")),)

    def schedule(b: Any) -> None:
        (B,) = b.tile_sizes("side", "B")
        for i in b.grid("side", B):
            for j in b.grid("side", B, where=("some", i)):
                x = b.load("X", i, j)
                b.store(x, "Y", i, j)
                b.free(x)

    program = iosim.build("pieces", Pieces, schedule)
    rng = np.random.default_rng(1)
    for side in range(1, 9):
        mask = {"some": rng.random((-(-side // 3) if side > 3 else 1,) * 2) < 0.5}
        agree(program, {"side": side}, {"B": 3}, symbols.count(program), mask)
