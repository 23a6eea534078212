"""Kernels for Hopper: outputs, words and bytes on a machine in NumPy, and that they compile."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import types

import gluon_machine
import numpy as np
import pytest
from gluon_machine import bound, ran, relative_error

import iosim
from iosim.core.algorithms._passes import finish, heads, statistics
from iosim.core.program.ops import OPS
from iosim.gpu import emit, interpret
from iosim.gpu.emitter import hopper
from iosim.gpu.emitter.bulk import bulk_bytes
from iosim.gpu.emitter.steps import Factor, Rotation, TileProduct, ValueStep, rotation
from iosim.gpu.errors import EmitError
from iosim.gpu.run.job import Job

CASES = [
    (iosim.Attention(N=256, d=16, heads=2), {"B_r": 128, "B_c": 32}),
    (iosim.Attention(N=100, d=16), {"B_r": 64, "B_c": 32}),
    (iosim.Attention(N=200, d=24), {"B_r": 192, "B_c": 64}),
    (iosim.Attention(N=40, d=16), {"B_r": 40, "B_c": 16}),
    (iosim.Attention(N=200, d=16, causal=True), {"B_r": 64, "B_c": 64}),
    (iosim.Attention(N=256, d=16, heads=3, causal=True), {"B_r": 192, "B_c": 64}),
    (iosim.Attention(N=200, d=16, window=(40, 8)), {"B_r": 64, "B_c": 32}),
    (
        iosim.Attention(N=200, d=16, causal=True, window=(50, None), sinks=16),
        {"B_r": 64, "B_c": 32},
    ),
    (iosim.Attention(N=100, d=16, N_k=160, d_v=32, causal=True), {"B_r": 64, "B_c": 32}),
    (iosim.Attention(N=160, d=16, N_k=64, causal=True), {"B_r": 64, "B_c": 32}),
    (iosim.Attention(N=100, d=16, heads=4, kv_heads=2, causal=True), {"B_r": 64, "B_c": 32}),
]


@pytest.mark.parametrize(("problem", "tiles"), CASES)
def test_attention_is_right_and_moves_the_words_of_the_model(problem, tiles):
    instance, words, moved = ran(problem, tiles)
    assert words == dict(iosim.count(instance))
    assert {k: n for k, n in moved.items() if k[0] == "load"} == {
        k: n for k, n in bulk_bytes(instance, "fp16").items() if k[0] == "load"
    }


STYLES = ["waits-first", "persistent", "waits-first,persistent"]


@pytest.mark.numbers
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("problem", "tiles"), CASES)
def test_every_style_moves_the_same(problem, tiles, style, monkeypatch):
    """Of persistent kernels with two programs, which take the items in turn."""
    monkeypatch.setattr(hopper, "PROGRAMS", 2)
    instance, words, moved = ran(problem, tiles, style=style)
    assert words == dict(iosim.count(instance))
    assert {k: n for k, n in moved.items() if k[0] == "load"} == {
        k: n for k, n in bulk_bytes(instance, "fp16").items() if k[0] == "load"
    }
    kernel = emit(instance, target="hopper", style=style).kernels[0]
    plain = emit(instance, target="hopper").kernels[0]
    assert kernel.items == plain.items == plain.grid
    assert kernel.grid <= (4 if "persistent" in style else plain.grid)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_every_style_keeps_tiles_until_they_are_read(stages, style, monkeypatch):
    monkeypatch.setattr(hopper, "PROGRAMS", 1)
    problem = iosim.algorithm("matmul").problem(m=200, n=48, k=112)
    tiles = {"B_m": 128, "B_n": 16, "B_k": 16}
    _, words, _ = ran(problem, tiles, "matmul", stages=stages, style=style)
    assert words == dict(iosim.count(bound(problem, tiles, "matmul")))
    many = iosim.Attention(N=230, d=16, heads=2, causal=True)
    ran(many, {"B_r": 128, "B_c": 32}, stages=stages, style=style)


def test_waits_come_first_where_they_are_asked_to():
    """In the loop: both tiles are there before the first product is issued."""
    problem = iosim.Attention(N=512, d=16)
    instance = bound(problem, {"B_r": 128, "B_c": 32})
    order = {}
    for style in ("", "waits-first"):
        text = emit(instance, target="hopper", style=style).source
        body = text[text.index("for j in range(32, ") :]
        order[style] = [body.index(x) for x in ("wait(k_full", "s_run =", "wait(v_full", "o_run =")]
    assert order[""] == sorted(order[""])
    k, s, v, o = order["waits-first"]
    assert k < v < s < o


def test_styles_that_are_none_are_refused():
    instance = bound(iosim.Attention(N=128, d=64), {"B_r": 64, "B_c": 64})
    with pytest.raises(iosim.InputError, match="did you mean 'persistent'"):
        emit(instance, target="hopper", style="persistant")
    with pytest.raises(iosim.InputError, match="of target triton: it has none"):
        emit(instance, style="persistent")


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_product_keeps_tiles_until_it_has_read_them(stages):
    problem = iosim.algorithm("matmul").problem(m=100, n=48, k=112)
    instance, words, moved = ran(
        problem, {"B_m": 64, "B_n": 16, "B_k": 16}, "matmul", stages=stages
    )
    assert words == dict(iosim.count(instance))
    assert moved["load", "A"] == bulk_bytes(instance, "fp16")["load", "A"]
    ran(iosim.Attention(N=160, d=16), {"B_r": 64, "B_c": 32}, stages=stages)


def test_a_tile_of_two_products_is_given_back_after_the_second():
    """Keys that are their own values: each tile is read by QKᵀ, and later by the sum of weights."""

    def keys_alone(b):
        B_r, B_c = b.tile_sizes("N", "B_r", "B_c")
        for h in heads(b):
            for i in b.grid("N", B_r):
                q = b.load("Q", *h.q, i, "d")
                o, m, l = statistics(b, i, "d")
                for j in b.tiles("N", B_c):
                    k, s = b.load("K", *h.k, j, "d"), b.zeros("s", i, j)
                    b.op("matmul_nt", s, q, k)
                    b.op("online_softmax", o, m, l, s, k)
                    b.free(k, s)
                finish(b, h, i, o, m, l)
                b.free(q, o, m, l)

    problem = iosim.Attention(N=160, d=16)
    program = iosim.build("keys_alone", iosim.Attention, keys_alone)
    instance = iosim.bind(program, problem.sizes, {"B_r": 64, "B_c": 32})
    tensors = {x: v.astype(np.float16).astype(np.float32) for x, v in problem.random().items()}
    exact = {x: v.astype(np.float64) for x, v in tensors.items()}
    tensors["O"] = np.full((1, 160, 16), np.nan, np.float32)
    words, _ = gluon_machine.run(emit(instance, target="hopper"), tensors)
    assert words == dict(iosim.count(instance))
    assert relative_error(tensors["O"], problem.reference(exact | {"V": exact["K"]})["O"]) < 2e-3


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (r"(?m)^ +mbarrier\.wait\(v_full.*$", ""),  # V is used before it came
        (  # V is given back before it was read
            r"(?m)^( +o = warpgroup_mma_wait\(0.*)\n( +mbarrier\.arrive\(v_free.*before.*)$",
            r"\2\n\1",
        ),
        (r"(?m)^ +mbarrier\.arrive\(v_free.*$", ""),  # nobody gives V back
        (r"warpgroup_mma_wait\(1", "warpgroup_mma_wait(2"),  # S is used before it is there
        (r"first \+ gl\.arange", "gl.arange"),  # a mask that forgets which rows it is on
    ],
)
def test_the_machine_sees_what_is_wrong(pattern, new):
    problem = iosim.Attention(N=192, d=16, causal=True)
    _sees(emit(bound(problem, {"B_r": 128, "B_c": 32}), target="hopper"), problem, pattern, new)


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        (r"(?m)^ +mbarrier\.wait\(q_free.*$", ""),  # the next Q comes while this one is used
        (r"(?m)^ +mbarrier\.arrive\(q_free.*$", ""),  # nobody gives Q back
        (r"mbarrier\.wait\(q_full, visit % 2\)", "mbarrier.wait(q_full, 0)"),  # Q of before
        (r"(?m)^        turn_j \+= 1$", ""),  # places in the ring begin again
        (r"(?m)^ +mbarrier\.wait\(v_full.*$", ""),
    ],
)
def test_the_machine_sees_what_is_wrong_from_item_to_item(pattern, new, monkeypatch):
    monkeypatch.setattr(hopper, "PROGRAMS", 1)
    problem = iosim.Attention(N=192, d=16, heads=4, causal=True)
    instance = bound(problem, {"B_r": 128, "B_c": 32})
    _sees(emit(instance, target="hopper", style="persistent"), problem, pattern, new)


def _sees(emitted, problem, pattern, new):
    """The kernels fail where their text is changed."""
    source, changed = re.subn(pattern, new, emitted.source)
    assert changed
    tensors = {x: v.astype(np.float32) for x, v in problem.random().items()}
    want = problem.reference({x: v.astype(np.float64) for x, v in tensors.items()})["O"]
    tensors["O"] = np.full((problem.heads, 192, 16), np.nan, np.float32)
    wrong = type(emitted)(emitted.instance, source, emitted.kernels)
    for seed in range(20):  # of the orders in which warps may run, not each shows it
        try:
            gluon_machine.run(wrong, tensors, 100 * seed)
        except AssertionError:
            return
        if not relative_error(tensors["O"], want) < 2e-3:
            return
    raise AssertionError("nothing was seen")


def test_heads_are_taken_in_groups_whose_keys_stay_near_and_long_rows_start_first():
    """Every pair of head and rows once; in each group of heads the rows never get longer."""
    problem = iosim.Attention(N=4096, d=64, heads=24, causal=True)
    text = emit(bound(problem, {"B_r": 128, "B_c": 128}), target="hopper").source
    h, i = (re.search(rf"^    {x} = (.*)$", text, re.MULTILINE)[1] for x in "hi")
    found = [tuple(eval(x, {"item": item}) for x in (h, i)) for item in range(24 * 32)]
    assert sorted(found) == [(x, 128 * k) for x in range(24) for k in range(32)]
    groups = [found[k : k + 12 * 32] for k in (0, 12 * 32)]  # 12 heads: 6.3 million words
    for group in groups:
        assert len({x for x, _ in group}) == 12
        assert [rows for _, rows in group] == sorted((r for _, r in group), reverse=True)


def test_a_product_is_left_to_the_next_iteration_only_where_nothing_needs_it():
    def step(writes, reads="", product=False):
        made = TileProduct(writes, "", Factor("a", True), Factor("b", True)) if product else None
        return ValueStep("" if product else "x", frozenset(reads), writes, made)

    s, o = step("s", "s", True), step("o", "os", True)
    scale, soft = step("o", "o"), step("s", "s")
    assert rotation([s, soft, scale, o]) == Rotation(lead=0, late=3, wait=2)
    assert rotation([s, soft, o]) == Rotation(lead=0, late=2, wait=2)
    assert rotation([s, soft, o, scale]) is None  # the same iteration divides by it
    assert rotation([scale, s, soft, o]) is None  # nothing runs before it is needed
    assert rotation([s, s, o]) is None or rotation([s, s, o]).wait == 2
    assert rotation([o]) is None


@pytest.mark.parametrize(
    ("name", "problem", "tiles", "says"),
    [
        ("flash1", iosim.Attention(N=128, d=16), {"B_r": 64, "B_c": 64}, "not a grid of rows"),
        ("flash2", iosim.Attention(N=512, d=16), {"B_r": 256, "B_c": 64}, "256 rows in a tile"),
        ("flash2", iosim.Attention(N=512, d=16), {"B_r": 96, "B_c": 64}, "96 rows in a tile"),
        ("flash2", iosim.Attention(N=512, d=16), {"B_r": 64, "B_c": 48}, "no power of two"),
        ("flash2", iosim.Attention(N=512, d=512), {"B_r": 64, "B_c": 64}, "512 columns"),
        ("flash2", iosim.Attention(N=512, d=256), {"B_r": 128, "B_c": 256}, "shared memory"),
    ],
)
def test_what_warps_cannot_share_is_refused_in_one_line(name, problem, tiles, says):
    with pytest.raises(EmitError, match=says) as error:
        emit(bound(problem, tiles, name), target="hopper")
    assert "\n" not in str(error.value)
    assert "plain target" in str(error.value)


def test_targets_that_are_none_and_words_that_have_no_form_are_refused():
    problem, tiles = iosim.Attention(N=128, d=64), {"B_r": 64, "B_c": 64}
    instance = bound(problem, tiles)
    with pytest.raises(iosim.InputError, match="did you mean 'hopper'"):
        emit(instance, target="hoper")
    with pytest.raises(EmitError, match="no lockstep and no clock"):
        emit(instance, target="hopper", clock=True)
    with pytest.raises(EmitError, match="fp32 has no form"):
        Job.of("flash2", problem, tiles, dtype="fp32", target="hopper").emitted()


SCRIPT = """
import json, re, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from iosim.gpu.run.job import Job
from iosim.core.program.ops import OPS
from iosim.gpu.run.launch import load_kernels
from triton.experimental.gluon.language import NVMMASharedLayout

for line in sys.stdin:
    emitted = Job(**json.loads(line)).emitted()
    (kernel,) = emitted.kernels
    function = load_kernels(emitted)[kernel.name]
    signature = {}
    for name, box in zip(function.arg_names, kernel.boxes):
        layout = NVMMASharedLayout(min(128, 2 * box.sides[-1]), 16, len(box.sides))
        signature[name] = f"tensordesc<fp16{list(box.sides)},{layout!r}>"
    signature |= {"words_ptr": "*i64", "COUNT": "constexpr"}
    source = GluonASTSource(function, signature, {"COUNT": False}, {})
    done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    ptx = done.asm["ptx"]
    waits = re.findall(r"wgmma.wait_group.sync.aligned (\\d)", ptx)
    moves = re.findall(r"\\b(?:ld|st|red|atom)\\.global", ptx)
    print(json.dumps([done.metadata.shared, waits, moves, ptx.count("cp.async.bulk.tensor")]))
"""


def test_kernels_for_hopper_compile_and_move_nothing_but_boxes():
    problem = iosim.Attention(N=1001, d=64, causal=True)
    jobs = [
        Job.of("flash2", problem, {"B_r": 128, "B_c": 128}, target="hopper", style=style)
        for style in ("", STYLES[-1])
    ]
    lines = "\n".join(json.dumps(job.as_dict()) for job in jobs)
    space = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    space["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=lines, capture_output=True, text=True, env=space
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(jobs)
    for shared, waits, moves, copies in found:
        assert shared <= 227 * 1024
        assert "1" in waits  # a product is left running while the next scores are waited for
        assert not moves
        assert copies >= 4


def test_the_interpreter_says_what_it_has_no_form_for():
    problem = iosim.Attention(N=128, d=64)
    emitted = emit(bound(problem, {"B_r": 64, "B_c": 64}), target="hopper")
    with pytest.raises(iosim.IosimError, match="emit it for the plain target"):
        interpret(emitted, problem.random(), "fp16")


class Operand:
    """What a template says of an operand: here, NumPy's names."""

    shape = layout = "None"

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


@pytest.mark.parametrize("name", [name for name, spec in OPS.items() if spec.gluon is not None])
def test_gluon_text_says_what_numpy_does(name):
    spec, normal = OPS[name], np.random.default_rng(0).standard_normal
    letters = spec.names
    sizes = dict(zip("ijx", (5, 7, 3), strict=True))
    own = {
        x: normal([sizes[c] for c in ("ij" if at == "*" else at)])
        for x, at in zip(letters, spec.dims, strict=True)
    }
    if "l" in own:
        own["l"] = np.abs(own["l"]) + 1
    scalars = dict.fromkeys(spec.scalars, 1)
    want = spec.numpy(**own, **scalars)
    like = next(iter(own.values()))
    gl = types.SimpleNamespace(
        maximum=np.maximum,
        exp2=np.exp2,
        where=np.where,
        float32=None,
        zeros=lambda shape, dtype, layout: np.zeros_like(like),
        full=lambda shape, value, dtype, layout: np.full_like(like, value),
    )
    space = {
        "gl": gl,
        "LOG2E": np.log2(np.e),
        "first": 0,
        "by_row": lambda x, like: x[:, None],
        "row_max": lambda x: x.max(1),
        "row_sum": lambda x: x.sum(1),
        "columns": lambda x: np.arange(x.shape[1]),
        "rows": lambda x, first: first + np.arange(x.shape[0])[:, None],
        **own,
    }
    text = spec.gluon.format(**{x: Operand(x) for x in letters}, **scalars)
    with np.errstate(invalid="ignore"):
        exec(text, space)
    for k, value in zip(spec.writes, want, strict=True):
        assert np.allclose(space[letters[k]], value)


def test_programs_that_are_drawn_are_right():
    """Lengths, heads, masks and tiles at random; each also moves the boxes of the model."""
    draw = random.Random(5)
    for _ in range(8):
        options = {"causal": True, "N_k": draw.randrange(1, 250)} if draw.random() < 0.7 else {}
        if options and draw.random() < 0.6:
            options |= {"window": (draw.randrange(90), None), "sinks": draw.randrange(1, 40)}
        problem = iosim.Attention(N=draw.randrange(1, 250), d=draw.choice([16, 24]), **options)
        tiles = {"B_r": draw.choice([64, 128, 192]), "B_c": draw.choice([16, 32, 64])}
        test_attention_is_right_and_moves_the_words_of_the_model(problem, tiles)
