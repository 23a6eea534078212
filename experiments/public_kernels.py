"""Count kernels of public projects, and compare with what Triton's interpreter refers to.

    python -m experiments.public_kernels CHECKOUTS

reads ``public_kernels.toml``: for each kernel its place in a checkout ``CHECKOUTS/PROJECT``, a grid
and small arguments.  It prints a table.  The projects' text stays in the checkouts.  They import
PyTorch, which may be one for the CPU; what imports other packages is left out.
`docs/how-to/count-a-triton-kernel.md` has the columns.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import functools
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np

from experiments.record_kernels import Case, record_counters, run_cases
from iosim.base.errors import InputError
from iosim.base.python_file import run_statements
from iosim.gpu.run.interpreter import interpreted_triton
from iosim.kernel import count as counting
from iosim.kernel.compiler import lower_kernel
from iosim.kernel.count import KernelCount, count_kernel
from iosim.kernel.expression import calculate
from iosim.kernel.launch import KernelCall
from iosim.kernel.reuse import SECTOR
from iosim.kernel.source import load_kernel
from iosim.kernel.tracer import trace

sys.path.append("tests/kernel")
from interpreted import (
    Addresses,
    Described,
    Seen,
    fill_stubs,
    list_differences,
    watch_kernel,
    widen_numbers,
)

LAUNCHES = Path(__file__).with_suffix(".toml")
# Modules of PyTorch that have kernels.
_OF_TRITON = [f"torch._inductor.runtime.triton_{name}" for name in ("helpers", "compat")]
# What begins a line of an answer, among what kernels print.
_ANSWER = "traced: "
_DTYPES = {"fp": "f", "i": "i", "u": "u"}
_TENSOR = re.compile(r"(fp|i|u)(\d+)(?:\[(.*?)\])?(?: = (.*))?(?: of (\d+))?(?: in \[(.*)\])?")


@dataclass(frozen=True)
class PublicLaunch:
    """A kernel of a project with small arguments.

    Attributes:
        place: ``PROJECT/FILE::FUNCTION``.
        grid: expressions of sizes.
        sizes: numbers that the expressions use.
        arguments: in the kernel's order: numbers, expressions, tensors such as ``fp16[N,D]``,
            with their words such as ``i32 = 0, 7, N``, again and again where there is a shape, as
            a table of pages in some order: ``i32[4,64] of 100``, or as descriptors:
            ``fp16[N,D] in [64,D]``; addresses of tensors: ``* fp16[N]; fp16[D]``; ``tl.float32``,
            ``'mean'``, ``none``.
        constants: further arguments by name.
        note: what distinguishes it from another launch of the same kernel.
    """

    place: str
    grid: str
    sizes: Mapping[str, int]
    arguments: tuple[Any, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def name(self) -> str:
        """The place, with the note."""
        return f"{self.place} {self.note}".strip()

    def read_grid(self) -> tuple[int, ...]:
        """The sizes of the grid."""
        return tuple(calculate("grid", self.grid, self.sizes))

    def build_arguments(self, names: list[str]) -> dict[str, Any]:
        """Arguments by name, new tensors each time; ``tl.`` is the Triton that is in use."""
        given = dict(zip(names, self.arguments, strict=False)) | dict(self.constants)
        return {name: _build_value(value, self.sizes) for name, value in given.items()}


@dataclass(frozen=True)
class Row:
    """What is said of a launch; ``-`` where something was not asked or can't be."""

    project: str
    kernel: str
    loaded: str = "-"
    stored: str = "-"
    verdict: str = "-"
    interpreter: str = "-"
    triton_viz: str = "-"
    counters: str = "-"


def read_launches(file: Path = LAUNCHES) -> tuple[dict[str, dict[str, str]], list[PublicLaunch]]:
    """Projects, with where their packages lie, and launches."""
    text = tomllib.loads(file.read_text())
    launches = [PublicLaunch(**x | {"arguments": tuple(x["arguments"])}) for x in text["kernel"]]
    return text["projects"], launches


def _build_value(value: Any, sizes: Mapping[str, int]) -> Any:
    if not isinstance(value, str):
        return value
    if value == "none":
        return None
    if value[0] == "'":
        return value.strip("'")
    if value.startswith("tl."):
        return getattr(importlib.import_module("triton.language"), value[3:])
    if value.startswith("*"):
        return Addresses([_build_value(x.strip(), sizes) for x in value[1:].split(";")])
    if (match := _TENSOR.fullmatch(value)) is None:
        return calculate("argument", value, sizes)[0]
    kind, bits, shape, words, pages, block = match.groups()
    dtype = f"{_DTYPES[kind]}{int(bits) // 8}" if bits != "1" else "bool"
    if pages is not None:
        order = np.random.default_rng(0).permutation(int(pages)).astype(dtype)
        return np.resize(order, calculate("shape", shape, sizes))
    if words is not None:
        array = np.array(calculate("words", words, sizes), dtype)
        return np.resize(array, calculate("shape", shape, sizes)) if shape else array
    array = np.ones(calculate("shape", shape, sizes), dtype)
    return Described(array, tuple(calculate("block", block, sizes))) if block else array


class _Checkouts:
    """Import packages of checkouts, and what their ``__init__.py`` imports when it is asked for."""

    def __init__(self, roots: list[Path]) -> None:
        self.roots = roots

    def find_spec(self, name: str, path: Any, _: Any = None) -> ModuleSpec | None:
        for folder in map(Path, path or self.roots):
            at = folder / name.rpartition(".")[2]
            if not any(at.is_relative_to(root) for root in self.roots):
                continue
            if (at / "__init__.py").is_file():
                spec = ModuleSpec(name, self, origin=str(at), is_package=True)
                spec.submodule_search_locations = [str(at)]
                return spec
            if at.with_suffix(".py").is_file():
                return ModuleSpec(name, self, origin=str(at.with_suffix(".py")))
        return None

    def create_module(self, _: ModuleSpec) -> None:
        """An ordinary one."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module now; a package when a name is missing."""
        assert module.__spec__ is not None
        at = Path(str(module.__spec__.origin))
        if at.suffix == ".py":
            run_statements(at, module)
            return

        def find(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            if (at / name / "__init__.py").is_file() or (at / f"{name}.py").is_file():
                return importlib.import_module(f"{module.__name__}.{name}")
            module.__dict__.pop("__getattr__", None)
            run_statements(at / "__init__.py", module)
            return getattr(module, name)

        module.__getattr__ = find

    def forget(self) -> None:
        """Let what was imported be imported again, for another mode of Triton."""
        for name in [n for n, x in sys.modules.items() if _loader(x) is self]:
            del sys.modules[name]
        for name in _OF_TRITON:
            sys.modules.pop(name, None)


def _loader(module: ModuleType) -> Any:
    return getattr(getattr(module, "__spec__", None), "loader", None)


@contextmanager
def imported_from(folder: Path, projects: Mapping[str, Mapping[str, str]]) -> Iterator[_Checkouts]:
    """Packages of checkouts can be imported."""
    checkouts = _Checkouts([(folder / n / p["packages"]).resolve() for n, p in projects.items()])
    sys.meta_path.insert(0, checkouts)
    try:
        yield checkouts
    finally:
        sys.meta_path.remove(checkouts)
        checkouts.forget()


def describe_public(folder: Path, launch: PublicLaunch) -> KernelCall:
    """The launch of a checkout's kernel."""
    source = load_kernel(str(folder / launch.place))
    given = launch.build_arguments(source.arguments)
    shown = {k: _show_value(x) for k, x in given.items()}
    return trace(source).describe(launch.read_grid(), (), shown)


def _show_value(value: Any) -> Any:
    if isinstance(value, Addresses):
        return value.list_addresses()
    return value.describe() if isinstance(value, Described) else value


def compare_launch(
    folder: Path,
    launch: PublicLaunch,
    checkouts: _Checkouts,
    traced: Mapping[str, Any],
    measured: Mapping[str, Any],
) -> Row:
    """Count a launch, interpret it, and compare with what others said of it.

    Args:
        folder: of the checkouts.
        launch: one of a kernel in them.
        checkouts: what imports from there.
        traced: by name, bytes of loads and stores by triton-viz, or why it can't run a launch.
        measured: by name, bytes by hardware counters.
    """
    project, _, kernel = launch.name.partition("/")
    try:
        call = describe_public(folder, launch)
        count = count_kernel(call)
        source = count_source(call)
    except InputError as error:
        reason = str(error).replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
        return Row(project, kernel, verdict=f"refused: {reason}")
    except Exception as error:
        return Row(project, kernel, verdict=f"a fault of iosim: {_say_cause(error)}")
    finally:
        checkouts.forget()
    loaded, stored = (_add_words(count, kind) for kind in ("load", "store"))
    left_out = sum(source.words("load").values()) - sum(count.words("load").values())
    equal = f"equal before the compiler left out {left_out} words" if left_out else "equal"
    seen = _interpret(folder, launch, checkouts, call)
    differ = list_differences(source, seen) if isinstance(seen, Seen) else [f"- {seen}"]
    told = traced.get(launch.name, "-")
    if isinstance(told, list):
        mine = [_add_bytes(source, kind) for kind in ("load", "store")]
        told = equal if told == mine else f"bytes: {mine}, traced {told}"
    counted = _compare_counters(count, measured.get(launch.name))
    return Row(
        project, kernel, loaded, stored, "counted", "; ".join(differ) or equal, told, counted
    )


def _compare_counters(count: KernelCount, measured: Mapping[str, int] | None) -> str:
    """Whether sectors are what a GPU wrote, and no fewer than it read: L1 keeps some."""
    if measured is None:
        return "-"
    sectors: Counter[str] = Counter()
    for (kind, _), reuse in count.reuse.items():
        sectors[kind] += reuse.sectors * SECTOR
    written, read = (sectors[kind] + sectors["atomic"] for kind in ("store", "load"))
    if written != measured["write_bytes"]:
        return f"{written} bytes written, measured {measured['write_bytes']}"
    if read < measured["read_bytes"]:
        return f"{read} bytes read, measured {measured['read_bytes']}"
    return "equal" if read == measured["read_bytes"] else "equal but for reads that L1 keeps"


def count_source(call: KernelCall) -> KernelCount:
    """Count what the kernel's text asks for: the compiler leaves out no load."""
    whole = functools.partial(lower_kernel, passes=False)
    with mock.patch.object(counting, "lower_kernel", whole):
        return count_kernel(call)


def _add_words(count: KernelCount, kind: str) -> str:
    """Words of loads or stores; atomic operations are both."""
    return str(sum(t.words for (k, _), t in count.traffic.items() if k in (kind, "atomic")))


def _add_bytes(count: KernelCount, kind: str) -> int:
    return sum(t.words * t.width for (k, _), t in count.traffic.items() if k == kind)


def _interpret(
    folder: Path, launch: PublicLaunch, checkouts: _Checkouts, call: KernelCall
) -> Seen | str:
    """What Triton's interpreter refers to, or why it can't run."""
    file, _, name = launch.place.partition("::")
    chosen = {k: v for k, v in call.constants.items() if k in call.source.constants}
    try:
        with interpreted_triton():
            given = chosen | launch.build_arguments(call.source.arguments)
            return watch_kernel(folder / file, name, launch.read_grid(), given)
    except Exception as error:
        return _say_cause(error)
    finally:
        checkouts.forget()


def _say_cause(error: BaseException) -> str:
    """The first cause of an error, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1]}"


def ask_triton_viz(folder: Path, launches: list[PublicLaunch], path: str) -> dict[str, Any]:
    """By name: bytes of loads and stores by triton-viz, or why it can't run a launch.

    Args:
        folder: of the checkouts.
        launches: what to ask for.
        path: ``PYTHONPATH`` of triton-viz, PyTorch, and a Triton that suits both.
    """
    command = [sys.executable, "-m", "experiments.public_kernels", str(folder), "--trace"]
    switches = {
        "TRITON_INTERPRET": "1",
        "PROFILER_ENABLE_LOAD_STORE_SKIPPING": "0",
        "PROFILER_ENABLE_BLOCK_SAMPLING": "0",
        "PROFILER_DISABLE_BUFFER_LOAD_CHECK": "1",
        "PYTHONPATH": path,
    }
    found: list[Any] = []
    while len(found) < len(launches):  # a launch may end the process
        ended = subprocess.run(
            command,
            env=os.environ | switches,
            input="\n".join(x.name for x in launches[len(found) :]),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        lines = [x for x in ended.stdout.splitlines() if x.startswith(_ANSWER)]
        found += [json.loads(x.removeprefix(_ANSWER)) for x in lines]
        if len(found) < len(launches):
            found.append(f"- ended by signal {-ended.returncode}")
    return {x.name: told for x, told in zip(launches, found, strict=True)}


def trace_bytes(folder: Path, launch: PublicLaunch) -> list[int] | str:
    """Bytes of loads and stores by triton-viz, in a process of its own."""
    import torch
    import triton_viz
    from triton_viz.clients import Profiler

    file, _, name = launch.place.partition("::")
    try:
        fill_stubs()
        kernel = run_statements(folder / file)[0][name]
        while hasattr(kernel.fn, "fn"):
            kernel = kernel.fn
        arguments = launch.build_arguments(kernel.arg_names)
        given = {k: _put_tensor(x, torch.from_numpy) for k, x in arguments.items()}
        profiler = Profiler()
        traced = triton_viz.trace(client=profiler)(kernel)
        traced[launch.read_grid()](**widen_numbers(kernel, given))
        sums = profiler.load_bytes, profiler.store_bytes
        return [int(x.total_bytes_true) for x in sums]
    except Exception as error:
        return f"- {_say_cause(error)}"


def _put_tensor(value: Any, put: Callable[[Any], Any]) -> Any:
    """An argument as PyTorch has it, where `put` makes a tensor of an array."""
    if isinstance(value, Addresses):
        value.tensors[:] = [put(x) for x in value.tensors]
        return put(np.array([x.data_ptr() for x in value.tensors]))
    if isinstance(value, Described):
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor.from_tensor(put(value.array), list(value.block))
    return put(value) if isinstance(value, np.ndarray) else value


def list_public_cases(folder: Path, launches: list[PublicLaunch]) -> Iterator[Case]:
    """Name, kernel, grid and arguments on the GPU, for `record_kernels`."""
    import torch
    import triton.testing

    triton.testing.Mark.run = lambda *_, **__: None  # tutorials time their kernels when imported
    files = functools.cache(lambda file: run_statements(folder / file)[0])
    kept = []
    for launch in launches:
        file, _, name = launch.place.partition("::")
        kernel = files(file).get(name)
        while hasattr(getattr(kernel, "fn", None), "fn"):
            kernel = kernel.fn
        if kernel is None:
            continue
        arguments = launch.build_arguments(kernel.arg_names)
        kept.append(arguments)
        given = {
            k: _put_tensor(x, lambda array: torch.from_numpy(array).cuda())
            for k, x in arguments.items()
        }
        yield launch.name, kernel, launch.read_grid(), given


def sum_up(rows: list[Row]) -> list[tuple[str, ...]]:
    """Of each project: launches, how many are counted, and equal to each other source."""
    out = []
    for project in dict.fromkeys(row.project for row in rows):
        own = [row for row in rows if row.project == project]
        sources = ("interpreter", "triton_viz", "counters")
        equal = [sum(getattr(row, x).startswith("equal") for row in own) for x in sources]
        counted = sum(row.verdict == "counted" for row in own)
        out.append((project, *map(str, (len(own), counted, *equal))))
    return out


def write_rows(rows: list[Row], file: Path) -> None:
    """The table, for a spreadsheet."""
    with file.open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([f.name for f in fields(Row)])
        writer.writerows([vars(row).values() for row in rows])


def main(given: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("checkouts", type=Path)
    parser.add_argument("--only", default="*", help="a pattern of names")
    parser.add_argument("--triton-viz", metavar="PATH", help="PYTHONPATH of triton-viz")
    parser.add_argument("--counters", type=Path, help="a record that --record has written")
    parser.add_argument("--record", type=Path, help="a folder for a record, on a GPU with ncu")
    parser.add_argument("--trace", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="a CSV file")
    options = parser.parse_args(given)
    if options.record:
        run = ["experiments.public_kernels", str(options.checkouts), "--only", options.only]
        record_counters([*run, "--launch"], options.record)
        return
    projects, launches = read_launches()
    chosen = [x for x in launches if fnmatch.fnmatch(x.name, options.only)]
    with imported_from(options.checkouts, projects) as checkouts:
        if options.trace:
            named = {x.name: x for x in launches}
            for name in sys.stdin.read().splitlines():
                told = trace_bytes(options.checkouts, named[name])
                print(_ANSWER + json.dumps(told), flush=True)
                checkouts.forget()
            return
        if options.launch:
            run_cases(list_public_cases(options.checkouts, chosen))
            return
        measured = json.loads(options.counters.read_text()) if options.counters else {}
        traced = {}
        if options.triton_viz:
            traced = ask_triton_viz(options.checkouts, chosen, options.triton_viz)
        rows = []
        for launch in chosen:
            rows.append(
                compare_launch(
                    options.checkouts, launch, checkouts, traced, measured.get("launches", {})
                )
            )
            print("  ".join(vars(rows[-1]).values()), flush=True)
    for numbers in sum_up(rows):
        print("{}: {} launches, {} counted; equal: {}, {}, {}".format(*numbers))
    if options.out:
        write_rows(rows, options.out)


if __name__ == "__main__":
    main()
