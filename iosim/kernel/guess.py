"""What a kernel's own text says of arguments that nobody gave.

A switch that is only asked about is off; what is loaded from or stored to is a pointer; any other
argument is a number, which matters only where an address or a loop depends on it.

`iosim.kernel.launch` calls it for arguments that are not given.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

# Keywords of loops that say how they run, not what they do.
_SWITCHES = {"warp_specialize", "flatten", "disallow_acc_multi_buffer", "num_stages"}
# Methods, or functions of ``tl``, that give the same pointer, perhaps further on.
_KEEPS = {"to", "cast", "advance", "multiple_of", "make_block_ptr"}
# What refers to memory, and which of its arguments is the pointer.
_REFERS = {
    "load": 0,
    "store": 0,
    "atomic_add": 0,
    "atomic_max": 0,
    "atomic_min": 0,
    "atomic_xchg": 0,
    "atomic_cas": 0,
    "atomic_and": 0,
    "atomic_or": 0,
    "atomic_xor": 0,
    "make_block_ptr": 0,
    "make_tensor_descriptor": 0,
    "async_load": 1,
    "async_copy_global_to_shared": 1,
    "buffer_load": 0,
    "buffer_store": 1,
}


def parse_function(function: Any) -> ast.FunctionDef:
    """The tree of a jit function's text."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.fn))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def is_switch(function: Any, name: str, depth: int = 0) -> bool:
    """Whether a constant is only used as a condition, here and in what it is passed to.

    >>> import triton
    >>> @triton.jit
    ... def copy(x, y, BACK: triton.language.constexpr):
    ...     if BACK:
    ...         x, y = y, x
    ...     triton.language.store(y, triton.language.load(x))
    >>> is_switch(copy, "BACK"), is_switch(copy, "x")
    (True, False)
    """
    tree = parse_function(function)
    allowed: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            allowed.update(map(id, _conditions(node.test)))
        elif isinstance(node, ast.Call):
            allowed.update(id(k.value) for k in node.keywords if k.arg in _SWITCHES)
            for parameter, value in _passed(function, node):
                if isinstance(value, ast.Name) and value.id == name and depth < 8:
                    callee, inner = parameter
                    if is_switch(callee, inner, depth + 1):
                        allowed.add(id(value))
        elif isinstance(node, ast.Assert):
            allowed.update(map(id, _conditions(node.test)))
    return all(
        id(node) in allowed
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    )


def is_pointer(function: Any, name: str, depth: int = 0) -> bool:
    """Whether an argument is where something is loaded from or stored to.

    >>> import triton
    >>> @triton.jit
    ... def double(x, factor):
    ...     at = x + triton.language.program_id(0)
    ...     triton.language.store(at, triton.language.load(at) * factor)
    >>> is_pointer(double, "x"), is_pointer(double, "factor")
    (True, False)
    """
    tree = parse_function(function)
    flows = {name}
    for _ in range(3):  # a pointer may be assigned on, in loops too
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AugAssign)) and _base(node.value) & flows:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                flows |= {t.id for t in targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        where = _REFERS.get(called, len(node.args))
        if where < len(node.args) and _base(node.args[where]) & flows:
            return True
        if called in _REFERS and any(
            k.arg in ("base", "pointer", "ptr") and _base(k.value) & flows for k in node.keywords
        ):
            return True
        for (callee, inner), value in _passed(function, node):
            if depth < 8 and _base(value) & flows and is_pointer(callee, inner, depth + 1):
                return True
    return False


def _conditions(test: ast.expr) -> Iterator[ast.AST]:
    """The names that a condition asks as they are, through and, or, not and comparisons."""
    yield test
    if isinstance(test, ast.BoolOp):
        for value in test.values:
            yield from _conditions(value)
    elif isinstance(test, ast.UnaryOp):
        yield from _conditions(test.operand)


def _base(node: ast.expr) -> set[str]:
    """The names that a sum of a pointer and offsets may start from."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _base(node.left) | _base(node.right)
    if isinstance(node, ast.IfExp):
        return _base(node.body) | _base(node.orelse)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return set()
    if node.func.attr not in _KEEPS:
        return set()
    own = _is_module(node.func.value) and bool(node.args)
    return _base(node.args[0] if own else node.func.value)


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("tl", "language", "gl", "ttgl")


def _passed(function: Any, call: ast.Call) -> Iterator[tuple[tuple[Any, str], ast.expr]]:
    """Of a call to another jit function: its parameters, with what each is given."""
    if not isinstance(call.func, ast.Name):
        return
    callee = function.fn.__globals__.get(call.func.id)
    if not hasattr(callee, "arg_names") or not hasattr(callee, "fn"):
        return
    assert callee is not None
    for name, value in zip(callee.arg_names, call.args, strict=False):
        yield (callee, name), value
    for keyword in call.keywords:
        if keyword.arg and keyword.arg in callee.arg_names:
            yield (callee, keyword.arg), keyword.value
