"""What notebooks show of each kind of value, and the rows of those that are tables.

Nothing imports this module: classes name its functions (`iosim.base.display`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iosim.base import html
from iosim.base.cells import cell
from iosim.base.errors import IosimError
from iosim.base.html import Markup
from iosim.base.rows import Table, Values
from iosim.core.algorithms._entry import Algorithm
from iosim.core.counting import numbers
from iosim.core.counting.show import show
from iosim.core.counting.symbols import Formula
from iosim.core.counts import Counts
from iosim.core.machine import Run
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance
from iosim.core.tiling import Tiling
from iosim.pebbling.dag import Dag
from iosim.pebbling.game import Game
from iosim.pebbling.solve import Optimum
from iosim.report.tightness import Tightness
from iosim.sweep.folder import Folder

# Of a folder's rows this many are shown; how many there are is printed with them.
SHOWN_ROWS = 20


def _at(values: Values | Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} = {cell(value)}" for name, value in dict(values).items())


def program(value: Program) -> str:
    """A schedule: its listing, what its tiles are of, and its tensors."""
    tiles = [[p.name, p.axis, "stationary part" if p.least == 0 else "tile"] for p in value.params]
    tensors = [[t.name, ", ".join(t.axes)] for t in value.tensors]
    return html.section(
        f"{value.name}: a schedule of {value.problem}",
        _listing(value),
        html.table(["parameter", "of axis", "kind"], tiles),
        html.table(["tensor", "axes"], tensors),
    )


def algorithm(value: Algorithm) -> str:
    """An entry of the registry: what it costs, where it is from, and its schedule."""
    options = [*(f"no {x}" for x in value.lacks), *(f"needs {x}" for x in value.needs)]
    about = [("cost (words, per head)", value.cost), ("source", value.source)]
    about += [("options", ", ".join(options))] if options else []
    return html.section(
        f"{value.name}: {value.title}",
        html.table(["about", ""], about),
        _listing(value.program),
    )


def instance(value: Instance) -> str:
    """A bound schedule: its listing with numbers, its counts, and its peak."""
    title = f"{value.program.name} at {_at(value.values)}"
    try:
        moved = numbers.count(value)
    except IosimError as error:  # a schedule without a closed form
        return html.section(title, html.line(str(error)))
    return html.section(
        title,
        _listing(value.program, value),
        _counts(moved),
        html.line(moved.total_words, " words moved, peak ", numbers.peak(value), " words"),
    )


def _listing(of: Program, at: Instance | None = None) -> str:
    try:
        return html.listing(show(of, at))
    except IosimError as error:  # a schedule without a closed form
        return html.line(str(error))


def _counts(value: Counts) -> str:
    rows = [list(row.values()) for row in counts_table(value)]
    total = ["total", value.load_words, value.store_words]
    return html.table(["tensor", "load_words", "store_words"], rows, total)


def counts(value: Counts) -> str:
    """Words by tensor and direction."""
    return html.section(f"{value.total_words:,} words moved", _counts(value))


def counts_table(value: Counts) -> Table:
    """A row for each tensor: tensor, load_words, store_words."""
    names = sorted({tensor for (_, tensor), _ in value})
    rows = tuple(
        {"tensor": x, "load_words": value["load", x], "store_words": value["store", x]}
        for x in names
    )
    return Table(rows, "words moved", "iosim.report.figures:counts")


def formula(value: Formula) -> str:
    """Closed forms, as MathML, which browsers render by themselves."""
    import sympy

    def math(expression: Any) -> Markup:
        text = sympy.mathml(expression, printer="presentation")
        return Markup(f'<math xmlns="http://www.w3.org/1998/Math/MathML">{text}</math>')

    rows: list[list[Any]] = [
        [f"{way} {tensor}", math(words)] for (way, tensor), words in value.words.items()
    ]
    rows += [["total", math(value.total_words)], ["peak", math(value.peak_words)]]
    where = [math(x) for x in value.assumptions if x not in (True, sympy.true)]
    return html.section(
        f"{value.program.name}: words in closed form",
        html.table(["", "words"], rows),
        *([html.line("where ", Markup(", ".join(where)))] if where else []),
    )


def tiling(value: Tiling) -> str:
    """Tile sizes, and what they move and hold."""
    return html.section(
        "tiles",
        html.table(["parameter", "size"], [[name, size] for name, size in value.tiles.items()]),
        html.line("moves ", value.total_words, " words, peak ", value.peak_words, " words"),
    )


def run(value: Run) -> str:
    """A simulation: what moved, the peak, and what was computed."""
    outputs = [
        [name, " × ".join(f"{n:,}" for n in array.shape), str(array.dtype)]
        for name, array in value.outputs.items()
    ]
    return html.section(
        f"{value.counts.total_words:,} words moved",
        _counts(value.counts),
        html.line("peak ", value.peak_words, " words"),
        html.table(["output", "shape", "dtype"], outputs),
    )


def run_table(value: Run) -> Table:
    """The words that a run moved, as for its counts."""
    return counts_table(value.counts)


def tightness(value: Tightness) -> str:
    """The best schedule, every lower bound that applies, and the gap."""
    best, binding = value.best, value.binding
    rows = [[row.name, row.words, row.source] for row in value.bounds]
    return html.section(
        f"how far from optimal: {_at(value.problem.as_dict)}, M = {value.M:,} words",
        html.line(
            "best schedule: ", best.algorithm, ", ", best.words, " words, with ", _at(best.tiles)
        ),
        html.line(
            f"largest lower bound, class {value.klass.name}: ",
            binding.name,
            ", ",
            binding.words or 0.0,
            " words",
        ),
        html.line("gap: ", value.gap, " (", value.klass.name, ": ", value.klass.says, ")"),
        html.table(["lower bound", "words", "source"], rows),
    )


def tightness_table(value: Tightness) -> Table:
    """The best schedule and the lower bounds, a row each: name, kind, words, source, class."""
    best = {
        "name": value.best.algorithm,
        "kind": "schedule",
        "words": float(value.best.words),
        "source": _at(value.best.tiles),
        "class": value.klass.name,
    }
    rows = (
        {
            "name": row.name,
            "kind": "lower bound",
            "words": row.words,
            "source": row.source,
            "class": value.klass.name,
        }
        for row in value.bounds
    )
    at = f"{_at(value.problem.as_dict)}, M = {value.M:,}"
    return Table((best, *rows), f"words at {at}", "iosim.report.figures:bounds")


def optimum(value: Optimum) -> str:
    """What the solver found, and its schedule move by move."""
    facts: list[list[Any]] = [
        ["red pebbles, M", value.M],
        ["vertices", len(value.dag.vertices)],
        ["recomputation", value.recompute],
        ["partial computations", value.partial],
        ["I/Os of the schedule", value.cost],
        ["I/Os that any schedule needs", value.lower_bound],
        ["loads", value.loads],
        ["stores", value.stores],
        ["states", value.states],
        ["seconds", value.seconds],
        ["stopped", value.stopped or "at the optimum"],
    ]
    moves = optimum_table(value)
    rows = [list(row.values()) for row in moves]
    return html.section(
        f"{value.dag.name}: {value.summary}",
        html.table(["", "value"], facts),
        html.folded(f"{len(moves):,} moves", html.table(moves.columns, rows)),
    )


def optimum_table(value: Optimum) -> Table:
    """The schedule: a row for each move, with the pebbles and I/Os after it."""
    game = Game(value.dag, value.M, value.recompute, value.partial)
    rows = []
    for number, move in enumerate(value.schedule, 1):
        game.play(move)
        rows.append(
            {
                "move": number,
                "kind": move.kind,
                "vertex": move.vertex,
                "term": move.term,
                "red_words": len(game.red),
                "loads": game.loads,
                "stores": game.stores,
                "M_words": value.M,
            }
        )
    return Table(tuple(rows), f"the schedule of {value.dag.name}", "iosim.report.figures:pebbles")


def dag(value: Dag) -> str:
    """A graph: every vertex with its operands."""
    rows = [
        [v, ", ".join(operands), v in value.outputs, v in value.sums]
        for v, operands in value.preds.items()
    ]
    return html.section(
        f"{value.name}: {len(value.vertices):,} vertices",
        html.table(["vertex", "operands", "output", "sum"], rows),
    )


def folder(value: Folder) -> str:
    """The first rows of a sweep's directory, and how many there are."""
    every = value.count_rows()
    first: list[Values] = []
    for table in value.tables():
        first += table.slice(0, SHOWN_ROWS - len(first)).to_pylist()
        if len(first) == SHOWN_ROWS:
            break
    columns = list(dict.fromkeys(name for row in first for name in row))
    shown = "all of them" if len(first) == every else f"the first {len(first):,}"
    return html.section(
        f"{value.path}",
        html.line(every, " rows, here ", shown),
        html.table(columns, [[row.get(x) for x in columns] for row in first]),
    )


def folder_figure(value: Folder) -> Any:
    """Words against M, of the rows that were counted."""
    from iosim.report.figures import sweep

    every = list(dict.fromkeys(x for shard in value.verified() for x in shard.schema.names))
    sizes = every[every.index("revision") + 1 : every.index("M_words")] if every else []
    of = [x for x in every if x == "lower_bound_class"]
    names = ["algorithm", *sizes, *of, "M_words", "total_words", "lower_bound_words"]
    rows = [row for table in value.tables(names) for row in table.to_pylist()]
    return sweep([row for row in rows if row["total_words"] is not None])
