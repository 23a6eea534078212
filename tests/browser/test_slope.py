"""The ski-slope in a browser: its numbers are those of iosim's commands, however M is moved."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import pytest
from commands import run_json
from screens import refuses, texts
from speed import ARROW, ONWARD, answers_in

from iosim.bounds import best_lower_bound, bounds_for
from iosim.core.problem import Attention

N, D = 1024, 64
Open = Callable[..., Any]


def rows(page: Any) -> dict[str, dict[str, Any]]:
    """The table at the cursor, by schedule; the last row is the bound."""
    found, here = {}, page.locator(".slope-reading tbody tr")
    under = here.evaluate_all(
        """rows => rows.map((row) => [row.querySelector("td small").innerText,
            row.querySelectorAll("td:first-child .slope-fewest").length])"""
    )
    for (first, words, ratio, peak), (small, fewest) in zip(texts(here), under, strict=True):
        name = re.match(r"[\w-]+", first.strip())
        assert name is not None
        tiles = re.findall(r"(\w+) = ([\d,]+)", small)
        found[name[0]] = {
            "words": number(words),
            "peak": number(peak),
            "ratio": ratio,
            "tiles": {x: int(v.replace(",", "")) for x, v in tiles},
            "fewest": fewest == 1,
        }
    return found


def number(text: str) -> int | None:
    return int(text.replace(",", "")) if text else None


def cursor(page: Any) -> Any:
    return page.get_by_role("slider", name="Fast memory M, cursor")


def at(page: Any) -> int:
    return int(cursor(page).get_attribute("aria-valuenow"))


def place(page: Any, M: int) -> tuple[float, float]:
    """Where an M is on the screen, from the first and the last tick of the axis."""
    page.locator(".slope-plot").scroll_into_view_if_needed()
    texts = page.locator(".slope-plot .axis").first.locator("g text")
    left = {}
    for text in texts.all():
        box = text.bounding_box()
        left[int(text.text_content().replace(",", ""))] = box["x"] + box["width"] / 2
    (a, first), *_, (b, last) = sorted(left.items())
    x = first + (last - first) * math.log(M / a) / math.log(b / a)
    box = page.locator(".slope-plot").bounding_box()
    return x, box["y"] + box["height"] / 2


def type_M(page: Any, text: object) -> None:
    page.locator(".slope").get_by_label("M", exact=True).fill(str(text))


@pytest.fixture
def sizes(data: dict[str, Any]) -> list[int]:
    found: list[int] = data["views"]["slope"]["presets"][0]["sizes"]
    return found


# Below, at and above d², where the winner changes, and between sizes of the table.
@pytest.mark.parametrize("M", [1024, 4095, 4096, 4161, 5003, 16384])
def test_numbers_are_those_of_the_commands(M: int, open_view: Open, sizes: list[int]) -> None:
    page = open_view("slope")
    type_M(page, M)
    page.wait_for_function(
        f"document.querySelector('.slope-told').innerText.includes('M = {M:,} ')"
    )
    assert at(page) == M
    seen = rows(page)
    floor = seen.popitem()
    best = run_json("tightness", "--N", N, "--d", D, "--M", M)
    for name, row in seen.items():
        want = run_json("count", name, "--N", N, "--d", D, "--M", M)
        assert row["words"] == want["total_words"], name
        assert row["tiles"] == want["tiles"], name
        assert row["peak"] == want["peak_words"], name
    winner = next(name for name, row in seen.items() if row["fewest"])
    assert (winner, seen[winner]["words"]) == (best["best_algorithm"], best["best_words"])
    # A bound between sizes of the table is that of the next one, and so below the exact one.
    size = sizes[bisect_left(sizes, M)]
    words, name = best_lower_bound(Attention(N, D), size)
    assert floor == (name, floor[1])
    assert floor[1]["words"] == round(words) <= round(best["lower_bound_words"])
    if size == M:
        assert seen[winner]["ratio"] == f"{best['gap']:.3f}"


def test_a_class_has_its_own_bound(open_view: Open) -> None:
    page = open_view("slope")
    for klass in ("recompute", "trees"):
        page.locator(".slope").get_by_label("Bound of class").select_option(klass)
        want = run_json("tightness", "--N", N, "--d", D, "--M", D * D, "--class", klass)
        name, row = rows(page).popitem()
        assert (name, row["words"]) == (want["lower_bound"], round(want["lower_bound_words"]))
    page.get_by_text("All bounds at M").click()
    text = page.locator(".slope-bounds").inner_text()
    for row in run_json("bounds", "--N", N, "--d", D, "--M", D * D):
        # A bound of `stationary` is not one of all schedules of the view.
        if row["words"] is not None and row["class"] != ["stationary"]:
            assert f"{row['words']:,.0f}" in text, row["name"]


def test_keys_move_the_cursor_over_the_table(open_view: Open, sizes: list[int]) -> None:
    page = open_view("slope")
    cursor(page).focus()
    k = sizes.index(D * D)
    moves = {
        "ArrowRight": sizes[k + 1],
        "ArrowLeft": sizes[k],
        "ArrowDown": sizes[k - 1],
        "ArrowUp": sizes[k],
        "PageUp": 2 * D * D,
        "PageDown": D * D,
        "Home": sizes[0],
        "End": sizes[-1],
    }
    for key, M in moves.items():
        page.keyboard.press(key)
        page.wait_for_function(
            f"document.querySelector('.slope-cursor').getAttribute('aria-valuenow') === '{M}'"
        )
    assert "M = 262,144" in cursor(page).get_attribute("aria-valuetext")
    # From between two sizes a key leads to either.
    type_M(page, 4200)
    cursor(page).focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(50)
    assert at(page) == sizes[bisect_left(sizes, 4201)]


def test_the_cursor_is_dragged_and_the_winner_changes(open_view: Open, sizes: list[int]) -> None:
    page = open_view("slope")
    x, y = place(page, 1024)
    page.mouse.move(x, y)
    page.mouse.down()
    assert at(page) in sizes
    assert abs(at(page) / 1024 - 1) < 0.1
    assert "stores the scores, moves fewest" in page.locator(".slope-told").inner_text()
    for M in (2048, 4096, 8192):
        page.mouse.move(*place(page, M))
    assert at(page) in sizes
    assert abs(at(page) / 8192 - 1) < 0.1
    assert "never stores the scores, moves fewest" in page.locator(".slope-told").inner_text()
    page.mouse.up()
    page.mouse.move(x, y)
    assert abs(at(page) / 8192 - 1) < 0.1
    row = rows(page)["flash2"]
    assert (
        row["words"]
        == run_json("count", "flash2", "--N", N, "--d", D, "--M", at(page))["total_words"]
    )


def test_a_finger_moves_it(open_view: Open) -> None:
    page = open_view("slope", 390, 844, has_touch=True)
    x, y = place(page, 256)
    page.touchscreen.tap(x, y)
    assert abs(at(page) / 256 - 1) < 0.2
    session = page.context.new_cdp_session(page)
    for kind, M in (("touchStart", 256), ("touchMove", 1024), ("touchMove", 16384)):
        x, y = place(page, M)
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert abs(at(page) / 16384 - 1) < 0.2


def test_the_legend_hides_and_shows(open_view: Open) -> None:
    page = open_view("slope")
    whole = set(rows(page))
    assert "flash1" in whole
    toggle = page.get_by_role("button", name="flash1", exact=True)
    curve = page.locator('.slope-plot [data-line="flash1"]')
    assert (toggle.get_attribute("aria-pressed"), curve.count()) == ("true", 1)
    toggle.click()
    curve.wait_for(state="detached")
    assert toggle.get_attribute("aria-pressed") == "false"
    toggle.focus()
    page.keyboard.press("Space")
    curve.wait_for(state="attached")
    page.get_by_role("button", name=re.compile("largest lower bound")).click()
    page.locator('.slope-plot [data-line="largest lower bound"]').wait_for(state="detached")
    page.get_by_text("Bounds one by one").click()
    page.get_by_role("button", name="saha-ye-small", exact=True).press("Enter")
    page.locator('.slope-plot [data-line="saha-ye-small"]').wait_for(state="attached")
    # The table stays whole.
    assert set(rows(page)) == whole


def test_every_preset_and_its_marks(open_view: Open, data: dict[str, Any]) -> None:
    page = open_view("slope")
    for preset in data["views"]["slope"]["presets"]:
        n, d = preset["N"], preset["d"]
        page.locator(".slope").get_by_label("Problem").select_option(f"{n}x{d}")
        for name, M in (("d²", d * d), ("4d²", 4 * d * d), ("Nd", n * d)):
            page.get_by_role("button", name=f"M = {name} = {M:,}").click()
            assert f"M = {M:,} " in page.locator(".slope-told").inner_text()
            assert at(page) == M
        seen = rows(page)
        best = min(row["words"] for row in seen.values() if row["words"] and row["peak"])
        assert best == run_json("tightness", "--N", n, "--d", d, "--M", n * d)["best_words"]


BAD_M = [
    ("", "whole number"),
    ("4k6", "whole number"),
    ("-4", "M is -4; it is at least 3"),
    ("2", "at least 3"),
    ("1e9", "M is 1e9; it is at most 262,144"),
    ("9Gi", "at most"),
]


def test_bad_sizes_are_said_beside_the_field(open_view: Open) -> None:
    page = open_view("slope")
    refuses(page, [("M", text, says) for text, says in BAD_M], rows, ".slope")


def wait_for_sizes(page: Any) -> None:
    """Wait until every size of M is there."""
    page.locator(".slope [data-missing='0']").wait_for(timeout=60_000)


def type_size(page: Any, name: str, text: object) -> None:
    page.locator(".slope").get_by_label(name, exact=True).fill(str(text))


@pytest.mark.parametrize(
    ("N", "d", "heads", "M"), [(300, 20, 3, 700), (4096, 128, 16, 24576), (7, 3, 1, 40)]
)
def test_sizes_of_ones_own_are_those_of_the_commands(
    N: int, d: int, heads: int, M: int, open_view: Open
) -> None:
    page = open_view("slope", hash=f"?N={N}&d={d}&heads={heads}&M={M}")
    said = run_json("tightness", "--N", N, "--d", d, "--heads", heads, "--M", M)
    seen = rows(page)
    for name, row in seen.items():
        if row["peak"] is None:
            continue
        tiles = run_json("tiles", name, "--N", N, "--d", d, "--heads", heads, "--M", M)
        assert row["tiles"] == tiles["tiles"]
        assert row["words"] == tiles["total_words"]
        assert row["peak"] == tiles["peak_words"]
    assert min(x["words"] for x in seen.values() if x["peak"]) == said["best_words"]
    bound = best_lower_bound(Attention(N, d, heads), M)
    assert seen[bound.name]["words"] == round(bound.words)
    # The curves fill in, and the table at the cursor stays as it is.
    wait_for_sizes(page)
    assert rows(page) == seen
    page.locator(".slope-bounds summary").click()
    listed = {cells[0]: cells[2] for cells in texts(page.locator(".slope-bounds tbody tr"))}
    for row in bounds_for(Attention(N, d, heads), M):
        if [klass.name for klass in row.classes] == ["stationary"]:
            assert row.name not in listed  # not of all schedules of the view
            continue
        if row.words is None:
            assert listed[row.name].startswith("does not apply")
        else:
            assert listed[row.name] == f"{round(row.words):,}"


def test_a_size_that_is_typed_leaves_the_preset(open_view: Open) -> None:
    page = open_view("slope")
    problem = page.locator(".slope").get_by_label("Problem")
    before = rows(page)
    type_size(page, "N", 2048)
    assert problem.input_value() == ""
    assert f"{4096} = 1.00 d²" in page.locator(".slope-told").inner_text().replace(",", "")
    assert rows(page) != before
    page.locator(".slope").get_by_label("heads, slider").press("End")
    page.wait_for_url("**heads=1024**")
    # The same problem as the preset has the same words, by another way.
    for name, value in (("heads", 1), ("N", N)):
        type_size(page, name, value)
    assert rows(page) == before
    problem.select_option(f"{N}x{D}")
    page.wait_for_url(f"**preset={N}x{D}**")
    assert "N=" not in page.url
    assert rows(page) == before
    assert page.locator('.slope-plot [data-line="naive"]').count() == 1


BAD_SIZES = [
    ("N", "64", "", "whole number"),
    ("N", "64", "0", "at least 1"),
    ("d", "8", "4096", "at most 1,024"),
    ("heads", "2", "x", "whole number"),
    ("N", "64", "9Mi", "at most 1,048,576"),
]


def test_a_bad_size_is_said_beside_its_field(open_view: Open) -> None:
    page = open_view("slope", hash="?N=64&d=8&heads=2")
    before = rows(page)
    for name, was, text, says in BAD_SIZES:
        type_size(page, name, text)
        assert says in page.locator(".slope .field .wrong").inner_text()
        assert rows(page) == before, (name, text)
        type_size(page, name, was)
        page.locator(".slope .field .wrong").wait_for(state="detached")


@pytest.mark.timed
def test_the_cursor_is_answered_while_curves_fill_in(open_view: Open) -> None:
    page = open_view("slope", hash="?N=4096&d=128&heads=8")
    took = answers_in(page.locator(".slope .size input[type=range]").first, ONWARD)
    print(f"slope: N is answered in {took:.0f} ms")
    assert took < 100
    wait_for_sizes(page)


def test_a_broken_link_opens_what_there_is(open_view: Open) -> None:
    page = open_view("slope", hash="?preset=7x7&class=none&M=-3&hidden=,x&shown=%00")
    assert at(page) == D * D
    page = open_view("slope", hash="?preset=4096x128&M=5000&hidden=naive")
    assert at(page) == 5000
    assert page.locator('.slope-plot [data-line="naive"]').count() == 0


@pytest.mark.timed
def test_a_move_is_answered_at_once(open_view: Open) -> None:
    page = open_view("slope", hash="?preset=4096x128")
    cursor(page).focus()
    took = answers_in(cursor(page), ARROW, often=20)
    assert took < 100
