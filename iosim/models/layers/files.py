"""Graphs in files: TOML, which people write, and JSON, which is written and read back.

Both say the same; ``docs/graphs.md`` has a whole example.

``iosim graph``, ``fuse`` and ``roofline`` read files with it.  A key that is added here is also
written by `writing` and told in ``docs/graphs.md``.  ``tests/models/test_graph_files.py`` reads
back what is written, and compares the message for each file that is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, closest
from iosim.base.progress import track
from iosim.base.reading import parse, read_mask, read_text
from iosim.base.rows import Values
from iosim.core.problem import MarkedTiles
from iosim.models.layers.graph import Graph
from iosim.models.layers.writing import VERSION, Groups, to_json
from iosim.models.operators import Operand, Operator, operand, operator

__all__ = ["Written", "load", "parsed", "read", "to_json"]

# Larger files are treated as something else.
MOST_BYTES = 8 * 2**20
MOST_DEPTH = 20
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Written:
    """What a file says.

    Attributes:
        graph: the graph.
        groups: names of operators by the name of the kernel that they are; those in no group are
            kernels of their own.

    >>> from iosim.models.layers.architectures import layer
    >>> graph = layer("gpt2", "prefill", batch=1, N=8)
    >>> written = parsed(to_json(graph))
    >>> written.graph == graph, written.groups
    (True, {})
    """

    graph: Graph
    groups: Groups = field(default_factory=dict)

    def kernels(self) -> list[tuple[str, ...]]:
        """The groups, and each other operator alone; empty where the file has no groups."""
        inside = {x for names in self.groups.values() for x in names}
        alone = [(op.name,) for op in self.graph.operators if op.name not in inside]
        return [*map(tuple, self.groups.values()), *alone] if self.groups else []


def read(path: str | Path) -> Graph:
    """The graph of a file; see `load`.

    >>> import tempfile
    >>> from iosim.models.layers.architectures import layer
    >>> graph = layer("gpt2", "prefill", batch=1, N=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "one.json").write_text(to_json(graph))
    ...     read(f"{folder}/one.json") == graph
    True
    """
    return load(path).graph


def load(path: str | Path) -> Written:
    """The graph of a file, and its groups.

    Raises InputError, with the file's name and what to fix, where it can't be read or is not a
    graph.

    >>> import tempfile
    >>> from iosim.models.layers.architectures import layer
    >>> graph = layer("gpt2", "prefill", batch=1, N=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "one.json").write_text(to_json(graph))
    ...     load(f"{folder}/one.json").graph == graph
    True
    """
    where = Path(path)
    try:
        text = read_text(path, MOST_BYTES)
    except InputError as error:
        raise InputError(f"cannot read {str(path)!r}: {error}") from None
    try:
        language = {".json": "JSON", ".toml": "TOML"}.get(where.suffix)
        return parsed(text, where.stem, language, where.parent)
    except InputError as error:
        raise InputError(f"{where.name}: {error}") from None


def parsed(
    text: str, name: str = "graph", language: str | None = None, folder: Path = Path()
) -> Written:
    """The graph of a text.

    Args:
        text: TOML, or JSON.
        name: of the graph, where the text has none.
        language: ``TOML`` or ``JSON``; by default JSON for what begins with a brace.
        folder: where the files are that it names.

    Raises InputError where the text is not a graph.

    >>> from iosim.models.layers.architectures import layer
    >>> graph = layer("gpt2", "prefill", batch=1, N=8)
    >>> parsed(to_json(graph)).graph == graph
    True
    """
    language = language or ("JSON" if text.lstrip().startswith("{") else "TOML")
    try:
        told = parse(text, language)
    except InputError as error:
        raise InputError(f"this is not {language}: {error}") from None
    return _graph(_Checked("the file", told, _TOP), name, folder)


# What a table may hold, by key: the type of its value, and what that is called.
_TEXT, _TABLE = (str, "text"), (dict, "a table")
_LIST, _WHOLE = (list, "a list"), (int, "an integer")
_TOP = {
    "iosim_graph": _WHOLE,
    "name": _TEXT,
    "dtype": _TEXT,
    "sizes": _TABLE,
    "tensors": _TABLE,
    "operators": _LIST,
    "keeps": _LIST,
    "waits": _TABLE,
    "groups": _TABLE,
}
_TENSOR = {"axes": _TEXT, "role": _TEXT, "dtype": _TEXT}
_OPERATOR = {
    "name": _TEXT,
    "kind": _TEXT,
    "reads": _LIST,
    "writes": _LIST,
    "over": _TEXT,
    "settings": _TABLE,
}
_BLOCKS = {"mask": ((str, list), "a file, or a list of rows"), "B_r": _WHOLE, "B_c": _WHOLE}
_READ = {"tensor": _TEXT, "axes": _TEXT}


class _Checked:
    """A table of a file whose keys are known and whose values are of the right types."""

    def __init__(self, what: str, told: Any, known: Mapping[str, tuple[Any, str]]) -> None:
        self.what = what
        if not isinstance(told, dict):
            raise InputError(f"{what} must be a table, got {_format_value(told)}")
        for key, value in told.items():
            if key not in known:
                raise InputError(
                    f"{what} has an unknown key {_format_value(key)}: {closest(key, known)}"
                )
            kind, called = known[key]
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise InputError(f"{key} of {what} must be {called}, got {_format_value(value)}")
        self.told = told

    def __call__(self, key: str, default: Any = None) -> Any:
        if key not in self.told and default is None:
            raise InputError(f"{self.what} has no {key!r}: give it")
        return self.told.get(key, default)


def _graph(told: _Checked, name: str, folder: Path) -> Written:
    version = told("iosim_graph")
    if version != VERSION:
        raise InputError(
            f"iosim_graph = {_format_value(version)} is another version of the format: this one is "
            f"{VERSION}"
        )
    name = _name("the graph's name", told("name", name))
    dtype = told("dtype", "fp16")
    word_bytes(dtype)
    sizes = {_name("an axis", a): _size(f"size {a}", n) for a, n in told("sizes", {}).items()}
    tensors = {
        _name("a tensor", t): _tensor(t, one, sizes) for t, one in told("tensors", {}).items()
    }
    made: dict[tuple[str, tuple[tuple[str, int], ...]], Operand] = {}
    operators: list[Operator] = []
    for k, one in enumerate(track(told("operators"), "operators of the file"), start=1):
        operators.append(_operator(k, one, tensors, sizes, made, folder))
    if not operators:
        raise InputError("the graph is empty: give it operators, as [[operators]]")
    used = {t.name for op in operators for t in op.tensors}
    for t in tensors:
        if t not in used:
            raise InputError(f"tensor {t} is never used: take it out, or name it in an operator")
    keeps = _names("keeps", told("keeps"), tensors) if "keeps" in told.told else None
    waits = told("waits", {})
    _names("waits", [*waits, *waits.values()], tensors)
    graph = Graph(
        name,
        tuple(operators),
        None if keeps is None else frozenset(keeps),
        dtype,
        tuple(waits.items()),
    )
    return Written(graph, _groups(told("groups", {}), graph))


def _tensor(name: str, told: Any, sizes: Mapping[str, int]) -> Operand:
    one = _Checked(f"tensor {name}", {"axes": told} if isinstance(told, str) else told, _TENSOR)
    axes, own = _axes(f"tensor {name}", one("axes"), sizes)
    return operand(name, axes, own, one("role", "activation"), one.told.get("dtype"))


def _axes(what: str, text: str, sizes: Mapping[str, int]) -> tuple[str, dict[str, int]]:
    """Axes as `operand` takes them, and sizes with those that are given after a name: ``i=64``."""
    names, own = [], dict(sizes)
    for word in text.split():
        axis, given, size = word.partition("=")
        if given:
            if not (size.isascii() and size.isdigit() and len(size) < 20):
                raise InputError(f"{what}: {_format_value(word)} has no size: write {axis}=64")
            own[axis] = _size(f"{what}: the size of axis {axis!r}", int(size))
        names.append(_name(f"an axis of {what}", axis))
    return " ".join(names), own


def _operator(
    k: int,
    told: Any,
    tensors: Mapping[str, Operand],
    sizes: Mapping[str, int],
    made: dict[tuple[str, tuple[tuple[str, int], ...]], Operand],
    folder: Path,
) -> Operator:
    one = _Checked(f"operator {k}", told, _OPERATOR)
    name = _name(f"the name of operator {k}", one("name"))
    one.what = f"operator {name}"

    def named(listed: Sequence[Any]) -> list[Operand]:
        found = []
        for told in listed:
            table = {"tensor": told} if isinstance(told, str) else told
            what = _Checked(f"a tensor of operator {name}", table, _READ)
            t = _lookup(f"operator {name}: ", what("tensor"), tensors)
            if "axes" in what.told:
                t = _rename_axes(name, t, what("axes"), sizes)
            found.append(made.setdefault((t.name, t.axes), t))
        return found

    settings = {
        key: _blocks(f"blocks of operator {name}", value, folder)
        if key == "blocks" and value != "none"
        else _setting(value)
        for key, value in one("settings", {}).items()
    }
    for key in settings:
        _name(f"a setting of operator {name}", key)
    reads, writes = named(one("reads")), named(one("writes"))
    if not writes:
        raise InputError(f"operator {name} writes no tensor: name one in writes")
    if twice := [t.name for k, t in enumerate(writes) if t.name in {x.name for x in writes[:k]}]:
        raise InputError(f"operator {name} writes {twice[0]} twice: rename one")
    try:
        return operator(name, one("kind"), reads, writes, one("over", ""), **settings)
    except TypeError:  # a setting called like an argument
        raise InputError(f"operator {name} has a setting that no kind has: take it out") from None


def _rename_axes(operator: str, t: Operand, text: str, sizes: Mapping[str, int]) -> Operand:
    """A tensor under the names that an operator calls its axes by."""
    axes, own = _axes(f"operator {operator}: tensor {t.name}", text, sizes)
    found = operand(t.name, axes, own, t.role, t.dtype)
    if found.shape != t.shape:
        said = (" × ".join(map(str, x)) or "one word" for x in (found.shape, t.shape))
        raise InputError(
            f"operator {operator}: tensor {t.name} is {next(said)} here and {next(said)} in "
            "tensors: give axes of the same sizes"
        )
    return found


def _groups(told: Values, graph: Graph) -> Groups:
    operators = {op.name: op for op in graph.operators}
    found: dict[str, tuple[str, ...]] = {}
    where: dict[str, str] = {}
    for name, listed in told.items():
        if not isinstance(listed, list):
            raise InputError(f"group {_name('a group', name)} must be a list of operators")
        found[_name("a group", name)] = _names(f"group {name}", listed, operators, "operator")
        for op in found[name]:
            if op in where:
                raise InputError(
                    f"operator {op} is in the groups {where[op]} and {name}: leave it in one"
                )
            where[op] = name
    return found


def _names(
    what: str, listed: Sequence[Any], known: Values, kind: str = "tensor"
) -> tuple[str, ...]:
    for name in listed:
        if not isinstance(name, str):
            raise InputError(f"{what} must name {kind}s, got {_format_value(name)}")
        _lookup(f"{what}: ", name, known, kind)
    return tuple(dict.fromkeys(listed))


def _lookup(before: str, name: str, known: Values, kind: str = "tensor") -> Any:
    if name not in known:
        near = closest(name, list(known)[:100]) if known else f"there are no {kind}s"
        raise InputError(f"{before}there is no {kind} {_format_value(name)}: {near}")
    return known[name]


def _name(what: str, name: Any) -> str:
    """A name, if it can be printed in a line."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{what} is empty: give a name")
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise InputError(
            f"{what} is not a name: {_format_value(name)}: take a short one in one line"
        )
    return name


def _size(what: str, size: Any) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 2**40:
        raise InputError(f"{what} is {_format_value(size)}: give an integer from 1 to 2**40")
    return size


def _format_value(value: Any) -> str:
    """A value in a message, or the beginning of a long one."""
    if isinstance(value, int) and abs(value) >= 2**200:
        return "a number of very many digits"
    if isinstance(value, dict | list):
        return {dict: "a table", list: "a list"}[type(value)]
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} and so on"


def _blocks(what: str, told: Any, folder: Path) -> MarkedTiles:
    """A block mask with its tiles: a NumPy file next to the graph's, or rows of 0 and 1."""
    one = _Checked(what, told, _BLOCKS)
    rows, B_r, B_c = map(one, _BLOCKS)
    try:
        marks = read_mask(folder / rows) if isinstance(rows, str) else _marks(rows)
        return MarkedTiles.of(marks, B_r, B_c)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def _marks(rows: Sequence[Any]) -> list[list[bool]]:
    texts = [x for x in rows if isinstance(x, str) and x and not x.strip("01")]
    if not rows or len(texts) < len(rows) or len({*map(len, texts)}) > 1:
        raise InputError('rows of a mask are texts of 0 and 1, equally long, like "0110"')
    return [[x == "1" for x in text] for text in texts]


_INFINITE = {"inf": math.inf, "-inf": -math.inf}


def _setting(value: Any, depth: int = 0) -> Any:
    """As operators have them: lists are tuples, ``none`` is None, ``inf`` is a number."""
    if isinstance(value, list):
        if depth > MOST_DEPTH:
            raise InputError("a setting has lists in lists in lists: no kind has one")
        return tuple(_setting(x, depth + 1) for x in value)
    if isinstance(value, dict):
        raise InputError("a setting is a table: no kind has one")
    if isinstance(value, int) and abs(value) >= 2**200:
        raise InputError(f"a setting is {_format_value(value)}: take a smaller one")
    if value == "none":
        return None
    return _INFINITE.get(value, value) if isinstance(value, str) else value
