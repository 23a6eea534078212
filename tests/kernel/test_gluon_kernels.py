"""Kernels in Gluon, whose IR is TTGIR: words as by hand, and as of the same kernel in Triton.

Triton's interpreter runs no Gluon.  By hand: loops over programs and lanes that share no code with
`iosim.kernel` (`gluon_kernels`).
"""

from __future__ import annotations

import inspect
import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interpreted import import_file
from sizes import draws

from iosim.kernel import count as counting
from iosim.kernel import trace
from iosim.kernel.count import KernelCount, count_kernel

pytest.importorskip("triton")
FILE = Path(__file__).parent / "gluon_kernels.py"
KERNELS = import_file(FILE)
NAMES = [name.removeprefix("launch_") for name in vars(KERNELS) if name.startswith("launch_")]
# Of a GPU with tensor memory.
CAPABILITY = {"gathered": 100}


def draw_launch(name: str, seed: int) -> tuple[tuple[int, ...], dict[str, Any]]:
    return getattr(KERNELS, f"launch_{name}")(np.random.default_rng([seed, len(name)]))


def count(name: str, grid: tuple[int, ...], arguments: dict[str, Any]) -> KernelCount:
    call = trace(getattr(KERNELS, name)).describe(grid, (), arguments)
    return count_kernel(call, CAPABILITY.get(name, 90))


@pytest.fixture(autouse=True)
def no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "compile_resources", lambda *_: (None, {}))


def count_by_hand(
    name: str, grid: tuple[int, ...], arguments: dict[str, Any]
) -> dict[tuple[str, str], Counter[int]]:
    walk = getattr(KERNELS, f"by_hand_{name}")
    words: dict[tuple[str, str], Counter[int]] = {}
    for program in itertools.product(*map(range, grid)):
        for kind, argument, at in walk(program, **arguments):
            words.setdefault((kind, argument), Counter())[int(at)] += 1
    return words


@pytest.mark.numbers
@pytest.mark.parametrize("name", NAMES)
def test_words_are_those_by_hand(name: str) -> None:
    for seed in range(draws(30, 3)):
        grid, arguments = draw_launch(name, seed)
        found, want = count(name, grid, arguments), count_by_hand(name, grid, arguments)
        traffic = {key: t.words for key, t in found.traffic.items() if t.words}
        assert traffic == {key: words.total() for key, words in want.items()}
        reuse = {key: r for key, r in found.reuse.items() if r.distinct}
        assert {key: r.distinct for key, r in reuse.items()} == {k: len(w) for k, w in want.items()}
        assert {key: r.times for key, r in reuse.items()} == {
            key: Counter(words.values()) for key, words in want.items()
        }
