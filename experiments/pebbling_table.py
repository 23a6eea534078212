"""Optimum, named algorithms and lower bounds on the same small instances, for every M.

``python -m experiments.pebbling_table --out experiments/data/pebbling`` writes optima.csv, and
optima.json with the command and what it ran on.  One row is one game on one instance at one M, from
the least M that allows a pebbling to the least at which only compulsory transfers are left.

words
    Attention as the lower bounds and iosim's machine count it: sums are accumulators, products are
    consumed on the fly, exponentials, row sums and quotients take no word.  For matrix products,
    which have none of these, the game `partial` is the same.
partial
    The same with row sums and quotients as vertices.
chain
    Every product, partial sum and quotient is a vertex of its own, computed once.
recompute
    The same, and values may be computed again.

This is the one module of the package that sees algorithms and bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import iosim
from iosim.algorithms import all_algorithms
from iosim.bounds import exact_lower_bounds
from iosim.errors import CapacityError
from iosim.output.table import out_dir, write_csv
from iosim.pebbling.dag import Dag
from iosim.pebbling.graphs import attention, matmul
from iosim.pebbling.rules import compile_rules
from iosim.pebbling.solve import optimum
from iosim.problem import Attention, MatMul, Problem
from iosim.tiling import optimal_tiles

INSTANCES: tuple[tuple[Problem, tuple[str, ...]], ...] = (
    (MatMul(2, 2, 2), ("partial", "chain", "recompute")),
    (MatMul(2, 3, 2), ("partial", "chain", "recompute")),
    (MatMul(3, 3, 3), ("partial",)),
    (Attention(2, 1), ("words", "partial", "chain", "recompute")),
    (Attention(2, 2), ("words", "partial", "chain")),
    (Attention(3, 1), ("words", "partial", "chain")),
    (Attention(4, 1), ("words",)),
)
# What a game allows decides which bounds hold for it.
CLASSES = {
    "words": ("once",),
    "partial": ("once",),
    "chain": ("trees",),
    "recompute": ("trees", "recompute"),
}


def graph(problem: Problem, game: str) -> Dag:
    """The graph on which a game of the table is played."""
    sums = "vertex" if game in ("words", "partial") else "chain"
    size = problem.sizes
    if problem.kind == "matmul":
        return matmul(size["m"], size["n"], size["k"], sums)
    return attention(size["N"], size["d"], sums, "free" if game == "words" else "fused")


def named(problem: Problem, M: int) -> dict[str, int]:
    """Words of each named algorithm with its optimal tiles, where it runs in M words."""
    found = {}
    for entry in all_algorithms(problem.kind):
        try:
            found[entry.name] = optimal_tiles(entry.program, problem, M).total_words
        except CapacityError:
            continue
    return found


def lower_bound(problem: Problem, M: int, game: str) -> tuple[float, str]:
    """The largest exact lower bound that holds for a game, and its name."""
    common = [
        {row.name: row.words or 0.0 for row in exact_lower_bounds(problem, M, klass)}
        for klass in CLASSES[game]
    ]
    names = set.intersection(*(set(rows) for rows in common))
    name = max(sorted(names), key=lambda name: common[0][name])
    return common[0][name], name


def rows(
    problem: Problem, game: str, seconds: float, memory: float = 4 * 2**30
) -> Iterator[dict[str, Any]]:
    """The rows of one game on one instance."""
    dag = graph(problem, game)
    again, partial = game == "recompute", game in ("words", "partial")
    M = dag.least_memory(partial)
    while True:
        best = optimum(dag, M, again, partial, seconds, memory)
        algorithm = named(problem, M)
        words, bound = lower_bound(problem, M, game)
        name = min(algorithm, key=lambda a: algorithm[a]) if algorithm else ""
        yield {
            "instance": " ".join(
                [problem.kind, *(f"{k}={v}" for k, v in problem.sizes.items() if k != "heads")]
            ),
            "game": game,
            "vertices": len(dag.vertices),
            "M_words": M,
            "optimum_words": best.cost,
            "proved_words": best.lower_bound,
            "optimal": best.optimal,
            "loads": best.loads,
            "stores": best.stores,
            "states": best.states,
            "seconds": round(best.seconds, 2),
            "best_algorithm": name,
            "best_words": algorithm.get(name, ""),
            "lower_bound": bound,
            "lower_bound_words": round(words, 3),
            "algorithms": " ".join(f"{k}={v}" for k, v in algorithm.items()),
        }
        if best.cost == compile_rules(dag, M, again, partial).compulsory:
            return
        M += 1


START, STOP = "<!-- table: optima -->\n", "<!-- end of table -->\n"
GAMES = ("words", "partial", "chain", "recompute")


def markdown(found: Sequence[Mapping[str, Any]]) -> str:
    """The table for the documentation: a line per instance and M, a column per game."""
    lines = [
        "| instance | M | words | partial | chain | recompute | best algorithm | lower bound |",
        "|---|--:|--:|--:|--:|--:|---|---|",
    ]
    points: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for row in found:
        points.setdefault((row["instance"], int(row["M_words"])), {})[row["game"]] = row
    order = list(dict.fromkeys(row["instance"] for row in found))
    for (name, M), games in sorted(points.items(), key=lambda p: (order.index(p[0][0]), p[0][1])):
        row = next(iter(games.values()))
        cells = [
            ("" if game not in games else str(games[game]["optimum_words"])
             if games[game]["optimum_words"] == games[game]["proved_words"]
             else f"{games[game]['proved_words']}–{games[game]['optimum_words']}")
            for game in GAMES
        ]  # fmt: skip
        best = f"{row['best_words']} ({row['best_algorithm']})" if row["best_algorithm"] else ""
        bound = f"{float(row['lower_bound_words']):g} ({row['lower_bound']})"
        lines.append("| " + " | ".join([name, str(M), *cells, best, bound]) + " |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.pebbling_table", description=__doc__
    )
    parser.add_argument("--out", default="experiments/data/pebbling", type=Path)
    parser.add_argument("--docs", type=Path, help="a page whose marked table is replaced")
    parser.add_argument("--seconds", default=60.0, type=float, help="time for each row")
    args = parser.parse_args(argv)
    where = out_dir(args.out)
    began = time.monotonic()
    found: list[dict[str, Any]] = []
    for problem, games in INSTANCES:
        for game in games:
            for row in rows(problem, game, args.seconds):
                found.append(row)
                text = "{instance}, {game}, M = {M_words}: {proved_words}..{optimum_words}"
                print(text.format(**row), file=sys.stderr, flush=True)
    write_csv(where / "optima.csv", found)
    if args.docs:
        before, _, rest = args.docs.read_text(encoding="utf-8").partition(START)
        after = rest.partition(STOP)[2]
        page = before + START + "\n" + markdown(found) + "\n" + STOP + after
        args.docs.write_text(page, encoding="utf-8")
    about = {
        "command": "python -m experiments.pebbling_table " + " ".join(argv or sys.argv[1:]),
        "iosim": iosim.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load_average": round(os.getloadavg()[1], 1),
        "seconds": round(time.monotonic() - began),
        "rows": len(found),
        "proved": sum(row["optimal"] for row in found),
    }
    (where / "optima.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
