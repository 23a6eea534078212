"""Block-sparse attention with options: a causal mask, heads that share K and V, d_v beside d."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest
import walking
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from walking import agree

import iosim
from iosim.base.errors import InputError
from iosim.bounds import BOUNDS
from iosim.core.algorithms.block_sparse import ALGORITHM
from iosim.core.counting import symbols
from iosim.core.problem import BlockSparse, MarkedTiles
from iosim.gpu import emit, interpret
from iosim.gpu.emitter import layout
from iosim.report.sparsity import sparsity, tallest

pytestmark = [
    pytest.mark.numbers,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]


@st.composite
def cases(draw: Any) -> Any:
    """A problem with any options, tiles, and a mask with any share of marks."""
    groups, each = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["kv_heads"] = groups
    if draw(st.booleans()):
        options["d_v"] = draw(st.integers(1, 4))
    if draw(st.booleans()):
        options["causal"] = True
    sizes = draw(st.integers(1, 9)), draw(st.integers(1, 9)), draw(st.integers(1, 4))
    problem = BlockSparse(*sizes, groups * each, **options)
    tiles = {"B_r": draw(st.integers(1, 6)), "B_c": draw(st.integers(1, 6))}
    share, seed = draw(st.sampled_from([0, 0.2, 0.6, 1])), draw(st.integers(0, 2**20))
    shape = tuple(-(-n // min(B, n)) for n, B in zip(sizes, tiles.values(), strict=False))
    return problem, tiles, np.random.default_rng(seed).random(shape) < share


def sees(p: BlockSparse, tiles: dict[str, int], mask: Any, i: int, j: int) -> bool:
    """Whether row i sees key j, position by position."""
    if p.causal and j > i + p.N_k - p.N:
        return False
    return bool(mask[i // min(tiles["B_r"], p.N)][j // min(tiles["B_c"], p.N_k)])


def outputs(p: BlockSparse, tiles: dict[str, int], mask: Any, hbm: Any) -> Any:
    """O, one score after the other."""
    Q = hbm["Q"].reshape(p.heads, p.N, p.d)
    O = np.zeros((p.heads, p.N, p.values))
    for h, i in np.ndindex(p.heads, p.N):
        g = h // (p.heads // p.groups)
        seen = [j for j in range(p.N_k) if sees(p, tiles, mask, i, j)]
        weights = [np.exp(sum(Q[h, i] * hbm["K"][g, j])) for j in seen]
        for w, j in zip(weights, seen, strict=True):
            O[h, i] += w * hbm["V"][g, j] / sum(weights)
    return O


@given(cases())
@examples(6 / 5)
def test_every_count_and_output_agrees_with_any_options(case: Any) -> None:
    problem, tiles, mask = case
    program = ALGORITHM.program_for(problem)
    counts, top = agree(program, problem.sizes, tiles, symbols.count(program), {"blocks": mask})
    instance = iosim.bind(program, problem.sizes, tiles, {"blocks": mask})
    hbm = problem.random(seed=3)
    want = outputs(problem, tiles, mask, hbm)
    seen = problem.scores(mask, min(tiles["B_r"], problem.N), min(tiles["B_c"], problem.N_k))
    assert seen.tolist() == [
        [sees(problem, tiles, mask, i, j) for j in range(problem.N_k)] for i in range(problem.N)
    ]
    reference = problem.reference(hbm, seen)["O"]
    assert reference.shape[:-1] == hbm["Q"].shape[:-1]
    np.testing.assert_allclose(reference.reshape(want.shape), want, rtol=1e-9, atol=1e-12)
    for lanes in (1, 2**18):
        run = iosim.simulate(instance, iosim.Machine(top), hbm, lanes=lanes)
        assert run.counts == counts
        np.testing.assert_allclose(run.outputs["O"], reference, rtol=1e-9, atol=1e-12)


@examples(4 / 5)
@given(cases())
def test_words_are_sums_over_the_marked_tiles(case: Any) -> None:
    """A causal mask moves nothing less: the mask says which tiles are moved."""
    p, tiles, mask = case
    moved: Counter[Any] = Counter()
    B_r, B_c = min(tiles["B_r"], p.N), min(tiles["B_c"], p.N_k)
    for (r, i), _ in itertools.product(enumerate(range(0, p.N, B_r)), range(p.heads)):
        rows = min(B_r, p.N - i)
        moved["load", "Q"] += rows * p.d
        moved["store", "O"] += rows * p.values
        for c, j in enumerate(range(0, p.N_k, B_c)):
            if mask[r][c]:
                moved["load", "K"] += min(B_c, p.N_k - j) * p.d
                moved["load", "V"] += min(B_c, p.N_k - j) * p.values
    instance = iosim.bind(ALGORITHM.program_for(p), p.sizes, tiles, {"blocks": mask})
    assert {k: v for k, v in iosim.count(instance) if v} == {k: v for k, v in moved.items() if v}


@given(cases(), st.integers(0, 60))
@examples(6 / 5)
def test_words_are_never_below_the_bound_for_the_pairs_that_are_seen(case: Any, more: int) -> None:
    problem, tiles, mask = case
    instance = iosim.bind(ALGORITHM.program_for(problem), problem.sizes, tiles, {"blocks": mask})
    found = sparsity(problem, iosim.peak(instance) + more, tiles, mask)
    pairs = [
        (i, j)
        for i in range(problem.N)
        for j in range(problem.N_k)
        if sees(problem, tiles, mask, i, j)
    ]
    one = problem.visible(MarkedTiles.of(mask, **tiles))
    assert (one.pairs, one.rows, one.columns) == (
        len(pairs),
        len({i for i, _ in pairs}),
        len({j for _, j in pairs}),
    )
    assert found.pairs == problem.heads * len(pairs)
    assert found.words >= found.bound * (1 - 1e-12)
    (low,) = (b for b in BOUNDS.values() if b.problem == "block-sparse")
    assert low.words(problem, 100) == problem.heads * problem.N * problem.values <= found.words


def test_a_mask_that_marks_all_is_attention_with_these_options() -> None:
    tiles, full = {"B_r": 5, "B_c": 7}, {"blocks": np.ones((5, 5), bool)}
    for options in ({"d_v": 3}, {"kv_heads": 2}, {"kv_heads": 2, "d_v": 6, "causal": True}):
        problem = BlockSparse(23, 31, 4, 6, **options)
        same = iosim.Attention(23, 4, 6, N_k=31, **options)
        hbm = problem.random(seed=2)
        instance = iosim.bind(ALGORITHM.program_for(problem), problem.sizes, tiles, full)
        run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
        assert iosim.max_error(run.outputs, same.reference(hbm)) < 1e-12
        if "causal" not in options:
            flash2 = iosim.bind(iosim.algorithm("flash2").program_for(same), same.sizes, tiles)
            assert run.counts == iosim.count(flash2)
            assert run.peak_words == iosim.peak(flash2)


@pytest.mark.parametrize("options", [{}, {"d_v": 16}, {"kv_heads": 2}, {"causal": True}])
def test_proposition_4_holds_with_its_constant_under_options(options: Any) -> None:
    """Marks of which no row sees a key are left out; the diagonal cuts one tile in each row."""
    d, M, N, share = 64, 9 * 64**2, 8192, 1 / 4
    problem = BlockSparse(N, N, d, 4, **options)
    B_r = tallest(d, M, 1, problem.d_v)
    rows = np.arange(-(-N // B_r))
    mask = (np.arange(N) + rows[:, None]) % 4 == 0
    if problem.causal:
        mask &= np.arange(N) < np.minimum((rows[:, None] + 1) * B_r, N)
    found = sparsity(problem, M, {"B_r": B_r, "B_c": 1}, mask)
    share *= (1 + B_r / N) / 2 if problem.causal else 1
    assert mask.mean() == pytest.approx(share, rel=0.05)
    rounding = M / ((d + problem.values) * B_r) * (1 + 3 * B_r / N)
    assert 4 <= found.constant <= 4 * rounding * 1.01
    assert found.bound >= found.leading * (1 - 1e-9)


def test_heads_that_share_k_and_v_save_nothing_but_what_is_compulsory() -> None:
    mask, tiles = np.eye(8, dtype=bool), {"B_r": 8, "B_c": 8}
    alone, shared = (
        sparsity(BlockSparse(64, 64, 4, 4, kv_heads=x), 200, tiles, mask) for x in (4, 1)
    )
    assert alone.words == shared.words
    assert (alone.bound, shared.bound) == (4 * 1024, 4 * 512 + 512)


# -- kernels ----------------------------------------------------------------------------------

PROBLEMS = {
    "causal": BlockSparse(70, 45, 24, 3, causal=True),
    "later": BlockSparse(45, 70, 24, causal=True),
    "groups": BlockSparse(53, 61, 32, 4, kv_heads=2),
    "values": BlockSparse(64, 96, 16, 2, d_v=40),
    "all": BlockSparse(70, 90, 32, 4, kv_heads=2, d_v=16, causal=True),
}


@pytest.mark.parametrize("share", [0, 0.6, 1])
@pytest.mark.parametrize("tiles", [(16, 32), (32, 16), (20, 20)])
@pytest.mark.parametrize("name", PROBLEMS)
def test_kernels_with_options(name: str, tiles: tuple[int, int], share: float) -> None:
    problem, (B_r, B_c) = PROBLEMS[name], tiles
    shape = -(-problem.N // B_r), -(-problem.N_k // B_c)
    mask = np.random.default_rng(1).random(shape) < share
    at = {"B_r": B_r, "B_c": B_c}
    instance = iosim.bind(ALGORITHM.program_for(problem), problem.sizes, at, {"blocks": mask})
    hbm = problem.random(seed=1)
    outcome = interpret(emit(instance), hbm)
    want = problem.reference(hbm, problem.scores(mask, B_r, B_c))
    assert iosim.max_error({"O": outcome.outputs["O"]}, want) < 3e-6
    assert outcome.counts == iosim.count(instance)
    for dtype in ("fp16", "fp32"):
        found = {key: n for key, n in layout.sector_bytes(instance, dtype).items() if n}
        assert found == {k: n for k, n in walking.sectors(instance, dtype).items() if n}


# -- what is refused --------------------------------------------------------------------------


def test_sizes_that_do_not_go_together_are_one_line() -> None:
    with pytest.raises(InputError, match="kv_heads = 3 does not divide heads = 4: give a divisor"):
        BlockSparse(8, 8, 2, 4, kv_heads=3)
    with pytest.raises(InputError, match="d_v = 0 is outside 1"):
        BlockSparse(8, 8, 2, d_v=0)
    with pytest.raises(iosim.CapacityError, match="a row with B_c = 2 needs 38 words, M is 35"):
        tallest(4, 35, 2, 10)
    assert tallest(4, 38, 2, 10) == 1


def test_commands_take_the_options(tmp_path: Any) -> None:
    mask = str(tmp_path / "mask.npy")
    np.save(mask, np.tri(3, dtype=bool))
    base = ["--N", "10", "--N-k", "12", "--d", "2", "--heads", "4", "--tiles", "B_r=4,B_c=5"]

    def run_command(*words: str) -> Any:
        command = [sys.executable, "-m", "iosim", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    options = ["--kv-heads", "2", "--d-v", "3", "--causal"]
    for engine in ("formula", "simulate"):
        done = run_command(
            "count",
            "block_sparse",
            *base,
            *options,
            "--M",
            "90",
            "--json",
            "--engine",
            engine,
            "--mask",
            f"blocks={mask}",
        )
        assert done.returncode == 0, done
        assert json.loads(done.stdout)["by_tensor"] == {
            "load": {"K": 4 * 27 * 2, "Q": 4 * 10 * 2, "V": 4 * 27 * 3},
            "store": {"O": 4 * 10 * 3},
        }
    text = run_command("gpu", "emit", "block_sparse", *base, *options, "--mask", f"blocks={mask}")
    assert text.returncode == 0
    assert text.stdout.count("if tl.load(blocks_ptr") == 2  # whole tiles, and those that are cut
    assert "where blocks[i, j]" in run_command("show", "block_sparse", *options).stdout
    for words, says in (
        (["--kv-heads", "3"], "kv_heads = 3 does not divide heads = 4"),
        (["--window", "3,"], "block-sparse has no option --window, which is for attention"),
    ):
        done = run_command(
            "count", "block_sparse", *base, *words, "--M", "90", "--mask", f"blocks={mask}"
        )
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert says in done.stderr
