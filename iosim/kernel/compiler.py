"""Compile a Triton kernel for a GPU that need not be there.

Triton is loaded when something is compiled.  The words of a kernel need its TTIR only; registers,
spills and shared memory need all the way to machine code.

`iosim.kernel.count`, `configs`, `counters` and the command line call it.  A GPU is an entry of
`CAPABILITIES`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from iosim.base.errors import InputError, install

# Compute capability by the names that people use.
CAPABILITIES = {"v100": 70, "a100": 80, "a100-80gb": 80, "a10": 86, "l4": 89}
CAPABILITIES |= {"h100": 90, "h200": 90, "b200": 100}
# Those that Triton's LLVM and ptxas both have; at any other, LLVM ends the process.
_KNOWN = (70, 72, 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
# Of the GPU that a kernel is compiled for where nobody says one.
DEFAULT_CAPABILITY = 90

# Triton warns where this is left open.
_DEFAULTS: dict[str, Any] = {"enable_fp_fusion": True}


@dataclass(frozen=True)
class CompiledResources:
    """What a compiled kernel takes of a multiprocessor.

    Attributes:
        capability: the compute capability that it was compiled for.
        shared: bytes of shared memory of a program.
        registers: of a thread.
        spills: bytes of local memory of a thread.
        warps: of a program.
    """

    capability: int
    shared: int
    registers: int | None
    spills: int | None
    warps: int


def load_triton() -> Any:
    """The module ``triton``.

    Raises:
        InputError: it isn't installed, or was imported to interpret kernels.
    """
    if os.environ.get("TRITON_INTERPRET") == "1":
        if "triton" in sys.modules:
            raise InputError("Triton interprets kernels here: count without TRITON_INTERPRET=1")
        del os.environ["TRITON_INTERPRET"]
    try:
        import triton
        import triton.compiler
    except ImportError:
        raise InputError(f"counting a kernel needs Triton: {install('gpu')}") from None
    return triton


def read_capability(gpu: str) -> int:
    """The compute capability of a GPU, by its name or as ``sm_90``.

    Raises:
        InputError: for a name that isn't known.

    >>> read_capability("H100"), read_capability("sm_86")
    (90, 86)
    """
    name = gpu.lower()
    match = re.fullmatch(r"(?:sm[_-]?)?(\d{2,3})a?", name)
    found = int(match[1]) if match else CAPABILITIES.get(name)
    if found is None or found not in _KNOWN:
        raise InputError(
            f"--gpu {gpu} isn't known: give {', '.join(CAPABILITIES)}, "
            f"{', '.join(f'sm_{n}' for n in _KNOWN)}"
        )
    return found


def lower_kernel(
    function: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    divisible: Mapping[str, int],
    options: Mapping[str, Any],
    capability: int = DEFAULT_CAPABILITY,
    passes: bool = True,
) -> str:
    """The TTIR of a kernel, or for a Gluon kernel, which has none, its TTGIR.

    Args:
        function: what ``@triton.jit`` gave.
        signature: types of all arguments, ``constexpr`` for constants.
        constants: values of the constants.
        divisible: arguments that are known to be multiples of a number.
        options: of the compiler, such as ``num_warps``.
        capability: compute capability of the GPU.
        passes: whether the compiler's passes run, which leave out loads that are not needed.

    Raises:
        InputError: Triton refuses the kernel.
    """
    load_triton()
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    backend = make_backend(GPUTarget("cuda", capability, 32))
    source = _source(function, signature, constants, divisible)
    parsed = backend.parse_options(_DEFAULTS | dict(options) | source.parse_options())
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    lower = next(iter(stages.values()))
    if is_gluon(function):
        from triton._C.libtriton import amd

        amd.load_dialects(context)  # Triton ends the process at an operation that it can't name
        lower = _lower_gluon
    with _triton_errors(is_gluon(function)), _compile_for(backend.target):
        module = source.make_ir(
            backend.target,
            parsed,
            backend.get_codegen_implementation(parsed),
            backend.get_module_map(),
            context,
        )
        return str(lower(module, {}) if passes else module)


def is_gluon(function: Any) -> bool:
    """Whether it is what ``@gluon.jit`` gave."""
    return bool(getattr(function, "is_gluon", bool)())


def _lower_gluon(module: Any, _: Any) -> Any:
    """Triton's passes of a Gluon kernel, but for the one that makes descriptors bytes."""
    from triton._C.libtriton import ir, passes

    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    passes.gluon.add_inliner(manager)
    passes.gluon.add_infer_coalesced_encodings(manager)
    passes.gluon.add_resolve_auto_encodings(manager)
    passes.gluon.add_canonicalizer(manager)
    passes.common.add_sccp(manager)
    passes.ttir.add_loop_aware_cse(manager)
    passes.gluon.add_canonicalizer(manager)
    passes.common.add_symbol_dce(manager)
    manager.run(module, "gluon_to_ttgir")
    return module


def _source(
    function: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    divisible: Mapping[str, int],
) -> Any:
    from triton.compiler import ASTSource

    names = list(function.arg_names)
    attributes = {(names.index(n),): [["tt.divisibility", k]] for n, k in divisible.items()}
    if not is_gluon(function):
        return ASTSource(function, dict(signature), dict(constants), attributes)
    from triton.experimental.gluon._runtime import GluonASTSource

    kinds = {name: _add_layout(kind) for name, kind in signature.items()}
    return GluonASTSource(function, kinds, dict(constants), attributes)


def _add_layout(kind: str) -> str:
    """The type of an argument of a Gluon kernel: a descriptor without a layout has Gluon's own."""
    match = re.fullmatch(r"tensordesc<(\w+)\[([\d, ]+)\]>", kind)
    if match is None:
        return kind
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.language import str_to_ty

    block = [int(n) for n in match[2].split(",")]
    layout = NVMMASharedLayout.get_default_for(block, str_to_ty(match[1], None))
    return f"{kind[:-1]},{layout!r}>"


@contextlib.contextmanager
def _compile_for(target: Any) -> Iterator[None]:
    """A kernel that asks for its GPU gets the one that it is compiled for, not that of this host.

    `triton.language.target_info` asks the driver, and without a GPU it would deny everything.
    """
    from triton.runtime import driver

    try:
        before = driver.active
    except RuntimeError:  # there is no GPU
        before = None
    driver.set_active(SimpleNamespace(get_current_target=lambda: target))
    try:
        yield
    finally:
        driver.set_active(before)


@contextlib.contextmanager
def _triton_errors(gluon: bool = False) -> Iterator[None]:
    """Triton's own complaint, in one line."""
    from triton.compiler.errors import CompilationError

    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            yield
    except CompilationError as error:
        raise InputError(f"Triton can't compile this kernel: {_one_line(error)}") from None
    except RuntimeError as error:  # of its IR's own check, which gives no line
        wrong = "is a --type wrong, or a layout?" if gluon else "is a --type wrong?"
        raise InputError(f"Triton can't compile this kernel: {error}: {wrong}") from None


def _one_line(error: Exception) -> str:
    """Of Triton's message: the line and the reason."""
    node, source = getattr(error, "node", None), getattr(error, "src", None)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    said = getattr(error, "error_message", None)
    reason = str(cause).splitlines()[0] if cause is not None and str(cause) else said or lines[-1]
    if "pointer<" in reason or "ptr type" in reason:
        reason = f"{reason}: is a --type wrong?"
    if node is not None and source:
        text = source.splitlines()[node.lineno - 1].strip()
        return f"{text!r}: {reason}"
    return reason


def compile_resources(
    function: Any,
    signature: Mapping[str, str],
    constants: Mapping[str, Any],
    divisible: Mapping[str, int],
    options: Mapping[str, Any],
    capability: int,
) -> tuple[CompiledResources, dict[str, Any]]:
    """Compile to machine code; what it takes of a multiprocessor, and the text of each stage.

    Raises:
        InputError: Triton can't compile the kernel for that GPU.
    """
    triton = load_triton()
    from triton.backends.compiler import GPUTarget
    from triton.errors import TritonError

    source = _source(function, signature, constants, divisible)
    target = GPUTarget("cuda", capability, 32)
    with _triton_errors(), _compile_for(target):
        try:
            made = triton.compile(source, target, _DEFAULTS | dict(options))
        except (RuntimeError, ValueError, AssertionError, TritonError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            reason = next((line for line in said if "fatal" in line), said[0])
            raise InputError(
                f"Triton can't compile this kernel for sm_{capability}: {reason}"
            ) from None
    registers, spills = _read_usage(made.asm.get("cubin", b""))
    metadata = made.metadata
    return (
        CompiledResources(capability, metadata.shared, registers, spills, metadata.num_warps),
        dict(made.asm),
    )


def _read_usage(cubin: bytes) -> tuple[int | None, int | None]:
    """Registers and bytes of spills, from Triton's own ``cuobjdump``; None where it isn't there."""
    import tempfile

    import triton

    program = next(Path(triton.__file__).parent.glob("backends/nvidia/bin/cuobjdump"), None)
    if program is None or not cubin:
        return None, None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        out = subprocess.run(
            [program, "-res-usage", file.name], capture_output=True, text=True, check=False
        ).stdout
    usage = dict(re.findall(r"(REG|STACK|LOCAL):(\d+)", out))
    if "REG" not in usage:
        return None, None
    return int(usage["REG"]), int(usage.get("LOCAL", 0)) + int(usage.get("STACK", 0))
