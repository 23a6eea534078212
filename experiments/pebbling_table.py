"""Optimum, named algorithms and lower bounds on the same small instances, for every M.

``python -m experiments.pebbling_table --docs docs/pebbling.md`` writes optima.csv, and optima.json
with the command and what it ran on, to `data/pebbling/`.  One row is one game on one instance at
one M, from the least M that allows a pebbling to the least at which only compulsory transfers are
left.  The games are `GAMES`.

It is no ``eNN`` experiment: the optima take minutes, and the solver's own tests hold the committed
rows against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.base.errors import CapacityError
from iosim.base.writing import out_dir
from iosim.bounds import CLASSES, BoundClass, exact_lower_bounds
from iosim.core.algorithms import all_algorithms
from iosim.core.problem import Attention, AttentionBackward, MatMul, Problem
from iosim.core.tiling import optimal_tiles
from iosim.pebbling.dag import Dag
from iosim.pebbling.graphs import KINDS
from iosim.pebbling.rules import compile_rules
from iosim.pebbling.solve import optimum

from . import run_main
from ._pebbling_tables import command, options, write_table

NAME = "pebbling_table"


@dataclass(frozen=True)
class Variant:
    """One game of the table: a variant of the pebble game, and how its graphs are made.

    Attributes:
        name: its column.
        says: what it allows.
        sums: how a sum becomes vertices: ``vertex`` (an accumulator) or ``chain``.
        softmax: which vertices the softmax has; see `iosim.pebbling.attention`.
        recompute: whether a value may be computed again.
        partial: whether a sum takes its terms one at a time.
        classes: the classes of algorithms that it contains: a bound has to cover all of them.
    """

    name: str
    says: str
    sums: str
    softmax: str
    recompute: bool
    partial: bool
    classes: tuple[BoundClass, ...]


_ONCE, _RECOMPUTE, _TREES = (CLASSES[name] for name in ("once", "recompute", "trees"))

GAMES: dict[str, Variant] = {
    game.name: game
    for game in (
        Variant(
            "words",
            "Attention as the lower bounds count it: sums are accumulators, products are consumed "
            "on the fly, exponentials, row sums and quotients take no word (iosim's machine has "
            "words for row maxima and row sums).  "
            "For matrix products, which have none of these, `partial` is the same.  dS of the "
            "backward pass has a word of its own here; there it takes the place of dP.",
            sums="vertex",
            softmax="free",
            recompute=False,
            partial=True,
            classes=(_ONCE,),
        ),
        Variant(
            "partial",
            "The same with row sums and quotients as vertices.",
            sums="vertex",
            softmax="fused",
            recompute=False,
            partial=True,
            classes=(_ONCE,),
        ),
        Variant(
            "chain",
            "Every product, partial sum and quotient is a vertex of its own, computed once.",
            sums="chain",
            softmax="fused",
            recompute=False,
            partial=False,
            classes=(_TREES,),
        ),
        Variant(
            "recompute",
            "The same, and values may be computed again.",
            sums="chain",
            softmax="fused",
            recompute=True,
            partial=False,
            classes=(_TREES, _RECOMPUTE),
        ),
    )
}

INSTANCES: tuple[tuple[Problem, tuple[str, ...]], ...] = (
    (MatMul(2, 2, 2), ("partial", "chain", "recompute")),
    (MatMul(2, 3, 2), ("partial", "chain", "recompute")),
    (MatMul(3, 3, 3), ("partial",)),
    (Attention(2, 1), ("words", "partial", "chain", "recompute")),
    (Attention(2, 2), ("words", "partial", "chain")),
    (Attention(3, 1), ("words", "partial", "chain")),
    (Attention(4, 1), ("words",)),
    (AttentionBackward(2, 1), ("words", "chain")),
)


def graph(problem: Problem, game: Variant) -> Dag:
    """The graph on which a game of the table is played."""
    return KINDS[problem.kind].make(problem, game.sums, game.softmax)


def named(problem: Problem, M: int, game: Variant) -> dict[str, int]:
    """Words of each algorithm of a game's classes with its optimal tiles, where M is enough."""
    found, classes = {}, {one.name for one in game.classes}
    for entry in all_algorithms(problem.form):
        if not classes & set(entry.classes):
            continue
        try:
            found[entry.name] = optimal_tiles(entry.program_for(problem), problem, M).total_words
        except CapacityError:
            continue
    return found


def lower_bound(problem: Problem, M: int, game: Variant) -> tuple[float, str]:
    """The largest exact lower bound that holds for a game, and its name.

    A game's rows may have no sums: bounds in which these take a word are left out.
    """
    first, *others = game.classes
    found = {
        row.name: row.words or 0.0
        for row in exact_lower_bounds(problem, M, first)
        if set(others) <= set(row.classes) and not row.row_sums
    }
    name = max(sorted(found), key=lambda name: found[name])
    return found[name], name


def rows(
    problem: Problem, game: Variant, seconds: float, memory: float = 4 * 2**30
) -> Iterator[dict[str, Any]]:
    """The rows of one game on one instance."""
    dag = graph(problem, game)
    M = dag.least_memory(game.partial)
    while True:
        best = optimum(dag, M, game.recompute, game.partial, seconds, memory)
        algorithm = named(problem, M, game)
        words, bound = lower_bound(problem, M, game)
        name = min(algorithm, key=lambda a: algorithm[a]) if algorithm else ""
        yield {
            "instance": " ".join(
                [problem.kind, *(f"{k}={v}" for k, v in problem.sizes.items() if k != "heads")]
            ),
            "game": game.name,
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
        if best.cost == compile_rules(dag, M, game.recompute, game.partial).compulsory:
            return
        M += 1


START, STOP = "<!-- table: optima -->\n", "<!-- end of table -->\n"


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
            (
                ""
                if game not in games
                else str(games[game]["optimum_words"])
                if games[game]["optimum_words"] == games[game]["proved_words"]
                else f"{games[game]['proved_words']}–{games[game]['optimum_words']}"
            )
            for game in GAMES
        ]
        best = f"{row['best_words']} ({row['best_algorithm']})" if row["best_algorithm"] else ""
        bound = f"{float(row['lower_bound_words']):g} ({row['lower_bound']})"
        lines.append("| " + " | ".join([name, str(M), *cells, best, bound]) + " |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Make the table."""
    parser = options(NAME, __doc__)
    parser.add_argument("--docs", type=Path, help="a page whose marked table is replaced")
    args = parser.parse_args(argv)
    made = (
        row
        for problem, games in INSTANCES
        for game in games
        for row in rows(problem, GAMES[game], args.seconds)
    )
    line = "{instance}, {game}, M = {M_words}: {proved_words}..{optimum_words}"
    found = write_table(out_dir(args.out) / "optima", made, line, command(NAME, argv))
    if args.docs:
        before, _, rest = args.docs.read_text(encoding="utf-8").partition(START)
        after = rest.partition(STOP)[2]
        page = before + START + "\n" + markdown(found) + "\n" + STOP + after
        args.docs.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run_main(main)
