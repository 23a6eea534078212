"""A graph as JSON, which `iosim.models.layers.files` reads back.

``iosim graph --as-file`` calls it.  A user's files are of this form, so a change raises `VERSION`.
``tests/models/test_graph_files.py`` reads back what is written.

>>> from iosim.models.layers.graph import Graph
>>> from iosim.models.operators import operand, operator
>>> s = {"t": 4, "u": 8}
>>> x, y = (operand(name, "t u", s) for name in "XY")
>>> graph = Graph("one", (operator("gelu", "gelu", [x], [y]),))
>>> print(to_json(graph))
{
 "iosim_graph": 1,
 "name": "one",
 "dtype": "fp16",
 "sizes": {"t": 4, "u": 8},
 "tensors": {
  "X": "t u",
  "Y": "t u"
 },
 "operators": [
  {"name": "gelu", "kind": "gelu", "reads": ["X"], "writes": ["Y"]}
 ]
}
>>> from iosim.models.layers.files import Written, parsed
>>> parsed(to_json(graph)) == Written(graph, {})
True
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from iosim.base.rows import Row
from iosim.core.problem import MarkedTiles
from iosim.models.layers.graph import Graph
from iosim.models.operators import Operand, Operator

VERSION = 1

# Names of operators by the name of the kernel that they are.
Groups = Mapping[str, tuple[str, ...]]


def to_json(graph: Graph, groups: Groups | None = None) -> str:
    """A graph as JSON that `parsed` gives back, with a line for each tensor and operator.

    >>> from iosim.models.layers.architectures import layer
    >>> from iosim.models.layers.files import parsed
    >>> graph = layer("gpt2", "prefill", batch=1, N=8)
    >>> parsed(to_json(graph)).graph == graph
    True
    """
    sizes: dict[str, int] = {}
    for op in graph.operators:
        for t in (*op.reads, *op.writes):
            for axis, size in t.axes:
                sizes.setdefault(axis, size)
    for t in graph.tensors.values():
        sizes |= {axis: size for axis, size in t.axes if axis not in sizes}

    def axes(t: Operand) -> str:
        return " ".join(a if sizes[a] == n else f"{a}={n}" for a, n in t.axes)

    def tensor(t: Operand) -> Any:
        more = {"role": t.role} if t.role != "activation" else {}
        more |= {"dtype": t.dtype} if t.dtype is not None else {}
        return {"axes": axes(t)} | more if more else axes(t)

    def one(t: Operand) -> Any:
        same = t.axes == graph.tensors[t.name].axes
        return t.name if same else {"tensor": t.name, "axes": axes(t)}

    def operator_to_dict(op: Operator) -> Row:
        found: Row = {"name": op.name, "kind": op.kind.name}
        found |= {"reads": [*map(one, op.reads)], "writes": [*map(one, op.writes)]}
        if op.over:
            found["over"] = " ".join(op.over)
        if op.settings:
            found["settings"] = {name: _plain(value) for name, value in op.settings}
        return found

    parts = {
        "iosim_graph": _text(VERSION),
        "name": _text(graph.name),
        "dtype": _text(graph.dtype),
        "sizes": _text(sizes),
        "tensors": _lines({t: tensor(x) for t, x in graph.tensors.items()}),
        "operators": _lines([operator_to_dict(op) for op in graph.operators]),
    }
    if graph.keeps is not None:
        parts["keeps"] = _text([t.name for t in graph.outputs])
    if graph.waits:
        parts["waits"] = _text(dict(graph.waits))
    if groups:
        parts["groups"] = _lines({name: list(found) for name, found in groups.items()})
    return "{\n" + ",\n".join(f" {_text(key)}: {text}" for key, text in parts.items()) + "\n}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(x) for x in value]
    if isinstance(value, MarkedTiles):
        rows = ["".join("01"[mark] for mark in row) for row in value.mask.array.tolist()]
        return {"mask": rows, **value.tiles}
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return "none" if value is None else value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _lines(value: Any) -> str:
    """JSON with a line for each entry."""
    if isinstance(value, Mapping):
        inside = [f"  {_text(key)}: {_text(x)}" for key, x in value.items()]
        return "{\n" + ",\n".join(inside) + "\n }"
    return "[\n" + ",\n".join(f"  {_text(x)}" for x in value) + "\n ]"
