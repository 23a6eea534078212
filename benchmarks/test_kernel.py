"""Counting a Triton kernel by its TTIR, compared with Triton's interpreter, and at large sizes.

``pytest benchmarks/test_kernel.py -s``: processor seconds of docs/examples/attention.py.  At the
end stands which thresholds hold (`thresholds.py`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import thresholds

from iosim.gpu.run.interpreter import interpreted_triton
from iosim.kernel import KernelCall, count_kernel, describe_launch, load_kernel
from iosim.kernel.compiler import lower_kernel
from iosim.kernel.count import lower_call
from iosim.kernel.evaluate import evaluate
from iosim.kernel.ir import parse_module
from iosim.kernel.words import WordCounter

sys.path.append(str(Path(__file__).parents[1] / "tests/kernel"))
from interpreted import HostTensor, import_file

FILE = Path(__file__).parents[1] / "docs/examples/attention.py"
CONSTANTS = {"D": 16, "BR": 64, "BC": 64, "CAUSAL": False}


def describe(N: int, heads: int, constants: dict[str, int]) -> KernelCall:
    """A launch of the example."""
    kernel = load_kernel(f"{FILE}::attention")
    types = dict.fromkeys("QKVO", "*fp32")
    return describe_launch(kernel, f"cdiv(N, BR), {heads}", {"N": N}, types, constants)


def measure_seconds(run: Callable[[], object]) -> float:
    """Processor seconds of one run."""
    began = time.process_time()
    run()
    return time.process_time() - began


def interpret(N: int, heads: int) -> float:
    """Seconds of Triton's interpreter."""
    tensors = [HostTensor(np.ones(N * heads * CONSTANTS["D"], np.float32)) for _ in "QKVO"]
    with interpreted_triton():
        kernel = import_file(FILE).attention
        grid = (-(-N // CONSTANTS["BR"]), heads)
        return measure_seconds(lambda: kernel[grid](*tensors, N, 1.0, **CONSTANTS))


def test_evaluated_compared_with_interpreted() -> None:
    N, heads = thresholds.size(1024, 64), thresholds.size(32, 1)
    call = describe(N, heads, CONSTANTS)
    given = call.source.function, call.types, call.constants, call.divisible, call.options
    text = lower_kernel(*given)
    counter = WordCounter()

    def count_words() -> None:
        evaluate(parse_module(text), call.to_evaluate(), lambda found: [*map(counter, found)])

    # The first run fills caches.
    repeats = thresholds.rounds(5)
    evaluated = min(measure_seconds(count_words) for _ in range(repeats))
    words = counter.traffic["load", "K"].words
    assert words == repeats * heads * -(-N // CONSTANTS["BR"]) * N * CONSTANTS["D"]
    counted = measure_seconds(lambda: count_kernel(call))
    interpreted = interpret(N, heads)
    print(
        f"\nN {N:,}, {heads} heads: {interpreted:.1f} s interpreted, {1e3 * evaluated:.1f} ms by "
        f"TTIR, {1e3 * counted:.0f} ms with the compiler and distinct words"
    )
    thresholds.at_least("interpreted / evaluated", interpreted / evaluated, 1000, "times")


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("N", "heads"), [(131_072, 1), (16_384, 32)])
def test_large_sizes(N: int, heads: int, causal: bool) -> None:
    N = thresholds.size(N, 256)
    constants = {"D": 64, "BR": 128, "BC": 64, "CAUSAL": causal}
    call = describe(N, heads, constants)
    lower_call(call)  # loads Triton's compiler
    seconds = measure_seconds(lambda: count_kernel(call))
    print(f"\nN {N:,}, {heads} heads, causal {causal}: {seconds:.2f} s")
    thresholds.at_most(f"N {N:,} x {heads} heads, causal {causal}", seconds, 1, "s")
