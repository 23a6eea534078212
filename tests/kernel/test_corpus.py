"""Every kernel of the corpus: its count by TTIR is what the interpreter refers to, word by word."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from interpreted import Described, import_file, watch_kernel
from sizes import draws

from iosim.base.errors import InputError
from iosim.kernel import trace
from iosim.kernel.compiler import lower_kernel
from iosim.kernel.evaluate import evaluate
from iosim.kernel.ir import parse_module
from iosim.kernel.reuse import ReuseCounter
from iosim.kernel.words import WordCounter

triton = pytest.importorskip("triton")

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*.py"))
BEGINS = "launch_"
# Triton had them until 3.8.
BLOCK_POINTERS = tuple(int(n) for n in triton.__version__.split(".")[:2]) < (3, 8)


@functools.cache
def compiled(file: Path) -> ModuleType:
    return import_file(file)


def kernels() -> list[Any]:
    return [
        pytest.param(file, name.removeprefix(BEGINS), id=f"{file.stem}-{name.removeprefix(BEGINS)}")
        for file in FILES
        for name in vars(compiled(file))
        if name.startswith(BEGINS)
    ]


def draw_launch(file: Path, name: str, seed: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    launch = getattr(compiled(file), BEGINS + name)
    return launch(np.random.default_rng([seed, len(name)]))


def read(x: Any) -> Any:
    return x.describe() if isinstance(x, Described) else x


def check_launch(file: Path, name: str, seed: int, capability: int) -> None:
    grid, arguments = draw_launch(file, name, seed)
    launcher = trace(getattr(compiled(file), name))
    call = launcher.describe(grid, (), {k: read(v) for k, v in arguments.items()})
    text = lower_kernel(
        call.source.function, call.types, call.constants, call.divisible, call.options, capability
    )
    words, reuse = WordCounter(), ReuseCounter()
    evaluate(parse_module(text), call.to_evaluate(), lambda r: (words(r), reuse(r)))
    seen = watch_kernel(file, name, grid, arguments)
    sizes = {k: v for k, v in arguments.items() if isinstance(v, (int, float, str))}
    found = {key: traffic.words for key, traffic in words.traffic.items() if traffic.words}
    assert found == {key: w.total() for key, w in seen.words.items()}, sizes
    times = {key: r.times for key, r in reuse.count().items() if r.times}
    assert times == {key: Counter(w.values()) for key, w in seen.words.items()}, sizes


@pytest.mark.numbers
@pytest.mark.parametrize(("file", "name"), kernels())
def test_count_is_what_the_interpreter_refers_to(file: Path, name: str) -> None:
    if file.stem == "block_pointers" and not BLOCK_POINTERS:
        with pytest.raises(InputError, match="Block pointers have been removed"):
            check_launch(file, name, 0, 90)
        return
    for seed in range(draws(30, 3)):
        check_launch(file, name, seed, 90)


@pytest.mark.parametrize("capability", [80, 100])
@pytest.mark.parametrize("name", [p.values[1] for p in kernels() if "descriptors-" in str(p.id)])
def test_descriptors_are_the_same_words_with_and_without_hardware(
    name: str, capability: int
) -> None:
    for seed in range(2):
        check_launch(CORPUS / "descriptors.py", name, seed, capability)
