"""Which values of a kernel its addresses, masks and loops depend on.

The others are never computed.
"""

from __future__ import annotations

from collections import defaultdict

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


def find_needed(function: IrFunction, returns: bool = False) -> set[str]:
    """The values that any address, mask, bound or condition of a function depends on.

    Args:
        returns: whether what it returns is needed, too.
    """
    sources = link_values(function)
    roots: set[str] = set()
    for op in walk(function.body):
        roots.update(steering_operands(op))
        if returns and op.name == "tt.return":
            roots.update(op.operands)
    needed, todo = set(roots), list(roots)
    while todo:
        for name in sources[todo.pop()]:
            if name not in needed:
                needed.add(name)
                todo.append(name)
    return needed


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
