"""Watch, driven in Chromium: its counters are `iosim count`'s, wherever one stands."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run_json
from playwright.sync_api import expect
from screens import refuses

import iosim
from iosim.core.program.walk import Instance
from iosim.core.tiling import smallest_capacity
from iosim.core.trace import transfers
from iosim.lab.data.watch import data_of
from iosim.lab.page import envelope
from iosim.lab.page import page as written

Open = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """What a link says of a schedule, and the words of the command line that say the same."""

    schedule: str
    sizes: dict[str, int]
    options: tuple[str, ...] = ()
    link: str = ""
    given: tuple[tuple[str, Any], ...] = ()  # options, in Python

    @property
    def hash(self) -> str:
        """The part of the address."""
        return (
            f"?algo={self.schedule}&"
            + "&".join(f"{k}={v}" for k, v in self.sizes.items())
            + (self.link)
        )

    @property
    def words(self) -> list[str]:
        """Arguments of `iosim count`."""
        sizes = (w for k, v in self.sizes.items() for w in (f"--{k.replace('_', '-')}", str(v)))
        return [self.schedule, *sizes, *self.options]

    def instance(self, tiles: dict[str, int]) -> Instance:
        """The same in Python."""
        kind = iosim.algorithm(self.schedule).problem
        given: dict[str, Any] = {k: v for k, v in self.sizes.items() if k != "M"}
        problem = kind(**given, **dict(self.given))
        program = iosim.algorithm(self.schedule).program_for(problem)
        return iosim.bind(program, problem.sizes, tiles)


CASES = [
    Case("flash2", {"N": 100, "d": 8, "M": 500}),
    Case("flash1", {"N": 64, "d": 8, "heads": 2, "M": 400}),
    Case("naive", {"N": 50, "d": 6, "M": 120}),
    Case("small_cache", {"N": 64, "d": 16, "M": 100}),
    Case("flash2_keep", {"N": 60, "d": 4, "M": 300}),
    Case("decode", {"N": 1, "d": 8, "heads": 4, "N_k": 99, "kv_heads": 2, "M": 300}),
    Case("matmul", {"m": 30, "n": 31, "k": 7, "M": 64}),
    Case("copy", {"n": 100, "M": 7}),
    Case(
        "flash2", {"N": 100, "d": 8, "M": 500}, ("--causal",), "&mask=causal", (("causal", True),)
    ),
    Case("flash2", {"N": 50, "d": 8, "d_v": 3, "M": 300}),
    Case("naive", {"N": 40, "d": 4, "heads": 4, "kv_heads": 2, "d_v": 9, "M": 300}),
    Case(
        "flash2",
        {"N": 60, "d": 4, "sinks": 5, "M": 300},
        ("--causal", "--window", "9,"),
        "&mask=causal window&left=9",
        (("causal", True), ("window", (9, None))),
    ),
    Case(
        "flash1",
        {"N": 30, "N_k": 47, "d": 4, "d_v": 6, "sinks": 2, "M": 400},
        ("--window", "6,3", "--align", "upper-left"),
        "&mask=window&left=6&right=3&align=upper left",
        (("window", (6, 3)), ("align", "upper left")),
    ),
    Case("grouped_rows", {"N": 30, "d": 8, "heads": 4, "kv_heads": 2, "M": 500}),
    Case("two_kernels", {"N": 40, "d": 4, "M": 300}),
    Case(
        "small_backward",
        {"N": 20, "d": 6, "M": 60},
        ("--causal",),
        "&mask=causal",
        (("causal", True),),
    ),
    Case(
        "flash1_backward",
        {"N": 20, "N_k": 27, "d": 4, "heads": 2, "kv_heads": 1, "M": 300},
        ("--window", "6,3"),
        "&mask=window&left=6&right=3",
        (("window", (6, 3)),),
    ),
]


def counters(page: Any) -> dict[str, int]:
    """What stands under the tensors of the first schedule."""
    stage = page.locator(".stage").first
    found = stage.locator("[data-counter]").evaluate_all(
        "xs => xs.map(x => [x.dataset.counter, x.textContent])"
    )
    return {key: int(text.replace(",", "")) for key, text in found}


def tiles(page: Any) -> dict[str, int]:
    """The tiles that the page says when their search has ended."""
    until(page, lambda: "are searched" not in page.locator(".tiling summary").first.text_content())
    text = page.locator(".tiling .told").first.text_content()
    return {k: int(v.replace(",", "")) for k, v in re.findall(r"(\w+) = ([\d,]+)", text)}


def position(page: Any) -> int:
    return int(page.locator("[data-position]").get_attribute("data-position"))


def choice(page: Any, name: str) -> Any:
    """A list to choose from, by its label."""
    return page.locator(f"label:has(> span:text-is('{name}')) select")


def until(page: Any, holds: Callable[[], bool], tries: int = 100) -> None:
    """Wait for what soon holds; the page's policy forbids to evaluate text while waiting."""
    for _ in range(tries):
        if holds():
            return
        page.wait_for_timeout(50)
    raise AssertionError("it never held")


def press(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.schedule}{''.join(x.options)}")
def test_counters_of_the_end_are_those_of_count(case: Case, open_view: Open) -> None:
    page = open_view("watch", hash=case.hash)
    press(page, "End")
    mine = tiles(page)
    chosen = ["--tiles", ",".join(f"{k}={v}" for k, v in mine.items())]
    counted = run_json("count", *case.words, *chosen)
    expected = {
        f"{way} {tensor}": words
        for way, by in counted["by_tensor"].items()
        for tensor, words in by.items()
    }
    shown = counters(page)
    assert shown == expected
    assert sum(shown.values()) == counted["total_words"]
    # Beside the closed form: every counter has arrived, and has the text of Python's.
    marks = page.locator(".counters tbody tr").evaluate_all(
        "xs => xs.map(x => x.cells[3].textContent)"
    )
    assert set(marks) == {"✓"}
    assert mine == run_json("tiles", *case.words)["tiles"]


@pytest.mark.parametrize("case", CASES, ids=lambda x: f"{x.schedule}{''.join(x.options)}")
def test_counters_in_the_middle_are_those_of_a_replay(case: Case, open_view: Open) -> None:
    page = open_view("watch", hash=case.hash)
    moved = list(transfers(case.instance(tiles(page))))
    seen = random.Random(case.schedule).randrange(1, min(len(moved), 12))
    press(page, *["."] * seen)
    expected = dict.fromkeys(counters(page), 0)
    for t in moved[:seen]:
        expected[f"{t.direction} {t.tensor}"] += t.words
    assert counters(page) == expected
    # Forward and back are inverse.
    here = position(page)
    press(page, "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft")
    assert (position(page), counters(page)) == (here, expected)
    press(page, ".", ",")
    assert (position(page), counters(page)) == (here, expected)


def test_anywhere_by_the_slider(open_view: Open) -> None:
    page = open_view("watch", hash="?N=100&d=8&M=500")
    instance = CASES[0].instance(tiles(page))
    slider = page.get_by_label("Step, slider")
    slider.fill("700")
    assert position(page) == 700
    shown = counters(page)
    expected = dict.fromkeys(shown, 0)
    for t in transfers(instance):
        if sum(expected.values()) == sum(shown.values()):
            break
        expected[f"{t.direction} {t.tensor}"] += t.words
    assert shown == expected


def test_play_and_pause(open_view: Open) -> None:
    page = open_view("watch", hash="?N=1024&d=64&M=24576")
    choice(page, "Speed").select_option("256")
    page.get_by_role("button", name="Play").click()
    until(page, lambda: position(page) > 50)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    here = position(page)
    page.wait_for_timeout(150)
    assert position(page) == here
    press(page, "Home")
    assert position(page) == 0


def test_a_loops_next_turn(open_view: Open) -> None:
    page = open_view("watch", hash="?N=100&d=8&M=500")
    loop = choice(page, "Loop")
    loop.select_option(label="3: grid i in N by B_r")
    page.get_by_role("button", name="Next iteration of the loop").click()
    assert "i = 1 of" in page.locator(".now").text_content()
    page.get_by_role("button", name="Next iteration of the loop").click()
    assert "i = 2 of" in page.locator(".now").text_content()
    assert page.locator(".listing [aria-current=step] .line").text_content() == "3"
    page.get_by_role("button", name="Previous iteration of the loop").click()
    assert "i = 1 of" in page.locator(".now").text_content()
    press(page, "]")
    assert "i = 2 of" in page.locator(".now").text_content()


def test_two_schedules_on_one_clock(open_view: Open) -> None:
    page = open_view("watch", hash="?algo=small_cache&vs=flash2&N=64&d=16&M=100")
    stages = page.locator(".stage")
    assert stages.count() == 2
    press(page, *["ArrowRight"] * 5)
    clock = position(page)
    for k in range(2):
        row = stages.nth(k).locator(".counters tbody tr").last
        assert int(row.locator("td").nth(1).text_content().replace(",", "")) <= clock
    press(page, *["ArrowLeft"] * 5)
    assert position(page) == 0
    press(page, "End")
    for k, name in enumerate(("small_cache", "flash2")):
        best = run_json("tiles", name, "--N", 64, "--d", 16, "--M", 100)
        row = stages.nth(k).locator(".counters tbody tr").last
        shown = row.locator("td").nth(1).text_content()
        assert int(shown.replace(",", "")) == best["total_words"]


def test_an_m_that_is_too_small_says_what_fits(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=20")
    program, problem = iosim.algorithm("flash2").program, iosim.Attention(64, 8)
    least = smallest_capacity(program, problem)
    assert "doesn't fit" in page.locator(".now").text_content()
    assert f"needs at least {least} words, and M is 20" in page.locator(".small").text_content()
    page.get_by_role("button", name=f"Take M = {least}").click()
    assert page.get_by_label("M, words", exact=True).input_value() == str(least)
    assert page.locator(".small").count() == 0
    press(page, "End")
    assert sum(counters(page).values()) == iosim.optimal_tiles(program, problem, least).total_words


def test_own_tiles_that_do_not_fit_say_their_peak(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=100&tiles=B_r=32,B_c=16")
    program, problem = iosim.algorithm("flash2").program, iosim.Attention(64, 8)
    held = iosim.peak(iosim.bind(program, problem.sizes, {"B_r": 32, "B_c": 16}))
    assert f"need at least {held:,} words" in page.locator(".small").text_content()
    page.get_by_label("B_r", exact=True).fill("2")
    page.get_by_label("B_c", exact=True).fill("3")
    assert page.locator(".small").count() == 0
    page.get_by_role("button", name="Choose for the fewest words").click()
    assert tiles(page) == iosim.optimal_tiles(program, problem, 100).tiles


def test_what_is_said_is_in_sentences(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200")
    said = page.locator("[aria-live=polite].unseen")
    expect(said).to_contain_text("Nothing has run yet. Fast memory 0 of 200 words")
    press(page, "ArrowRight")
    expect(said).to_contain_text("step 1 of ")
    assert ".." not in said.text_content()


BAD = [
    ("N", "none", "N is a whole number"),
    ("N", "0", "it is at least 1"),
    ("N", "100000", "it is at most 65,536"),
    ("d", "", "d is a whole number"),
    ("heads", "-3", "heads is -3; it is at least 1"),
    ("N", "1e30", "N is 1e30; it is at most 65,536"),
    ("M, words", "1.5", "is a whole number"),
]


def test_bad_input_is_said_beside_its_field(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200&at=30")
    refuses(page, BAD, counters)


@pytest.mark.parametrize(
    ("hash", "field", "typed", "says"),
    [
        ("&d_v=4", "d_v", "0", "it is at least 1"),
        ("&d_v=4", "d_v", "wide", "d_v is a whole number"),
        ("&mask=causal window&left=9", "sinks", "1.5", "sinks is a whole number"),
        ("&mask=causal window&left=9", "sinks", "100000", "it is at most 65,536"),
    ],
)
def test_bad_options_are_said_beside_their_field(
    hash: str, field: str, typed: str, says: str, open_view: Open
) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200&at=30" + hash)
    refuses(page, [(field, typed, says)], counters)


def test_options_are_where_they_say_something(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200")
    sinks, align = page.get_by_label("sinks", exact=True), choice(page, "align")
    assert (sinks.count(), align.count()) == (0, 0)
    choice(page, "A row sees").select_option("causal")
    assert (sinks.count(), align.count()) == (0, 1)
    choice(page, "A row sees").select_option("window")
    assert (sinks.count(), align.count()) == (1, 1)
    page.get_by_role("button", name="d_v", exact=True).click()
    box = page.get_by_label("d_v", exact=True)
    assert box.input_value() == "8"
    box.fill("5")
    sinks.fill("3")
    until(page, lambda: "d_v=5" in page.url and "sinks=3" in page.url)
    align.select_option("upper left")
    assert "moves the same words" in page.locator(".heading").text_content()
    # A schedule that takes no window takes its sinks back.
    choice(page, "Schedule").select_option("flash2_keep")
    assert sinks.count() == 0
    assert page.locator(".fields .wrong").count() == 0
    assert box.input_value() == "5"


def cells(page: Any) -> list[list[bool]]:
    """The block mask that the page draws."""
    rows = page.locator(".marked [role=row]").evaluate_all(
        "xs => xs.map(x => [...x.children].map(y => y.getAttribute('aria-selected') === 'true'))"
    )
    return [list(row) for row in rows]


def blocks_counted(page: Any, tmp_path: Path, words: list[str]) -> dict[str, int]:
    """What `iosim count` says of the mask and the tiles that the page shows."""
    np.save(tmp_path / "mask.npy", np.array(cells(page)))
    chosen = ",".join(f"{k}={v}" for k, v in tiles(page).items())
    counted = run_json(
        "count",
        "block_sparse",
        *words,
        "--tiles",
        chosen,
        "--mask",
        f"blocks={tmp_path / 'mask.npy'}",
    )
    return {
        f"{way} {tensor}": n for way, by in counted["by_tensor"].items() for tensor, n in by.items()
    }


def test_blocks_are_chosen_and_drawn(open_view: Open, tmp_path: Path) -> None:
    page = open_view("watch", hash="?algo=block_sparse&N=64&N_k=80&d=4&M=400")
    words = ["--N", "64", "--N-k", "80", "--d", "4", "--M", "400"]
    names = choice(page, "Marked blocks").locator("option").all_text_contents()
    for name in names:
        choice(page, "Marked blocks").select_option(name)
        press(page, "End")
        assert counters(page) == blocks_counted(page, tmp_path, words), name
    choice(page, "Marked blocks").select_option("band")
    before = cells(page)
    # By keyboard: the third block of the second row.
    page.locator(".marked [role=gridcell]").first.focus()
    press(page, "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", " ")
    after = cells(page)
    assert [
        (i, j) for i, row in enumerate(after) for j, x in enumerate(row) if x != before[i][j]
    ] == [(1, 3)]
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "2, 4"
    until(page, lambda: "blocks=drawn" in page.url)
    page.locator(".marked [role=gridcell]").nth(0).click()
    assert cells(page)[0][0] is not after[0][0]
    page.locator(".heading").first.click()
    page.evaluate("document.activeElement.blur()")
    press(page, "End")
    assert counters(page) == blocks_counted(page, tmp_path, words)
    # Other tiles take their blocks from the same places.
    page.locator(".tiling summary").click()
    page.get_by_label("B_r", exact=True).fill("9")
    page.evaluate("document.activeElement.blur()")
    press(page, "End")
    assert len(cells(page)) == 8
    assert counters(page) == blocks_counted(page, tmp_path, words)


def test_too_many_blocks_are_refused(open_view: Open) -> None:
    page = open_view("watch", hash="?algo=block_sparse&N=4096&N_k=4096&d=4&M=4000")
    assert page.locator(".fields .wrong").count() == 0
    before = tiles(page)
    page.locator(".tiling summary").click()
    page.get_by_label("B_r", exact=True).fill("1")
    page.get_by_label("B_c", exact=True).fill("8")
    assert "choose larger tiles" in page.locator(".fields").text_content()
    assert page.locator(".stage").count() == 1
    page.get_by_label("B_c", exact=True).fill(str(before["B_c"]))
    page.get_by_label("B_r", exact=True).fill(str(before["B_r"]))
    assert page.locator(".fields .wrong").count() == 0


@pytest.mark.parametrize("link", ["drawn:10-1", "drawn:12", "rainbow", "drawn:"])
def test_blocks_of_a_broken_link(link: str, open_view: Open) -> None:
    page = open_view("watch", hash=f"?algo=block_sparse&blocks={link}")
    assert "the link's blocks" in page.locator(".broken").text_content()
    assert page.locator(".stage").count() == 1


def test_heads_that_do_not_divide(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200&heads=4&kv_heads=2&at=30")
    before = counters(page)
    page.get_by_label("kv_heads", exact=True).fill("3")
    assert "kv_heads = 3 doesn't divide heads = 4" in page.locator(".fields").text_content()
    assert counters(page) == before
    page.get_by_label("kv_heads", exact=True).fill("4")
    assert "divide" not in page.locator(".fields").text_content()


def test_a_broken_link_says_so_and_shows_something(open_view: Open) -> None:
    page = open_view("watch", hash="?algo=flash9&N=many&mask=some&tiles=large&vs=none&at=x")
    said = page.locator(".broken").text_content()
    for part in ("flash9", "many", "some", "large", "none", "“x”"):
        assert part in said
    # It stays until something moves.
    page.wait_for_timeout(800)
    assert page.locator(".broken").text_content() == said
    press(page, "ArrowRight")
    until(page, lambda: "“x”" not in page.locator(".broken").text_content())
    assert page.locator(".stage").count() == 1


def test_the_end_stays_the_end(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200")
    press(page, "End")
    ends = [position(page)]
    for N in (128, 32):
        page.locator(".watch").get_by_label("N", exact=True).fill(str(N))
        until(page, lambda: position(page) != ends[-1])
        ends.append(position(page))
        marks = page.locator(".counters tbody tr").evaluate_all(
            "xs => xs.map(x => x.cells[3].textContent)"
        )
        assert set(marks) == {"✓"}
    assert ends[1] > ends[0] > ends[2]


def test_a_link_leads_to_its_moment(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200&at=30")
    assert position(page) == 30
    press(page, "ArrowRight")
    until(page, lambda: "at=31" in page.url)
    page.evaluate("location.hash = location.hash.replace('at=31', 'at=7')")
    until(page, lambda: position(page) == 7)


def test_examples(open_view: Open, data: dict[str, Any]) -> None:
    page = open_view("watch")
    for example in data["views"]["watch"]["examples"]:
        choice(page, "Example").select_option(label=example["name"])
        assert page.locator(".stage").count() == (2 if "vs" in example["params"] else 1)
        assert page.locator(".broken").count() == 0
        assert (page.locator(".small").count() == 1) == ("too small" in example["name"])


def test_every_schedule_with_every_mask(open_view: Open, data: dict[str, Any]) -> None:
    """The end has the words of the closed form, whatever is chosen."""
    page = open_view("watch", hash="?M=65536")
    for schedule in data["views"]["watch"]["schedules"]:
        choice(page, "Schedule").select_option(schedule["name"])
        masks = choice(page, "A row sees")
        names = masks.locator("option").all_text_contents() if masks.count() else [""]
        for name in names:
            if name:
                masks.select_option(name)
            press(page, "End")
            marks = page.locator(".counters tbody tr").evaluate_all(
                "xs => xs.map(x => x.cells[3].textContent)"
            )
            assert set(marks) == {"✓"}, (schedule["name"], name)


def test_what_a_screen_reader_hears(open_view: Open) -> None:
    page = open_view("watch", hash="?N=64&d=8&M=200&at=30")
    status = page.locator(".watch [role=status]")
    until(page, lambda: status.text_content() != "")
    said = status.text_content()
    assert "step 30 of" in said
    assert "words moved" in said
    unnamed = (
        page.locator(".watch")
        .locator("input, select, button")
        .evaluate_all(
            "xs => xs.filter(x => !(x.labels?.length || "
            "x.getAttribute('aria-label') || x.textContent))"
            ".map(x => x.outerHTML)"
        )
    )
    assert unnamed == []


def test_without_motion_only_steps(open_view: Open) -> None:
    page = open_view("watch", hash="?N=1024&d=64&M=24576", reduced_motion="reduce")
    page.wait_for_timeout(300)
    assert position(page) == 0
    press(page, "ArrowRight")
    assert position(page) == 1


SPEED = """async ([label, values]) => {
    const input = [...document.querySelectorAll('.watch input[type=range]')].find(
        x => x.closest('label')?.textContent === label);
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
    const times = [];
    for (const value of values) {
        const start = performance.now();
        set.call(input, value);
        input.dispatchEvent(new Event('input', {bubbles: true}));
        await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
        times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b);
}"""


@pytest.mark.timed
@pytest.mark.parametrize("schedule", ["flash2", "small_cache", "naive"])
@pytest.mark.parametrize("mask", ["", "&mask=causal"])
@pytest.mark.parametrize(
    ("slider", "values", "most"),
    [("M, words, slider", range(600, 900, 15), 100), ("Step, slider", range(999, 40_000, 977), 33)],
    ids=["answered", "drawn"],
)
def test_a_slider_at_4096_is_in_time(
    slider: str, values: range, most: int, mask: str, schedule: str, open_view: Open
) -> None:
    """A change of M is answered, and a step is drawn as a frame is."""
    page = open_view("watch", hash=f"?algo={schedule}&N=4096&d=64&M=24576&at=1000{mask}")
    texts = [str(x) for x in values]
    page.evaluate(SPEED, [slider, texts[:3]])
    times = page.evaluate(SPEED, [slider, texts])
    print(
        f"{schedule}, {slider}{mask}: {times[len(times) // 2]:.1f} ms, at most {times[-1]:.1f} ms"
    )
    assert times[len(times) // 2] < most


def build_instance(name: str) -> Instance:
    """An instance as `iosim.watch` takes it."""
    if name == "blocks":
        entry = iosim.algorithm("block_sparse")
        sizes = entry.problem(N=40, N_k=30, d=4, heads=2).sizes
        mask = np.arange(12).reshape(4, 3) % 5 != 1
        return iosim.bind(entry.program, sizes, {"B_r": 10, "B_c": 12}, {"blocks": mask})
    problem = iosim.Attention(50, 4, 2, causal=True, window=(9, None), sinks=3)
    program = iosim.algorithm("flash2").program_for(problem)
    return iosim.bind(program, problem.sizes, {"B_r": 8, "B_c": 5})


@pytest.mark.parametrize("name", ["blocks", "sinks"])
def test_an_instance_of_ones_own(name: str, open_file: Callable[..., Any], tmp_path: Path) -> None:
    instance = build_instance(name)
    path = tmp_path / "own.html"
    path.write_text(written(envelope({"watch": data_of(instance)})), encoding="utf-8")
    page = open_file(path)
    page.wait_for_selector(".stage")
    assert tiles(page) == {p.name: instance.env[p.name] for p in instance.program.params}
    press(page, "End")
    counted = {f"{way} {x}": n for (way, x), n in iosim.count(instance)}
    assert counters(page) == counted
    press(page, "Home", ".", ".", ".")
    expected = dict.fromkeys(counted, 0)
    for t in itertools.islice(transfers(instance), 3):
        expected[f"{t.direction} {t.tensor}"] += t.words
    assert counters(page) == expected


@pytest.mark.parametrize("vs", ["small_cache", "flash1", "naive"])
def test_a_projector_shows_two_schedules_without_scrolling(vs: str, open_view: Open) -> None:
    """Pictures, counters, fast memory and the current line of both."""
    page = open_view("watch", 1280, 720, hash=f"?algo={vs}&vs=flash2&N=512&d=64&M=1024&at=300000")
    tiles(page)
    for part in (".matrix", ".amounts", ".memory .blocks", ".listing li[aria-current]"):
        for box in page.locator(part).all():
            found = box.bounding_box()
            assert found["y"] + found["height"] <= 720, (vs, part, found)
    assert page.locator(".listing li[aria-current]").count() == 2
    assert page.evaluate("scrollY") == 0
