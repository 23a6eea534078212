"""Node-link JSON, as ``networkx.node_link_data`` writes it."""

from __future__ import annotations

from typing import Any

from iosim.base.errors import InputError
from iosim.base.reading import parse
from iosim.base.rows import Row
from iosim.pebbling.graph_input import Arc, Drawn, vertex, weight
from iosim.pebbling.readers._entry import Reader

SAYS = "write networkx.node_link_data, with nodes and edges"


def read(name: str, text: str) -> Drawn:
    """The vertices and edges; ``links`` is an older name of ``edges``."""
    try:
        data = parse(text, "JSON", finite=False)  # names the vertex
    except InputError as error:
        raise InputError(f"{name} is not node-link JSON ({error}): {SAYS}") from None
    if not isinstance(data, dict):
        raise InputError(f"{name} is not node-link JSON, but a {type(data).__name__}: {SAYS}")
    if not data.get("directed", True):
        raise InputError(f"{name}: the graph is undirected: give edges from operand to result")
    nodes = _list(name, data, "nodes")
    edges = _list(name, data, "edges" if "edges" in data else "links")
    for what, rows, keys in (("nodes", nodes, ("id",)), ("edges", edges, ("source", "target"))):
        for number, row in enumerate(rows):
            for key in keys:
                if not isinstance(row, dict) or key not in row:
                    raise InputError(f"{name} is not node-link JSON: {what}[{number}] has no {key}")
    return Drawn(
        tuple(vertex(row["id"], row, name) for row in nodes),
        tuple(_edge(row, name) for row in edges),
    )


def _edge(row: Row, name: str) -> Arc:
    return Arc(row["source"], row["target"], weight(row, name), name)


def _list(name: str, data: Row, key: str) -> list[Any]:
    if not isinstance(data.get(key), list):
        raise InputError(f"{name} is not node-link JSON: it has no list of {key}: {SAYS}")
    return list(data[key])


READER = Reader("node-link", SAYS, (".json",), "{", read)
