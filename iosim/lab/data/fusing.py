"""What fusing a layer's operators by hand needs: its graph, all legal kernels, all reasons why not.

Which sets of operators are kernels follows from the graph alone, where each fits in fast memory:
`structure` has it once for a model and a phase.  The words follow from sizes and memories: `costs`
has them for one layer.

A set without gaps that is connected is one kernel if it is in ``legal``.  If it is in
``refused``, the reason is there.  Any other contains a set of ``stops``, whose reason holds for all
that contain it.
"""

from __future__ import annotations

from collections.abc import Sequence

from iosim.base.dtypes import word_bytes
from iosim.lab.columns import Json
from iosim.models.fusion import Absent, Illegal, fused, kernel
from iosim.models.fusion.best import cheapest
from iosim.models.fusion.groups import Groups, bits
from iosim.models.fusion.kernels import connected
from iosim.models.fusion.members import Members
from iosim.models.fusion.named_fusions import FUSIONS
from iosim.models.layers.graph import Graph
from iosim.models.layers.traffic import Crossing
from iosim.models.roofline.work import BOUNDARIES, L2_DRAM, SM_L2, work_of

# Fusions that a search chooses are found for each memory; all others are the same for all.
SEARCHED = "best"


def structure(graph: Graph, M: int) -> Json:
    """A layer's graph, and which of its sets of operators are kernels.

    Args:
        graph: a layer.
        M: words of a fast memory in which every legal kernel fits.

    Operators and tensors are known by their places.  ``legal`` begins with each operator alone.

    >>> from iosim.models.layers.architectures import layer
    >>> found = structure(layer("llama3-8b", "decode", batch=1, N=64), 10**8)
    >>> len(found["operators"]), len(found["legal"]), found["fusions"]["none"][:2]
    (20, 48, [[0], [1]])
    """
    groups = Groups(graph, M, online_softmax=False)
    place = {t: k for k, t in enumerate(graph.tensors)}
    legal, refused, reasons = [], [], _Reasons(groups)
    sets = list(groups.sets())
    for mask in sorted(sets, key=_order):
        try:
            connected(groups.part(mask), M, online_softmax=False)
        except Illegal as error:
            refused.append([list(bits(mask)), reasons.number(error)])
        else:
            legal.append(list(bits(mask)))
    return {
        "operators": [
            {
                "name": op.name,
                "class": op.klass,
                "kind": op.kind.name,
                "reads": [place[t.name] for t in op.reads],
                "writes": [place[t.name] for t in op.writes],
            }
            for op in graph.operators
        ],
        "tensors": [
            {"name": t.name, "role": t.role, "axes": " ".join(t.names)}
            for t in graph.tensors.values()
        ],
        "kept": [place[t.name] for t in graph.outputs],
        "waits": [[place[given], place[made]] for given, made in graph.waits],
        "legal": legal,
        "refused": refused,
        "stops": [[list(bits(mask)), reasons.of(mask)] for mask in _stops(groups, sets)],
        "reasons": reasons.said,
        "fusions": _named_fusions(graph, M),
    }


def costs(
    graph: Graph, legal: Sequence[Sequence[int]], chips: Sequence[int], cores: Sequence[int]
) -> Json:
    """Flop of each operator, and bytes of each legal kernel at each boundary.

    Args:
        graph: a layer.
        legal: of its `structure`.
        chips, cores: words of fast memories at L2↔DRAM and at SM↔L2, rising.

    A kernel has a list of bytes, one for each memory; what is the same for all larger memories is
    there once.  None is a kernel that doesn't fit.  ``words`` are those at L2↔DRAM, and ``best``
    has the best partitions there.

    >>> from iosim.models.layers.architectures import layer
    >>> tiny = layer("llama3-8b", "decode", batch=1, N=64)
    >>> found = costs(tiny, [[k] for k in range(20)], [10**6, 10**7], [10**5])
    >>> found["words"][1], found["bytes"]["L2↔DRAM"][1], found["bytes"]["SM↔L2"][1]
    ([16785408], [33570816], [33570816])
    """
    groups = Groups(graph, chips[-1], online_softmax=False)
    memories = {L2_DRAM: chips, SM_L2: cores}
    moved: dict[str, list[list[int | None]]] = {at: [] for at in BOUNDARIES}
    words: list[list[int | None]] = []
    for names in legal:
        part = groups.part(sum(1 << k for k in names))
        for at, held in memories.items():
            found = _by_memory(part, held)
            moved[at].append([None if x is None else _bytes(part, x, at) for x in found])
            if at == L2_DRAM:
                words.append([None if x is None else x.words for x in found])
    return {
        "products": [op.products for op in graph.operators],
        "others": [op.flop - op.products for op in graph.operators],
        "sizes": [t.words * word_bytes(t.dtype or graph.dtype) for t in graph.tensors.values()],
        "bytes": moved,
        "words": words,
        "best": _best(groups, legal, words, len(chips)),
    }


def _by_memory(part: Members, memories: Sequence[int]) -> list[Crossing | None]:
    """What moves at each memory, rising; what all larger ones move as well is there once.

    None moves less than each tensor once, nor less than with the largest memory.
    """
    once = sum(sum(each.values()) for each in part.graph.part(part.names))
    found: list[Crossing | None] = []
    last: Crossing | None = None
    for M in memories:
        here = _crossing(part, M)
        if here is not None and here.words > once:
            last = last or _crossing(part, memories[-1])
            here = last if last is not None and here.words == last.words else here
        found.append(here)
        if here is not None and (here is last or here.words == once):
            break
    return found


def _bytes(part: Members, crossing: Crossing, at: str) -> int:
    return work_of(list(part.operators), {at: crossing}, part.graph).bytes[at]


def _crossing(part: Members, M: int) -> Crossing | None:
    try:
        return connected(part, M, online_softmax=False).crossing
    except Illegal:
        return None


def _best(
    groups: Groups,
    legal: Sequence[Sequence[int]],
    words: Sequence[Sequence[int | None]],
    memories: int,
) -> list[list[list[int]]]:
    """The best partition for each memory; what all larger ones have as well is there once."""
    found: list[list[list[int]]] = []
    for at in range(min(memories, max(map(len, words)))):
        here = {
            tuple(names): moved
            for names, each in zip(legal, words, strict=True)
            if (moved := each[min(at, len(each) - 1)]) is not None
        }
        found.append([list(names) for names in cheapest(groups, here)])
    while len(found) > 1 and found[-1] == found[-2]:
        found.pop()
    return found


def _named_fusions(graph: Graph, M: int) -> dict[str, list[list[int]]]:
    """The kernels of each fusion that is no search, and that is of this graph."""
    place = {op.name: k for k, op in enumerate(graph.operators)}
    found = {}
    for how in FUSIONS:
        if how == SEARCHED:
            continue
        try:
            groups = fused(graph, how, M).groups
        except Absent:
            continue
        found[how] = [sorted(place[x] for x in one.names) for one in groups]
    return found


def _stops(groups: Groups, sets: Sequence[int]) -> list[int]:
    """The smallest sets at which the growth of sets ends: none that contains one is legal."""
    known = set(sets)
    beyond = {
        more
        for mask in sets
        for near in bits(_find_neighbors(groups, mask))
        if (more := groups.closed(mask | 1 << near)) not in known
    }
    least: list[int] = []
    for mask in sorted(beyond, key=_order):
        if not any(mask & one == one for one in least):
            least.append(mask)
    return least


def _find_neighbors(groups: Groups, mask: int) -> int:
    near = 0
    for k in bits(mask):
        near |= groups.neighbors[k]
    return near & ~mask


def _order(mask: int) -> tuple[int, int]:
    return mask.bit_count(), mask


class _Reasons:
    """Why sets are no kernels, each said once."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.said: list[str] = []

    def number(self, error: Illegal) -> int:
        # A message begins with the operators' names, which the set has.
        reason = str(error).split(": ", 1)[1]
        if reason not in self.said:
            self.said.append(reason)
        return self.said.index(reason)

    def of(self, mask: int) -> int:
        names = [op.name for op in self.groups.part(mask).operators]
        try:
            kernel(self.groups.graph, names, self.groups.M, online_softmax=False)
        except Illegal as error:
            return self.number(error)
        raise AssertionError(f"{' + '.join(names)} is a kernel, and no search looks at it")
