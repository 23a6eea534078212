"""What Watch shows of a kernel's launch, against loops by hand, Triton's interpreter and counts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interpreted import import_file, watch_kernel
from test_cli import iosim_

import iosim
from iosim.base.errors import InputError
from iosim.kernel import KernelCall, count_kernel, describe_launch, load_kernel, trace
from iosim.kernel import steps as kernel_steps
from iosim.lab.data import launch as launches
from iosim.lab.data.launch import cover, launch_data

CORPUS = Path(__file__).parents[1] / "kernel/corpus"
SOFTMAX = "docs/examples/softmax.py::softmax"


def describe(topic: str, name: str, seed: int) -> tuple[KernelCall, Any]:
    """A launch of the corpus, and what Triton's interpreter sees of it."""
    file = CORPUS / f"{topic}.py"
    module = import_file(file)
    grid, arguments = getattr(module, f"launch_{name}")(np.random.default_rng(seed))
    seen = watch_kernel(file, name, grid, arguments)
    return trace(getattr(module, name)).describe(grid, (), arguments), seen


def unfold(told: dict[str, Any]) -> dict[str, Counter[int]]:
    """Key → word → in how many steps it is drawn."""
    columns = {x["name"]: x["columns"] for x in told["tensors"]}
    found: dict[str, Counter[int]] = {key: Counter() for key in told["keys"]}
    for _, _, key, _, *boxes in told["steps"]:
        name = told["keys"][key].split(" ")[1]
        drawn: Counter[int] = Counter()
        for top, bottom, left, right in np.reshape(boxes, (-1, 4)).tolist():
            assert right <= columns[name]
            drawn.update(
                row * columns[name] + x for row in range(top, bottom) for x in range(left, right)
            )
        assert set(drawn.values()) <= {1}
        found[told["keys"][key]] += drawn
    return found


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("elementwise", "add"),
        ("elementwise", "interleave"),
        ("elementwise", "early_return"),
        ("elementwise", "calls"),
        ("matmul", "matmul_persistent"),
        ("attention", "decode_split"),
        ("norms", "layer_norm"),
        ("descriptors", "matmul_described"),
        ("steering", "histogram"),
        ("steering", "scatter_rows"),
        ("steering", "add_rows"),
    ],
)
def test_steps_show_what_the_interpreter_sees(topic: str, name: str) -> None:
    call, seen = describe(topic, name, 5)
    told = launch_data(call)
    drawn = unfold(told)
    moved = Counter[str]()
    for _, _, key, words, *_ in told["steps"]:
        moved[told["keys"][key]] += words
    for (kind, argument), words in seen.words.items():
        assert set(drawn[f"{kind} {argument}"]) == set(words)
        assert moved[f"{kind} {argument}"] == words.total()
    assert {k: n for k, n in zip(told["keys"], told["totals"], strict=True) if n} == +moved
    programs = [step[0] for step in told["steps"]]
    assert programs == sorted(programs)
    assert told["programs"] == np.prod(call.grid)


def test_steps_come_in_launch_order() -> None:
    call = describe_launch(load_kernel(SOFTMAX), "3", {"columns": 10}, {}, {"BLOCK": 4})
    told = launch_data(call)
    numbers = {line["number"]: k for k, line in enumerate(told["listing"])}
    starts = [(0, 4), (4, 8), (8, 10)]
    by_hand: list[list[int]] = []
    for row in range(3):
        for left, right in starts:
            by_hand.append([row, numbers[14], 0, right - left, row, row + 1, left, right])
        for left, right in starts:
            by_hand.append([row, numbers[20], 0, right - left, row, row + 1, left, right])
            by_hand.append([row, numbers[21], 1, right - left, row, row + 1, left, right])
    assert told["steps"] == by_hand
    assert told["listing"][numbers[14]]["code"].strip().startswith("part = tl.load(x + row")
    assert told["name"] == "softmax.py::softmax"


MINE = """
import triton
import triton.language as tl

@triton.jit
def column(x, y, stride, rows: tl.constexpr):
    at = tl.arange(0, rows)
    tl.store(y + at, tl.load(x + at * stride + 2))

@triton.jit
def store_before(x, rows: tl.constexpr):
    at = tl.arange(0, rows)
    tl.store(x + (at - 70), at)
"""


def test_strided_and_plain_arguments_are_laid_out(tmp_path: Path) -> None:
    (file := tmp_path / "mine.py").write_text(MINE)
    call = describe_launch(load_kernel(f"{file}::column"), "1", {"stride": 7}, {}, {"rows": 128})
    told = launch_data(call)
    x, y = told["tensors"]
    # x by its stride; y, which has none, by rows of the fixed width.
    assert (x["rows"], x["columns"], y["rows"], y["columns"]) == (128, 7, 2, 64)
    assert [step[4:] for step in told["steps"]] == [[0, 128, 2, 3], [0, 2, 0, 64]]
    # Words before the first one: 70 before it is in the second row of 64 before it.
    call = describe_launch(load_kernel(f"{file}::store_before"), "1", {}, {}, {"rows": 64})
    (step,) = launch_data(call)["steps"]
    assert step[3:] == [64, 0, 1, 58, 64, 1, 2, 0, 58]


def test_any_words_are_covered_once() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        width = int(rng.integers(1, 12))
        places = np.flatnonzero(rng.random(int(rng.integers(1, 90))) < rng.random())
        found = Counter[int]()
        for top, bottom, left, right in cover(places, width).tolist():
            found.update(r * width + c for r in range(top, bottom) for c in range(left, right))
        assert found == Counter(places.tolist())


def test_what_is_too_large_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load_kernel(SOFTMAX)
    large = describe_launch(kernel, "100_000", {"columns": 64}, {}, {"BLOCK": 64})
    with pytest.raises(InputError, match=r"^softmax has more than 10,000 steps here, one for"):
        launch_data(large)
    call = describe_launch(kernel, "10", {"columns": 64}, {}, {"BLOCK": 64})
    assert len(launch_data(call)["steps"]) == 30
    monkeypatch.setattr(kernel_steps, "MOST_STEPS", 29)
    with pytest.raises(InputError, match="more than 29 steps"):
        launch_data(call)
    monkeypatch.setattr(kernel_steps, "MOST_STEPS", 30)
    monkeypatch.setattr(launches, "MOST_BOXES", 29)
    with pytest.raises(InputError, match="lie in more than 29 rectangles"):
        launch_data(call)


def test_the_command_saves_a_launch(tmp_path: Path) -> None:
    save = tmp_path / "lab.json"
    words = ("--grid", "4", "--arg", "columns=100", "--const", "BLOCK=64")
    done = iosim_("lab", SOFTMAX, *words, "--save", str(save))
    assert done.returncode == 0, done.stderr
    watch = json.loads(save.read_text())["views"]["watch"]
    call = describe_launch(load_kernel(SOFTMAX), "4", {"columns": 100}, {}, {"BLOCK": 64})
    assert watch["launches"] == [json.loads(json.dumps(launch_data(call)))]
    assert watch["start"]["algorithm"] == "softmax.py::softmax"
    counted = count_kernel(call)
    assert watch["launches"][0]["totals"] == [t.words for t in counted.traffic.values()]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((SOFTMAX,), "FILE::FUNCTION needs --grid, like --grid"),
        (("--grid", "4"), "--grid needs a kernel: give FILE::FUNCTION"),
        (("flash2", "--grid", "4"), "'flash2' doesn't name a kernel: write FILE::FUNCTION"),
        ((SOFTMAX, "--grid", "4", "--const", "BLOCK=64"), "--arg of columns is not given"),
    ],
)
def test_what_cannot_be_is_one_line(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = iosim_("lab", *words, "--save", str(tmp_path / "lab.html"))
    assert done.returncode == 2
    assert says in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_notebook_watches_a_launch() -> None:
    pytest.importorskip("anywidget")
    call = describe_launch(load_kernel(SOFTMAX), "4", {"columns": 100}, {}, {"BLOCK": 64})
    shown = iosim.watch(call).data["views"]["watch"]
    assert shown["launches"] == [launch_data(call)]
    assert shown["schedules"] == []
    with pytest.raises(InputError, match="has no M"):
        iosim.watch(call, M=10)
