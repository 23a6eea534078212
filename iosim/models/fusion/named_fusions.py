"""Fusions by name: none, those that were published or recorded, and the best.

`fused` takes a name from here; a new one is an entry of `FUSIONS`, or a file in ``recorded/``
(``tests/models/test_fusion_cli.py``).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iosim.base.errors import InputError, closest
from iosim.base.reading import read_toml
from iosim.base.validate import check_size
from iosim.models.fusion.best import best
from iosim.models.fusion.groups import Groups
from iosim.models.fusion.partitions import Partition, partition
from iosim.models.layers.graph import Graph

# Files of groups that something else has chosen, each a fusion by the name of the file.
RECORDED = Path(__file__).parent / "recorded"

# The kernels of Ivanov et al. for BERT's layer: name → operators.
PAPER: dict[str, list[str]] = read_toml(Path(__file__).with_name("paper.toml"))
# Operators that no other layer has.
_BERT = ("attention norm", "linear 1 bias", "feed-forward norm")


@dataclass(frozen=True)
class Fusion:
    """A way to put a graph's operators into kernels.

    Attributes:
        name: the registry's key.
        says: what it is.
        of: the partition, from a graph, M, whether there are kernels with an online softmax, and
            the words of a second boundary.

    >>> from iosim.models.fusion import FUSIONS
    >>> FUSIONS["none"].says
    'each operator is a kernel'
    """

    name: str
    says: str
    of: Callable[[Graph, int, bool, int | None], Partition]


def fused(
    graph: Graph, how: str, M: int, *, online_softmax: bool = True, within: int | None = None
) -> Partition:
    """The kernels of a graph.

    Args:
        graph: operators.
        how: a key of `FUSIONS`, or a file: JSON with ``groups``, a list of lists of names.
        M: words of fast memory at the boundary that is meant.
        online_softmax: whether scores, softmax and the product with V may be one kernel.
        within: words of a second boundary, at which each kernel that a search chooses fits and
            moves no more than its operators alone, too: of an SM, where M is what the chip holds.

    Raises InputError for an unknown fusion, a file that is none, groups that overlap, miss an
    operator or are not a kernel, an M in which nothing fits, and a graph that is too large.

    >>> from iosim.models.operators import operand, operator
    >>> w, x, y, z = (operand(t, "i", {"i": 8}) for t in "WXYZ")
    >>> graph = Graph("three", (operator("a", "relu", [w], [x]), operator("b", "relu", [x], [y]),
    ...                         operator("c", "relu", [y], [z])))
    >>> fused(graph, "none", 100).words, fused(graph, "best", 100).words
    (48, 16)
    """
    M = check_size("M", M)
    within = None if within is None else check_size("within", within)
    if how in FUSIONS:
        return FUSIONS[how].of(graph, M, online_softmax, within)
    if isinstance(how, str) and how.endswith(".json"):
        groups = _from_file(Path(how))
        return partition(graph, groups, M, how, online_softmax=online_softmax)
    raise InputError(f"unknown fusion {how!r}: {closest(how, FUSIONS)}; or name a .json file")


class Absent(InputError):
    """A fusion of another graph than the one that is given.

    >>> from iosim.models.fusion import fused
    >>> from iosim.models.layers.graph import Graph
    >>> from iosim.models.operators import operand, operator
    >>> x, y = (operand(name, "t u", {"t": 3, "u": 4}) for name in "XY")
    >>> one = Graph("one", (operator("a", "gelu", [x], [y]),))
    >>> fused(one, "paper", M=100)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    iosim.models.fusion.named_fusions.Absent: paper has kernels of BERT's layer: one ...
    """


def _none(graph: Graph, M: int, online: bool, within: int | None) -> Partition:
    return partition(graph, [(op.name,) for op in graph.operators], M, "none")


def _paper(graph: Graph, M: int, online: bool, within: int | None) -> Partition:
    """Without dropout, or without a backward pass, the kernels have the rest of their operators."""
    known = {op.name for op in graph.operators}
    if lacks := [x for x in _BERT if x not in known]:
        raise Absent(f"paper has kernels of BERT's layer: {graph.name} has no {lacks[0]!r}")
    groups = [here for names in PAPER.values() if (here := [x for x in names if x in known])]
    inside = {x for names in groups for x in names}
    groups += [[op.name] for op in graph.operators if op.name not in inside]
    return partition(graph, groups, M, "paper", online_softmax=online)


def _recorded(path: Path) -> Fusion:
    told = json.loads(path.read_text(encoding="utf-8"))
    name = path.stem
    names = {x for group in told["groups"] for x in group}

    def of(graph: Graph, M: int, online: bool, within: int | None) -> Partition:
        if other := names ^ {op.name for op in graph.operators}:
            raise Absent(
                f"{name} is recorded of {told['graph']}: {graph.name} differs, in {min(other)!r}"
            )
        return partition(graph, told["groups"], M, name, online_softmax=online)

    return Fusion(name, f"{told['says']}: PyTorch {told['torch']}", of)


def _best(graph: Graph, M: int, online: bool, within: int | None) -> Partition:
    groups = tuple(best(Groups(graph, M, online, within)))
    return Partition(graph.name, "best", M, groups, online)


def _from_file(path: Path) -> list[list[str]]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not JSON: {error}") from None
    groups = told.get("groups") if isinstance(told, dict) else told
    if not isinstance(groups, list) or not all(
        isinstance(names, list) and all(isinstance(x, str) for x in names) for names in groups
    ):
        raise InputError(f'{path} has no groups: give {{"groups": [["operator", …], …]}}')
    return groups


FUSIONS: dict[str, Fusion] = {
    one.name: one
    for one in (
        Fusion("none", "each operator is a kernel", _none),
        Fusion("paper", "the kernels of Ivanov et al. for BERT's layer", _paper),
        *map(_recorded, sorted(RECORDED.glob("*.json"))),
        Fusion("best", "the legal kernels that move the fewest words", _best),
    )
}
