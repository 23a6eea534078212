"""Which argument of a kernel is which tensor of a problem: said, or found by its products.

``iosim kernel count`` calls `find_roles`, or takes ``--roles``; `iosim.kernel.distance` then calls
`check_roles`.  A kind of problem is an entry of `TENSORS`, a case of `find_roles`, and one of
``_TILES`` in `iosim.kernel.distance`.

Changing this file: a kernel whose products leave it open is refused, and no role is guessed.
``tests/kernel/test_distance.py`` compares the roles of known kernels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from iosim.base.errors import InputError, closest
from iosim.kernel.ir import IrFunction, tile_shape, walk
from iosim.kernel.slicing import link_values

# Kind of problem → its tensors: those that a kernel must have.
TENSORS = {"attention": ("Q", "K", "V", "O"), "matmul": ("A", "B", "C")}


def check_roles(roles: Mapping[str, str], arguments: list[str]) -> str:
    """The kind of problem that roles are of.

    Args:
        roles: tensor → argument.
        arguments: that the kernel refers to.

    Raises:
        InputError: no kind has these tensors, or no such argument is referred to.

    >>> check_roles({"A": "x", "B": "y", "C": "z"}, ["x", "y", "z"])
    'matmul'
    """
    for name in roles.values():
        if name not in arguments:
            raise InputError(f"the kernel refers to no {name!r}: {closest(name, arguments)}")
    for kind, tensors in TENSORS.items():
        if set(tensors) <= set(roles):
            return kind
    known = " or ".join(", ".join(tensors) for tensors in TENSORS.values())
    raise InputError(f"roles of {', '.join(roles)}: give one to each of {known}")


def find_roles(kernel: IrFunction) -> dict[str, str]:
    """Roles by the products of a kernel: one of loaded tiles is C = A B; two are attention.

    Of attention's first product, the operand that is loaded in no loop is Q; of the stores, the one
    of the second product's sums is O.

    Raises:
        InputError: the products are others.
    """
    origins = _Origins(kernel)
    sides = {
        tuple(origins.find(x) for x in op.operands[:2])
        for op in walk(kernel.body)
        if op.name == "tt.dot"
    }
    first = {s for s in sides if all(len(x) == 1 for x in s)}
    second = {next(iter(s[1])) for s in sides - first if len(s[1]) == 1}
    outputs = origins.stored
    if len(first) == 1:
        ((left, right),) = (tuple(next(iter(x)) for x in s) for s in first)
        if not sides - first and len(outputs) == 1:
            return {"A": left, "B": right, "C": next(iter(outputs))}
        if len(second) == 1 and outputs:
            moving = origins.loaded_in_loops()
            q, k = (right, left) if left in moving and right not in moving else (left, right)
            return {"Q": q, "K": k, "V": second.pop(), "O": max(outputs, key=lambda n: outputs[n])}
    raise InputError(
        "the kernel's products don't say which argument is which: give --roles Q=…,K=…,V=…,O=…"
    )


class _Origins:
    """Of each value, the arguments whose words it is made of.

    Attributes:
        loads: what a load gives → the argument that it loads from.
        stored: argument that is stored to → elements of its largest tile.
    """

    def __init__(self, kernel: IrFunction) -> None:
        self.kernel = kernel
        self.sources = link_values(kernel)
        self.pointers = {
            n
            for n, kind in zip(kernel.arguments, kernel.types, strict=True)
            if "ptr<" in kind or "tensordesc" in kind
        }
        self.loads: dict[str, frozenset[str]] = {}
        self.stored: dict[str, int] = {}
        for op in walk(kernel.body):
            if op.name in ("tt.load", "tt.descriptor_load"):
                self.loads[op.results[0]] = self._bases(op.operands[0])
            elif op.name in ("tt.store", "tt.descriptor_store"):
                size = math.prod(tile_shape(op.types[0]))
                for name in self._bases(op.operands[0]):
                    self.stored[name] = max(size, self.stored.get(name, 0))

    def find(self, value: str) -> frozenset[str]:
        """The arguments that a value comes from."""
        reached = self._reach(value, self.loads) & set(self.loads)
        return frozenset(name for x in reached for name in self.loads[x])

    def loaded_in_loops(self) -> set[str]:
        """Arguments that are loaded in a loop."""
        loops = [op.regions[0] for op in walk(self.kernel.body) if op.name == "scf.for"]
        results = {x for region in loops for op in walk(region) for x in op.results}
        return {name for x in results & set(self.loads) for name in self.loads[x]}

    def _bases(self, place: str) -> frozenset[str]:
        """The arguments that a pointer may point into."""
        return frozenset(n[1:] for n in self._reach(place, {}) & self.pointers)

    def _reach(self, start: str, stop: Collection[str]) -> set[str]:
        """Values that a value depends on; those of `stop` are reached, and not passed."""
        seen, todo = {start}, [start]
        while todo:
            value = todo.pop()
            if value in stop:
                continue
            new = [x for x in self.sources[value] if x not in seen]
            seen.update(new)
            todo += new
        return seen
