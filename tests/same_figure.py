"""Whether a figure that was drawn again is the one that is committed."""

from __future__ import annotations

import html
import re

import numpy as np

# In a path all numbers; elsewhere none in a name or a color.
_NUMBER = re.compile(r"(?<![#\w.])-?\d+\.?\d*(?:e-?\d+)?")
_POINTS = re.compile(r' d="[^"]*"')
# Matplotlib's names of shapes are hashes of where they are.
_HASH = re.compile(r"\b[a-zA-Z][0-9a-f]{10}\b")


def figure_texts(svg: str) -> list[str]:
    """The words of an SVG that matplotlib wrote, label by label."""
    labels = re.findall(r"<text[^>]*>(.*?)</text>", svg, re.S)
    return [html.unescape(re.sub(r"<[^>]*>|\n", "", x)) for x in labels]


def same_figure(a: str, b: str) -> bool:
    """Whether two SVGs say the same in the same places, with the same lines, markers and colors.

    Another version of matplotlib places its lines otherwise: then only what is said is compared.
    """
    by = [re.findall(r"Matplotlib v[\d.]+", x) for x in (a, b)]
    if by[0] != by[1]:
        return figure_texts(a) == figure_texts(b)
    (says, places), (says_too, places_too) = map(_parts, (a, b))
    alike = says == says_too and len(places) == len(places_too)
    return alike and np.allclose(places, places_too, rtol=0, atol=0.05)


def _parts(svg: str) -> tuple[str, list[float]]:
    """An SVG whose tags have no numbers, and shapes names by their order; and the numbers."""
    known: dict[str, str] = {}
    svg = _HASH.sub(lambda x: known.setdefault(x[0], f"shape{len(known)}_"), svg)
    numbers: list[float] = []

    def collect(number: re.Match[str]) -> str:
        numbers.append(float(number[0]))
        return "."

    def tag(found: re.Match[str]) -> str:
        points = _POINTS.sub(lambda d: re.sub(r"-?\d+\.?\d*(?:e-?\d+)?", collect, d[0]), found[0])
        return _NUMBER.sub(collect, points)

    return re.sub(r"<[^>]*>", tag, svg), numbers
