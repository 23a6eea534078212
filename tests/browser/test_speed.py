"""How soon the page answers: a slider within 100 ms, a frame within 33 ms, at N 4096.

Times are measured in the page, the middle one of several, and printed: `pytest -s` shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
from speed import TO_AND_FRO, answers_in

from iosim.lab.data import DATA

pytestmark = pytest.mark.timed

SLIDER_MS, FRAME_MS = 100, 33
# Where a view has no field N, it is opened as it is.
OPENED = {"watch": "?N=4096&d=64&M=24576", "slope": "?preset=4096x128"}

FRAMES = """() => new Promise((done) => {
    const times = [];
    const frame = (now) => {
        times.push(now);
        if (times.length < 60) requestAnimationFrame(frame);
        else done(times.slice(1).map((x, k) => x - times[k]));
    };
    requestAnimationFrame(frame);
})"""


@pytest.mark.parametrize("view", DATA)
def test_sliders_answer(view: str, open_view: Callable[..., Any]) -> None:
    shown = open_view(view, hash=OPENED.get(view, ""))
    shown.wait_for_timeout(500)
    slow = {}
    for slider in shown.locator("main input[type=range]:visible").all():
        name = slider.evaluate("x => x.labels[0]?.innerText || x.ariaLabel || x.name")
        took = answers_in(slider, TO_AND_FRO)
        print(f"{view}: {name!r} answers in {took:.0f} ms")
        if took > SLIDER_MS:
            slow[name] = took
    assert slow == {}


def test_frames_of_a_run(open_view: Callable[..., Any]) -> None:
    shown = open_view("watch", hash=OPENED["watch"])
    speed = shown.get_by_label("Speed").first
    speed.select_option(index=speed.locator("option").count() - 1)
    shown.get_by_role("button", name="Play").first.click()
    times = [x for _ in range(3) for x in shown.evaluate(FRAMES)]
    print(f"watch: a frame takes {median(times):.0f} ms, the slowest {max(times):.0f} ms")
    assert median(times) <= FRAME_MS
