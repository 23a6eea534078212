"""A module of PyTorch as a graph, by ``torch.export``.

`from_torch` gives the graph; `exported` gives also the arrays of its inputs, so that it runs in
NumPy.  What is a view in PyTorch moves no words here, and what is copied there is copied here.
What depends on no input and no parameter, as a mask does, is computed once and is an input of the
graph, of the role ``state``; so are buffers.

``iosim graph FILE.py:FUNCTION`` calls `from_file`.  PyTorch is imported only when called.
``tests/models/test_torch_export.py`` compares what graphs compute with PyTorch.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, IosimError, closest, install
from iosim.base.rows import Row, Values
from iosim.models.layers.graph import Graph
from iosim.models.layers.lowering import Lowered, Names, Value, sizes

_DTYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "int64": "int64",
    "int32": "int32",
    "int8": "int8",
    "uint8": "int8",
    "bool": "bool",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}


@dataclass(frozen=True)
class Exported:
    """What comes of a module.

    Attributes:
        graph: the graph; its outputs are the module's, in their order in `outputs`.
        arrays: of the graph's inputs, in their shapes.
        outputs: names of the tensors that the module returns.
        shapes: as the module returns them; a tensor of the graph has no axes of size 1, and those
            that it has are in the order of memory.
        order: the axes of each output in the order that the module returns.
    """

    graph: Graph
    arrays: Values
    outputs: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    order: tuple[tuple[str, ...], ...]

    def run(self) -> list[Any]:
        """The module's outputs, computed in NumPy."""
        found = self.graph.run(self.arrays)
        made = []
        for name, shape, order in zip(self.outputs, self.shapes, self.order, strict=True):
            names = self.graph.tensors[name].names
            turned = np.transpose(found[name], [names.index(a) for a in order])
            made.append(np.reshape(turned, shape))
        return made


def from_torch(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    kwargs: Values | None = None,
    dtype: str | None = None,
    name: str | None = None,
) -> Graph:
    """The graph of a PyTorch module.

    Args:
        module: in the mode (training or evaluation) in which it is to be seen.
        example_inputs: positional arguments that fix all shapes; their values don't matter.
        kwargs: arguments by name.
        dtype: of a word; by default the one that most parameters have.
        name: of the graph; by default the module's class.

    An operator that isn't known becomes one of the kind ``opaque``: its words are those of its
    tensors, and its FLOP are not counted (`iosim.models.layers.graph.opaque` lists them).

    Raises InputError for a module that ``torch.export`` refuses, for uses of operators that can't
    be translated, all of them with their names and places, and where PyTorch isn't installed.
    """
    return exported(module, example_inputs, kwargs=kwargs, dtype=dtype, name=name).graph


def exported(
    module: Any,
    example_inputs: Sequence[Any],
    *,
    kwargs: Values | None = None,
    dtype: str | None = None,
    name: str | None = None,
) -> Exported:
    """The graph of a PyTorch module, with arrays; see `from_torch`."""
    torch = _torch()
    if dtype is not None:
        word_bytes(dtype)
    called = name or type(module).__name__
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"{called} is not a torch.nn.Module: give one")
    if not isinstance(example_inputs, tuple | list):
        raise InputError(f"the example inputs of {called} must be a tuple, got {example_inputs!r}")
    program = _program(torch, module, called, tuple(example_inputs), dict(kwargs or {}))
    return Translation(torch, program, called, dtype, (tuple(example_inputs), kwargs)).translate()


def from_file(path: str, function: str) -> Graph:
    """The graph of what a function in a Python file returns: a module, and a tuple of inputs.

    Raises InputError where the file or the function isn't there, fails, or returns something else.
    """
    _torch()
    file = Path(path)
    if not file.is_file():
        raise InputError(f"cannot read {path!r}: there is no such file")
    spec = importlib.util.spec_from_file_location("iosim_module", file)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.path.insert(0, str(file.resolve().parent))
    try:
        spec.loader.exec_module(found)
        if not callable(getattr(found, function, None)):
            known = [x for x, y in vars(found).items() if callable(y) and not x.startswith("_")]
            near = closest(function, known) if known else "it has none"
            raise InputError(f"{path} has no function {function!r}: {near}")
        made = getattr(found, function)()
    except IosimError:
        raise
    except Exception as error:
        raise InputError(f"{path}:{function} failed: {_first_line(error)}") from error
    finally:
        sys.path[:] = before
    if not (isinstance(made, tuple) and len(made) == 2):
        raise InputError(f"{path}:{function} must return a module and a tuple of inputs")
    return from_torch(*made, name=function)


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError:
        raise InputError(f"PyTorch is not installed: run {install('torch')}") from None
    return torch


def _first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    lines = [x.strip() for x in str(error).splitlines() if x.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__


def _program(torch: Any, module: Any, name: str, inputs: tuple[Any, ...], kwargs: Row) -> Any:
    from iosim.models.layers.aten import LOWERED

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(module, inputs, kwargs).run_decompositions({})
            unknown = {
                node.target
                for node in program.graph.nodes
                if node.op == "call_function" and _key(node.target) not in LOWERED
            }
            table = torch.export.default_decompositions()
            if some := {x: table[x] for x in unknown if x in table}:
                program = program.run_decompositions(some)
            return program
    except IosimError:
        raise
    except Exception as error:
        raise InputError(f"torch.export can't export {name}: {_first_line(error)}") from error


def _key(target: Any) -> str:
    """``aten.add`` of ``aten.add.Tensor``."""
    return str(target).rsplit(".", 1)[0] if "." in str(target) else getattr(target, "__name__", "")


class Translation:
    """One program on its way to a graph."""

    def __init__(self, torch: Any, program: Any, name: str, dtype: str | None, inputs: Any) -> None:
        self.torch, self.program, self.name = torch, program, name
        self.inputs = inputs
        self.writer = Lowered()
        self.values: dict[Any, Any] = {}
        self.refused: list[str] = []
        self.fixed: dict[Any, Any] = {}  # what depends on no input and no parameter
        self.arrays: Row = {}
        floats = Counter(
            _DTYPES.get(str(x.dtype).removeprefix("torch."), "fp32")
            for x in (*program.state_dict.values(), *self._list_inputs())
            if x.is_floating_point()
        )
        self.own = max(floats, key=lambda x: floats[x], default="fp32")
        self.dtype = dtype or self.own

    def _list_inputs(self) -> list[Any]:
        import torch.utils._pytree as tree

        flat, _ = tree.tree_flatten((self.inputs[0], self.inputs[1] or {}))
        return [x for x in flat if isinstance(x, self.torch.Tensor)]

    def translate(self) -> Exported:
        """The graph, node by node; InputError with all that can't be translated."""
        specs = {x.arg.name: x for x in self.program.graph_signature.input_specs}
        given = iter(self._list_inputs())
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, specs[node.name], given)
            elif node.op == "call_function":
                self._call(node)
        if self.refused:
            raise InputError(f"{self.name}: {'; '.join(self.refused)}")
        return self._out()

    def _placeholder(self, node: Any, spec: Any, given: Any) -> None:
        kind = str(spec.kind).split(".")[-1].split(":")[0]
        if kind == "USER_INPUT":
            if not isinstance(node.meta.get("val"), self.torch.Tensor):
                self.fixed[node] = node.meta.get("val")
                return
            self.values[node] = self._input(node.name, next(given), "input")
        elif kind == "PARAMETER":
            found = self.program.state_dict[spec.target]
            self.values[node] = self._input(spec.target, found, "weight")
        else:
            table = {**self.program.state_dict, **self.program.constants}
            self.fixed[node] = table.get(spec.target)

    def _input(self, name: str, tensor: Any, role: str) -> Value:
        """A tensor from outside; its array has the axes of the graph's tensor."""
        value = self.writer.new(name, sizes(tensor.shape), role=role, dtype=self.dtype_of(tensor))
        array = tensor.detach().cpu()
        array = array.double() if array.is_floating_point() else array
        self.arrays[value.tensor.name] = np.reshape(array.numpy(), value.tensor.shape)
        return value

    def dtype_of(self, tensor: Any) -> str | None:
        """Of a word, where it isn't the graph's."""
        found = _DTYPES.get(str(tensor.dtype).removeprefix("torch."), "fp32")
        return None if found == self.own else found

    def _call(self, node: Any) -> None:
        from iosim.models.layers.aten import LOWERED, opaque

        if str(node.target).startswith("aten._assert"):
            return
        if not _uses(node, self.values):
            self.fixed[node] = self._computed(node)
            return
        path = _path(node)
        self.writer.here = f"{path} {node.name}" if path else node.name
        key = _key(node.target)
        where = f" in {path}" if path else ""
        try:
            lowered: Callable[[Any, Any], Any] = LOWERED.get(key, opaque)
            self.values[node] = lowered(self, node)
        except InputError as error:
            self.refused.append(f"{node.target} ({node.name}{where}): {error}")
            self.values[node] = opaque(self, node)  # to find all that is refused

    def _computed(self, node: Any) -> Any:
        args, kwargs = _replaced(node, self.fixed)
        with self.torch.no_grad():
            return node.target(*args, **kwargs)

    # For the functions of `LOWERED`.

    def value(self, x: Any) -> Value:
        """A tensor that a node or a fixed tensor stands for."""
        if x not in self.values:
            fixed = None if isinstance(x, list | dict) else self.fixed.get(x)
            if not isinstance(fixed, self.torch.Tensor):
                raise InputError(f"{x} is not a tensor: give tensors")
            self.values[x] = self._input(x.name, fixed, "state")
        found: Value = self.values[x]
        return found

    def meta(self, node: Any) -> tuple[tuple[int, ...], tuple[int, ...], str | None]:
        """Shape, strides and dtype of what a node gives."""
        val = node.meta["val"]
        return sizes(val.shape), tuple(val.stride()), self.dtype_of(val)

    def result(self, node: Any, names: Names | None = None, what: str = "") -> Value:
        """A new tensor, in the shape and the order of memory of what a node gives."""
        shape, strides, dtype = self.meta(node)
        called = self.writer.result(what)
        return self.writer.new(called, shape, names, strides=strides, dtype=dtype)

    def _out(self) -> Exported:
        (node,) = (n for n in self.program.graph.nodes if n.op == "output")
        names, shapes, orders = [], [], []
        user = {
            x.arg.name
            for x in self.program.graph_signature.output_specs
            if str(x.kind).endswith("USER_OUTPUT: 1>") or "USER_OUTPUT" in str(x.kind)
        }
        for out in node.args[0]:
            if getattr(out, "name", None) not in user:
                continue
            value = self.writer.solid(self.value(out))
            names.append(value.tensor.name)
            shapes.append(value.shape)
            orders.append(tuple(dim for dim in value.dims if dim))
        made = {t.name for op in self.writer.operators for t in op.tensors}
        keeps = [x for x in names if x in made]
        graph = self.writer.graph(self.name, keeps, self.dtype)
        arrays = {x: y for x, y in self.arrays.items() if x in graph.tensors}
        # An output may be called otherwise where it is first written.
        renamed = []
        for x, order in zip(names, orders, strict=True):
            value = next(
                v for v in self.values.values() if isinstance(v, Value) and v.tensor.name == x
            )
            place = [value.tensor.names.index(a) for a in order]
            renamed.append(tuple(graph.tensors[x].names[k] for k in place))
        return Exported(graph, arrays, tuple(names), tuple(shapes), tuple(renamed))


def _uses(node: Any, values: Mapping[Any, Any]) -> bool:
    return any(x in values for x in node.all_input_nodes)


def _replaced(node: Any, fixed: Mapping[Any, Any]) -> Any:
    from torch.fx import map_arg

    return map_arg((node.args, node.kwargs), lambda x: fixed[x])


def _path(node: Any) -> str:
    """The module that a node is of, as its parent calls it."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(path) for path, *_ in stack.values()]
    return paths[-1] if paths else ""
