"""Readers of graphs, and of games: one file for each format, and one line each in `READERS`.

``iosim optimal --graph FILE`` and `from_file` choose a reader by the file's suffix or beginning.  A
`Reader` (`_entry`) turns text into vertices and edges, which `iosim.pebbling.graph_input` checks.
`moves` reads a game, as ``iosim optimal --json`` prints it.  An entry is an import string, so that
listing names imports nothing.

Changing files here: a file that isn't of the format, or is damaged, raises InputError with its
line; ``tests/pebbling/test_pebbling_readers.py`` compares messages.  Files may be untrusted:
limits of size and depth are those of `iosim.base.reading`.  Graph formats belong to other projects;
games that users saved must stay readable.  networkx is imported by `graphml` only.

>>> sorted(READERS) == sorted(reader(name).name for name in READERS)
True
"""

from __future__ import annotations

from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.reading import read_bytes
from iosim.base.registry import registered
from iosim.pebbling.dag import Dag
from iosim.pebbling.readers._entry import Reader

__all__ = ["READERS", "Reader", "from_file", "reader"]

# The last takes what no other claims.
READERS: dict[str, str] = {
    "hdag": "iosim.pebbling.readers.hdag",
    "graphml": "iosim.pebbling.readers.graphml",
    "node-link": "iosim.pebbling.readers.node_link",
    "edges": "iosim.pebbling.readers.edges",
}
LARGEST = 1 << 26  # bytes


def reader(name: str) -> Reader:
    """The reader of a format; raises InputError, with the closest name, for an unknown one.

    >>> reader("hdag").suffixes
    ('.hdag',)
    """
    return registered("format", name, READERS, "READER", Reader)


def from_file(path: Path, format: str | None = None, unit: bool = False) -> Dag:
    """A graph from a file.

    Args:
        path: a regular file or a pipe, UTF-8, at most 64 MiB.
        format: a name of `READERS`; by default the file's suffix says it, or else how it begins.
        unit: ignore all weights, so that every vertex is one word.

    Raises InputError, with the file's name and the line if it is known, for whatever can't be
    read as a graph.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "twice.txt").write_text("a b 2")
    ...     dag = from_file(Path(folder, "twice.txt"))
    >>> dag.preds, dag.words
    ({'a': (), 'b': ('a',)}, (2, 1))
    """
    text = text_of(path)
    chosen = reader(format) if format else _chosen(path, text)
    if not text.strip():
        raise InputError(f"{path} is empty: {chosen.says}")
    return chosen.read(str(path), text).dag(path.stem, unit)


def text_of(path: Path) -> str:
    """The text of a file; raises InputError where it can't be had."""
    try:
        text = read_bytes(path, LARGEST, pipes=True).decode("utf-8-sig")
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {str(path)!r} ({error}): give a file of a graph") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise InputError(f"{path}:{line}: a zero byte, so that it is not text: give a graph's file")
    return text


def _chosen(path: Path, text: str) -> Reader:
    """The reader for a file, by its suffix, or else by how it begins."""
    every = [reader(name) for name in READERS]
    begins = text.lstrip()[:1]
    claimed = next((r for r in every if begins and begins in r.begins), every[-1])
    named = next((r for r in every if path.suffix.lower() in r.suffixes), claimed)
    if begins and claimed.begins and claimed is not named:
        raise InputError(
            f"{path}:1: begins like {claimed.name}, and its name says {named.name}: rename it, or "
            f"say --format {claimed.name}"
        )
    return named
