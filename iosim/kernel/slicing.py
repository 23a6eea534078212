"""Which values of a kernel its addresses, masks and loops depend on.

The others are never computed.

`iosim.kernel.evaluate`, `iosim.kernel.closing` and `iosim.kernel.roles` call it.  An operation that
refers to memory is an entry in `STEERING` or `BOXES`, or a case of `steering_operands`, beside its
methods in ``EFFECTS`` of `iosim.kernel.evaluate` and `iosim.kernel.closing`; one on layouts or
shared memory is a name in `_LOCAL`.  Any other operation of an unknown dialect is refused.

Changing this file: a value that is left out here is never computed, and the count is wrong or
refused.  ``tests/kernel/test_corpus.py`` compares counts with Triton's interpreter,
``tests/kernel/test_gluon_kernels.py`` has the dialects of Gluon, and
``tests/kernel/test_refused.py`` the messages.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from iosim.kernel.ir import (
    IrBlock,
    IrFunction,
    IrOperation,
    IrRegion,
    descriptor_tile,
    walk,
)

# IrOperation → which of its operands say where it goes, and for whom.
STEERING: dict[str, slice] = {
    "tt.load": slice(0, 2),
    "tt.atomic_cas": slice(0, 1),
    "scf.for": slice(0, 3),
    "scf.if": slice(0, 1),
    "scf.condition": slice(0, 1),
    "cf.cond_br": slice(0, 1),
    "cf.switch": slice(0, 1),
    "tt.descriptor_gather": slice(0, None),
    "tt.descriptor_scatter": slice(0, -1),
    "ttng.async_tma_scatter": slice(0, -1),
}
# Reference → its kind, for each operation that moves a box of a descriptor.
BOXES = {
    "tt.descriptor_load": "load",
    "tt.descriptor_store": "store",
    "tt.descriptor_reduce": "atomic",
    "ttng.async_tma_copy_global_to_local": "load",
    "ttng.async_tma_copy_local_to_global": "store",
    "ttng.async_tma_reduce": "atomic",
}

# Operations on layouts, shared memory, tensor memory and barriers: no words of the slow memory.
_LOCAL = {
    "ttg": """async_commit_group async_wait barrier convert_layout fp4_to_fp local_alloc
        local_atomic_scatter_rmw local_barrier local_dealloc local_gather local_load local_scatter
        local_store memdesc_index memdesc_reinterpret memdesc_reshape memdesc_subslice memdesc_trans
        warp_id warp_return warp_yield""",
    "ttng": """arrive_barrier async_copy_mbarrier_arrive async_shared_store async_tma_store_wait
        barrier_expect cluster_arrive cluster_barrier cluster_wait fence_async_shared
        fence_mbarrier_init_release_cluster init_barrier inval_barrier tc_gen5_commit tmem_alloc
        tmem_copy tmem_load tmem_store tmem_subslice tmem_wait wait_barrier warp_group_dot
        warp_group_dot_wait""",
}
_SILENT = {f"{dialect}.{name}" for dialect, names in _LOCAL.items() for name in names.split()}
_KNOWN = {"arith", "cf", "gluon", "gpu", "llvm", "math", "scf", "tt", "ub"}


def may_refer(op: IrOperation) -> bool:
    """Whether an operation of a GPU's own dialect may move words of the slow memory.

    >>> from iosim.kernel.ir import parse_operation
    >>> may_refer(parse_operation("%v = amdg.buffer_load %p[%i] : tensor<8xf32>"))
    True
    >>> may_refer(parse_operation("%a = ttg.local_alloc : () -> !ttg.memdesc<8xf32>"))
    False
    """
    return op.name not in _SILENT and op.name.split(".")[0] not in _KNOWN


def steering_operands(op: IrOperation) -> tuple[str, ...]:
    """The operands that an operation's own references or branches depend on.

    >>> from iosim.kernel.ir import parse_operation
    >>> steering_operands(parse_operation("tt.store %p, %x, %m : tensor<8x!tt.ptr<f16>>"))
    ('%p', '%m')
    """
    if op.name in ("tt.store", "tt.atomic_rmw"):
        return op.operands[:1] + op.operands[2:]
    if op.name == "ttg.async_copy_global_to_local":
        return op.operands[:1] + op.operands[2:3]
    if op.name in BOXES:
        block, starts, when = box_operands(op)
        return (block, *starts, *when)
    if op.name == "ttng.async_tma_gather":
        return op.operands[:3] + op.operands[-1:]
    if op.name == "ttng.tc_gen5_mma":
        return (product_condition(op),)
    return op.operands[STEERING[op.name]] if op.name in STEERING else ()


def box_operands(op: IrOperation) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """Of an operation of `BOXES`: its descriptor, where the box begins, and whether it is moved.

    >>> from iosim.kernel.ir import parse_operation
    >>> box_operands(parse_operation("tt.descriptor_store %d[%i], %x : !tt.tensordesc<8xf16>"))
    ('%d', ('%i',), ())
    """
    end = 1 + len(descriptor_tile(op.types[0]))
    when = op.operands[-1:] if op.name.endswith("global_to_local") else ()
    return op.operands[0], op.operands[1:end], when


def product_condition(op: IrOperation) -> str:
    """The operand of ``ttng.tc_gen5_mma`` that says whether it multiplies."""
    return op.operands[op.text.split("]")[0].count("%") + 1]


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
    elif op.name == "ttg.warp_specialize":
        default, *others = op.regions
        for result, value in zip(op.results, _terminator(default.entry).operands, strict=True):
            sources[result].append(value)
        for region in others:
            for name, value in zip(region.entry.arguments, op.operands, strict=True):
                sources[name].append(value)
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
    elif op.name not in ("ttg.local_load", "ttng.tmem_load"):  # whose words aren't known
        inner = [_terminator(r.entry).operands for r in op.regions]
        for result in op.results:
            sources[result] += [*op.operands, *(x for values in inner for x in values)]


def _terminator(block: IrBlock) -> IrOperation:
    """The operation that ends a block."""
    return block.operations[-1]
