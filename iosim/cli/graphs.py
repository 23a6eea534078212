"""The command ``iosim graph``: prints the operators of a graph.

Graphs come from `iosim.models.layers.files` and `torch_export`; a kind of operator is added in
`iosim.models.operators`.  ``commands.toml`` names this command, and has a table for a new one.

Changing this file: keys of ``--json`` are read by scripts, and ``docs/graphs.md`` prints the
tables.  ``tests/models/test_graph_files.py`` and ``tests/models/test_torch_export.py`` run the
command.
"""

from __future__ import annotations

from collections.abc import Sequence

import click

from iosim.base.errors import InputError
from iosim.base.rows import Row, Rows
from iosim.cli import options as opt
from iosim.models.layers.graph import Graph, opaque
from iosim.models.layers.writing import Groups
from iosim.models.operators import OPERATORS, Operator


@click.command()
@click.argument("source", metavar="FILE|FILE.py:FUNCTION", required=False)
@opt.as_json
@click.option("--as-file", is_flag=True, help="print the graph itself, as a file in JSON")
@click.option("--kinds", "only_kinds", is_flag=True, help="list the kinds of operators instead")
def graph(source: str | None, as_json: bool, as_file: bool, only_kinds: bool) -> None:
    """Print the operators of a graph: class, flop, words read and written, and sums by class.

    FILE is a graph in TOML or JSON.  FILE.py:FUNCTION is a function without arguments that returns
    a PyTorch module and a tuple of example inputs; that runs the file.
    """
    from iosim.models.layers.writing import to_json

    if as_json and as_file:
        raise InputError("--json prints counts and --as-file the graph: choose one")
    if only_kinds:
        rows = kinds()
        opt.print_json(rows) if as_json else opt.print_rows(rows)
        return
    if source is None:
        raise InputError("graph needs a file: name one, or ask for --kinds")
    found, groups = _from(source)
    if as_file:
        click.echo(to_json(found, groups))
    elif as_json:
        opt.print_json(to_dict(found, groups))
    else:
        _print(found, groups)
    opt.remark(opaque(found))


def _from(source: str) -> tuple[Graph, Groups]:
    file, colon, function = source.rpartition(":")
    if colon and file.endswith(".py"):
        from iosim.models.layers.torch_export import from_file

        return from_file(file, function), {}
    if source.endswith(".py"):
        raise InputError(f"{source!r} is Python: name a function of it too, like {source}:model")
    written = opt.GRAPH.convert(source, None, None)
    return written.graph, written.groups


def kinds() -> Rows:
    """The kinds of operators, a row each."""

    def several(number: int | None, fewer: int = 0) -> str:
        if number is None:
            return "any"
        return f"{number - fewer} or {number}" if fewer else str(number)

    return [
        {
            "kind": kind.name,
            "class": kind.klass,
            "reads": several(kind.reads),
            "writes": several(kind.writes, kind.kept),
            "over": several(kind.over),
            "settings": ", ".join(kind.settings),
            "says": kind.says,
        }
        for kind in OPERATORS.values()
    ]


def to_dict(graph: Graph, groups: Groups) -> Row:
    """For scripts."""
    return {
        "name": graph.name,
        "dtype": graph.dtype,
        "operators": [
            _row(op)
            | {"words": {t: {"in": n_in, "out": n_out} for t, (n_in, n_out) in op.words.items()}}
            for op in graph.operators
        ],
        "classes": classes(graph),
        "totals": _sums(graph.operators),
        "inputs": {
            t.name: {"role": t.role, "axes": dict(t.axes), "words": t.words} for t in graph.inputs
        },
        "outputs": [t.name for t in graph.outputs],
        "groups": {x: list(y) for x, y in groups.items()},
        "opaque": [op.name for op in graph.operators if op.kind.name == "opaque"],
    }


def classes(graph: Graph) -> dict[str, dict[str, int]]:
    """Sums by class, the largest flop first."""
    names = sorted({op.klass for op in graph.operators})
    found = {x: _sums([op for op in graph.operators if op.klass == x]) for x in names}
    return dict(sorted(found.items(), key=lambda x: -x[1]["flop"]))


def _sums(operators: Sequence[Operator]) -> dict[str, int]:
    return {
        "flop": sum(op.flop for op in operators),
        "words_in": sum(op.words_in for op in operators),
        "words_out": sum(op.words_out for op in operators),
    }


def _row(op: Operator) -> Row:
    return {
        "name": op.name,
        "kind": op.kind.name,
        "class": op.klass,
        "flop": op.flop,
        "words_in": op.words_in,
        "words_out": op.words_out,
    }


def _print(graph: Graph, groups: Groups) -> None:
    rows = [_row(op) for op in graph.operators]
    where = {op: name for name, names in groups.items() for op in names}
    shown = [row | ({"group": where.get(row["name"])} if groups else {}) for row in rows]
    opt.print_table(["operator", *list(shown[0])[1:]], [list(row.values()) for row in shown])
    click.echo()
    sums = classes(graph)
    whole = {"all": _sums(graph.operators)}
    flop = max(whole["all"]["flop"], 1)
    opt.print_table(
        ["class", "flop", "words_in", "words_out", "flop %"],
        [[x, *y.values(), f"{100 * y['flop'] / flop:.2f}%"] for x, y in (sums | whole).items()],
    )
    weights = sum(t.words for t in graph.inputs if t.role == "weight")
    click.echo(
        f"\nwords are {graph.dtype} where a tensor has no dtype of its own; "
        f"weights have {weights:,} words"
    )
