"""Which registers of a PTX function matter, and which of its loads machine code leaves out.

`iosim.kernel.threads` computes only registers that addresses, guards and branches depend on.

``tests/kernel/test_counters.py`` compares the sectors.
"""

from __future__ import annotations

from collections.abc import Mapping

from iosim.kernel.ptx import PtxFunction, PtxInstruction, list_registers

SHARED_MEMORY = "shared memory"  # among registers that are needed
_KINDS = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic", "cp": "load"}


def classify(name: str) -> str:
    """The kind of an instruction's reference to global memory; "" where it has none.

    Bulk copies of boxes (TMA) have none here: `iosim.kernel.boxes` counts them.

    >>> classify("ld.global.v4.b32"), classify("red.global.add.f32"), classify("ld.param.b64")
    ('load', 'atomic', '')
    """
    parts = name.split(".")
    if name.startswith("tensormap.cp_fenceproxy"):
        return "descriptor"
    if parts[0] == "cp" and (parts[:2] != ["cp", "async"] or "bulk" in parts):
        return ""
    return _KINDS.get(parts[0], "") if "global" in parts else ""


def find_unused(function: PtxFunction) -> set[int]:
    """By identity: loads and atomic operations whose results nothing uses.

    Machine code lacks such loads.
    """
    every = [i for block in function.blocks for i in block]
    defined: dict[str, list[PtxInstruction]] = {}
    todo = []
    for one in every:
        todo.append(one.guard)
        outputs = list_outputs(one)
        if not outputs or one.name.startswith("atom") or "volatile" in one.name:
            todo += [r for x in one.operands for r in list_registers(x)]
        for name in outputs:
            defined.setdefault(name, []).append(one)
    used: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in used:
            used.add(name)
            for one in defined.get(name, []):
                todo += [r for x in one.operands[1:] for r in list_registers(x)]
    asking = (x for x in every if x.name.startswith(("ld.", "atom")) and "volatile" not in x.name)
    return {id(x) for x in asking if not used & set(list_outputs(x))}


def find_needed(function: PtxFunction) -> set[str]:
    """Registers that addresses, guards, branches and calls depend on; and `SHARED_MEMORY`.

    A branch around instructions that refer to nothing is none of them, unless what it leaves out
    writes such a register.
    """
    defined: dict[str, list[PtxInstruction]] = {}
    for one in (i for block in function.blocks for i in block):
        for name in list_outputs(one):
            defined.setdefault(name, []).append(one)
    detours = {
        id(one): {r for i in skipped for r in list_outputs(i)}
        for block in function.blocks
        for one in block
        if (skipped := find_skipped(function, one)) is not None
    }
    while True:
        needed = _close(function, defined, detours)
        wrong = [key for key, written in detours.items() if written & needed]
        if not wrong:
            return needed
        for key in wrong:
            del detours[key]


def find_skipped(function: PtxFunction, one: PtxInstruction) -> list[PtxInstruction] | None:
    """What a branch leaves out, if it goes ahead and that refers to nothing and stays inside."""
    if not one.guard or not one.name.startswith("bra"):
        return None
    here = next(i for i, block in enumerate(function.blocks) if any(x is one for x in block))
    there = function.labels[one.operands[0]]
    skipped = [x for block in function.blocks[here + 1 : there] for x in block]
    for x in skipped:
        if x.name.startswith(("ret", "exit", "call", "bar", "st.")) or classify(x.name):
            return None
        if x.name.startswith("bra") and not here < function.labels[x.operands[0]] <= there:
            return None
    return skipped if there > here else None


def _close(
    function: PtxFunction,
    defined: Mapping[str, list[PtxInstruction]],
    detours: Mapping[int, set[str]],
) -> set[str]:
    """`find_needed`, for some branches that count as detours."""
    todo: list[str] = []
    every = [i for block in function.blocks for i in block]
    for one in every:
        if classify(one.name):
            todo += [one.guard, *list_registers(global_address(one))]
            if one.name.startswith("cp."):
                todo += [r for x in one.operands[2:] for r in list_registers(x)]
        if one.name.startswith(("bra", "st.param", "ret")) and id(one) not in detours:
            todo += [one.guard, *(r for x in one.operands for r in list_registers(x))]
    needed: set[str] = set()
    while todo:
        name = todo.pop()
        if not name or name in needed:
            continue
        needed.add(name)
        for one in defined.get(name, []):
            todo += [one.guard, *(r for x in one.operands[1:] for r in list_registers(x))]
            if one.name.startswith(("ld.shared", "ldmatrix")) and SHARED_MEMORY not in needed:
                needed.add(SHARED_MEMORY)
                for store in (i for i in every if i.name.startswith(("st.shared", "stmatrix"))):
                    todo += [store.guard, *(r for x in store.operands for r in list_registers(x))]
    return needed


def global_address(one: PtxInstruction) -> str:
    """The operand that is an address in global memory."""
    places = [x for x in one.operands if x.startswith("[")]
    return places[-1] if one.name.startswith("cp.") else places[0]


def list_outputs(one: PtxInstruction) -> list[str]:
    """Registers that an instruction writes."""
    if one.name.startswith(("st", "bra", "cp.", "red.", "call", "bar", "mbarrier.init")):
        return []
    return list_registers(one.operands[0].replace("|", " ")) if one.operands else []
