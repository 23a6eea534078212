"""Rows of the suite's table: schedules as text, two runs as one, what is written on the page."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iosim.pebbling import Move

from . import DATA, Rows

GAMES = {"once": False, "recompute": True}  # whether a vertex may be computed again
KEY = ("graph", "game", "M")
# A move in a schedule: its first letter, and the vertex.
LETTERS = {kind[0]: kind for kind in ("load", "store", "compute", "delete")}


def packed(moves: Iterable[Move]) -> str:
    """A schedule as text: ``l3 c7 s7 d3`` loads 3, computes and stores 7, and deletes 3.

    >>> packed([Move("load", "3"), Move("compute", "7")])
    'l3 c7'
    """
    return " ".join(f"{move.kind[0]}{move.vertex}" for move in moves)


def unpacked(text: str) -> list[Move]:
    """The moves of such a text.

    >>> unpacked("l3 c7")
    [Move(kind='load', vertex='3', term=None), Move(kind='compute', vertex='7', term=None)]
    """
    return [Move(LETTERS[word[0]], word[1:]) for word in text.split()]


def merged(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    """Both runs of an instance as one: the better bound, the better schedule, all seconds."""
    row = dict(new)
    if old is not None:
        row["lower"] = max(old["lower"], new["lower"])
        row["seconds"] = round(old["seconds"] + new["seconds"], 2)
        row["states"] = old["states"] + new["states"]
        row["peak_MiB"] = max(old["peak_MiB"], new["peak_MiB"])
        row["limit_s"] = max(old["limit_s"], new["limit_s"])
        if new["cost"] is None or (old["cost"] is not None and old["cost"] <= new["cost"]):
            row |= {key: old[key] for key in ("cost", "schedule", "replayed")}
        if old.get("certified") is not None:
            row |= {key: old[key] for key in ("certified", "by")}
            row["lower"] = max(row["lower"], old["certified"])
    row["optimal"] = row["cost"] == row["lower"]
    return row


def shared(rows: Rows) -> Iterator[dict[str, Any]]:
    """The rows with what others say of them.

    A schedule is one with more memory and with recomputation, too; and what no schedule with more
    memory or with recomputation can do, none can.  `replayed` is None where the schedule is new.
    """
    for row in rows:
        same = [other for other in rows if other["graph"] == row["graph"]]
        harder = [x for x in same if x["M"] <= row["M"] and x["game"] in ("once", row["game"])]
        easier = [x for x in same if x["M"] >= row["M"] and row["game"] in ("once", x["game"])]
        best = min(harder, key=lambda x: x["cost"])
        found = dict(row)
        if best["cost"] < row["cost"]:
            found |= {"cost": best["cost"], "schedule": best["schedule"], "replayed": None}
        found["lower"] = max(x["lower"] for x in easier)
        found["optimal"] = found["lower"] == found["cost"]
        yield found


def read(folder: Path = DATA / "pebbling") -> Rows:
    """The rows of a table with their schedules, numbers as numbers."""
    with (folder / "suite_schedules.csv").open(encoding="utf-8", newline="") as file:
        games = {tuple(row[k] for k in KEY): row["schedule"] for row in csv.DictReader(file)}
    found = []
    with (folder / "suite.csv").open(encoding="utf-8", newline="") as file:
        for text in csv.DictReader(file):
            row: dict[str, Any] = dict(text)
            for name in (
                "vertices",
                "edges",
                "r0",
                "M",
                "compulsory",
                "certified",
                "lower",
                "cost",
                "replayed",
                "states",
                "peak_MiB",
            ):
                row[name] = int(text[name]) if text.get(name) else None
            row |= {name: float(text[name]) for name in ("seconds", "limit_s")}
            row["optimal"] = text["optimal"] == "True"
            found.append(row | {"schedule": games[tuple(text[k] for k in KEY)]})
    return found


def markdown(rows: Sequence[Mapping[str, Any]], game: str) -> str:
    """The table of one game: a line for each graph, a column for each M."""
    lines = [
        "| graph | vertices | edges | r₀ | M = r₀ | r₀ + 1 | r₀ + 2 | 2r₀ | 3r₀ |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    mine = [row for row in rows if row["game"] == game]
    for name in dict.fromkeys(row["graph"] for row in mine):
        at = {row["M"]: row for row in mine if row["graph"] == name}
        first = next(iter(at.values()))
        r0 = first["r0"]
        cells = [_cell(at.get(M)) for M in (r0, r0 + 1, r0 + 2, 2 * r0, 3 * r0)]
        lines.append(
            f"| {name} | {first['vertices']} | {first['edges']} | {r0} | {' | '.join(cells)} |"
        )
    proved = sum(row["optimal"] for row in mine)
    return "\n".join([*lines, "", f"{proved} of {len(mine)} proved.\n"])


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    most = "?" if row["cost"] is None else row["cost"]
    return f"{most}" if row["optimal"] else f"{row['lower']}–{most}"


def marks(game: str) -> tuple[str, str]:
    """What a game's table stands between on the page."""
    return f"<!-- table: suite {game} -->\n", f"<!-- end of suite {game} -->\n"


def replace_tables(page: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the tables of a page."""
    text = page.read_text(encoding="utf-8")
    for game in GAMES:
        start, stop = marks(game)
        before, _, rest = text.partition(start)
        after = rest.partition(stop)[2]
        text = before + start + "\n" + markdown(rows, game) + "\n" + stop + after
    page.write_text(text, encoding="utf-8")
