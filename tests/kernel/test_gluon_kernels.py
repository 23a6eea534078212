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
from interpreted import Described, import_file
from sizes import draws

from iosim.kernel import UnsupportedKernel, derive_formula, trace
from iosim.kernel import count as counting
from iosim.kernel.closing import NoClosedForm
from iosim.kernel.count import KernelCount, count_kernel

pytest.importorskip("triton")
FILE = Path(__file__).parent / "gluon_kernels.py"
KERNELS = import_file(FILE)
# Triton 3.6 adds no boxes up, and has other barriers of its tensor cores.
LATER = ("shifted_boxes", "gathered") if KERNELS.add_box is None else ()
FOUND = [name.removeprefix("launch_") for name in vars(KERNELS) if name.startswith("launch_")]
NAMES = [name for name in FOUND if name not in LATER]
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


# Kernels of the corpus in Triton that move the same words, with what else they are given.
TWINS = {
    "add": ("elementwise", "add"),
    "scale_in_place": ("elementwise", "scale_in_place"),
    "softmax_whole": ("norms", "softmax_whole"),
    "matmul_staged": ("matmul", "matmul"),
    "matmul_boxes": ("descriptors", "matmul_given"),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_same_kernel_in_triton_moves_the_same(name: str) -> None:
    topic, twin = TWINS[name]
    grid, arguments = draw_launch(name, 1)
    found = count(name, grid, arguments)
    given = dict(arguments)
    if name == "matmul_staged":
        n, k, side = given["N"], given["K"], given.pop("B")
        given |= {"am": k, "ak": 1, "bk": n, "bn": 1, "cm": n, "cn": 1, "BM": side, "BN": side}
    if name == "matmul_boxes":
        given = {"M": 0, "N": 0, "K": given["K"], "BM": 64, "BN": 16, "BK": 16}
        given |= {
            x: Described(arguments[x].base.array, tuple(arguments[x].block_shape)) for x in "abc"
        }
        given |= {x: given[x].describe() for x in "abc"}
    kernel = getattr(import_file(FILE.parent / "corpus" / f"{topic}.py"), twin)
    want = count_kernel(trace(kernel).describe(grid, (), given))
    assert (found.ir, want.ir) == ("TTGIR", "TTIR")
    assert found.reuse == want.reuse
    assert found.work.products == want.work.products
    for key, traffic in want.traffic.items():
        assert found.traffic[key].words == traffic.words
        assert found.traffic[key].hidden == traffic.hidden


# The grid of each kernel that has formulas, and why others have none.
GRIDS = {
    "add": "cdiv(n, 128)",
    "scale_in_place": "cdiv(columns, 32), cdiv(rows, 16)",
    "softmax_whole": "x",
    "matmul_staged": "cdiv(M, 32), cdiv(N, 32)",
    "matmul_boxes": "x, y",
    "shifted_boxes": "cdiv(rows, 16), cdiv(columns, 16)",
}
REASONS = {
    "row_sums": "a mask: data of lengths",
    "gathered": "rows that data name",
}


def test_formulas_are_what_evaluating_counts() -> None:
    assert {*FOUND} == {*GRIDS, *REASONS}
    for name in NAMES:
        for seed in range(3):
            grid, arguments = draw_launch(name, seed)
            call = trace(getattr(KERNELS, name)).describe(grid, (), arguments)
            call.values |= dict(zip("xyz", call.grid, strict=True))
            call.grid_text = GRIDS.get(name, "x, y, z")
            if name in REASONS:
                with pytest.raises(NoClosedForm, match=REASONS[name]):
                    derive_formula(call, CAPABILITY.get(name))
                continue
            formula = derive_formula(call)
            known = {**call.values, **call.constants}
            words = formula.count_many({x: known[x] for x in formula.sizes})
            traffic = count(name, grid, arguments).traffic
            assert {key: int(n) for key, n in words.items() if n} == {
                key: t.words for key, t in traffic.items() if t.words
            }


@pytest.mark.parametrize(
    ("name", "given", "line", "why"),
    [
        ("buffered", {"n": 5, "BLOCK": 128}, "buffer_load(", "what amdg.buffer_load moves isn't"),
        ("steered_by_tile", {"BLOCK": 128}, "tile.load(LINE)", "depends on ttg.local_load"),
        ("watched", {"flags": np.zeros(2, "i4")}, "def watched(", "flags steers some warps"),
    ],
)
def test_what_the_ir_does_not_say_is_refused(
    name: str, given: dict[str, Any], line: str, why: str
) -> None:
    names = inspect.signature(getattr(KERNELS, name).fn).parameters
    arrays = {x: np.zeros(256, "i4" if x == "x" else "f4") for x in names if x in ("x", "y")}
    with pytest.raises(UnsupportedKernel) as seen:
        count(name, (1,), {**arrays, **given})
    text = FILE.read_text().splitlines()
    start = text.index(next(x for x in text if x.startswith(f"def {name}(")))
    number = next(i for i, x in enumerate(text[start:], start + 1) if line in x)
    assert str(seen.value).startswith(f"{FILE}:{number}: ")
    assert why in str(seen.value)
