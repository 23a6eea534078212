"""The ski-slope under masks, with keys and heads of their own: Python's words, tiles and bounds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from commands import run_json
from engine import asker
from screens import texts
from sizes import draws
from speed import ONWARD, answers_in

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.bounds import bounds_for
from iosim.core.problem import Attention
from iosim.core.tiling import optimal_tiles, smallest_capacity
from iosim.lab.data.watch import MASKS

LINKS = draws(120, 30)
Open = Callable[..., Any]


def typed(rng: random.Random) -> tuple[Attention, dict[str, str]]:
    """A problem with any options, and the link that says it."""

    def size(most: float) -> int:
        return max(1, int(most ** rng.random() * 1.2))

    mask, most = rng.choice(list(MASKS)), 2 ** rng.uniform(0, 9)
    given: dict[str, Any] = {"N": size(most), "d": size(70), "heads": size(3)}
    apart = {"N_k": size(most), "d_v": size(70), "kv_heads": size(3)}
    given |= {k: v for k, v in apart.items() if rng.random() < 0.4}
    given["heads"] *= given.get("kv_heads", 1)
    if "left" in MASKS[mask] and rng.random() < 0.3:
        given["sinks"] = size(20)
    if MASKS[mask] and "N_k" in given and rng.random() < 0.3:
        given["align"] = "upper left"
    limits = {x: size(most) - 1 for x in MASKS[mask] if x != "causal"}
    link = {"mask": mask, **given, **limits}
    if "causal" in MASKS[mask]:
        given["causal"] = True
    if limits:
        given["window"] = (limits.get("left"), limits.get("right"))
    return Attention(**given), {k: str(v) for k, v in link.items()}


def best(program: Any, problem: Attention, M: int) -> Any:
    """The tiles of the fewest words; None where none fit."""
    try:
        return optimal_tiles(program, problem, M)
    except CapacityError:
        return None


def test_columns_are_python_s(tmp_path: Any, only: Callable[..., Any]) -> None:
    rng = random.Random(17)
    cases = [(*typed(rng), int(2 ** rng.uniform(2, 15))) for _ in range(LINKS)]
    ask = asker(tmp_path / "own.mjs", "src/views/slope/own.cli.ts")
    asked = [only("slope", "watch"), *({"params": p, "M": M} for _, p, M in cases)]
    seen = dict.fromkeys(("runs", "too small", "lacks", "covered", "not covered"), 0)
    for (problem, link, M), answer in zip(cases, ask(asked)[1:], strict=True):
        assert not answer["wrong"], (link, answer)
        for algorithm in iosim.all_algorithms("attention"):
            name = algorithm.name
            if name in answer["lacks"]:
                seen["lacks"] += 1
                assert name not in answer["readings"]
                try:
                    algorithm.program_for(problem)
                except InputError:
                    continue
                # A set of options for which no program travels.
                assert "sinks" in link or "align" in link, (link, answer["lacks"])
                continue
            program, reading = algorithm.program_for(problem), answer["readings"][name]
            assert answer["least"][name] == smallest_capacity(program, problem)
            found = best(program, problem, M)
            if reading is None:
                assert found is None
                seen["too small"] += 1
                continue
            assert int(reading["words"]) == found.total_words, (link, name, M)
            assert {x: reading["tiles"][x] for x in found.tiles} == found.tiles
            assert int(reading["peak"]) == found.peak_words <= M
            seen["runs"] += 1
        for row in bounds_for(problem, M):
            if [klass.name for klass in row.classes] == ["stationary"]:
                assert row.name not in answer["bounds"]  # not of all schedules of the view
                continue
            said = answer["bounds"][row.name]
            assert (said is None) == (row.words is None), (link, row.name)
            assert said is None or said == pytest.approx(row.words, rel=1e-12)
            seen["not covered" if said is None else "covered"] += 1
    assert min(seen.values()) > LINKS / 4, seen


CASES = [
    ("mask=causal", ["--causal"], {"N": 200, "d": 16, "heads": 2, "M": 300}),
    ("mask=causal window&left=20", ["--causal", "--window", "20,"], {"N": 150, "d": 8, "M": 200}),
    ("mask=window&left=9&right=4", ["--window", "9,4"], {"N": 90, "d": 8, "M": 400}),
    (
        "mask=causal",
        ["--causal"],
        {"N": 10, "N_k": 300, "d": 8, "heads": 4, "kv_heads": 2, "M": 600},
    ),
    ("", [], {"N": 64, "N_k": 200, "d": 8, "d_v": 12, "M": 500}),
]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def table(page: Any) -> dict[str, dict[str, Any]]:
    """The rows of the table at the cursor, when every tile is found; the last is the bound."""
    page.locator(".slope-reading[aria-busy='false']").wait_for(timeout=60_000)
    found = {}
    for first, words, _, peak in texts(page.locator(".slope-reading tbody tr")):
        name, _, below = first.strip().partition("\n")
        tiles = {x: number(v) for x, v in re.findall(r"(\w+) = ([\d,]+)", below)}
        found[name.split()[0]] = {"words": words and number(words), "tiles": tiles, "peak": peak}
    return found


@pytest.mark.parametrize(("link", "options", "sizes"), CASES)
def test_numbers_under_a_mask_are_those_of_the_commands(
    link: str, options: list[str], sizes: dict[str, int], open_view: Open
) -> None:
    page = open_view(
        "slope", hash="?" + "&".join(f"{k}={v}" for k, v in sizes.items()) + "&" + link
    )
    words = [w for k, v in sizes.items() for w in (f"--{k.replace('_', '-')}", v)]
    said = run_json("tightness", *words, *options)
    rows = table(page)
    floor = list(rows)[-1]
    for name, row in rows.items():
        if row["peak"]:
            want = run_json("count", name, *words, *options)
            assert row["words"] == want["total_words"], name
            assert row["tiles"] == want["tiles"], name
            assert number(row["peak"]) == want["peak_words"], name
    fewest = page.locator(".slope-reading tr:has(.slope-fewest) td:first-child").first.inner_text()
    assert fewest.split()[0] == said["best_algorithm"]
    assert rows[said["best_algorithm"]]["words"] == said["best_words"]
    assert floor == said["lower_bound"]
    assert rows[floor]["words"] == round(said["lower_bound_words"])
    page.locator(".slope-bounds summary").click()
    listed = {cells[0]: cells[2] for cells in texts(page.locator(".slope-bounds tbody tr"))}
    for row in run_json("bounds", *words, *options):
        if row["class"] == ["stationary"]:
            continue
        if row["words"] is None:
            assert listed[row["name"]].startswith("does not apply")
        else:
            assert listed[row["name"]] == f"{round(row['words']):,}", row["name"]


def test_a_mask_is_chosen_and_what_does_not_cover_it_says_so(open_view: Open) -> None:
    page = open_view("slope", hash="?preset=16x4&M=20")
    slope = page.locator(".slope")
    dense = table(page)
    page.locator(".slope-options summary").click()
    slope.get_by_label("A row sees").select_option("causal")
    page.wait_for_url("**mask=causal**")
    masked = table(page)
    assert masked["flash2"]["words"] < dense["flash2"]["words"]
    want = run_json("count", "flash2", "--N", 16, "--d", 4, "--M", 20, "--causal")
    assert masked["flash2"]["words"] == want["total_words"]
    published = page.get_by_role("button", name=re.compile("published: attenio"))
    assert published.inner_text() == "published: attenio (not with causal)"
    page.locator(".slope-bounds summary").click()
    assert "its theorem does not cover causal" in page.locator(".slope-bounds").inner_text()
    slope.get_by_label("A row sees").select_option("window")
    table(page)
    assert "flash2_keep (it takes no window)" in page.locator(".slope-lacking").inner_text()
    # Keys apart bring the schedules that are for them.
    slope.get_by_label("A row sees").select_option("all columns")
    page.get_by_role("button", name="N_k", exact=True).click()
    assert "split_kv" in table(page)
    # What divides nothing is said beside its field, and the numbers stay.
    page.get_by_role("button", name="N_k", exact=True).click()
    slope.get_by_label("heads", exact=True).fill("3")
    page.get_by_role("button", name="kv_heads", exact=True).click()
    before = table(page)
    slope.get_by_label("kv_heads", exact=True).fill("2")
    message = slope.locator(".field .wrong").inner_text()
    assert message == "kv_heads = 2 doesn't divide heads = 3: give a divisor"
    assert table(page) == before
    slope.get_by_label("kv_heads", exact=True).fill("1")
    slope.locator(".field .wrong").wait_for(state="detached")
    # A preset is dense again.
    slope.get_by_label("Problem").select_option("16x4")
    slope.get_by_label("M", exact=True).fill("20")
    page.wait_for_url("**#slope?preset=16x4&M=20")
    assert table(page)["flash2"] == dense["flash2"]


def test_a_link_that_is_not_understood_says_so(open_view: Open) -> None:
    page = open_view("slope", hash="?N=64&d=8&mask=diagonal&left=x&M=100")
    said = page.locator(".slope .broken").inner_text()
    assert "the link's mask is “diagonal”" in said
    assert "the link's left is “x”" in said
    assert table(page)["flash2"]["words"]


@pytest.mark.timed
def test_a_slider_is_answered_under_a_mask(open_view: Open) -> None:
    page = open_view("slope", hash="?N=4096&d=128&mask=causal&M=16384")
    table(page)
    took = answers_in(page.locator(".slope .size input[type=range]").first, ONWARD)
    print(f"slope, causal: N is answered in {took:.0f} ms")
    assert took < 100
