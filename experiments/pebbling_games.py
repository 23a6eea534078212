"""Optimal games on small graphs, move by move, and the parts that Hong and Kung's theorem counts.

``python -m experiments.pebbling_games`` writes `games.json` to `data/pebbling/`, with the command
and what it ran on.  It is what the lab's pebble game is played against.  A *board* is a graph and a
game; it has an optimal game for every M, from the least that allows a pebbling to the least at
which only compulsory transfers are left, and P(S), the least number of parts of an S-partition,
until that is 1.  The games are those of `experiments.pebbling_table`; graphs that are neither a
product nor attention have no sums, and so only two of them.

It is no ``eNN`` experiment: its tests replay every game, and solve every board again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from iosim.base import provenance
from iosim.base.writing import out_dir, publish
from iosim.core.problem import Attention, MatMul, Problem
from iosim.pebbling import Dag, butterfly, fewest_parts, grid, optimum, pyramid, tree
from iosim.pebbling.rules import compile_rules

from . import run_main
from ._pebbling_tables import options
from .pebbling_table import GAMES, Variant, graph

NAME = "games.json"


def _of(problem: Problem, *games: str) -> dict[str, Dag]:
    return {game: graph(problem, GAMES[game]) for game in games}


def _same_graph(dag: Dag) -> dict[str, Dag]:
    return {"chain": dag, "recompute": dag}


# By name: its graph for each game.
GRAPHS: Mapping[str, Mapping[str, Dag]] = {
    "matmul": _of(MatMul(2, 2, 2), "chain", "recompute", "partial"),
    "attention": _of(Attention(2, 1), "chain", "recompute", "partial", "words"),
    "pyramid": _same_graph(pyramid(3)),
    "tall-pyramid": _same_graph(pyramid(4)),
    "tree": _same_graph(tree(3)),
    "diamond": _same_graph(grid(4, 4)),
    "butterfly": _same_graph(butterfly(2)),
}


def optima(dag: Dag, game: Variant, seconds: float) -> Iterator[dict[str, Any]]:
    """An optimal game for each M."""
    M = dag.least_memory(game.partial)
    while True:
        best = optimum(dag, M, game.recompute, game.partial, seconds)
        yield {
            "M": M,
            "words": best.cost,
            "proved": best.lower_bound,
            "loads": best.loads,
            "stores": best.stores,
            "moves": [" ".join(x for x in (m.kind, m.vertex, m.term) if x) for m in best.schedule],
        }
        if best.cost == compile_rules(dag, M, game.recompute, game.partial).compulsory:
            return
        M += 1


def parts(dag: Dag) -> dict[str, int]:
    """P(S) by S, from the least M that allows a pebbling until one part is enough."""
    S = dag.least_memory()
    found = {str(S): fewest_parts(dag, S)}
    while found[str(S)] > 1:
        S += 1
        found[str(S)] = fewest_parts(dag, S)
    return found


def board(name: str, key: str, seconds: float = 60.0) -> dict[str, Any]:
    """A graph and a game, with what is known of it; vertices have their operands."""
    dag, game = GRAPHS[name][key], GAMES[key]
    return {
        "graph": name,
        "game": key,
        "name": dag.name,
        "recompute": game.recompute,
        "partial": game.partial,
        "vertices": {v: list(ps) for v, ps in dag.preds.items()},
        "outputs": list(dag.outputs),
        "sums": sorted(dag.sums),
        "optima": list(optima(dag, game, seconds)),
        "parts": None if game.partial else parts(dag),
    }


def main(argv: list[str] | None = None) -> None:
    """Solve every board."""
    args = options("pebbling_games", __doc__, each="optimum").parse_args(argv)
    where = out_dir(args.out)
    about = provenance.of("python -m experiments.pebbling_games")
    began = time.monotonic()
    boards = [board(name, key, args.seconds) for name, games in GRAPHS.items() for key in games]
    about["seconds"] = f"{time.monotonic() - began:.0f}"

    def make(part: Path) -> list[Path]:
        # A line for each board, so that a change of one is seen.
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in boards)
        text = f'{{"about": {json.dumps(about)},\n"boards": [\n{lines}\n]}}\n'
        (part / NAME).write_text(text, encoding="utf-8")
        return [part / NAME]

    print(*publish(where, make))


if __name__ == "__main__":
    run_main(main)
