"""Partitions of a graph into kernels, checked.

The groups are those of a file, a recorded compiler or a published fusion.
``tests/models/test_fusion_cli.py`` has what is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from iosim.base.errors import InputError, closest
from iosim.base.progress import track
from iosim.base.validate import check_size
from iosim.models.fusion.groups import Groups, ordered
from iosim.models.fusion.kernels import FusedKernel, kernel, recomputed
from iosim.models.fusion.members import Illegal
from iosim.models.fusion.online import recomputations
from iosim.models.layers.graph import Graph


@dataclass(frozen=True)
class Partition:
    """A graph's operators in kernels.

    Attributes:
        graph: its name.
        how: the fusion's name, or its file.
        M: words of fast memory.
        groups: the kernels, in an order in which they can run.
        online_softmax: of a search, whether attention may be a kernel; None where groups are given.

    >>> from iosim.models.fusion import fused
    >>> from iosim.models.layers.graph import Graph
    >>> from iosim.models.operators import operand, operator
    >>> x, y, z = (operand(name, "t u", {"t": 3, "u": 4}) for name in "XYZ")
    >>> graph = Graph("two", (operator("a", "gelu", [x], [y]), operator("b", "gelu", [y], [z])))
    >>> best = fused(graph, "best", M=100)
    >>> best.words, [g.names for g in best.groups]
    (24, [('a', 'b')])
    """

    graph: str
    how: str
    M: int
    groups: tuple[FusedKernel, ...]
    online_softmax: bool | None = None

    @property
    def words(self) -> int:
        """All that cross the boundary."""
        return sum(each.words for each in self.groups)

    @property
    def family(self) -> str:
        """Among what kernels these are the best; empty where they were not searched."""
        return "" if self.online_softmax is None else family(self.online_softmax)


def family(online_softmax: bool) -> str:
    """Among what kernels a search finds the best.

    >>> family(online_softmax=False)
    'the fewest words of all partitions into rows and products, without an online softmax'
    """
    what = "rows, products and attention with an online softmax"
    if not online_softmax:
        what = "rows and products, without an online softmax"
    return f"the fewest words of all partitions into {what}"


def partition(
    graph: Graph,
    groups: Iterable[Collection[str]],
    M: int,
    how: str,
    *,
    online_softmax: bool = True,
) -> Partition:
    """The partition that some names of operators say.

    Raises InputError for operators that are unknown, in two groups or in none, groups that wait for
    each other, and, saying why, groups that are not a kernel.

    >>> from iosim.models.operators import operand, operator
    >>> x, y, z = (operand(t, "i", {"i": 8}) for t in "XYZ")
    >>> graph = Graph("two", (operator("a", "relu", [x], [y]), operator("b", "relu", [y], [z])))
    >>> [partition(graph, names, M=100, how="").words for names in ([["a"], ["b"]], [["b", "a"]])]
    [32, 16]
    """
    M = check_size("M", M)
    groups = [tuple(names) for names in groups]
    known = [op.name for op in graph.operators]
    place = {name: k for k, name in enumerate(known)}
    where: dict[str, int] = {}
    for at, names in enumerate(groups):
        if not names:
            raise InputError(f"{how}: group {at + 1} is empty: leave it out")
        for name in names:
            if name not in place:
                raise InputError(
                    f"{how}: {graph.name} has no operator {name!r}: {closest(name, known)}"
                )
            if name in where:
                both = " and ".join(dict.fromkeys((str(where[name] + 1), str(at + 1))))
                raise InputError(f"{how}: {name!r} is in groups {both}: name it once")
            where[name] = at
    if missing := [name for name in known if name not in where]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(f"{how}: {missing[0]!r}{more} is in no group: add a group for it")
    try:
        pairs = _pairs(graph, groups, M) if online_softmax else {}
        kernels = [
            pairs.get(frozenset(names)) or kernel(graph, names, M, online_softmax=online_softmax)
            for names in track(groups, "kernels")
        ]
    except Illegal as error:
        raise Illegal(f"{how}: {error}") from None
    order = ordered([[place[x] for x in each.names] for each in kernels], Groups(graph, M).needs)
    if len(order) < len(kernels):
        ran = set(order)
        late = [_format_names(each.names) for k, each in enumerate(kernels) if k not in ran]
        raise Illegal(f"{how}: {' and '.join(late)} wait for each other")
    return Partition(graph.name, how, M, tuple(kernels[k] for k in order))


def _pairs(
    graph: Graph, groups: Iterable[Collection[str]], M: int
) -> dict[frozenset[str], FusedKernel]:
    """Those of the kernels that are attention and its gradients, with the weights again."""
    given, found = set(map(frozenset, groups)), dict[frozenset[str], FusedKernel]()
    for both in recomputations(graph):
        if all(part.names in given for part in both.parts):
            found |= {frozenset(one.names): one for one in recomputed(both, M)}
    return found


def _format_names(names: Sequence[str]) -> str:
    return " + ".join(names)
