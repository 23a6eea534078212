"""The emitted kernels, run in Triton's interpreter: right outputs, and the model's words exactly.

Nothing here may be skipped: where Triton is missing these tests fail.
"""

from __future__ import annotations

import numpy as np
import pytest
from strategies import plain_algorithms

import iosim
from iosim.core.program.ops import OPS
from iosim.core.tiling.gpu import gpu_tiles
from iosim.gpu.emitter.kernels import Lockstep, emit
from iosim.gpu.run.interpreter import InterpreterError, from_bf16, interpret, to_bf16

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

TOLERANCE = {"fp32": 3e-6, "fp16": 4e-3, "bf16": 4e-2}

ATTENTION = {
    "naive": [
        {
            "B_r1": 32,
            "B_c1": 16,
            "B_d1": 16,
            "W1": 0,
            "B_r2": 16,
            "B_c2": 32,
            "W2": 0,
            "B_r3": 16,
            "B_c3": 32,
            "B_d3": 16,
        },
        {
            "B_r1": 16,
            "B_c1": 32,
            "B_d1": 128,
            "W1": 128,
            "B_r2": 16,
            "B_c2": 16,
            "W2": 4096,
            "B_r3": 32,
            "B_c3": 16,
            "B_d3": 64,
        },
    ],
    "flash1": [{"B_r": 32, "B_c": 16}, {"B_r": 16, "B_c": 64}],
    "flash2": [{"B_r": 32, "B_c": 16}, {"B_r": 16, "B_c": 64}],
    "small_cache": [
        {"B_r1": 32, "B_c1": 16, "B_d1": 16, "W1": 0, "B_r2": 16, "B_c2": 32, "B_d2": 16},
        {"B_r1": 16, "B_c1": 32, "B_d1": 128, "W1": 128, "B_r2": 32, "B_c2": 16, "B_d2": 128},
    ],
    "flash2_chunked": [{"B_d": 16, "B_r": 32, "B_c": 16}, {"B_d": 64, "B_r": 16, "B_c": 32}],
    "spill_rows": [
        {"B_r1": 16, "B_c1": 32, "B_d1": 16, "W1": 128, "B_d2": 16, "B_r2": 16, "B_c2": 32},
        {"B_r1": 32, "B_c1": 16, "B_d1": 16, "W1": 0, "B_d2": 32, "B_r2": 32, "B_c2": 16},
    ],
}

# (N, d, heads): whole tiles; ragged in sectors; ragged to the word, in both axes; below one tile.
SIZES = [(64, 32, 1), (40, 32, 1), (37, 24, 2), (7, 16, 1)]

CASES = [
    *(
        (name, iosim.Attention(*size), tiles)
        for name, choices in ATTENTION.items()
        for tiles in choices
        for size in SIZES
    ),
    *(
        ("matmul", iosim.MatMul(*size), {"B_m": 16, "B_n": 32, "B_k": 16})
        for size in [(32, 64, 48), (33, 70, 19)]
    ),
    *(("copy", iosim.Copy(n), {"B": 32}) for n in (64, 77)),
]


def _check(name, problem, tiles, dtype, lockstep=None):
    program = iosim.algorithm(name).program
    instance = iosim.bind(program, problem.sizes, tiles)
    inputs = problem.random(seed=3)
    outcome = interpret(emit(instance, lockstep), inputs, dtype)
    got = {t.name: outcome.outputs[t.name] for t in problem.outputs}
    assert iosim.max_error(got, problem.reference(inputs)) < TOLERANCE[dtype]
    assert outcome.counts == iosim.count(instance)


@pytest.mark.numbers
@pytest.mark.parametrize(("name", "problem", "tiles"), CASES, ids=lambda x: str(x)[:40])
def test_every_algorithm_agrees_with_reference_and_model(name, problem, tiles):
    _check(name, problem, tiles, "fp32")


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
@pytest.mark.parametrize("name", dict.fromkeys(name for name, _, _ in CASES))
def test_narrow_types(name, dtype):
    # The second size of each algorithm's first tiling: ragged, and a whole row of heads.
    problem, tiles = next((p, t) for n, p, t in CASES[1:] if n == name)
    _check(name, problem, tiles, dtype)


@pytest.mark.numbers
@pytest.mark.parametrize("share", [1.0, 2.0, 9.0])
@pytest.mark.parametrize("name", [a.name for a in plain_algorithms()])
def test_the_tiles_that_a_capacity_gives(name, share):
    """Whatever is registered runs with the tiles that the search chooses, from the least M on."""
    entry = iosim.algorithm(name)
    problem = entry.problem.beside_attention(40, 24, 1)  # ragged along both axes
    least = iosim.smallest_capacity(entry.program, problem, lattice="pow2")
    tiles = gpu_tiles(entry.program, problem, int(least * share)).tiles
    _check(name, problem, tiles, "fp32")


@pytest.mark.parametrize("name", OPS)
def test_every_operation_means_the_same_in_triton_and_numpy(name):
    """One ragged tile of every operand, through the template and through NumPy."""
    spec = OPS[name]
    letters = ["ix" if text == "*" else text for text in spec.dims]
    axis = {"i": "N", "j": "N", "x": "d"}

    def schedule(b):
        (R, C), (D,) = b.tile_sizes("N", "R", "C"), b.tile_sizes("d", "D")
        for k, dims in enumerate(letters):
            for tensor in (f"T{k}", f"R{k}"):
                b.scratch(tensor, *(axis[x] for x in dims), wide=True)
        for i in b.tiles("N", R):
            for j in b.tiles("N", C):
                for x in b.tiles("d", D):
                    tile = {"i": i, "j": j, "x": x}
                    operands = [
                        b.load(f"T{k}", *(tile[y] for y in dims), name=f"b{k}")
                        for k, dims in enumerate(letters)
                    ]
                    b.op(name, *operands, **dict.fromkeys(spec.scalars, i.start - j.start + 3))
                    for k in spec.writes:
                        b.store(operands[k], f"R{k}", *(tile[y] for y in letters[k]))
                    b.free(*operands)

    program = iosim.build("one", iosim.Attention, schedule)
    size = {"i": 21, "j": 21, "x": 10}
    instance = iosim.bind(program, {"N": 21, "d": 10, "heads": 1}, {"R": 21, "C": 21, "D": 10})
    rng = np.random.default_rng(5)
    values = [rng.uniform(0.5, 2, [size[x] for x in dims]) for dims in letters]
    outcome = interpret(emit(instance), {f"T{k}": v for k, v in enumerate(values)})
    for k, want in zip(spec.writes, spec.numpy(*values, *[3] * len(spec.scalars)), strict=True):
        np.testing.assert_allclose(outcome.outputs[f"R{k}"], want, rtol=2e-5, atol=1e-6)


def test_in_step_with_one_program_computes_the_same():
    _check("flash2", iosim.Attention(72, 32, 2), {"B_r": 16, "B_c": 16}, "fp16", Lockstep(1, 2))


def test_in_step_with_two_programs_would_hang_and_says_so():
    instance = iosim.bind(
        iosim.algorithm("flash2").program, {"N": 64, "d": 16, "heads": 1}, {"B_r": 16, "B_c": 16}
    )
    with pytest.raises(InterpreterError, match="programs=1"):
        interpret(emit(instance, Lockstep(2)), iosim.Attention(64, 16).random())


def test_counters_are_off_when_not_asked_for():
    problem = iosim.Copy(40)
    instance = iosim.bind(iosim.algorithm("copy").program, problem.sizes, {"B": 16})
    outcome = interpret(emit(instance), problem.random(), count=False)
    assert outcome.counts is None


def test_bf16_rounds_to_nearest_even():
    x = np.array([1.0, 1.00390625, 1.01171875, -3.0e38, np.inf, np.nan], np.float32)
    want = [1.0, 1.0, 1.015625, -3.0040553e38, np.inf]
    back = from_bf16(to_bf16(x))
    np.testing.assert_allclose(back[:5], want, rtol=1e-6)
    assert np.isnan(back[5])


@pytest.mark.parametrize(
    ("single", "half"),
    [
        (0x3F80_8000, 0x3F80),  # ties go to the even one, down
        (0x3F81_8000, 0x3F82),  # and up
        (0x3F80_8001, 0x3F81),
        (0x3F80_7FFF, 0x3F80),
        (0x3FFF_FFFF, 0x4000),  # a carry into the exponent
        (0x8000_0000, 0x8000),
        (0x0000_8000, 0x0000),  # subnormal
        (0x0000_8001, 0x0001),
        (0x007F_FFFF, 0x0080),  # the largest subnormal becomes normal
        (0x7F7F_7FFF, 0x7F7F),  # the largest that stays finite
        (0x7F7F_8000, 0x7F80),  # from here on it is infinity
        (0xFF7F_FFFF, 0xFF80),
        (0x7F80_0000, 0x7F80),
        (0xFF80_0000, 0xFF80),
    ],
)
def test_bf16_has_the_bits_of_the_nearest(single, half):
    """Bits written out by hand: sign, 8 of the exponent, and 7 of the 23 that follow."""
    assert to_bf16(np.array([single], np.uint32).view(np.float32)).tolist() == [half]


@pytest.mark.parametrize(
    "single",
    [
        0x7F80_0001,  # cut to 16 bits, or rounded, it would be infinity
        0x7F80_8000,
        0xFF80_0001,
        0x7FC0_0000,
        0x7FFF_8000,  # rounded as a number, the sum is −0
        0x7FFF_FFFF,
        0xFFFF_8000,  # rounded as a number, the sum leaves 32 bits and is 0
        0xFFFF_FFFF,
    ],
)
def test_bf16_of_what_is_no_number_is_none(single):
    """By its bits: all 8 of the exponent set, and one after them."""
    (half,) = to_bf16(np.array([single], np.uint32).view(np.float32)).tolist()
    assert half & 0x7F80 == 0x7F80
    assert half & 0x007F
    assert np.isnan(from_bf16(np.array([half], np.uint16)))[0]
