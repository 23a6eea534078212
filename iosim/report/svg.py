"""SVG text, shorter: the same lines, colors and words in fewer bytes."""

from __future__ import annotations

import re

# Digits in scales and matrices stay: they are multiplied by what they move.
_NUMBER = re.compile(r"(?:scale|matrix)\([^)]*\)|-?\d+\.\d{3,}")
_PATH = re.compile(r'(?<= d=)"[^"]*"')
_LETTER = re.compile(r"\s*([A-Za-z])\s*")
# A group of nothing but copies of one marker, all in one style.
_COPIES = re.compile(
    r'(<g(?: clip-path="[^"]*")?)>\n'
    r'(<use [^>]*( style="[^"]*")/>\n(?:<use [^>]*\3/>\n)*)</g>'
)


def compact_svg(svg: str) -> str:
    r"""An SVG by matplotlib with hundredths of a point, no indentation, and styles said once.

    >>> compact_svg('<g>\n <path d="M 1.23456 2 \nL 3 4 \nz\n"/>\n <text>1.23456</text>\n</g>\n')
    '<g>\n<path d="M1.23 2L3 4z"/>\n<text>1.23456</text>\n</g>\n'
    >>> compact_svg('<g>\n <use x="1" style="fill: red"/>\n <use x="2" style="fill: red"/>\n</g>')
    '<g style="fill: red">\n<use x="1"/>\n<use x="2"/>\n</g>'
    """
    svg = re.sub("<[^!?][^>]*>", lambda tag: _NUMBER.sub(_rounded, tag[0]), svg)
    svg = re.sub("^ +", "", svg, flags=re.M)
    svg = _PATH.sub(lambda d: _LETTER.sub(r"\1", d[0]), svg)
    return _COPIES.sub(_styled_once, svg)


def _rounded(number: re.Match[str]) -> str:
    if number[0].endswith(")"):
        return number[0]
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _styled_once(group: re.Match[str]) -> str:
    start, copies, style = group.groups()
    if re.search(r"[\" ]opacity:", style):  # of a group it is another thing: inheritance has none
        return group[0]
    return f"{start}{style}>\n{copies.replace(style, '')}</g>"
