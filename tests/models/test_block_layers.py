"""Block masks of attention operators: against loops over pairs and tiles that share no code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from test_cli import iosim_, ok
from test_fusion_best import by_brute_force
from test_fusion_cli import bad

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.core.problem import Attention, AttentionBackward, BlockSparse, MarkedTiles
from iosim.models.fusion import Illegal, fused, kernel
from iosim.models.fusion.members import Members
from iosim.models.fusion.online import as_operator, recomputations
from iosim.models.hardware import machine
from iosim.models.layers.architectures import layer
from iosim.models.layers.backward import backward
from iosim.models.layers.blocks import Writer
from iosim.models.layers.files import load, parsed, to_json
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import moved
from iosim.models.layers.workload import workload
from iosim.models.operators import Operator, operand, operator
from iosim.models.roofline.single import attention
from iosim.models.roofline.work import works

pytestmark = pytest.mark.numbers

ROOT = Path(__file__).parents[2]
LOWER = np.tri(8, dtype=bool)


@st.composite
def cases(draw: Any) -> tuple[dict[str, int], bool, Any, int, int]:
    """Sizes, whether causal, a mask of any share of marks, and its tiles."""
    small = st.integers(1, 4)
    s = {"b": draw(st.integers(1, 2)), "g": draw(small), "r": draw(st.integers(1, 3))}
    s |= {"j": draw(st.integers(1, 9)), "k": draw(st.integers(1, 9)), "d": draw(small)}
    s["e"] = draw(small)
    B_r, B_c = draw(st.integers(1, 10)), draw(st.integers(1, 10))
    shape = -(-s["j"] // B_r), -(-s["k"] // B_c)
    share, seed = draw(st.sampled_from([0, 0.3, 0.7, 1])), draw(st.integers(0, 2**20))
    mask = np.random.default_rng(seed).random(shape) < share
    return s, draw(st.booleans()), mask, B_r, B_c


def attend(
    s: dict[str, int], marks: MarkedTiles, *, kept: bool = False, **settings: Any
) -> Operator:
    Q, K, V, O, L = (
        operand(*x, s)
        for x in (
            ("Q", "b g r j d"),
            ("K", "b g k d"),
            ("V", "b g k e"),
            ("O", "b g r j e"),
            ("L", "b g r j"),
        )
    )
    writes = [O, L] if kept else [O]
    return operator("one", "attention", [Q, K, V], writes, over="j k", blocks=marks, **settings)


@given(cases(), st.booleans())
def test_flop_and_words_are_those_of_a_loop_over_marked_tiles(case: Any, kept: bool) -> None:
    s, causal, mask, B_r, B_c = case
    op = attend(s, MarkedTiles.of(mask, B_r, B_c), kept=kept, causal=causal)
    flop, loads, stores = 0, {"Q": 0, "K": 0, "V": 0}, {"O": 0}
    for _ in range(s["b"] * s["g"] * s["r"]):
        for i in range(s["j"]):
            loads["Q"] += s["d"]
            stores["O"] += s["e"]
            for j in range(s["k"]):
                hidden = causal and j - i > s["k"] - s["j"]
                if mask[i // B_r][j // B_c] and not hidden:
                    flop += 2 * s["d"] + 2 * s["e"] + 1 + 4  # and a factor, and a softmax
        for row in mask.tolist():
            for at, mark in enumerate(row):
                length = len(range(s["k"])[at * B_c : (at + 1) * B_c])
                loads["K"] += length * s["d"] if mark else 0
                loads["V"] += length * s["e"] if mark else 0
    if kept:
        stores["L"] = s["b"] * s["g"] * s["r"] * s["j"]
    found = moved(op, 10_000)
    assert op.flop == flop
    assert found.loads == {x: n for x, n in loads.items() if n}
    assert found.stores == stores
    assert found.least is not None
    assert stores["O"] <= found.least <= found.words
    assert found.how.startswith("block_sparse, B_r = ")
    assert found.how == f"block_sparse, B_r = {min(B_r, s['j'])}, B_c = {min(B_c, s['k'])}"


@examples(1 / 2)
@given(cases())
def test_words_are_those_that_a_run_of_the_schedule_moves(case: Any) -> None:
    """On the two-level machine, which holds M words at most, with the operator's values."""
    s, causal, mask, B_r, B_c = case
    op = attend(s, MarkedTiles.of(mask, B_r, B_c), causal=causal)
    groups = s["b"] * s["g"]
    problem = BlockSparse(
        s["j"], s["k"], s["d"], groups * s["r"], d_v=s["e"], kv_heads=groups, causal=causal
    )
    program = iosim.algorithm("block_sparse").program_for(problem)
    instance = iosim.bind(program, problem.sizes, {"B_r": B_r, "B_c": B_c}, {"blocks": mask})
    M = iosim.peak(instance)
    hbm = problem.random(3)
    run = iosim.simulate(instance, iosim.Machine(M), hbm)
    found = moved(op, M)
    for tensor, n in found.loads.items():
        assert run.counts["load", tensor] == n
    assert run.counts["store", "O"] == found.stores["O"]
    assert run.counts.total_words == found.words
    (O,) = op(*(np.reshape(hbm[t.name], t.shape) for t in op.reads))
    np.testing.assert_allclose(O.reshape(run.outputs["O"].shape), run.outputs["O"], atol=1e-9)
    with pytest.raises(CapacityError, match=f"use M >= {M}"):
        moved(op, M - 1)


def test_flop_of_sizes_beyond_64_bits() -> None:
    for causal in (False, True):
        s = {"b": 1, "g": 1, "r": 1, "j": 2**33, "k": 2**33, "d": 1, "e": 1}
        op = attend(s, MarkedTiles.of([[True, False], [True, True]], 2**32, 2**32), causal=causal)
        half = 2**31 * (2**32 + 1)  # of a square of 2³² rows, on and below its diagonal
        assert op.flop == 9 * (2**64 + 2 * half if causal else 3 * 2**64)


# -- graphs: unfused, fused, and what may be one kernel --------------------------------------------

S = {"h": 2, "j": 6, "k": 6, "p": 3, "q": 2}
BAND = [[True, True, False], [False, True, True]]  # every row sees something
BANDS = MarkedTiles.of(BAND, 3, 2)


def scores(*between: tuple[str, str, dict[str, Any]], keeps: tuple[str, ...] = ("O",)) -> Graph:
    """QKᵀ, some operators, a softmax, and the product with V."""
    write = Writer(S)
    last = write("scores", "contraction", "Q[h j p], K[h k p] -> S[h j k]")
    for n, (name, kind, told) in enumerate(between):
        over = "" if kind == "scale" else told.pop("over", "j k")
        last = write(name, kind, f"{last}[h j k] -> S{n}[h j k]", over, **told)
    last = write("softmax", "softmax", f"{last}[h j k] -> P[h j k]", "k")
    write("sum", "contraction", f"{last}[h j k], V[h k q] -> O[h j q]")
    return Graph("attention", tuple(write.operators), frozenset(keeps))


def scale() -> tuple[str, str, dict[str, Any]]:
    return "scale", "scale", {"factor": 0.5}


def causal() -> tuple[str, str, dict[str, Any]]:
    return "mask", "causal", {}


def blocks(name: str = "block mask", **told: Any) -> tuple[str, str, dict[str, Any]]:
    return name, "block_mask", {"blocks": BANDS, **told}


@pytest.mark.parametrize("M", [60, 10_000])
@pytest.mark.parametrize("both", [False, True])
def test_a_block_mask_between_scores_and_softmax_is_attention(M: int, both: bool) -> None:
    graph = scores(scale(), *([causal()] if both else []), blocks())
    names = [op.name for op in graph.operators]
    found = kernel(graph, names, M)
    s = {"b": 1, "g": 2, "r": 1, "j": 6, "k": 6, "d": 3, "e": 2}
    want = moved(attend(s, BANDS, causal=both), M)
    assert found.crossing.loads == want.loads
    assert found.crossing.stores == want.stores
    assert found.crossing.least == want.least
    assert found.crossing.how == f"online softmax: {want.how}"
    (one,) = found.operators
    assert one == as_operator(Members.of(graph, names))
    rng = np.random.default_rng(1)
    values = graph.run({t.name: rng.standard_normal(t.shape) for t in graph.inputs})
    (O,) = one(*(values[t.name] for t in one.reads))
    # The first row of the second band of rows sees no key under both masks.
    seen = np.isfinite(values["O"])
    assert seen.all() or both
    np.testing.assert_allclose(O[seen], values["O"][seen], rtol=1e-9)


@pytest.mark.parametrize("M", [40, 80, 300, 5000])
def test_the_best_fusion_under_a_block_mask_is_the_best_of_every_partition(M: int) -> None:
    graph = scores(blocks())
    found = fused(graph, "best", M)
    assert (found.words, len(found.groups)) == by_brute_force(graph, M)


def test_what_is_fused_without_a_mask_is_fused_with_it() -> None:
    for model in ("gpt2", "bert-base", "llama3-8b", "mixtral-8x7b"):
        marks = MarkedTiles.of(np.tri(2, dtype=bool), 128, 128)
        plain, masked = (
            fused(layer(model, "prefill", batch=1, N=256, **told), "best", 31_457_280)
            for told in ({}, {"blocks": marks})
        )
        without = [[x for x in one.names if x != "block mask"] for one in masked.groups]
        assert [list(one.names) for one in plain.groups] == without
        (k,) = (k for k, one in enumerate(masked.groups) if "block mask" in one.names)
        assert {"scores", "softmax", "weighted sum"} <= {*masked.groups[k].names}
        assert "block_sparse" in masked.groups[k].crossing.how
        for at, (x, y) in enumerate(zip(plain.groups, masked.groups, strict=True)):
            assert at == k or x.crossing == y.crossing


def refused(graph: Graph) -> str:
    with pytest.raises(Illegal) as told:
        kernel(graph, [op.name for op in graph.operators], 10_000)
    return str(told.value)


def test_what_is_no_attention_under_a_block_mask() -> None:
    assert "second is a second block mask" in refused(scores(blocks(), blocks("second")))
    assert "hides along other axes" in refused(scores(blocks(over="h k", blocks=_of(2, 6))))
    assert "hides along other axes" in refused(scores(blocks(over="k j")))
    assert "hides along other axes" in refused(
        scores(causal(), blocks(over="h k", blocks=_of(2, 6)))
    )
    assert "S0 is read elsewhere, or kept" in refused(scores(blocks(), keeps=("O", "S0")))


def test_the_rows_of_a_block_mask_are_those_of_attention() -> None:
    """Also where more heads share the keys than there are rows."""
    write = Writer({"r": 9, "j": 6, "k": 6, "p": 3, "q": 2})
    write("scores", "contraction", "Q[r j p], K[k p] -> S[r j k]")
    write("mask", "block_mask", "S[r j k] -> T[r j k]", "j k", blocks=BANDS)
    write("softmax", "softmax", "T[r j k] -> P[r j k]", "k")
    write("sum", "contraction", "P[r j k], V[k q] -> O[r j q]")
    graph = Graph("shared", tuple(write.operators))
    found = kernel(graph, [op.name for op in graph.operators], 10_000)
    want = attend({"b": 1, "g": 1, "r": 9, "j": 6, "k": 6, "d": 3, "e": 2}, BANDS)
    assert found.crossing.loads == moved(want, 10_000).loads
    assert found.operators[0].flop == want.flop
    again = Writer(write.sizes, write.operators[:1], dict(write.known))
    again("mask", "causal", "S[r j k] -> T[r j k]", "j k")
    again("block mask", "block_mask", "T[r j k] -> U[r j k]", "r k", blocks=_of(9, 6))
    again("softmax", "softmax", "U[r j k] -> P[r j k]", "k")
    again("sum", "contraction", "P[r j k], V[k q] -> O[r j q]")
    says = refused(Graph("two kinds of rows", tuple(again.operators)))
    assert "block mask hides along other axes than the softmax" in says


def test_an_output_that_nobody_needs_is_in_no_bound() -> None:
    op = attend({"b": 1, "g": 2, "r": 1, "j": 6, "k": 6, "d": 3, "e": 2}, BANDS, kept=True)
    for keeps, least in ((("O", "L"), moved(op, 10_000).least), (("L",), None)):
        found = kernel(Graph("one", (op,), frozenset(keeps)), ["one"], 10_000)
        assert found.crossing.least == least
        assert {*found.crossing.stores} == {*keeps}


def _of(rows: int, columns: int) -> MarkedTiles:
    return MarkedTiles.of(np.ones((rows, columns), bool), 1, 1)


def test_no_kernel_gives_gradients_under_a_block_mask() -> None:
    """Their weights are stored; without the mask they are computed again."""
    for between, again in (((causal(),), 1), ((causal(), blocks()), 0)):
        graph = backward(scores(*between), ["O"], ["Q", "K", "V"])
        assert len([*recomputations(graph)]) == again
    with pytest.raises(InputError, match="attention: no schedule gives the gradients"):
        layer(
            "gpt2", "training", batch=1, N=64, attention="fused", blocks=MarkedTiles.of(LOWER, 8, 8)
        )
    with pytest.raises(InputError, match="no schedule gives the gradients"):
        attention(AttentionBackward(64, 4), blocks=MarkedTiles.of(LOWER, 8, 8))
    assert layer("gpt2", "training", batch=1, N=64, blocks=MarkedTiles.of(LOWER, 8, 8)).flop


def test_kernels_of_a_roofline() -> None:
    """The fp16 bytes of 16 heads by hand: 36 of 64 tiles of 128 × 128, d = 64."""
    h100 = machine("h100")
    marks = MarkedTiles.of(LOWER, 128, 128)
    (one,) = works(attention(Attention(1024, 64, 16), blocks=marks), h100)
    words = 16 * (2 * 1024 * 64 + 36 * 2 * 128 * 64)
    assert one.bytes == {"L2↔DRAM": 2 * words, "SM↔L2": 2 * words}
    assert one.products == 16 * 36 * 128 * 128 * 4 * 64
    assert one.others == 16 * 36 * 128 * 128 * 5
    assert {*one.least} == {"L2↔DRAM", "SM↔L2"}
    assert all(16 * 4 * 1024 * 64 <= n <= words for n in one.least.values())
    (plain,) = works(attention(Attention(1024, 64, 16)), h100)
    assert plain.least == {}
    step = workload("gpt2", "prefill", batch=1, N=1024, attention="fused", blocks=marks)
    (of_layer,) = (x for x in works(step.parts[1].graph, h100) if x.name == "attention")
    assert of_layer.bytes["L2↔DRAM"] == 2 * words * 12 // 16


# -- files -----------------------------------------------------------------------------------------

TEXT = (ROOT / "docs/examples/block_sparse.toml").read_text(encoding="utf-8")
ROWS = re.search(r"mask = \[.*?\]", TEXT, re.S)[0]  # type: ignore[index]


def write_graph(folder: Path, mask: str, **tiles: int) -> Path:
    path = folder / "mine.toml"
    text = TEXT.replace(ROWS, f"mask = {mask}")
    for name, size in tiles.items():
        text = text.replace(f"{name} = 128", f"{name} = {size}")
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_beside_the_graph_and_rows_in_it_are_one_mask(tmp_path: Path) -> None:
    graph = load(ROOT / "docs/examples/block_sparse.toml").graph
    mask = np.array([[x == "1" for x in row] for row in re.findall('"([01]+)"', ROWS)])
    assert mask.shape == (8, 8)
    assert graph.operators[0].setting("blocks") == MarkedTiles.of(mask, 128, 128)
    (tmp_path / "masks").mkdir()
    np.save(tmp_path / "masks" / "m.npy", mask)
    path = write_graph(tmp_path, '"masks/m.npy"')
    assert load(path).graph.operators == graph.operators
    assert parsed(to_json(graph)).graph == graph
    out = ok("graph", "mine.toml", "--as-file", cwd=tmp_path)
    assert parsed(out).graph.operators == graph.operators
    assert (
        load(write_graph(tmp_path, f'"{tmp_path}/masks/m.npy"')).graph.operators == graph.operators
    )
    assert parsed(TEXT.replace(ROWS, 'mask = "m.npy"'), folder=tmp_path / "masks").graph == graph


SAVED: dict[str, Any] = {
    "whole": np.ones((8, 8), int),
    "small": np.tri(7, dtype=bool),
    "flat": np.ones(64, bool),
    "one": np.bool_(True),
}


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        ('"none.npy"', r"can't read .*none\.npy: No such file or directory; save a mask with"),
        ('"text.npy"', r"can't read .*text\.npy: it is not an array of NumPy; save a mask with"),
        ('"."', r"it is not a file"),
        ('"whole.npy"', r"the block mask is 8 × 8 of dtype int64: give a matrix of booleans"),
        ('"flat.npy"', r"the block mask is 64 of dtype bool: give a matrix"),
        ('"one.npy"', r"the block mask is a single word of dtype bool: give a matrix"),
        (
            '"small.npy"',
            r"attention: the mask is an array of bool of shape \(7, 7\), and tiles of ",
        ),
        ("[]", "rows of a mask are texts of 0 and 1, equally long"),
        ('["10", "1"]', "rows of a mask are texts of 0 and 1"),
        ('["10", ""]', "rows of a mask are texts of 0 and 1"),
        ('["10", "1x"]', "rows of a mask are texts of 0 and 1"),
        ("[1, 0]", "rows of a mask are texts of 0 and 1"),
        ("5", "mask of blocks of operator attention must be a file, or a list of rows, got 5"),
    ],
)
def test_a_mask_that_is_none_is_one_line(tmp_path: Path, mask: str, says: str) -> None:
    for name, array in SAVED.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "text.npy").write_text("0 1\n")
    write_graph(tmp_path, mask)
    bad(iosim_("graph", "mine.toml", cwd=tmp_path), f"^iosim: mine.toml: .*{says}")


def test_other_settings_of_a_block_mask_that_are_wrong(tmp_path: Path) -> None:
    for old, new, says in (
        ("B_r = 128\n", "", "blocks of operator attention has no 'B_r': give it"),
        ("B_r = 128", "B_r = 0", "blocks of operator attention: B_r = 0 is outside 1"),
        ("B_r = 128", 'B_r = "128"', "B_r of blocks of operator attention must be an integer"),
        ("B_r = 128", "B_q = 128", "blocks of operator attention has an unknown key 'B_q': did"),
        ("factor = 0.125", "window = [1, 1]", "attention has a window and a block mask"),
        ("factor = 0.125", "causal = { mask = 1 }", "a setting is a table: no kind has one"),
    ):
        with pytest.raises(InputError) as told:
            parsed(TEXT.replace(old, new))
        assert str(told.value).startswith(says), says
        assert "\n" not in str(told.value)
    plain = TEXT[: TEXT.index("[operators.settings.blocks]")]
    for value in ("1", "true", '"mask.npy"'):
        with pytest.raises(InputError, match="blocks of operator attention must be a table"):
            parsed(plain + f"blocks = {value}")
    assert parsed(plain + 'blocks = "none"').graph.flop > parsed(TEXT).graph.flop
    gelu = TEXT.replace('"attention"\nreads = ["Q", "K", "V"]', '"gelu"\nreads = ["Q"]')
    with pytest.raises(InputError, match="has no setting 'blocks'"):
        parsed(gelu.replace('over = "j k"\n', "").replace("factor = 0.125\n", ""))


# -- commands --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "mask.npy", LOWER)
    for name, array in SAVED.items():
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "text.npy").write_text("0 1\n")
    return tmp_path


TILES = ("--tiles", "B_r=128,B_c=128")
MASK = ("--mask", "blocks=mask.npy", *TILES)
ONE = ("roofline", "attention", "--N", "1024", "--d", "64", "--heads", "16", "--machine", "h100")
MODEL = ("--model", "gpt2", "--phase", "prefill", "--N", "1024")


def test_roofline_and_fuse_take_a_mask(folder: Path) -> None:
    words = 16 * (2 * 1024 * 64 + 36 * 2 * 128 * 64)
    done = iosim_(*ONE, *MASK, "--json", cwd=folder)
    (row,) = json.loads(done.stdout)["operators"]
    assert row["dram_bytes"] == row["sm_l2_bytes"] == 2 * words
    assert row["how_dram"] == "block_sparse, B_r = 128, B_c = 128"
    plain = json.loads(ok(*ONE, "--json"))
    assert json.loads(done.stdout).keys() == plain.keys()
    assert row.keys() == plain["operators"][0].keys()
    assert re.search(
        r"note: attention: a schedule that makes each score once moves at least "
        r"[\d,]+ words at L2↔DRAM and [\d,]+ words at SM↔L2\n",
        done.stderr,
    )
    assert ", a block mask with 36 of 8 × 8 tiles of 128 × 128\n" in ok(*ONE, *MASK, cwd=folder)

    for way in ("unfused", "fused"):
        told = ("fuse", *MODEL, "--attention", way, *MASK, "--json")
        done = iosim_(*told, cwd=folder)
        found = json.loads(done.stdout)
        (group,) = (g for g in found["groups"] if "block_sparse" in g["schedule"])
        assert group["words_in"] + group["words_out"] == words * 12 // 16
        assert done.stderr.count(" moves at least ") == 1
        told = ("roofline", *MODEL, "--attention", way, "--fusion", "best", "--machine", "h200")
        done = iosim_(*told, *MASK, "--json", cwd=folder)
        (row,) = (
            r for r in json.loads(done.stdout)["operators"] if "block_sparse" in r["how_dram"]
        )
        assert row["dram_bytes"] == 12 * 2 * words * 12 // 16
        assert done.stderr.count(" moves at least ") == 1


def test_a_graph_with_a_mask_in_both_commands() -> None:
    pairs = 16 * 21 * 128 * 128  # 1 + 2 and 6 times 3 tiles
    words = 16 * (2 * 1024 * 64 + 21 * 2 * 128 * 64)
    graph = ("--graph", str(ROOT / "docs/examples/block_sparse.toml"))
    (row,) = json.loads(ok("roofline", *graph, "--machine", "h100", "--json"))["operators"]
    assert (row["flop"], row["dram_bytes"]) == (pairs * (4 * 64 + 5), 2 * words)
    (group,) = json.loads(ok("fuse", *graph, "--json"))["groups"]
    assert group["words_in"] + group["words_out"] == words


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*ONE, "--mask", "blocks=mask.npy"), "the tiles of a block mask are B_r and B_c: write "),
        (
            (*ONE, "--mask", "blocks=mask.npy", "--tiles", "B_r=128"),
            "are B_r and B_c: write --tiles",
        ),
        ((*ONE, "--mask", "blocks=mask.npy", "--tiles", "128,128"), "lacks names: write --tiles"),
        ((*ONE, *TILES), "--tiles are those of a block mask: give --mask blocks=FILE.npy too"),
        ((*ONE, "--mask", "mask.npy", *TILES), "names no file: give --mask blocks=FILE.npy"),
        ((*ONE, "--mask", "block=mask.npy", *TILES), "has no block mask 'block': did you mean"),
        ((*ONE, "--mask", "blocks=none.npy", *TILES), "can't read none.npy: No such file"),
        ((*ONE, "--mask", "blocks=text.npy", *TILES), "can't read text.npy: it is not an array"),
        ((*ONE, "--mask", "blocks=whole.npy", *TILES), "of dtype int64: give a matrix of booleans"),
        ((*ONE, "--mask", "blocks=small.npy", *TILES), r"need booleans of shape \(8, 8\)"),
        ((*ONE, "--window", "3,3", *MASK), "a window and a block mask: leave out one"),
        ((*ONE, "--schedule", "flash2", *MASK), "flash2 solves attention, not block-sparse"),
        (
            ("roofline", "attention-backward", *ONE[2:], *MASK),
            "no schedule gives the gradients of attention under a block mask",
        ),
        (
            ("roofline", "softmax", "--m", "8", "--n", "8", "--machine", "h100", *MASK),
            "--mask does not apply to softmax",
        ),
        (
            ("roofline", "--graph", "mine.toml", "--machine", "h100", *MASK),
            "--mask does not apply to a graph",
        ),
        (
            (*ONE[:3], "8192", *ONE[4:], *MASK[:2], "--tiles", "B_r=1024,B_c=1024"),
            "needs 1247232 words with these tiles and this mask, and M is 116736: use M >= 1247232",
        ),
        (("fuse", "--graph", "mine.toml", *MASK), "a graph's file has masks of its own"),
        (("fuse", "chain", "--length", "2", "--words", "4", *MASK), "--mask is of a model"),
        (
            ("fuse", *MODEL[:2], "--phase", "decode", "--N", "1024", *MASK),
            r"block mask: the mask .* need booleans of shape \(1, 8\)",
        ),
        (
            ("fuse", *MODEL[:2], "--phase", "training", *MODEL[4:], "--attention", "fused", *MASK),
            "attention: no schedule gives the gradients",
        ),
    ],
)
def test_a_mask_that_makes_no_sense_is_one_line(
    folder: Path, words: tuple[str, ...], says: str
) -> None:
    write_graph(folder, '"mask.npy"')
    bad(iosim_(*words, cwd=folder), says)
