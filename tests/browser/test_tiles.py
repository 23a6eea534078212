"""The plane of tiles in a browser: counts and peaks are Python's, however a tile is moved."""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run_json
from engine import Engine
from screens import refuses, texts
from speed import answers_in

import iosim
from iosim.core.counting.numbers import peak_many
from iosim.core.problem import Attention
from iosim.lab.data.tiles import PLANES

E04 = Path(__file__).parents[2] / "experiments" / "data" / "e04_blocks"
N, D, M = 1024, 64, 24_576
Open = Callable[..., Any]


def rows(page: Any) -> list[dict[str, Any]]:
    """The table of points: name, both tiles, words, peak, whether they fit."""
    return [
        {
            "what": what.strip(),
            "x": number(x),
            "y": number(y),
            "words": number(words),
            "ratio": ratio,
            "peak": number(peak),
            "fits": fits == "yes",
        }
        for what, x, y, words, ratio, peak, fits in texts(page.locator(".tiles-points tbody tr"))
    ]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def mine(page: Any) -> dict[str, Any]:
    return rows(page)[0]


def count_words(schedule: str, sizes: dict[str, int], tiles: dict[str, int]) -> tuple[int, int]:
    instance = iosim.bind(iosim.algorithm(schedule).program, sizes, tiles)
    return iosim.count(instance).total_words, iosim.peak(instance)


def handle(page: Any) -> Any:
    return page.get_by_role("slider", name=re.compile("^Tiles "))


def fill(page: Any, name: str, value: object) -> None:
    page.locator(".tiles").get_by_label(name, exact=True).fill(str(value))


@pytest.mark.parametrize("schedule", PLANES)
def test_a_plane_is_the_closed_forms(schedule: str, engine: Engine) -> None:
    pick, program = random.Random(7), iosim.algorithm(schedule).program
    x, y = PLANES[schedule]
    for _ in range(300):
        sizes = {axis: pick.randint(1, 4096) for t in program.tensors for axis in t.axes}
        sizes |= {"heads": pick.randint(1, 4)} if "heads" in sizes else {}
        tiles = {p.name: pick.randint(max(1, p.least), sizes[p.axis]) for p in program.params}
        (seen,) = engine.ask(program, "plane", sizes=sizes, tiles=tiles, x=x, y=y)
        words, peak = count_words(schedule, sizes, tiles)
        assert (seen["is"]["words"], seen["is"]["peak"]) == (words, peak)


@pytest.mark.parametrize("schedule", ["flash1", "flash2"])
def test_marks_are_those_of_the_experiment(schedule: str, open_view: Open) -> None:
    page = open_view("tiles", hash=f"?schedule={schedule}")
    with (E04 / "marks.csv").open() as file:
        marks = [row for row in csv.DictReader(file) if row["algorithm"] == schedule]
    want = sorted(
        (*(int(r[x]) for x in ("B_r", "B_c", "total_words", "peak_words")), r["fits"] == "True")
        for r in marks
    )
    seen = rows(page)[1:]
    assert sorted((r["x"], r["y"], r["words"], r["peak"], r["fits"]) for r in seen) == want
    assert [r["what"] for r in seen][:2] == ["optimum", "FlashAttention's rule"]


def test_a_dragged_tile_reads_what_python_counts(open_view: Open) -> None:
    page = open_view("tiles")
    box = handle(page).bounding_box()
    before = mine(page)
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + box["height"] * 0.6)
    page.mouse.down()
    places = set()
    for right, down in ((0.4, 0.6), (0.62, 0.3), (0.97, 0.05), (0.2, 0.85)):
        page.mouse.move(box["x"] + box["width"] * right, box["y"] + box["height"] * down)
        here = mine(page)
        want = count_words("flash1", Attention(N, D).sizes, {"B_r": here["x"], "B_c": here["y"]})
        assert (here["words"], here["peak"]) == want
        assert here["fits"] == (here["peak"] <= M)
        assert f"{here['words']:,} words" in handle(page).get_attribute("aria-valuetext")
        places.add((here["x"], here["y"]))
    assert len(places) == 4
    assert (before["x"], before["y"]) not in places
    page.mouse.up()
    last = mine(page)
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    assert mine(page) == last


def test_keys_move_a_tile(open_view: Open) -> None:
    page = open_view("tiles", hash="?schedule=flash2&B_r=100&B_c=20")
    handle(page).focus()
    for key, want in (
        ("ArrowRight", (101, 20)),
        ("ArrowUp", (101, 21)),
        ("ArrowLeft", (100, 21)),
        ("ArrowDown", (100, 20)),
        ("Shift+ArrowRight", (200, 20)),
        ("Shift+ArrowDown", (200, 10)),
    ):
        page.keyboard.press(key)
        page.wait_for_timeout(60)
        here = mine(page)
        assert (here["x"], here["y"]) == want
        tiles = {"B_r": want[0], "B_c": want[1]}
        assert (here["words"], here["peak"]) == count_words("flash2", Attention(N, D).sizes, tiles)
    for key in ("ArrowLeft", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_timeout(60)
    assert mine(page)["x"] == N


def test_a_finger_moves_a_tile(open_view: Open) -> None:
    page = open_view("tiles", 390, 844, has_touch=True)
    handle(page).scroll_into_view_if_needed()
    box = handle(page).bounding_box()
    before = mine(page)
    page.touchscreen.tap(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.8)
    here = mine(page)
    assert here["x"] < before["x"]
    assert here["y"] < before["y"]


@pytest.mark.parametrize(("n", "d", "m"), [(4096, 128, 49152), (1000, 60, 5000), (300, 32, 3000)])
def test_the_optimum_and_the_rule_are_those_of_the_commands(
    n: int, d: int, m: int, open_view: Open
) -> None:
    page = open_view("tiles")
    for name, value in (("N", n), ("d", d), ("M", m)):
        fill(page, name, value)
    page.wait_for_timeout(100)
    _, optimum, rule, *_ = rows(page)
    want = run_json("count", "flash1", "--N", n, "--d", d, "--M", m)
    assert (optimum["x"], optimum["y"]) == (want["tiles"]["B_r"], want["tiles"]["B_c"])
    assert (optimum["words"], optimum["peak"]) == (want["total_words"], want["peak_words"])
    paper = run_json("count", "flash1", "--N", n, "--d", d, "--M", m, "--tiles", "paper")
    assert (rule["x"], rule["y"]) == (paper["tiles"]["B_r"], paper["tiles"]["B_c"])
    assert (rule["words"], rule["peak"]) == (paper["total_words"], paper["peak_words"])
    assert rule["ratio"] == f"{rule['words'] / optimum['words']:.3f}"


@pytest.mark.parametrize(
    ("schedule", "name", "value"), [("flash2_chunked", "B_d", 5), ("flash2_keep", "W", 40)]
)
def test_a_held_tile_is_typed(schedule: str, name: str, value: int, open_view: Open) -> None:
    page = open_view("tiles", hash=f"?schedule={schedule}")
    program, problem = iosim.algorithm(schedule).program, Attention(N, D)
    best = iosim.optimal_tiles(program, problem, M)
    assert rows(page)[1]["words"] == best.total_words
    assert page.locator(".tiles").get_by_label(name, exact=True).input_value() == str(
        best.tiles[name]
    )
    fill(page, name, value)
    page.wait_for_timeout(100)
    optimum = rows(page)[1]
    assert optimum["what"].startswith("optimum")
    want = iosim.optimal_tiles(program, problem, M, fixed={name: value})
    assert optimum["words"] == want.total_words
    tiles = {"B_r": optimum["x"], "B_c": optimum["y"], name: value}
    assert optimum["peak"] == count_words(schedule, problem.sizes, tiles)[1] <= M


def test_the_explanation_has_the_numbers_of_the_plane(open_view: Open) -> None:
    page = open_view("tiles", hash="?B_r=20&B_c=30")
    text = page.locator(".tiles-why").inner_text()
    program, sizes = iosim.algorithm("flash1").program, Attention(N, D).sizes
    every = np.arange(1, N + 1)
    beside = {"B_r": {"B_r": every, "B_c": 30}, "B_c": {"B_r": 20, "B_c": every}}
    for name, tiles in beside.items():
        last = int(every[peak_many(program, sizes | tiles) <= M][-1])
        assert f"{name} can be 1 to {last:,}" in text
    assert "B_c is the tile that matters" in text
    rule = {"B_r": 64, "B_c": 96}
    for tiles in (rule, {"B_r": 96, "B_c": 96}):
        held = count_words("flash1", sizes, tiles)[1]
        assert f"{held:,} words, {held / M:.2f} M" in text
    words, _ = count_words("flash1", sizes, rule)
    best = iosim.optimal_tiles(program, Attention(N, D), M)
    assert (
        f"{words / best.total_words:.3f} times as many, {words - best.total_words:,} words" in text
    )
    assert "k 6,144, v 6,144, q 4,096, s 6,144" in text
    # Below 4d² the min changes nothing.
    fill(page, "M", 8000)
    page.get_by_text("the min changes nothing here").wait_for()


def test_a_mark_is_gone_to(open_view: Open) -> None:
    page = open_view("tiles")
    page.get_by_role("button", name=re.compile("Move to FlashAttention's rule")).click()
    page.wait_for_timeout(60)
    here, _, rule, *_ = rows(page)
    assert here["words"] == rule["words"]
    assert (here["x"], here["y"]) == (rule["x"], rule["y"]) == (64, 96)


BAD = [
    ("N", "0", "at least 1"),
    ("N", "5000", "at most 4,096"),
    ("N", "1k5", "whole number"),
    ("d", "", "whole number"),
    ("M", "1e9", "M is 1e9; it is at most 16,777,216"),
    ("M", "1Gi", "at most"),
    ("B_r", "2000", "at most 1,024"),
    ("B_c", "-3", "B_c is -3; it is at least 1"),
]


def test_bad_input_is_said_beside_the_field(open_view: Open) -> None:
    page = open_view("tiles")
    refuses(page, BAD, rows, ".tiles")


def test_where_nothing_fits_the_least_memory_is_said(open_view: Open) -> None:
    page = open_view("tiles")
    fill(page, "M", 50)
    least = iosim.smallest_capacity(iosim.algorithm("flash1").program, Attention(N, D))
    message = page.locator(".tiles .field .wrong")
    assert f"the least M that works is {least}" in message.inner_text()
    assert not any(row["fits"] for row in rows(page))
    fill(page, "M", least)
    message.wait_for(state="detached")
    assert rows(page)[1]["peak"] == least


def test_rows_of_one_word(open_view: Open) -> None:
    """With d = 1 the rule's chart begins at M = 1, and not at the logarithm of 0."""
    page = open_view("tiles", hash="?d=1&M=16")
    assert mine(page)["words"] > 0
    chart = page.get_by_role("img", name=re.compile("^What the rule holds"))
    chart.wait_for()
    assert "NaN" not in chart.inner_html()
    assert "0.25" not in chart.locator("text").all_text_contents()


def test_a_broken_link_opens_what_there_is(open_view: Open) -> None:
    page = open_view("tiles", hash="?schedule=none&N=x&d=-4&M=0&B_r=0&B_c=99999")
    here = mine(page)
    assert (here["x"], here["y"]) == (32, N)
    page = open_view("tiles", hash="?schedule=flash2_keep&W=99999&N=100")
    assert page.locator(".tiles").get_by_label("W", exact=True).input_value() == "100"


@pytest.mark.timed
@pytest.mark.parametrize("schedule", PLANES)
def test_a_change_is_answered_at_once(schedule: str, open_view: Open) -> None:
    size = "n" if schedule == "matmul" else "N"
    page = open_view("tiles", hash=f"?schedule={schedule}&{size}=4096&m=4096&M=49152")
    for name, values in (
        (size, ("4095", "4096")),
        ("M", ("50000", "49152")),
        (PLANES[schedule][0], ("77", "99")),
    ):
        field = page.locator(".tiles").get_by_label(name, exact=True)
        took = answers_in(
            field,
            f"""(field, k) => {{
                field.value = {list(values)}[k % 2];
                field.dispatchEvent(new Event("input", {{ bubbles: true }}));
            }}""",
        )
        assert took < 100, (schedule, name)
