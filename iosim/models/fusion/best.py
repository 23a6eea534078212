"""The partition of a graph into legal kernels that moves the fewest words.

Every operator is in one kernel, and kernels can run one after another: none waits for another that
waits for it.  Among partitions that move equally many words, one with the fewest kernels is taken,
and of these the first: the one whose first kernel has the most operators, and so on.

Operators in a row are searched as such (`iosim.models.fusion.intervals`).  Any other graph is cut:

1. **Kernels.**  All legal kernels that begin with an operator follow from the operators that may be
   with it, and they are listed once for all operators of which this is the same except for names
   (`iosim.models.fusion.groups`): the layers of a model are alike.
2. **Pieces.**  Operators that some kernel has together are in one piece, and so are those of two
   kernels that come together or not at all.  Each piece gets its best partition
   (`iosim.models.fusion.frontier`), once for all pieces that are alike.
3. **Together.**  If kernels of several pieces wait for each other, these pieces become one, and it
   is searched again.

The result is exact.  No kernel has operators of two pieces, so every partition of the graph is one
of each piece, and its words and kernels are their sums.  One that can run does so with the kernels
of one piece and all other operators one by one, too: to split a kernel takes no cycle away from
others and adds none.  So each piece costs at least what its best partition does that can run among
single operators, and the graph at least the sum.  Step 3 ends with a partition that can run and
costs that sum: pieces only become fewer, and a single piece has no other to wait for.  The first of
equal ones is taken piece by piece: the order is by first operators, each choice lies in one piece,
and what is best there doesn't depend on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from iosim.base.errors import InputError
from iosim.base.progress import track
from iosim.models.fusion.frontier import Option, TooManySteps, cheapest_cover
from iosim.models.fusion.groups import Groups, bits, ordered
from iosim.models.fusion.intervals import best_in_a_row, in_a_row
from iosim.models.fusion.kernels import FusedKernel

Places = tuple[int, ...]


def best(groups: Groups) -> list[FusedKernel]:
    """The kernels of the best partition, in an order in which they can run.

    Raises InputError where a graph has too many legal kernels, or the search takes too long.
    """
    if in_a_row(groups):
        return best_in_a_row(groups)
    of_pairs = {groups.places(one): one for both in groups.pairs.values() for one in both}
    found = []
    for places in cheapest(groups, groups.words):
        made = of_pairs.get(places) or groups.kernel(places)
        assert made is not None
        found.append(made)
    return found


def cheapest(groups: Groups, words: Mapping[Places, int]) -> list[Places]:
    """The kernels of the best partition, by their operators, in an order in which they can run.

    Args:
        groups: the operators.
        words: what each set of them moves, as a kernel or as a pair of `groups`; every operator
            alone is among them.

    Raises InputError where the search takes too long.
    """
    sets: list[list[Places]] = [[] for _ in range(groups.n)]
    for places in words:
        sets[places[0]].append(places)
    for each in sets:
        each.sort(key=lambda places: (-len(places), places))
    pieces = _join(groups.n, words)
    known: dict[object, list[int]] = {}
    solved: dict[Places, list[Places]] = {}
    while True:
        for piece in track(pieces, "parts of a graph"):
            if piece not in solved:
                solved[piece] = _solve(groups, piece, sets, words, known)
        kernels = sorted(one for piece in pieces for one in solved[piece])
        order = ordered(kernels, groups.needs)
        if len(order) == len(kernels):
            return [kernels[at] for at in order]
        pieces = _join(groups.n, [*pieces, *_cycles(groups, kernels)])


def _join(n: int, sets: Iterable[Sequence[int]]) -> list[Places]:
    """Operators that are connected by sets."""
    parent = list(range(n))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = k = parent[parent[k]]
        return k

    for places in sets:
        for k in places[1:]:
            parent[root(k)] = root(places[0])
    found: dict[int, list[int]] = {}
    for k in range(n):
        found.setdefault(root(k), []).append(k)
    return [tuple(places) for places in found.values()]


def _cycles(groups: Groups, kernels: Sequence[Places]) -> list[list[int]]:
    """Operators of kernels that wait for each other."""
    import numpy as np
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    owner = {k: at for at, kernel in enumerate(kernels) for k in kernel}
    edges = [(owner[j], owner[k]) for k, need in enumerate(groups.needs) for j in need]
    n = len(kernels)
    table = coo_array((np.ones(len(edges)), tuple(zip(*edges, strict=True))), shape=(n, n))
    _, label = connected_components(table, connection="strong")
    found: dict[int, list[int]] = {}
    for kernel, at in zip(kernels, label.tolist(), strict=True):
        found.setdefault(at, []).extend(kernel)
    return list(found.values())


def _solve(
    groups: Groups,
    piece: Places,
    sets: Sequence[Sequence[Places]],
    words: Mapping[Places, int],
    known: dict[object, list[int]],
) -> list[Places]:
    """The best partition of a piece."""
    at = {k: p for p, k in enumerate(piece)}
    options: list[list[Option]] = []
    for k in piece:
        mine: list[Option] = []
        for places in sets[k]:
            parts = [groups.places(one) for one in groups.pairs.get(places, ())] or [places]
            masks = tuple(sum(1 << at[j] for j in part) for part in parts)
            mine.append((masks, words[places] * (groups.n + 1) + len(parts)))
        options.append(mine)
    after = _find_successors(groups, piece)
    key = tuple(map(tuple, options)), tuple(after)
    if key not in known:
        try:
            known[key] = cheapest_cover(options, after)
        except TooManySteps as error:
            raise InputError(
                f"{groups.graph.name}: the best of the {sum(map(len, options)):,} legal kernels of "
                f"{len(piece):,} connected operators was not found in {error}: "
                "search its layers one at a time"
            ) from None
    found: list[Places] = []
    for k, which in zip(piece, known[key], strict=True):
        if which >= 0:
            places = sets[k][which]
            both = groups.pairs.get(places, ())
            found += [groups.places(one) for one in both] or [places]
    return found


def _find_successors(groups: Groups, piece: Places) -> list[int]:
    """Of each operator, those that come after it directly, or by operators of other pieces."""
    at = {k: p for p, k in enumerate(piece)}
    before: dict[int, int] = {}
    after = [0] * len(piece)
    for k in range(piece[0], piece[-1] + 1) if len(piece) > 1 else ():
        mask = 0
        for j in groups.needs[k]:
            mask |= before.get(j, 0)
        if k in at:
            for p in bits(mask):
                after[p] |= 1 << at[k]
            mask = 1 << at[k]
        if mask:
            before[k] = mask
    return after
