"""Watch of a Triton kernel's launch, in Chromium: its counters end with `iosim kernel count`'s."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interpreted import import_file
from playwright.sync_api import Page, expect
from test_cli import ok

from iosim.kernel import KernelCall, describe_launch, load_kernel, trace
from iosim.lab.data.launch import launch_data
from iosim.lab.data.watch import data_of_launch
from iosim.lab.page import envelope
from iosim.lab.page import page as written

SOFTMAX = "docs/examples/softmax.py::softmax"
ATTENTION = "docs/examples/attention.py::attention"
LAUNCHES = {
    SOFTMAX: (*("--grid", "6", "--arg", "columns=100"), *("--const", "BLOCK=32")),
    ATTENTION: (
        *("--grid", "cdiv(N,BR),2", "--arg", "N=96"),
        *("--const", "D=16,BR=32,BC=32,CAUSAL=True"),
    ),
}
Open = Callable[..., Page]


def save(call: KernelCall, path: Path) -> Path:
    path.write_text(written(envelope({"watch": data_of_launch(call)})), encoding="utf-8")
    return path


def softmax(rows: int = 6) -> KernelCall:
    return describe_launch(load_kernel(SOFTMAX), str(rows), {"columns": 100}, {}, {"BLOCK": 32})


def read_counters(page: Page) -> dict[str, list[str]]:
    rows = page.get_by_role("table").first.locator("tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    return {name: rest for name, *rest in cells}


@pytest.mark.parametrize("kernel", LAUNCHES)
def test_the_end_has_the_words_of_kernel_count(
    kernel: str, open_file: Open, tmp_path: Path
) -> None:
    counted = json.loads(ok("kernel", "count", kernel, *LAUNCHES[kernel], "--json"))
    path = tmp_path / "lab.html"
    ok("lab", kernel, *LAUNCHES[kernel], "--save", str(path))
    page = open_file(path)
    assert len(page.get_by_role("tab").all()) > 1
    page.get_by_role("button", name="To the end").click()
    words = {f"{kind} {x}": n for kind in ("load", "store") for x, n in counted[kind].items()}
    total = f"{sum(words.values()):,}"
    page.get_by_text(f"{total} of {total} words moved").first.wait_for()
    said = read_counters(page)
    for key, n in words.items():
        assert said[key] == [f"{n:,}", f"{n:,}", "✓"]
        assert page.locator(f'[data-counter="{key}"]').inner_text() == f"{n:,}"
    assert said["all words"] == [total, total, "✓"]
    # A schedule is one choice away, and the kernel again one.
    choice = page.get_by_role("combobox", name="Schedule", exact=True)
    choice.select_option("flash2")
    page.get_by_role("region", name="flash2, step by step").wait_for()
    choice.select_option(kernel.rpartition("/")[2])
    expect(page.locator(".now")).to_contain_text("Nothing has run yet")


def test_steps_light_up_words_and_lines(open_file: Open, tmp_path: Path) -> None:
    call = softmax()
    told = launch_data(call)
    page = open_file(save(call, tmp_path / "lab.html"), allow="willReadFrequently")
    expect(page.locator(".now")).to_contain_text("Nothing has run yet")
    row = next(k for k, step in enumerate(told["steps"]) if step[2] == 1)
    for _ in range(row + 1):
        page.keyboard.press("ArrowRight")
    expect(page.locator(".now")).to_contain_text("Program 0 stores 32 words of y")
    line = page.locator('[aria-current="step"]')
    assert "tl.store(y + row + at" in line.inner_text()
    said = page.get_by_role("img", name="y, 6 × 100")
    assert said.get_attribute("aria-label") == "y, 6 × 100: storing row 0 to 0, column 0 to 31"
    x = page.get_by_role("img", name="x, 6 × 100")
    assert x.get_attribute("aria-label") == "x, 6 × 100: nothing is moved"
    # In pixels: where words are stored now, the color is that of the tensor; elsewhere it isn't.
    point = """(canvas, [x, y]) => {
        const at = canvas.width / canvas.clientWidth;
        return [...canvas.getContext("2d").getImageData(x * at, y * at, 1, 1).data].join();
    }"""
    width, height = said.evaluate("x => [x.clientWidth, x.clientHeight]")
    now, later = (said.evaluate(point, [width * part, height / 12]) for part in (0.2, 0.7))
    color = said.evaluate("x => getComputedStyle(x).color.match(/\\d+/g).join()")
    assert now == f"{color},255"
    assert later != now
    page.keyboard.press("]")
    expect(page.locator(".now")).to_contain_text("Program 1 loads 32 words of x")
    page.keyboard.press("[")
    page.keyboard.press("[")
    expect(page.locator(".now")).to_contain_text("Nothing has run yet")
    page.keyboard.press("End")
    expect(page.locator(".now")).to_contain_text("Program 5 stores 4 words of y")


def test_every_step_has_its_counts(open_file: Open, tmp_path: Path) -> None:
    call = softmax(3)
    told = launch_data(call)
    page = open_file(save(call, tmp_path / "lab.html"))
    so_far = dict.fromkeys(told["keys"], 0)
    for step in told["steps"]:
        so_far[told["keys"][step[2]]] += step[3]
        page.keyboard.press("ArrowRight")
        for key, n in so_far.items():
            expect(page.locator(f'[data-counter="{key}"]')).to_have_text(f"{n:,}")


def test_atomic_operations_read_and_write(open_file: Open, tmp_path: Path) -> None:
    module = import_file(Path("tests/kernel/corpus/steering.py"))
    grid, arguments = module.launch_add_rows(np.random.default_rng(5))
    call = trace(module.add_rows).describe(grid, (), arguments)
    page = open_file(save(call, tmp_path / "lab.html"), "#watch?at=end")
    (key,) = (k for k, x in enumerate(launch_data(call)["keys"]) if x == "atomic out")
    total = f"{launch_data(call)['totals'][key]:,}"
    assert read_counters(page)["atomic out"] == [total, total, "✓"]
    expect(page.locator('[data-counter="atomic out"]')).to_have_text(total)
    expect(page.locator(".now")).to_contain_text("reads and writes")


@pytest.mark.parametrize(
    "hash", ["#watch?algo=other", "#watch?at=x", "#watch?at=9999999", "#slope"]
)
def test_any_link_shows_the_launch(hash: str, open_file: Open, tmp_path: Path) -> None:
    page = open_file(save(softmax(), tmp_path / "lab.html"), hash)
    expect(page.get_by_role("region", name="softmax.py::softmax, step by step")).to_be_visible()


def test_a_link_that_is_wrong_for_schedules_stands(
    open_file: Open, only: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    data = only("watch")
    shown = launch_data(softmax())
    start = {"algorithm": shown["name"], "sizes": {}, "tiles": None}
    watch = data["views"]["watch"] | {"launches": [shown], "start": start}
    path = tmp_path / "lab.html"
    path.write_text(written(data | {"views": {"watch": watch}}), encoding="utf-8")
    page = open_file(path, "#watch?algo=flash2&N=8&d=4&tiles=B_r=99999,B_c=1")
    page.get_by_role("region", name="step by step").first.wait_for()
