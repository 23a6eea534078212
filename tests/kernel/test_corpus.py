"""Every kernel of the corpus: its count by TTIR is what the interpreter refers to, word by word."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from interpreted import Addresses, Described, import_file, list_differences, watch_kernel
from sizes import draws

from iosim.base.errors import InputError
from iosim.kernel import count as counting
from iosim.kernel import evaluate as evaluation
from iosim.kernel import trace, values
from iosim.kernel.count import count_kernel

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
    if isinstance(x, Addresses):
        return x.list_addresses()
    return x.describe() if isinstance(x, Described) else x


@pytest.fixture(autouse=True)
def no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capability says which TTIR is counted; nothing is compiled further."""
    monkeypatch.setattr(counting, "compile_resources", lambda *_: (None, {}))


def check_launch(file: Path, name: str, seed: int, capability: int = 90) -> None:
    grid, arguments = draw_launch(file, name, seed)
    launcher = trace(getattr(compiled(file), name))
    call = launcher.describe(grid, (), {k: read(v) for k, v in arguments.items()})
    count = count_kernel(call, capability)
    seen = watch_kernel(file, name, grid, arguments)
    sizes = {k: v for k, v in arguments.items() if isinstance(v, (int, float, str))}
    assert not list_differences(count, seen), sizes


@pytest.mark.numbers
@pytest.mark.parametrize(("file", "name"), kernels())
def test_count_is_what_the_interpreter_refers_to(file: Path, name: str) -> None:
    if file.stem == "block_pointers" and not BLOCK_POINTERS:
        with pytest.raises(InputError, match="Block pointers have been removed"):
            check_launch(file, name, 0)
        return
    for seed in range(draws(30, 3)):
        check_launch(file, name, seed)


@pytest.mark.parametrize("capability", [80, 100])
@pytest.mark.parametrize("name", [p.values[1] for p in kernels() if "descriptors-" in str(p.id)])
def test_descriptors_are_the_same_words_with_and_without_hardware(
    name: str, capability: int
) -> None:
    for seed in range(2):
        check_launch(CORPUS / "descriptors.py", name, seed, capability)


@pytest.mark.parametrize(
    ("topic", "name"),
    [("matmul", "convolve"), ("steering", "masked_by_tensor"), ("steering", "resize_nearest")],
)
def test_a_grid_in_parts_is_the_same(
    topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where arrays may have few elements, the grid is evaluated part by part."""
    for module in (values, evaluation):
        monkeypatch.setattr(module, "MOST", 300)
    halve, halved = evaluation.halve_grid, []

    def watch(*operands: Any) -> Any:
        halved.append(operands)
        return halve(*operands)

    monkeypatch.setattr(evaluation, "halve_grid", watch)
    check_launch(CORPUS / f"{topic}.py", name, 3)
    assert halved
