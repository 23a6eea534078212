"""Signed integers of one bit, where true is -1, compared with what MLIR folds constants to."""

from __future__ import annotations

import re
from itertools import product

import pytest
from triton._C.libtriton import ir, passes

from iosim.kernel.ir import parse_operation
from iosim.kernel.semantics import OPERATIONS
from iosim.kernel.values import constant

BINARY = [f"arith.{sign}{kind}" for sign in ("max", "min") for kind in ("si", "ui")]
BINARY += ["arith.addi", "arith.subi", "arith.muli", "arith.andi", "arith.ori", "arith.xori"]
PREDICATES = [sign + way for sign in "su" for way in ("lt", "le", "gt", "ge")] + ["eq", "ne"]


def fold(line, result, tmp_path):
    """What MLIR's canonicalizer makes of an operation of the constants %a and %b."""
    path = tmp_path / "one.ttir"
    path.write_text(
        f"module {{ tt.func public @k(%p: !tt.ptr<{result}>) {{\n{line}\n"
        f"tt.store %p, %r : !tt.ptr<{result}>\ntt.return }} }}"
    )
    context = ir.context()
    ir.load_dialects(context)
    module = ir.parse_mlir_module(str(path), context)
    module.context = context
    manager = ir.pass_manager(context)
    passes.common.add_canonicalizer(manager)
    manager.run(module, "fold")
    (stored,) = re.findall(r"tt.store %arg0, (%\S+)", text := str(module))
    (said,) = re.findall(rf"{re.escape(stored)} = arith.constant (\S+)", text)
    return {"true": 1.0, "false": 0.0}.get(said) if said in ("true", "false") else float(said)


def evaluate(line, *values):
    op = parse_operation(line)
    return float(OPERATIONS[op.name](op, *map(constant, values)).dense().item())


def constants(*values):
    return "\n".join(
        f"%{name} = arith.constant {str(x).lower()}" for name, x in zip("ab", values, strict=False)
    )


@pytest.mark.parametrize("name", BINARY + [f"arith.cmpi {x}," for x in PREDICATES])
def test_two_masks(name, tmp_path):
    line = f"%r = {name} %a, %b : i1"
    for a, b in product((False, True), repeat=2):
        want = fold(f"{constants(a, b)}\n{line}", "i1", tmp_path)
        assert evaluate(line, a, b) == want, (a, b)


@pytest.mark.parametrize("name", ["arith.extsi", "arith.extui"])
def test_wider_integers(name, tmp_path):
    line = f"%r = {name} %a : i1 to i32"
    for a in (False, True):
        assert evaluate(line, a) == fold(f"{constants(a)}\n{line}", "i32", tmp_path)


@pytest.mark.parametrize("name", ["arith.sitofp", "arith.uitofp"])
def test_floating_point_numbers(name, tmp_path):
    line = f"%r = {name} %a : i1 to f32"
    op = parse_operation(line)
    for a in (False, True):
        found = float(OPERATIONS[op.name](op, constant(a)).item())
        assert found == fold(f"{constants(a)}\n{line}", "f32", tmp_path)
