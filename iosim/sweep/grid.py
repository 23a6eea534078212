"""The declaration of a sweep: axes as people type them, and points by number.

A grid is never written out.  Each algorithm spans a block of points over its own axes (sizes, then
M, then tiles given as ranges; the last varies fastest), and blocks are cut into shards: a point or
a shard is a number, and memory does not grow with the grid.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.algorithms import algorithm
from iosim.engines import engine as find_engine
from iosim.errors import InputError, closest
from iosim.problem import every_axis, size_names
from iosim.revision import REVISION
from iosim.sweep.engines import rows_per_shard
from iosim.sweep.task import Task, program_hash
from iosim.tiling.rules import rule_of
from iosim.units import LONGEST_AXIS, parse_range

Ints = NDArray[np.int64]

OPTIONS = ("algo", "M", "dtype", "tiles", "engine", "feasible", "shard_rows")
EXPLICIT = "explicit"


@dataclass(frozen=True)
class Block:
    """The points of one algorithm.

    Attributes:
        name: the algorithm.
        sizes: names of the problem's sizes.
        axes: ``(name, values)``: sizes, M, and the tiles that are given.
        first: the number of the block's first shard.
    """

    name: str
    sizes: tuple[str, ...]
    axes: tuple[tuple[str, tuple[int, ...]], ...]
    first: int

    @property
    def points(self) -> int:
        """How many."""
        return math.prod(len(values) for _, values in self.axes)

    def columns(self, start: int, stop: int) -> dict[str, Ints]:
        """Axis → its values at the points ``start … stop − 1``."""
        rest = np.arange(start, stop)
        found: dict[str, Ints] = {}
        for name, values in reversed(self.axes):
            rest, at = np.divmod(rest, len(values))
            found[name] = np.asarray(values, np.int64)[at]
        return {name: found[name] for name, _ in self.axes}


@dataclass(frozen=True)
class Shard:
    """A run of points of one block: what is computed, written and lost as a whole."""

    number: int
    block: Block
    start: int
    stop: int

    @property
    def points(self) -> int:
        """How many."""
        return self.stop - self.start


@dataclass(frozen=True)
class Sweep:
    """A grid, as typed.  Build one with `of` or `from_toml`, which check it.

    Attributes:
        algorithms: registered names.
        sizes: ``((axis, range), …)``, ranges as `iosim.units.parse_range` takes them.
        M: a range of words (or bytes, with `dtype`).
        tiles: ``auto``, a published rule, or ``B_r=16:256:x2,B_c=64``; tiles that are left out
            are chosen optimally.
        engine: a name of `iosim.engines.ENGINES`.
        feasible: leave out points where the tiles don't fit into M, or none would.
        shard_rows: points in a shard; 0 for as many as suit the engine.
        dtype: in which M is bytes, or None where it is words.
        version: of iosim.
        revision: of what counts, searches and bounds (`iosim.revision`).
    """

    algorithms: tuple[str, ...]
    sizes: tuple[tuple[str, str], ...]
    M: str
    tiles: str
    engine: str
    feasible: bool
    shard_rows: int
    dtype: str | None
    version: str
    revision: int

    @classmethod
    def of(cls, /, **options: Any) -> Sweep:
        """A sweep from the options of the command line, as text, numbers or lists.

        Raises InputError for anything that cannot be swept: unknown names, malformed or empty
        ranges, sizes that are missing or that no algorithm has.
        """
        import iosim

        text = {
            k: _text(k, v) for k, v in options.items()
            if v is not None and k not in ("feasible", "shard_rows")
        }  # fmt: skip
        names = tuple(dict.fromkeys(x.strip() for x in text.get("algo", "").split(",")))
        # Axes of registered problems, and of those that these algorithms bring.
        axes = [x for name in names if name for x in size_names(algorithm(name).problem)]
        known = list(dict.fromkeys([*every_axis(), *axes]))
        for name in options:
            if name not in (*OPTIONS, *known):
                every = closest(name, (*OPTIONS, *known))
                raise InputError(f"a sweep has no option {name!r}: {every}")
        if not any(names):
            raise InputError("the grid is empty: name an algorithm, like --algo flash2")
        if "M" not in text:
            raise InputError("M is missing: give --M, like 256:1Mi:x2")
        sweep = cls(
            algorithms=names,
            sizes=tuple((k, text[k]) for k in known if k in text),
            M=text["M"],
            tiles=text.get("tiles", "auto"),
            engine=text.get("engine", "formula"),
            feasible=_bool(options.get("feasible")),
            shard_rows=_rows(options.get("shard_rows")),
            dtype=text.get("dtype"),
            version=iosim.__version__,
            revision=REVISION,
        )
        find_engine(sweep.engine)
        _check_sizes(sweep)
        sweep.blocks()
        return sweep

    @classmethod
    def from_toml(cls, path: str | Path, **options: Any) -> Sweep:
        """A sweep from a file of options; `options` that are given win over the file's.

        Raises InputError where the file cannot be read, and as `of` does.
        """
        try:
            if not Path(path).is_file():
                what = "it is no file" if Path(path).exists() else "there is no such file"
                raise InputError(f"cannot read {str(path)!r} as TOML: {what}")
            found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise InputError(f"cannot read {str(path)!r} as TOML: {why}") from error
        given = {k: v for k, v in options.items() if v is not None and v is not False}
        return cls.of(**(found | given))

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Sweep:
        """The inverse of `as_dict`."""
        sizes = tuple((str(k), str(v)) for k, v in told["sizes"])
        return cls(**{**told, "algorithms": tuple(told["algorithms"]), "sizes": sizes})

    def as_dict(self) -> dict[str, Any]:
        """For the manifest."""
        return asdict(self)

    def blocks(self) -> tuple[Block, ...]:
        """One for each algorithm."""
        return _blocks(self)

    @property
    def points(self) -> int:
        """Points of the whole grid."""
        return sum(b.points for b in self.blocks())

    @property
    def shards(self) -> int:
        """Shards of the whole grid."""
        last = self.blocks()[-1]
        return last.first + -(-last.points // self.rows)

    @property
    def rows(self) -> int:
        """Points in a shard; the last one of a block has fewer."""
        return self.shard_rows or min(rows_per_shard(self.engine, b.name, self.tiles)
                                      for b in _named(self))  # fmt: skip

    def shard(self, number: int) -> Shard:
        """A shard by its number."""
        block = next(b for b in reversed(self.blocks()) if b.first <= number)
        start = (number - block.first) * self.rows
        return Shard(number, block, start, min(start + self.rows, block.points))

    def task(self, point: int) -> Task:
        """A point by its number, counted over the whole grid."""
        for block in self.blocks():
            if point < block.points:
                columns = {k: int(v[0]) for k, v in block.columns(point, point + 1).items()}
                return Task(
                    algorithm=block.name, program=program_hash(block.name),
                    sizes=tuple((x, columns[x]) for x in block.sizes), M=columns["M"],
                    tiles=next(asked(self, block, {k: [v] for k, v in columns.items()}, 1)),
                    engine=self.engine, policy=EXPLICIT, version=self.version,
                    revision=self.revision,
                )  # fmt: skip
            point -= block.points
        raise InputError(f"point {point} is beyond the grid: it has {self.points}")

    @property
    def id(self) -> str:
        """A hash of all tasks and how they are cut: equal ids fill one directory."""
        told = {
            "programs": [program_hash(name) for name in self.algorithms], "rows": self.rows,
            "axes": [b.axes for b in self.blocks()], "tiles": self.tiles, "engine": self.engine,
            "feasible": self.feasible, "version": self.version, "revision": self.revision,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def asked(sweep: Sweep, block: Block, columns: Mapping[str, Any], rows: int) -> Iterator[str]:
    """The tiles of each point as its task names them."""
    names = [name for name, _ in block.axes if name not in block.sizes and name != "M"]
    if not names:
        yield from (sweep.tiles for _ in range(rows))
        return
    text = ",".join(f"{name}=%d" for name in names)
    yield from (text % row for row in zip(*(columns[n] for n in names), strict=True))


def _text(name: str, value: Any) -> str:
    """An option as typed: text, a number, or a list of these."""
    if isinstance(value, (list, tuple)) and value:
        return ",".join(_text(name, x) for x in value)
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
        raise InputError(f"{name} = {value!r} is no value: give text, whole numbers, or a list")
    return value if isinstance(value, str) else _shown(int(value))


def _shown(value: object) -> str:
    """A value as text; Python writes no integer of thousands of digits."""
    huge = isinstance(value, int) and value.bit_length() > 128
    return "an integer of more than 128 bits" if huge else repr(value)


def _bool(value: Any) -> bool:
    if not (value is None or isinstance(value, bool)):
        raise InputError(f"feasible = {_shown(value)} is neither true nor false: write one of them")
    return bool(value)


def _rows(value: Any) -> int:
    """Points in a shard as given; 0 where they are not."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LONGEST_AXIS:
        raise InputError(
            f"shard_rows = {_shown(value)} is no number of points: give a whole number from 1 to "
            f"{LONGEST_AXIS}"
        )
    return value


@functools.lru_cache(maxsize=8)
def _named(sweep: Sweep) -> tuple[Block, ...]:
    """Blocks without their first shards, on which the size of a shard must not depend."""
    found = []
    for name in sweep.algorithms:
        entry = algorithm(name)
        names = size_names(entry.problem)
        given = dict(sweep.sizes)
        axes = [(x.name, _axis(x.name, given.get(x.name, str(x.default))))
                for x in entry.problem.axes()]  # fmt: skip
        axes.append(("M", _axis("M", sweep.M, sweep.dtype)))
        least = {p.name: p.least for p in entry.program.params}
        axes += [(x, _tile_axis(x, t, least[x])) for x, t in tile_ranges(name, sweep.tiles)]
        found.append(Block(name, names, tuple(axes), 0))
    return tuple(found)


@functools.lru_cache(maxsize=8)
def _blocks(sweep: Sweep) -> tuple[Block, ...]:
    found: list[Block] = []
    first = 0
    for b in _named(sweep):
        found.append(Block(b.name, b.sizes, b.axes, first))
        first += -(-b.points // sweep.rows)
    return tuple(found)


def _axis(name: str, text: str, dtype: str | None = None) -> tuple[int, ...]:
    values = parse_range(name, text, dtype)
    if len(values) > LONGEST_AXIS:
        raise InputError(f"{name} = {text!r} has {len(values)} values: at most {LONGEST_AXIS}")
    return tuple(values)


def _tile_axis(name: str, text: str, least: int) -> tuple[int, ...]:
    """A hold may be 0, which no size is."""
    parts = [x for x in text.split(",") if least or x.strip() != "0"]
    zero = (0,) if len(parts) < len(text.split(",")) else ()
    return zero + (_axis(name, ",".join(parts)) if parts else ())


def tile_ranges(name: str, tiles: str) -> tuple[tuple[str, str], ...]:
    """``B_r=16:256:x2,B_c=32,64`` → ``(("B_r", "16:256:x2"), ("B_c", "32,64"))``.

    Empty for rules.  Raises InputError for other
    names, and for tiles that the algorithm hasn't.
    """
    entry = algorithm(name)
    if "=" not in tiles:
        rule_of(entry, tiles)
        return ()
    found: dict[str, str] = {}
    last = ""
    for part in tiles.split(","):
        key, equals, value = (x.strip() for x in part.partition("="))
        if not equals and not last:
            raise InputError(f"tiles {tiles!r} are not like B_r=64,B_c=16:256:x2: write them so")
        if equals and key in found:
            raise InputError(f"tiles {tiles!r} gives {key} twice: give it once")
        last = key if equals else last
        found[last] = value if equals else f"{found[last]},{part.strip()}"
    known = [p.name for p in entry.program.params]
    for key in found:
        if key not in known:
            raise InputError(f"{name} has no tile size {key!r}: {closest(key, known)}")
    return tuple((x, found[x]) for x in known if x in found)


def _check_sizes(sweep: Sweep) -> None:
    problems = {name: algorithm(name).problem for name in sweep.algorithms}
    given = {name for name, _ in sweep.sizes}
    for name, problem in problems.items():
        missing = [x.name for x in problem.axes() if x.name not in given and x.default is None]
        if missing:
            raise InputError(f"{name} needs {', '.join('--' + x for x in missing)}: give it")
    used = {x for problem in problems.values() for x in size_names(problem)}
    for name in given - used:
        raise InputError(f"no algorithm of the sweep has a size {name}: leave --{name} out")
