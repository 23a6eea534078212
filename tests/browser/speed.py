"""How soon the page answers, measured in it."""

from __future__ import annotations

from statistics import median
from typing import Any

# Calls MOVE so often; milliseconds from each call until the next picture is out.
TIMES = """async (target, often) => {
    const times = [], act = MOVE, first = target.value;
    for (let k = 0; k < often; k++) {
        await new Promise(requestAnimationFrame);
        const began = performance.now();
        act(target, k, first);
        await new Promise((done) => requestAnimationFrame(() => {
            const after = new MessageChannel();
            after.port1.onmessage = done;
            after.port2.postMessage(0);
        }));
        times.push(performance.now() - began);
    }
    return times;
}"""

# A little to and fro: whichever way the slider can move.
TO_AND_FRO = """(slider, k, first) => {
    const step = Number(slider.step || 1);
    slider.value = String(Number(first) + (k % 2 ? 0 : 1) * step);
    if (slider.value === first && k === 0) slider.value = String(Number(first) - step);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""
# On and on, so that nothing is answered from what was there.
ONWARD = """(slider) => {
    slider.value = String(Number(slider.value) + 3);
    slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""
# From the first value on.
EACH = """(slider, k) => {
    slider.value = k;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""
ARROW = """(target) => target.dispatchEvent(
    new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }))"""


def answers_in(target: Any, move: str, often: int = 9) -> float:
    """Milliseconds until the page shows what a move of an element does, the middle of several."""
    return median(target.evaluate(TIMES.replace("MOVE", move), often))
