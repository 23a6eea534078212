"""Lower bounds on the transfers of a whole graph, each with a certificate that can be checked.

`iosim.pebbling.search` calls `root_bound`, which returns the best of them, before it searches; so a
game whose bound meets a found schedule needs no search.  One file has one bound, with the argument
in its docstring, and a line in `BOUNDS`.  `order` has what comes before what, for several bounds.

Changing files here: `checking` verifies each certificate with code of its own, and must not import
what made it.  A bound that is too large makes a **wrong** optimum, so
``tests/pebbling/test_pebbling_bounds.py`` compares each with true optima of many small graphs.
Names are printed by ``iosim optimal`` and are in its JSON.  A bound may give up on a large graph,
since any smaller value is valid.

>>> from iosim.pebbling import tree
>>> best = root_bound(tree(9), M=5)
>>> best.name, best.value
('trees', 639)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.pebbling.bounds import compulsory, moments, trees, wavefront
from iosim.pebbling.bounds.order import Certified, PartialOrder
from iosim.pebbling.dag import Dag, check_dag, check_memory
from iosim.pebbling.game import Game

Bound = Callable[[PartialOrder, float], Certified | None]

# By name: of an order and some seconds, the bound and its certificate, or None.
BOUNDS: dict[str, Bound] = {
    "compulsory": compulsory.bound,
    "trees": trees.bound,
    "moments": moments.bound,
    "wavefront": wavefront.bound,
}


@dataclass(frozen=True)
class RootBound:
    """No schedule moves fewer than `value` words, for the reason that `certificate` gives.

    >>> RootBound("compulsory", 2, {})
    RootBound(name='compulsory', value=2, certificate={})
    """

    name: str
    value: int
    certificate: Values


def root_bounds(
    dag: Dag, M: int, recompute: bool = False, partial: bool = False, seconds: float = 10.0
) -> list[RootBound]:
    """All bounds that say something about a graph, in the order of `BOUNDS`.

    The seconds are for each of them; a bound that needs more is left out.  Raises InputError where
    M allows no pebbling, and where both variants are requested.

    >>> from iosim.pebbling import butterfly
    >>> [(b.name, b.value) for b in root_bounds(butterfly(3), M=3)]
    [('compulsory', 16), ('moments', 32), ('wavefront', 17)]
    """
    check_dag(dag)
    M = check_size("M", M)
    Game(dag, M, recompute, partial)
    check_memory(dag, M, partial)
    order = PartialOrder(dag, M, recompute, partial)
    found = []
    for name, bound in BOUNDS.items():
        if (known := bound(order, seconds)) is not None:
            found.append(RootBound(name, *known))
    return found


def root_bound(
    dag: Dag, M: int, recompute: bool = False, partial: bool = False, seconds: float = 10.0
) -> RootBound:
    """The largest of `root_bounds`; of equal ones the first.

    >>> from iosim.pebbling import chain
    >>> root_bound(chain(5), M=2)
    RootBound(name='compulsory', value=2, certificate={})
    """
    return max(root_bounds(dag, M, recompute, partial, seconds), key=lambda b: b.value)
