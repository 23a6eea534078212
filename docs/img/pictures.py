"""Two pictures of the pages, as SVG: ``python docs/img/pictures.py`` writes them next to this file.

Every number on them is counted when they are drawn.  They have a white background, so
that they can be read on a dark page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

import iosim  # noqa: E402
from proofs.compression import epochs  # noqa: E402
from proofs.compression.programs import by_tiles  # noqa: E402

INK, FAINT = "#1a1a1a", "#5b6470"
BLUE, GREEN, ORANGE, VIOLET, GREY = "#9ecae9", "#a8d8a0", "#fdc98b", "#cdbce8", "#e6e9ee"
FIELDS = (BLUE, GREEN, ORANGE, VIOLET, "#f2b6b6", "#d8cfa0")


def box(x: float, y: float, w: float, h: float, fill: str, line: str = INK) -> str:
    """A rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" fill="{fill}" stroke="{line}"/>'


def text(
    x: float, y: float, words: str, size: int = 16, anchor: str = "start", color: str = INK
) -> str:
    """A line of text, from its baseline."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{color}">'
        f"{words}</text>"
    )


def arrow(x: float, y: float, to: float) -> str:
    """A level arrow."""
    back = 10 if to < x else -10
    return (
        f'<path d="M{x:g} {y:g}H{to:g}m{back} -6L{to:g} {y:g}l{back} 6" fill="none" '
        f'stroke="{INK}" stroke-width="2.5"/>'
    )


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    """A file."""
    body = "\n".join([box(0, 0, width, height, "white", "none"), *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'font-family="Helvetica, Arial, sans-serif" role="img">\n<title>{title}</title>\n'
        f"{body}\n</svg>\n"
    )


def memories() -> str:
    """Slow and fast memory, with what FlashAttention-2 keeps: N 1,024, d 64, M 8,192."""
    problem, M = iosim.Attention(N=1024, d=64), 8192
    program = iosim.algorithm("flash2").program
    tiles = iosim.optimal_tiles(program, problem, M).tiles
    counts = iosim.count(iosim.bind(program, problem.sizes, tiles))
    rows, columns = tiles["B_r"], tiles["B_c"]
    held = {
        f"q: {rows} rows of Q": (rows * problem.d, BLUE),
        f"o: {rows} rows of O": (rows * problem.d, VIOLET),
        f"k or v: {columns} rows": (columns * problem.d, GREEN),
        "s, m, l": (rows * columns + 2 * rows, ORANGE),
    }
    total = sum(words for words, _ in held.values())
    parts = [
        box(10, 40, 230, 350, "#f7f8fa"),
        text(125, 30, "slow memory (HBM)", 19, "middle"),
        box(400, 40, 230, 350, "#f7f8fa"),
        text(515, 30, f"fast memory, M = {M:,}", 19, "middle"),
    ]
    for at, (name, color) in enumerate(zip("QKVO", (BLUE, GREEN, GREEN, VIOLET), strict=True)):
        x = 40 + 45 * at
        parts += [box(x, 90, 32, 200, color), text(x + 16, 80, name, 18, "middle")]
    parts += [
        text(125, 315, f"each N × d = {problem.N:,} × {problem.d}", 16, "middle"),
        text(125, 337, f"= {problem.N * problem.d:,} words", 16, "middle"),
        text(125, 372, "no limit", 16, "middle", FAINT),
        arrow(250, 150, 390),
        text(320, 138, "load", 18, "middle"),
        text(320, 176, f"{counts.load_words:,}", 17, "middle"),
        text(320, 196, "words", 16, "middle"),
        arrow(390, 270, 250),
        text(320, 258, "store", 18, "middle"),
        text(320, 296, f"{counts.store_words:,}", 17, "middle"),
        text(320, 316, "words", 16, "middle"),
    ]
    y = 60.0
    for name, (words, color) in held.items():
        tall = max(24.0, 225 * words / total)
        parts += [box(415, y, 200, tall, color)]
        parts += [text(515, y + tall / 2 + 6, f"{name}", 16, "middle")]
        y += tall
    parts += [
        text(515, y + 22, f"at most {total:,} words", 16, "middle"),
        text(515, 380, "arithmetic happens here", 16, "middle", FAINT),
    ]
    title = "Slow memory holds Q, K, V and O; fast memory holds M words; loads and stores between"
    return picture(640, 400, title, parts)


def messages(
    program: list[tuple[str, tuple[object, ...]]], M: int
) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Of each epoch: words in memory at its start, words it loads, the entries it computes."""
    held: set[object] = set()
    for epoch in epochs(program, M):
        start, loads, entries = len(held), 0, []
        for kind, what in epoch:
            if kind == "load":
                held.add(what)
                loads += 1
            elif kind == "fma":
                held.add(("S", what[0], what[1]))
            elif kind == "free":
                held.remove(what)
            elif kind == "entry":
                entries.append((int(str(what[0])), int(str(what[1]))))
        yield start, loads, entries


# The picture's program: QKᵀ of 12 rows by d = 4, in tiles of 4 × 4.
N, D, SIDE = 12, 4, 4
# Two tiles of rows and one accumulator.
M = 2 * SIDE * D + 1


def protocol() -> str:
    """The epochs of a program, what Bob is told of each, and what he recovers."""
    cell, left, top = 22, 20, 78
    parts = [
        text(20, 28, f"QKᵀ of N = {N}, d = {D} in a memory of M = {M} words", 19),
        text(left, top - 14, "entry: its epoch", 16),
        text(330, top - 14, f"its message: at most 2M = {2 * M} words", 16),
    ]
    wide = 280 / (2 * M)
    for number, (start, loads, entries) in enumerate(messages(by_tiles(N, D, SIDE, SIDE), M)):
        color = FIELDS[number]
        for i, j in entries:
            x, y = left + cell * j, top + cell * i
            parts += [box(x, y, cell, cell, color)]
            parts += [text(x + cell / 2, y + 16, str(number + 1), 13, "middle")]
        y = top + 56 * number
        parts += [
            text(312, y + 18, str(number + 1), 18, "middle"),
            box(330, y, wide * start, 26, GREY),
            box(330 + wide * start, y, wide * loads, 26, color),
            text(330, y + 44, f"{start} there + {loads} loaded → {len(entries)} entries", 16),
        ]
    line = 330 + wide * 2 * M
    parts += [
        f'<path d="M{line:g} {top - 6}V{top + 230}" stroke="{INK}" stroke-dasharray="5 4"/>',
        text(20, 380, "gray: words in fast memory when the epoch begins;", 16, "start", FAINT),
        text(20, 400, "colored: words that it loads", 16, "start", FAINT),
    ]
    return picture(640, 415, "Epochs of a program, the message of each, and its entries", parts)


PICTURES = {"two-memories.svg": memories, "protocol.svg": protocol}


if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / name).write_text(draw(), encoding="utf-8")
