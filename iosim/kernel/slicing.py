"""Which values of a kernel its addresses, masks and loops depend on.

The others are never computed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from iosim.kernel.ir import IrBlock, IrFunction, IrOperation, IrRegion, walk

# IrOperation → which of its operands say where it goes, and for whom.
STEERING: dict[str, slice] = {
    "tt.load": slice(0, 2),
    "tt.atomic_cas": slice(0, 1),
    "scf.for": slice(0, 3),
    "scf.if": slice(0, 1),
    "scf.condition": slice(0, 1),
    "cf.cond_br": slice(0, 1),
    "cf.switch": slice(0, 1),
    "tt.descriptor_load": slice(0, None),
    "tt.descriptor_gather": slice(0, None),
    "tt.descriptor_store": slice(0, -1),
    "tt.descriptor_scatter": slice(0, -1),
    "tt.descriptor_reduce": slice(0, -1),
}


def steering_operands(op: IrOperation) -> tuple[str, ...]:
    """The operands that an operation's own references or branches depend on.

    >>> from iosim.kernel.ir import parse_operation
    >>> steering_operands(parse_operation("tt.store %p, %x, %m : tensor<8x!tt.ptr<f16>>"))
    ('%p', '%m')
    """
    if op.name in ("tt.store", "tt.atomic_rmw"):
        return op.operands[:1] + op.operands[2:]
    return op.operands[STEERING[op.name]] if op.name in STEERING else ()


Needed = Mapping[tuple[str, bool], set[str]]


def find_all_needed(functions: Mapping[str, IrFunction]) -> Needed:
    """The values that any address, mask, bound or condition depends on.

    Returns:
        By function, and by whether what it returns is needed, too.
    """
    needed: dict[tuple[str, bool], set[str]] = {
        (name, returns): set() for name in functions for returns in (False, True)
    }
    size = -1
    while size < (size := sum(map(len, needed.values()))):
        for name, returns in needed:
            needed[name, returns] = _find_needed(functions, name, returns, needed)
    return needed


def _find_needed(
    functions: Mapping[str, IrFunction], name: str, returns: bool, needed: Needed
) -> set[str]:
    """Of one function, as far as is known what those need that it calls."""
    function = functions[name]
    sources = link_values(function)
    roots: set[str] = set()
    for op in walk(function.body):
        roots.update(steering_operands(op))
        if returns and op.name == "tt.return":
            roots.update(op.operands)
        callee = functions.get(find_callee(op))
        if callee is not None:
            inside = needed[callee.name, any(x in needed[name, returns] for x in op.results)]
            values = zip(callee.arguments, op.operands, strict=True)
            roots.update(value for argument, value in values if argument in inside)
            for result in op.results:
                sources[result] = []
    found, todo = set(roots), list(roots)
    while todo:
        for value in sources[todo.pop()]:
            if value not in found:
                found.add(value)
                todo.append(value)
    return found


def find_callee(op: IrOperation) -> str:
    """The function that a ``tt.call`` names; of other operations, none."""
    match = re.search(r"@(\"[^\"]+\"|[\w$.]+)", op.text) if op.name == "tt.call" else None
    return match[1].strip('"') if match else ""


def link_values(function: IrFunction) -> dict[str, list[str]]:
    """What each value of a function depends on at once."""
    sources: dict[str, list[str]] = defaultdict(list)
    _link_region(function.body, sources)
    return sources


def _link_region(region: IrRegion, sources: dict[str, list[str]]) -> None:
    """Add what each value of a region depends on."""
    labels = {block.label: block for block in region.blocks}
    for block in region.blocks:
        for op in block.operations:
            for inner in op.regions:
                _link_region(inner, sources)
            _link(op, sources)
            for label, values in op.successors:
                for name, value in zip(labels[label].arguments, values, strict=True):
                    sources[name].append(value)


def _link(op: IrOperation, sources: dict[str, list[str]]) -> None:
    if op.name == "scf.for":
        carried = _terminator(op.regions[0].entry).operands
        for result, name, init, value in zip(
            op.results, op.regions[0].entry.arguments[1:], op.operands[3:], carried, strict=True
        ):
            sources[name] += [init, value]
            sources[result] += [init, value, name]
        sources[op.regions[0].entry.arguments[0]] += op.operands[:3]
    elif op.name == "scf.if":
        for region in op.regions:
            for result, value in zip(op.results, _terminator(region.entry).operands, strict=False):
                sources[result] += [value, op.operands[0]]
    elif op.name == "scf.while":
        before, after = (region.entry for region in op.regions)
        passed, back = _terminator(before).operands[1:], _terminator(after).operands
        for name, init, value in zip(before.arguments, op.operands, back, strict=True):
            sources[name] += [init, value]
        for result, name, value in zip(op.results, after.arguments, passed, strict=True):
            sources[name].append(value)
            sources[result].append(value)
    else:
        inner = [_terminator(r.entry).operands for r in op.regions]
        for result in op.results:
            sources[result] += [*op.operands, *(x for values in inner for x in values)]


def _terminator(block: IrBlock) -> IrOperation:
    """The operation that ends a block."""
    return block.operations[-1]
