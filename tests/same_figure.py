"""Whether a figure that was drawn again is the one that is committed."""

from __future__ import annotations

import re

import pytest


def same_figure(a: str, b: str) -> bool:
    """Whether two SVGs say the same, and have their lines in the same places."""
    said = [re.findall(r"<!-- (.*?) -->", x) for x in (a, b)]
    by = [re.findall(r"Matplotlib v[\d.]+", x) for x in (a, b)]
    if said[0] != said[1] or by[0] != by[1]:
        return said[0] == said[1]  # another version places its lines otherwise
    lines = [" ".join(re.findall(r' d="([^"]*)"', x)) for x in (a, b)]
    first, second = ([float(n) for n in re.findall(r"-?\d+\.?\d*", x)] for x in lines)
    return first == pytest.approx(second, abs=0.05)
