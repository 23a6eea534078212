"""What a schedule may name: axes, sizes, tile parameters and tensors, the form's and its own."""

from __future__ import annotations

from collections.abc import Iterator

from iosim.base.errors import ProgramError, closest
from iosim.core.problem import Derived, Form, Tensor
from iosim.core.program.handles import Bound, named, unhandled
from iosim.core.program.index import Affine, Tile, describe
from iosim.core.program.ir import Param


class Declared:
    """Names with what they stand for; the builder asks it, and adds what a schedule declares.

    Every method raises ProgramError for a name that is unknown, or taken.

    Attributes:
        tensors, params, derived: by name, in order of declaration.
    """

    def __init__(self, form: Form) -> None:
        self.tensors = {t.name: t for t in (*form.inputs, *form.outputs)}
        self.params: dict[str, Param] = {}
        self.derived = {x.name: x for x in form.derived}
        self._kind, self._limits = form.kind, form.limits
        self._axes = {axis for t in self.tensors.values() for axis in t.axes}
        self._axes |= {axis for x in form.derived for axis in (x.of, x.step)}
        # What tiles are called: by axis, and by step where that has letters of its own.
        self._letters = {axis.name: axis.letters for axis in form.axes}
        self._letters |= {x.name: "" for x in form.derived}
        for tensor in self.tensors.values():
            for axis in tensor.axes:
                if axis not in self._letters:
                    raise ProgramError(
                        f"tensor {tensor.name} has an axis {axis!r} that problem {form.kind} "
                        f"doesn't have: {closest(axis, self._letters)}"
                    )

    def declare(self, param: Param) -> str:
        """Add a tile parameter; returns its name."""
        if named(param.name) in self.params or param.name in {*self._axes, *self._limits}:
            raise ProgramError(f"tile size {param.name!r} has the name of another size: choose one")
        if param.less and named(param.less) not in self._limits:
            raise ProgramError(f"{param.name} ends by {param.less}, which is not a limit: name one")
        self.params[param.name] = param
        return param.name

    def add(self, tensor: Tensor) -> None:
        """Add a tensor."""
        if named(tensor.name) in self.tensors:
            raise ProgramError(f"tensor {tensor.name!r} is declared twice: choose another name")
        self.tensors[tensor.name] = tensor

    def derive(self, axis: Derived, letters: str) -> str:
        """Add an axis that is made of tiles, which are called by these letters; its name."""
        if named(axis.name) in self._axes or axis.name in self.params:
            raise ProgramError(f"axis {axis.name!r} has the name of another size: choose one")
        self.check_step(axis.of, axis.step)
        self.derived[axis.name] = axis
        self._axes.add(axis.name)
        self._letters[axis.step] = letters
        return axis.name

    def axis(self, axis: str) -> str:
        """The axis, if there is one of that name."""
        if not isinstance(axis, str):
            raise ProgramError(
                f"{describe(axis)} is not an axis: give its name, like {min(self._axes)!r}"
            )
        if axis not in self._axes:
            raise ProgramError(f"unknown axis {axis!r}: {closest(axis, self._axes)}")
        return axis

    def check_axes(self, tensor: str, axes: tuple[str, ...]) -> None:
        """Refuse a tensor that does not have exactly these axes."""
        if not isinstance(tensor, str):
            raise ProgramError(f"{describe(tensor)} is not a tensor: give its name")
        if tensor not in self.tensors:
            there = ", ".join(f"{t.name}[{', '.join(t.axes)}]" for t in self.tensors.values())
            raise ProgramError(
                f"unknown tensor {tensor!r}: {self._kind} has {there}; b.scratch(name, *axes) "
                "declares an intermediate one"
            )
        if axes != self.tensors[tensor].axes:
            raise ProgramError(
                f"{tensor}[{', '.join(self.tensors[tensor].axes)}] is indexed by "
                f"[{', '.join(axes)}]: give an index for each axis, in this order"
            )

    def check_step(self, axis: str, step: str) -> None:
        """Refuse what no loop over the axis can advance by."""
        param = self.params.get(step) if isinstance(step, str) else None
        if param is None and step in self._axes - set(self.derived):
            return  # a size
        if param is None or param.axis != axis:
            raise ProgramError(
                f"{step!r} is not a tile size along {axis}: declare it with tile_sizes()"
            )
        if param.least == 0:
            raise ProgramError(
                f"{step} is a stationary part, which may be 0, and no loop advances by 0: declare "
                "its step with tile_sizes()"
            )

    def numbered(self, tile: Tile, step: str | None, axis: str | None) -> str:
        """The derived axis that is made of a tile's loop; `axis`, where there are several."""
        made = [x.name for x in self.derived.values() if (x.of, x.step) == (tile.axis, step)]
        if axis is None and len(made) == 1:
            return made[0]
        if axis is None or axis not in made:
            by = f"the tiles of {tile.axis} by {step or 'single positions'}"
            raise ProgramError(
                f"number of tile {tile}: {by} make the axes {', '.join(made)}: name one"
                if made
                else f"number of tile {tile}: no axis is made of {by}: declare it with split_axis()"
            )
        return axis

    def letters_of(self, axis: str, step: str | None, spare: int) -> Iterator[str]:
        """What a tile may be called, the best first; more than `spare` names of the axis's own."""
        yield from self._letters.get(step or "", "")
        yield from self._letters.get(axis, "")
        yield from (f"{axis}{k}" for k in range(spare + 1))

    def affine(self, what: str, bound: Bound) -> Affine:
        """A bound of `what`, as an affine expression of known sizes and of edges of tiles."""
        if isinstance(bound, bool) or not isinstance(bound, (str, int, Affine)):
            raise ProgramError(
                f"{describe(bound)} bounds {what}: give a size, a whole number, or an edge "
                "of an open tile (i.start, i.stop)"
            )
        value = unhandled(Affine.of(bound))
        known = self._axes | set(self.params) | set(self._limits)
        for name, _ in value.sizes:
            if name not in known:
                raise ProgramError(f"unknown size {name!r} in {what}: {closest(name, known)}")
        return value
