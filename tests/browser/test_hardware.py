"""View 6: its sweeps and reads are Python's, its tables the records', and it stands bad input."""

from __future__ import annotations

import functools
import itertools
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine import Ask, asker
from playwright.sync_api import expect
from screens import SCHEMES, SIZES, refuses

from iosim.base.reading import read_json
from iosim.gpu import l2
from iosim.gpu.run.job import Job
from iosim.gpu.sweeps import MOST_DRIFT, PACE, Sweeps
from iosim.lab.data import hardware
from iosim.report.table import read_csv

GPUS = Path(__file__).parents[2] / "experiments" / "data" / "gpu"
MIB = 2**20


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Asks the page's code questions, all at once: the answers."""
    return asker(tmp_path_factory.mktemp("hardware") / "cli.mjs", "src/views/hardware/cli.ts")


def draw_sweeps(rng: np.random.Generator) -> tuple[Sweeps, int]:
    """Some sweeps, and a number of pieces that they can be cut into."""
    pieces = int(rng.choice([1, 2, 4, 8, 16]))
    sweeps = Sweeps(
        items=int(rng.integers(1, 40)),
        programs=int(rng.integers(1, 12)),
        blocks=pieces * int(rng.integers(1, 9)),
        drift=int(rng.integers(0, MOST_DRIFT + 1)),
        every=int(rng.choice([0, 0, 1, 2, 3, 10, 200])),
        seed=int(rng.integers(0, 2**32)),
    )
    return sweeps, pieces


def to_dict(sweeps: Sweeps) -> dict[str, int]:
    return {name: getattr(sweeps, name) for name in Sweeps.__dataclass_fields__}


# --- the page's code in node ----------------------------------------------------------------------


def test_times_and_places_of_random_sweeps_are_pythons(ask: Ask) -> None:
    rng = np.random.default_rng(1)
    cases = [draw_sweeps(rng) for _ in range(1000)]
    found = ask(
        [{"ask": "when", "sweeps": to_dict(s), "pieces": p, "pace": PACE} for s, p in cases]
    )
    for (s, pieces), when in zip(cases, found, strict=True):
        assert when == s.when(pieces).tolist(), s
    # A program is where its times say that it is.
    few = cases[:200]
    places = ask(
        [
            {
                "ask": "at",
                "sweeps": to_dict(s),
                "pieces": p,
                "pace": PACE,
                "item": s.items - 1,
                "times": s.when(p)[-1].tolist(),
            }
            for s, p in few
        ]
    )
    for (_, pieces), at in zip(few, places, strict=True):
        assert at == pytest.approx([(k + 0.5) / pieces for k in range(pieces)])


def missed(when: np.ndarray, room: int, until: float) -> tuple[int, int]:
    """Misses up to a time of a cache that evicts what was wanted longest ago, and what it holds."""
    order = sorted(
        (t, item, piece) for item, row in enumerate(when.tolist()) for piece, t in enumerate(row)
    )
    held: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for t, _, piece in order:
        if t > until:
            break
        misses += piece not in held
        held[piece] = None
        held.move_to_end(piece)
        if len(held) > room:
            held.popitem(last=False)
    return misses, len(held)


def test_reads_of_random_sweeps_at_every_moment(ask: Ask) -> None:
    rng = np.random.default_rng(2)
    cases = [
        (
            *draw_sweeps(rng),
            int(rng.integers(1, 9)),
            int(rng.integers(1, 17)),
            int(rng.integers(1, 7)),
        )
        for _ in range(250)
    ]
    found = ask(
        [
            {
                "ask": "play",
                "sweeps": to_dict(s),
                "pieces": p,
                "pace": PACE,
                "rooms": [a, b],
                "count": n,
            }
            for s, p, a, b, n in cases
        ]
    )
    for (s, pieces, small, large, count), play in zip(cases, found, strict=True):
        when, end = s.when(pieces), np.array(play["end"])
        assert len(play["frames"]) == count + 1
        for k, frame in enumerate(play["frames"]):
            until = end.max() * k / count if k < count else np.inf
            assert (frame["misses"], play["held"][k]) == missed(when, small, until)
            assert frame["least"] == missed(when, large, until)[0]
            assert frame["started"] == sum(x <= until for x in play["start"])
        # A lane holds one item at a time, and there are no more lanes than run at once.
        assert play["lanes"] == max(
            sum(a <= t < b for a, b in zip(play["start"], end, strict=True)) for t in play["start"]
        )
        for lane in range(play["lanes"]):
            mine = [k for k, x in enumerate(play["lane"]) if x == lane]
            mine.sort(key=lambda k: play["start"][k])
            ends = itertools.pairwise(mine)
            assert all(end[a] <= play["start"][b] for a, b in ends)


def test_reads_of_random_clocks_of_which_many_are_equal(ask: Ask) -> None:
    """Of two reads at one time that of the lower item is first: it decides what is put out."""
    rng = np.random.default_rng(4)
    questions, want = [], []
    for _ in range(200):
        items, pieces = int(rng.integers(2, 12)), int(rng.choice([2, 4, 8]))
        start = rng.integers(0, 12, items)
        ticks = np.stack([start, start + 4 * rng.integers(1, 4, items)], axis=1)
        ticks -= ticks.min()
        rooms = rng.integers(1, pieces + 1, 2).tolist()
        questions.append(
            {
                "ask": "recorded",
                "items": items,
                "pieces": pieces,
                "rooms": rooms,
                "count": 5,
                "clock": hardware.clock_text(ticks * hardware.TICK_NS),
            }
        )
        when = ticks[:, :1] * 2 * pieces + np.diff(ticks, axis=1) * (2 * np.arange(pieces) + 1)
        want.append([missed(when, room, np.inf)[0] for room in rooms])
    found = [play["frames"][-1] for play in ask(questions)]
    assert [[x["misses"], x["least"]] for x in found] == want


def flash2(N: int, d: int, B_r: int, programs: int = 0, every: int = 64) -> Job:
    return Job(
        "flash2",
        {"N": N, "d": d, "heads": 1},
        {"B_r": B_r, "B_c": 64},
        programs=programs,
        every=every,
    )


def test_reads_in_step_and_rooms_are_pythons(ask: Ask) -> None:
    rng = np.random.default_rng(3)
    data = hardware.data()["drift"]
    questions, want = [], []
    for _ in range(150):
        shape = data["shapes"][rng.integers(len(data["shapes"]))]
        B_r, programs = int(rng.integers(16, 1025)), int(rng.integers(1, 2049))
        size = int(rng.integers(1, 1025)) * MIB
        items = -(-shape["N"] // B_r)
        questions.append(
            {
                "ask": "inStep",
                "shape": shape,
                "items": items,
                "programs": min(programs, items),
                "l2": size,
                "share": data["share"],
            }
        )
        job = flash2(shape["N"], shape["d"], B_r)
        want.append(l2.predicted_bytes(job, min(programs, items), size))
    for quarters in range(1, 70):
        shape = {"swept": 64}
        questions.append({"ask": "room", "shape": shape, "pieces": 16, "capacity": quarters})
        want.append(max(1, round(quarters / 4)))
    for count in range(30):
        at = rng.random(count).tolist()
        questions.append({"ask": "spread", "at": at})
        low, high = np.quantile(at, [0.1, 0.9]) if count > 1 else (0, 0)
        want.append(pytest.approx(high - low))
    assert ask(questions) == want


def test_recorded_sweeps_read_what_the_record_says(ask: Ask) -> None:
    data = hardware.data()
    drift = data["drift"]
    for sweep in drift["sweeps"]:
        run = drift["runs"][sweep["run"]]
        size = data["machines"][run["machine"]]["l2_bytes"]
        row = rows(data["records"][run["record"]])[run["row"]]
        (shape,) = [x for x in drift["shapes"] if (x["N"], x["d"]) == (row["N"], row["d"])]
        pieces = drift["recorded_pieces"]
        rooms = [round(x * pieces / shape["swept"]) for x in (size * drift["share"], size)]
        (play,) = ask(
            [
                {
                    "ask": "recorded",
                    "clock": sweep["clock"],
                    "items": sweep["items"],
                    "pieces": pieces,
                    "rooms": rooms,
                    "count": 64,
                }
            ]
        )
        last = play["frames"][-1]
        found = [last[x] * shape["swept"] // pieces + shape["own"] for x in ("least", "misses")]
        assert found == [row["drift_least"], row["drift_most"]]
        assert play["lanes"] == row["programs"]


# --- the view in a browser ------------------------------------------------------------------------

# In a link, a record of 4 rows, for tests that are of sweeps: the first one's 381 take longer to
# draw than all else.
SHORT = "record=h200/layers-training"


def rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """A record's table as `iosim gpu replay --rewrite` writes it."""
    return read_csv(GPUS / record["machine"] / record["name"] / "table.csv")


def format_value(value: Any) -> str:
    """A value of a record as the page says it: whole, with nothing cut."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value != value:
        return "none"
    if isinstance(value, int | float) and float(value).is_integer():
        return f"{int(value):,}".replace("-", "−")
    return str(value)


def settled(page: Any) -> dict[str, int]:
    """The counters once all is read ahead, in bytes."""
    page.wait_for_timeout(60)  # what was typed is drawn
    expect(page.locator("[data-count=most]")).to_have_text(re.compile("bytes$"), timeout=20_000)
    return {
        name: number(page.locator(f"[data-count={name}]").inner_text())
        for name in ("most", "least", "step")
    }


def number(text: str) -> int:
    return int(text.replace("bytes", "").replace(",", ""))


@functools.cache
def model(N: int, B_r: int, programs: int, size: int, drift: int, every: int, seed: int) -> Any:
    """What Python says of the same settings."""
    job = flash2(N, 64, B_r, programs if every else 0, every or 64)
    when = Sweeps.of(job, programs, drift, seed).when(hardware.PIECES)
    most, least = l2.read_bytes(when, job, [size * MIB * l2.L2_SHARE, size * MIB])
    return {"most": most, "least": least, "step": l2.predicted_bytes(job, programs, size * MIB)}


SETTINGS = [  # N, B_r, programs, L2 in MiB, drift in per mille, gate, seed
    (1048576, 64, 528, 60, 15, 0, 0),
    (1048576, 128, 264, 60, 40, 0, 7),
    (524288, 64, 528, 50, 120, 0, 3),
    (524288, 200, 100, 33, 200, 0, 4294967295),
    (1048576, 64, 528, 60, 300, 64, 0),
    (524288, 128, 264, 60, 1000, 8192, 2),
    (131072, 64, 300, 64, 500, 0, 1),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_drifts_bytes_are_pythons(setting: tuple[int, ...], open_view: Any) -> None:
    names = ("rows", "programs", "l2", "drift", "every", "seed")
    shapes = hardware.data()["drift"]["shapes"]
    (shape,) = [k for k, x in enumerate(shapes) if (x["N"], x["d"]) == (setting[0], 64)]
    query = "&".join(f"{n}={x}" for n, x in zip(names, setting[1:], strict=True))
    page = open_view("hardware", hash=f"?shape={shape}&{query}&{SHORT}")
    assert settled(page) == model(*setting)


def test_the_gate_brings_the_reads_to_those_in_step(open_view: Any) -> None:
    page = open_view("hardware", hash=f"?{SHORT}")
    before = settled(page)
    assert before == model(1048576, 64, 528, 60, 15, 0, 0)
    assert before["most"] > 2 * before["step"]
    page.get_by_role("button", name="Barrier: keep in lockstep").click()
    after = settled(page)
    assert after == model(1048576, 64, 528, 60, 15, 64, 0)
    assert after["most"] == after["step"] == before["step"]
    # Sliders by keys: more L2 without a gate.
    page.get_by_role("button", name="Barrier: keep in lockstep").click()
    page.get_by_label("L2, MiB, slider").focus()
    page.keyboard.press("End")
    field = page.get_by_label("L2, MiB", exact=True)
    assert field.input_value() == "1024"
    # All of K and V fits then: it is read once.
    assert settled(page) == model(1048576, 64, 528, 1024, 15, 0, 0)


def test_recorded_runs_stand_beside_the_model(open_view: Any) -> None:
    page = open_view("hardware", hash=f"?{SHORT}")
    data = hardware.data()
    for run in data["drift"]["runs"][::5]:
        row = rows(data["records"][run["record"]])[run["row"]]
        device = data["machines"][run["machine"]]["device"].split()[1]
        how = f", in lockstep, k {run['every']}" if run["every"] else ""
        page.get_by_label("Shape of a record").select_option(
            label=f"{device}: N {row['N']:,}, d {row['d']}, B_r {row['B_r']}, "
            f"{row['programs']} programs{how}"
        )
        assert settled(page)["step"] == row["predicted"]
        table = page.get_by_role("region", name="Recorded runs of this shape").inner_text()
        assert f"{row['measured']:,}" in table
        assert data["records"][run["record"]]["provenance"]["date"] in table


def test_recorded_sweeps_are_played(open_view: Any) -> None:
    page = open_view("hardware", hash=f"?recorded=3&{SHORT}")
    data = hardware.data()
    run = data["drift"]["runs"][data["drift"]["sweeps"][2]["run"]]
    row = rows(data["records"][run["record"]])[run["row"]]
    found = settled(page)
    assert found["most"] == row["drift_most"]
    assert found["least"] == row["drift_least"]
    # What is drawn takes over as soon as the shape is changed.
    page.get_by_label("B_r", exact=True).fill("128")
    assert settled(page) == model(1048576, 128, 528, 60, 15, 0, 0)
    assert page.get_by_role("combobox", name="Drift", exact=True).input_value() == "0"


def now(page: Any) -> float:
    return float(page.locator("[data-count=now]").inner_text().replace(" GB", ""))


def test_playing_by_keys(open_view: Any) -> None:
    page = open_view("hardware", hash=f"?{SHORT}")
    want = settled(page)
    group = page.get_by_role("group", name="Playback")
    group.get_by_role("button", name="To the start").focus()
    assert now(page) < 0.3
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.ariaLabel") == "Play"
    group.get_by_label("Speed").select_option("256")
    group.get_by_role("button", name="Play").press("Enter")
    expect(page.locator("[data-count=now]")).to_have_text(re.compile(r"^[1-9]"))
    group.get_by_role("button", name="Pause").press("Space")
    expect(group.get_by_role("button", name="Play")).to_be_visible()
    stopped = now(page)
    page.wait_for_timeout(200)
    assert now(page) == stopped
    status = page.locator("[role=tabpanel] [role=status]").last
    assert "programs in wave" in status.inner_text()
    group.get_by_role("button", name="A wave back").press("Enter")
    soon(page, lambda: now(page) < stopped)
    group.get_by_role("button", name="A wave on").press("Enter")
    soon(page, lambda: now(page) == stopped)
    for _ in range(8):
        group.get_by_role("button", name="Step forward").press("Enter")
    soon(page, lambda: now(page) > stopped)
    group.get_by_role("button", name="To the end").press("Enter")
    expect(page.locator("[data-count=now]")).to_have_text(f"{want['most'] / 1e9:.4g} GB")
    expect(page.locator(".counter.now").first).to_contain_text("wave 32 of 32")


def soon(page: Any, true: Callable[[], bool]) -> None:
    """Wait until what a key did is drawn, for at most five seconds."""
    for _ in range(100):
        if true():
            return
        page.wait_for_timeout(50)
    assert true()


def test_without_motion_a_picture_each_second(open_view: Any) -> None:
    page = open_view("hardware", hash=f"?{SHORT}", reduced_motion="reduce")
    settled(page)
    page.evaluate(
        """() => { window.seen = 0; const el = document.querySelector('[data-count=now]');
        new MutationObserver(() => window.seen++).observe(
            el, {characterData: true, childList: true, subtree: true}); }"""
    )
    page.get_by_role("button", name="Play").click()
    page.wait_for_timeout(2500)
    assert 1 <= page.evaluate("window.seen") <= 3


BAD = [
    ("B_r", "8", "B_r is 8; it is at least 16"),
    ("B_r", "many", "B_r is a whole number, like 4,096 or 4Ki"),
    ("Programs resident", "0", "Programs resident is 0; it is at least 1"),
    ("L2, MiB", "9999", "L2, MiB is 9,999; it is at most 1,024"),
    ("A sweep takes longer by up to, %", "-3", "-3 is not a percentage with at most one decimal"),
    ("A sweep takes longer by up to, %", "101", "101 % is more than the model's 100 %"),
    ("A sweep takes longer by up to, %", "", "nothing is not a percentage"),
    ("Seed", "1e99", "Seed is 1e99; it is at most"),
    ("k, blocks between barriers", "0", "k, blocks between barriers is 0; it is at least 1"),
]


def test_bad_input_is_said_beside_the_field(open_view: Any) -> None:
    page = open_view("hardware", hash=f"?every=64&drift=100&{SHORT}")
    refuses(page, BAD, settled)


def test_a_broken_link_is_said(open_view: Any) -> None:
    page = open_view("hardware", hash="?rows=x&programs=0&shape=99&record=h300/none&row=1e9")
    alerts = " ".join(page.get_by_role("alert").all_inner_texts())
    for said in ("rows=x", "programs=0", "shape=99", "h300/none"):
        assert said in alerts
    assert settled(page) == model(1048576, 64, 528, 60, 15, 0, 0)


def test_every_table_is_the_records(open_view: Any) -> None:
    page = open_view("hardware")
    data = hardware.data()
    for record in data["records"]:
        name = f"{record['machine']}/{record['name']}"
        page.get_by_role("combobox", name="Record", exact=True).select_option(name)
        found = page.evaluate(
            """() => { const t = document.querySelector('.record-table');
            const cut = (x) => [...x.querySelectorAll('th, td')].map((c) => c.textContent);
            return {names: [...t.querySelectorAll('thead button')].map((x) => x.title),
                    rows: [...t.querySelectorAll('tbody tr')].map(cut)}; }"""
        )
        want = rows(record)
        names = [x.removeprefix("Sort by ") for x in found["names"]]
        assert set(names) == set(want[0]), name
        assert len(found["rows"]) == len(want) == record["rows"]
        for cells, row in zip(found["rows"], want, strict=True):
            for column, cell in zip(names, cells, strict=True):
                assert is_same(cell, row[column]), (name, column, cell, row[column])
        said = page.locator("[role=tabpanel]").inner_text()
        assert record["summary"] in said
        told = page.locator("[aria-label='Where the numbers come from']").inner_text()
        for what in ("device", "driver", "date", "commit", "command"):
            assert record["provenance"][what] in told


def is_same(cell: str, value: Any) -> bool:
    if isinstance(value, float) and not value.is_integer() and value == value:
        return float(cell) == value
    return cell == format_value(value) or (cell == "" and value in ("", None))


def test_a_row_shows_its_tensors_and_its_place(open_view: Any) -> None:
    page = open_view("hardware")
    record = hardware.data()["records"][0]
    at = 200
    row = rows(record)[at]
    measured = read_json(GPUS / "h200/validate/measured.json")["rows"][at]
    button = page.locator(f".record-table tr[data-row='{at}'] button")
    button.focus()
    button.press("Enter")
    chosen = page.locator(".chosen")
    lines = chosen.get_by_role("region", name="Tensor by tensor").locator("tbody tr").all()
    total = 0
    for line in lines:
        cells = [x.replace(",", "") for x in line.locator("td").all_inner_texts()]
        way, tensor, words, width, moved, kernel, difference = cells
        assert int(kernel) == int(words) == measured["words"][f"{way} {tensor}"]
        assert int(words) * int(width) == int(moved)
        assert difference == "0"
        total += int(moved) * (way == "load")
    assert len(lines) == len(measured["words"])
    assert total == row["model_load"]
    each = chosen.get_by_role("region", name="Boundary by boundary").inner_text()
    for column in ("model_load", "sram_load", "l2_load", "dram_load", "sram_store"):
        assert f"{row[column]:,}" in each
    for boundary in ("SM↔L2", "L1↔L2", "L2↔DRAM"):
        assert boundary in each
    assert page.locator(".mark.chosen").count() == 2  # its loads and its stores
    # A point chooses its row.
    page.locator(".mark.first").nth(17).dispatch_event("click")
    assert page.locator(".record-table tr[aria-current=true]").get_attribute("data-row") == "17"


def test_the_table_is_one_stop_and_arrows_go_on(open_view: Any) -> None:
    page = open_view("hardware")
    settled(page)
    here = "document.activeElement.closest('.record-table tr')?.dataset.row"
    head = "document.activeElement.title"
    stops = page.locator(".record-table").locator("button, [tabindex='0']")
    assert stops.count() > 381
    assert stops.evaluate_all("x => x.filter((b) => b.tabIndex === 0).length") == 1
    page.get_by_label("Rows that hold").focus()
    page.keyboard.press("Tab")  # by whatever is between
    for _ in range(9):
        if page.evaluate(here) is not None:
            break
        page.keyboard.press("Tab")
    seen = []
    for key in ("ArrowDown", "ArrowDown", "PageDown", "ArrowUp", "End", "ArrowDown", "Home"):
        page.keyboard.press(key)
        seen.append(int(page.evaluate(here)))
    assert seen == [1, 2, 12, 11, 380, 380, 0]
    # A row that has the focus is not under the heads.
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    page.keyboard.press("PageDown")
    for _ in range(23):
        page.keyboard.press("ArrowUp")
        top, bottom = page.evaluate(
            """() => [document.activeElement.getBoundingClientRect().top,
                document.querySelector('.record-table thead').getBoundingClientRect().bottom]"""
        )
        assert top >= bottom
    page.keyboard.press("Enter")
    assert page.locator(".record-table tr[aria-current=true]").get_attribute("data-row") == "7"
    # Up from the first row to the columns, and down again.
    page.keyboard.press("Home")
    page.wait_for_function(f"() => {here} === '0'")
    page.keyboard.press("ArrowUp")
    page.wait_for_function(f"() => {head} !== ''")
    first = page.evaluate(head)
    page.keyboard.press("ArrowRight")
    second = page.evaluate(head)
    heads = page.locator(".record-table thead button").evaluate_all("x => x.map((b) => b.title)")
    assert [first, second] == heads[:2]
    page.keyboard.press("Enter")
    assert page.evaluate(head) == second
    page.keyboard.press("ArrowDown")
    order = page.locator(".record-table tbody tr").evaluate_all("x => x.map((r) => r.dataset.row)")
    assert page.evaluate(here) == order[0]
    assert stops.evaluate_all("x => x.filter((b) => b.tabIndex === 0).length") == 1
    # Tab leaves the table, and Shift+Tab comes back to the row that was left.
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    assert page.evaluate(here) is None
    page.keyboard.press("Shift+Tab")
    assert page.evaluate(here) == order[1]


def test_rows_are_sorted_and_found(open_view: Any) -> None:
    page = open_view("hardware")
    page.get_by_label("Rows that hold").fill("flash2 d=64 N=4096")
    want = [
        r
        for r in rows(hardware.data()["records"][0])
        if all(any(word in str(x) for x in r.values()) for word in ("flash2", "d=64", "N=4096"))
    ]
    assert len(want) > 2
    expect(page.locator(".record-table tbody tr")).to_have_count(len(want))
    expect(page.locator(".mark.first")).to_have_count(len(want))
    page.locator(".record-table thead button[title='Sort by model_load']").press("Enter")
    heads = page.locator(".record-table thead button").evaluate_all("x => x.map(b => b.title)")
    column = heads.index("Sort by model_load")
    cells = page.locator(".record-table tbody tr").evaluate_all(
        f"x => x.map(r => r.children[{column}].textContent)"
    )
    assert cells == [f"{x:,}" for x in sorted(r["model_load"] for r in want)]
    field = page.get_by_label("Rows that hold")
    field.fill("flash9")
    beside = page.locator(f"#{field.get_attribute('aria-describedby')}")
    assert "no row of this record holds flash9" in beside.inner_text()


@pytest.mark.timed
def test_controls_answer_at_once(open_view: Any) -> None:
    page = open_view("hardware")
    settled(page)
    times = page.evaluate(
        """async () => {
        const slider = [...document.querySelectorAll('input[type=range]')]
            .find((x) => x.closest('label').textContent.startsWith('Programs'));
        const times = [];
        for (let k = 0; k < 8; k++) {
            slider.value = String(700 + 20 * k);
            const from = performance.now();
            slider.dispatchEvent(new Event('input', {bubbles: true}));
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            times.push(performance.now() - from);
        }
        return times; }"""
    )
    assert min(times) < 100, times
    settled(page)
    page.get_by_role("button", name="Play").click()
    frames = page.evaluate(
        """async () => { const at = [];
        for (let k = 0; k < 40; k++)
            await new Promise((done) => requestAnimationFrame((t) => { at.push(t); done(); }));
        return at.slice(1).map((x, k) => x - at[k]); }"""
    )
    assert sorted(frames)[len(frames) // 4] < 33, frames


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        pytest.param(size, scheme, marks=[] if scheme == "light" else pytest.mark.slow)
        for size in SIZES
        for scheme in SCHEMES
    ],
)
def test_a_gate_a_row_and_a_recorded_drift_fit(
    size: str, scheme: str, open_view: Any, shot: Any
) -> None:
    for name, hash in (
        ("gate", "?every=2048&drift=300&row=5"),
        ("recorded", f"?recorded=3&{SHORT}"),
    ):
        page = open_view("hardware", *SIZES[size], scheme, hash=hash)
        settled(page)
        for _ in range(9):
            page.get_by_role("button", name="A wave on").click()
        for _ in range(13):
            page.get_by_role("button", name="Step forward").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[size][0]
        shot(page, f"hardware-{name}-{size}-{scheme}")
