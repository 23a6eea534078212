"""The red-blue pebble game: graphs, games, known optima with optimal games, and what is proven."""

from __future__ import annotations

import json

from iosim.base.errors import InputError
from iosim.lab.columns import Json
from iosim.report.shipped import shipped

# By the name that `experiments.pebbling_games` gives a graph: what the page calls it.
GRAPHS = {
    "matmul": "Product, 2×2×2",
    "attention": "Attention, N 2, d 1",
    "pyramid": "Pyramid, height 3",
    "tall-pyramid": "Pyramid, height 4",
    "tree": "Binary tree, depth 3",
    "diamond": "Diamond, 4×4",
    "butterfly": "Butterfly (FFT), 4 points",
}

# By the name that `experiments.pebbling_table` gives a game: its title, and its rule in a sentence.
GAMES = {
    "chain": (
        "each vertex once",
        "Each vertex is computed at most once; what is needed later and does not stay in fast "
        "memory is stored.",
    ),
    "recompute": (
        "recomputation allowed",
        "A vertex may be computed again, as in Hong and Kung.",
    ),
    "partial": (
        "sums term by term",
        "A sum takes its terms one at a time, in any order, and may be stored unfinished; a "
        "product that only one sum needs is computed on the fly, without a word. Each vertex once.",
    ),
    "words": (
        "words, as the bounds count",
        "Sums term by term, on the graph without row sums and quotients: exactly what the lower "
        "bounds on attention count.",
    ),
}


def data() -> Json:
    """The view's part of the page's data, ready for JSON.

    ``boards`` has one entry for each graph and game: its vertices with their operands (topological
    order), outputs, sums, whether recomputation and partial sums are allowed, and for each M the
    optimum in words with an optimal game, and what Hong and Kung's theorem says for segments of s
    transfers.  All of it was found by ``python -m experiments.pebbling_games``.

    Raises InputError where that record is missing or is none.
    """
    path = shipped("experiments") / "data" / "pebbling" / "games.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        boards = [_board(row) for row in record["boards"]]
        about = record["about"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot read {str(path)!r} ({error!r}): run `python -m experiments.pebbling_games`"
        ) from None
    return {
        "about": {name: about[name] for name in ("command", "commit", "date")},
        "graphs": [{"id": key, "title": title} for key, title in GRAPHS.items()],
        "games": [
            {"id": key, "title": title, "says": says} for key, (title, says) in GAMES.items()
        ],
        "boards": boards,
    }


def _board(row: Json) -> Json:
    """A board of the record, each optimum with what the theorem says next to it."""
    optima = [
        best | {"theorem": None if row["parts"] is None else theorem(row["parts"], best["M"])}
        for best in row["optima"]
    ]
    return {name: row[name] for name in row if name not in ("parts", "optima")} | {"optima": optima}


def theorem(parts: dict[str, int], M: int) -> list[dict[str, int]]:
    """Hong and Kung: no game moves fewer than s·(P(M + s) − 1) words, for every s from 1 to 2M.

    Args:
        parts: P(S) by S, until it is 1.
        M: red pebbles.
    """
    rows = [(s, parts.get(str(M + s), 1)) for s in range(1, 2 * M + 1)]
    return [{"s": s, "parts": P, "words": s * (P - 1)} for s, P in rows]
