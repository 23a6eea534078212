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
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from iosim.base.arrays import Ints
from iosim.base.errors import InputError, closest
from iosim.base.reading import read_toml
from iosim.base.renamed import renamed
from iosim.base.revision import REVISION, __version__
from iosim.base.rows import Row, Values
from iosim.core.algorithms import algorithm, named
from iosim.core.engines import engine as find_engine
from iosim.core.problem import LIMITS, PROBLEMS, Family, Option, size_names
from iosim.core.program.ir import Program
from iosim.core.units import parse_option
from iosim.sweep.caches import EXPLICIT, REPLAY, check_grid, policies
from iosim.sweep.engines import ROWS_ONE, rows_per_shard
from iosim.sweep.task import Task, program_hash
from iosim.sweep.typed import (
    as_bool,
    as_rows,
    as_text,
    axis_values,
    check_lists,
    fixed_option,
    sides,
    tile_ranges,
)

OPTIONS = ("schedule", "M", "dtype", "tiles", "engine", "policy", "feasible", "shard_rows")


@dataclass(frozen=True)
class Block:
    """The points of one algorithm.

    Attributes:
        name: the algorithm.
        family: the problems, and what the schedule is traced for.
        axes: ``(name, values)``: sizes, M, and the tiles that are given.
        first: the number of the block's first shard.
        engine: what counts.
        policy: who decides what stays in fast memory.
    """

    name: str
    family: Family
    axes: tuple[tuple[str, tuple[int, ...]], ...]
    first: int
    engine: str = "formula"
    policy: str = EXPLICIT

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes."""
        return self.family.names

    @property
    def program(self) -> Program:
        """The schedule."""
        return algorithm(self.name).program_for(self.family.form)

    @property
    def hash(self) -> str:
        """Of the schedule's canonical form."""
        return program_hash(self.name, self.family.form)

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
        sizes: ``((name, range), …)``, ranges as `iosim.core.units.parse_range` takes them; options
            that are sizes, and the ``left`` and ``right`` of a window, are among them.
        M: a range of words (or bytes, with `dtype`).
        tiles: ``auto``, a published rule, or ``B_r=16:256:x2,B_c=64``; tiles that are left out
            are chosen optimally.
        engine: a name of `iosim.core.engines.ENGINES`.
        feasible: leave out points where the tiles don't fit into M, or none would.
        shard_rows: points in a shard; 0 for as many as suit the engine.
        dtype: in which M is bytes, or None where it is words.
        version: of iosim.
        revision: of what counts, searches and bounds (`iosim.base.revision`).
        options: ``((name, value), …)``, as typed: options of the problem that all points share.
        policy: who decides what stays in fast memory, one or more, as typed: ``explicit`` is the
            schedule itself; the keys of `iosim.cache.POLICIES` are fully associative caches of M
            words, through which its references go.

    >>> sweep = Sweep.of(schedule="flash2,naive", N="1Ki:4Ki:x2", d=64, M="4Ki:16Ki:x2")
    >>> sweep.points, sweep.task(0).algorithm
    (18, 'flash2')
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
    options: tuple[tuple[str, str], ...] = ()
    policy: str = EXPLICIT

    @classmethod
    def of(cls, /, **options: Any) -> Sweep:
        """A sweep from the options of the command line, as text, numbers or lists.

        Raises InputError for anything that cannot be swept: unknown names, malformed or empty
        ranges, sizes that are missing or that no algorithm has.
        """
        if "algo" in options:
            renamed("algo of a sweep", "schedule")
            if options.get("schedule"):
                raise InputError(
                    "algo of a sweep is now called schedule, and both are there: give one"
                )
            options["schedule"] = options.pop("algo")
        typed = as_text("schedule", options.get("schedule") or "")
        names = tuple(dict.fromkeys(named(x.strip()) for x in typed.split(",")))
        # Those of registered problems, and of those that these algorithms bring.
        own = [algorithm(name).problem for name in names if name]
        axes = {x: None for p in (*PROBLEMS.values(), *own) for x in size_names(p)}
        may = {one.name: one for p in (*PROBLEMS.values(), *own) for one in p.options()}
        known = (*OPTIONS, *axes, *may)
        for name in options:
            if name not in known:
                raise InputError(f"a sweep has no option {name!r}: {closest(name, known)}")
        if not any(names):
            raise InputError("the grid is empty: name a schedule, like --schedule flash2")
        text: dict[str, str] = {}
        shared: dict[str, str] = {}
        for name, value in options.items():
            one = None if name in axes else may.get(name)
            if value is None or name in ("feasible", "shard_rows"):
                continue
            if one is None or one.sizes == (name,):
                text[name] = as_text(name, value)
            elif one.sizes:
                text |= sides(one, value)
            elif (fixed := fixed_option(one, value)) is not None:
                shared[name] = fixed
        if "M" not in text:
            raise InputError("M is missing: give --M, like 256:1Mi:x2")
        sizes = dict.fromkeys([*axes, *(x for one in may.values() for x in one.sizes)])
        check_lists(text, sizes)
        sweep = cls(
            algorithms=names,
            sizes=tuple((k, text[k]) for k in sizes if k in text),
            M=text["M"],
            tiles=text.get("tiles", "auto"),
            engine=text.get("engine", "formula"),
            feasible=as_bool(options.get("feasible")),
            shard_rows=as_rows(options.get("shard_rows")),
            dtype=text.get("dtype"),
            version=__version__,
            revision=REVISION,
            options=tuple((k, shared[k]) for k in may if k in shared),
            policy=text.get("policy", EXPLICIT),
        )
        policies(sweep.policy)
        find_engine(sweep.engine)
        _check_sizes(sweep)
        for block in sweep.blocks():
            if block.policy != EXPLICIT:
                check_grid(block.name, block.family, block.axes, block.policy, sweep.tiles)
        return sweep

    @classmethod
    def from_toml(cls, path: str | Path, **options: Any) -> Sweep:
        """A sweep from a file of options; explicit `options` take precedence over the file's.

        Raises InputError where the file cannot be read, and as `of` does.
        """
        found = read_toml(path)
        given = {k: v for k, v in options.items() if v is not None and v is not False}
        if "schedule" in given:
            found.pop("algo", None)  # its old name
        return cls.of(**(found | given))

    @classmethod
    def from_dict(cls, told: Values) -> Sweep:
        """The inverse of `as_dict`."""
        pairs = {
            x: tuple((str(k), str(v)) for k, v in told.get(x, ())) for x in ("sizes", "options")
        }
        return cls(**{**told, "algorithms": tuple(told["algorithms"]), **pairs})

    def as_dict(self) -> Row:
        """For the manifest; options are in it where there are any, policies where one caches."""
        told = asdict(self)
        return {
            k: v
            for k, v in told.items()
            if (k != "options" or v) and (k != "policy" or v != EXPLICIT)
        }

    @property
    def typed(self) -> str:
        """Sizes and options as the command line takes them."""
        told = dict(self.sizes)
        words = [f"--{k.replace('_', '-')} {v}" for k, v in told.items() if k not in LIMITS]
        limits = {x for x in LIMITS if x in told}
        for one in _options(self):
            if one.kind == "limits" and limits:
                words.append(f"--{one.name} {','.join(told.get(x, '') for x in LIMITS)}")
        words += [f"--{k.replace('_', '-')}" + f" {v}" * (v != "true") for k, v in self.options]
        return " ".join(words)

    def blocks(self) -> tuple[Block, ...]:
        """One for each algorithm and policy."""
        return _blocks(self)

    @property
    def idle(self) -> tuple[str, ...]:
        """Of options that change nothing at any point, what people should know."""
        found = []
        for block in self.blocks():
            most = {x: values[-1] for x, values in block.axes}
            found += block.family.at(most).idle
        return tuple(dict.fromkeys(found))

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
        return self.shard_rows or min(
            rows_per_shard(self.engine, b.name, b.program, self.tiles)
            if b.policy == EXPLICIT
            else ROWS_ONE
            for b in _named(self)
        )

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
                    algorithm=block.name,
                    program=block.hash,
                    sizes=tuple((x, columns[x]) for x in block.sizes),
                    M=columns["M"],
                    tiles=next(point_tiles(self, block, {k: [v] for k, v in columns.items()}, 1)),
                    engine=block.engine,
                    policy=block.policy,
                    version=self.version,
                    revision=self.revision,
                )
            point -= block.points
        raise InputError(f"point {point} is beyond the grid: it has {self.points}")

    @property
    def id(self) -> str:
        """A hash of all tasks and how they are cut: equal ids fill one directory."""
        told = {
            "programs": [b.hash for b in self.blocks()],
            "rows": self.rows,
            "axes": [b.axes for b in self.blocks()],
            "tiles": self.tiles,
            "engine": self.engine,
            "feasible": self.feasible,
            "version": self.version,
            "revision": self.revision,
        }
        if self.options:
            told["options"] = self.options
        if self.policy != EXPLICIT:
            told["policies"] = [b.policy for b in self.blocks()]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def point_tiles(sweep: Sweep, block: Block, columns: Values, rows: int) -> Iterator[str]:
    """The tiles of each point as its task names them."""
    names = [name for name, _ in block.axes if name not in block.sizes and name != "M"]
    if not names:
        yield from (sweep.tiles for _ in range(rows))
        return
    text = ",".join(f"{name}=%d" for name in names)
    yield from (text % row for row in zip(*(columns[n] for n in names), strict=True))


def _options(sweep: Sweep) -> dict[Option, None]:
    """All options of the problems of a sweep."""
    problems = (algorithm(name).problem for name in sweep.algorithms)
    return {one: None for problem in problems for one in problem.options()}


@functools.lru_cache(maxsize=8)
def _named(sweep: Sweep) -> tuple[Block, ...]:
    """Blocks without their first shards, on which the size of a shard must not depend."""
    found = []
    given = dict(sweep.sizes)
    for name in sweep.algorithms:
        entry = algorithm(name)
        sizes = {
            x.name: axis_values(x.name, given.get(x.name, str(x.default)))
            for x in entry.problem.axes()
        }
        fixed: Row = {}
        for one in entry.problem.options():
            sizes |= {x: axis_values(x, given[x], least=one.least) for x in one.sizes if x in given}
            _check_divides(one, sizes)
            fixed |= {k: parse_option(one, text) for k, text in sweep.options if k == one.name}
        family = Family.of(entry.problem, {x: values[-1] for x, values in sizes.items()}, fixed)
        least = {p.name: p.least for p in entry.program_for(family.form).params}
        axes = [*sizes.items(), ("M", axis_values("M", sweep.M, sweep.dtype))]
        for x, text in tile_ranges(name, sweep.tiles, tuple(least)):
            axes.append((x, axis_values(x, text, least=least[x])))
        for policy in policies(sweep.policy):
            engine = sweep.engine if policy == EXPLICIT else REPLAY
            found.append(Block(name, family, tuple(axes), 0, engine, policy))
    return tuple(found)


def _check_divides(one: Option, sizes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError for the first point at which an option doesn't divide what it should."""
    if not one.divides or one.name not in sizes:
        return
    every = math.lcm(*sizes[one.name])
    for whole in sizes[one.divides]:
        if whole % every:
            bad = next(x for x in sizes[one.name] if whole % x)
            raise InputError(
                f"{one.name} = {bad} does not divide {one.divides} = {whole}, the first such point "
                "of the grid: give divisors only"
            )


@functools.lru_cache(maxsize=8)
def _blocks(sweep: Sweep) -> tuple[Block, ...]:
    found: list[Block] = []
    first = 0
    for b in _named(sweep):
        found.append(replace(b, first=first))
        first += -(-b.points // sweep.rows)
    return tuple(found)


def _check_sizes(sweep: Sweep) -> None:
    problems = {name: algorithm(name).problem for name in sweep.algorithms}
    given = dict(sweep.sizes)
    for name, problem in problems.items():
        missing = [x.name for x in problem.axes() if x.name not in given and x.default is None]
        if missing:
            raise InputError(f"{name} needs {', '.join('--' + x for x in missing)}: give it")
    used = {x for problem in problems.values() for x in size_names(problem)}
    used |= {x for one in _options(sweep) for x in (one.name, *one.sizes)}
    for name in (*given, *dict(sweep.options)):
        if name not in used:
            raise InputError(f"no algorithm of the sweep has --{name}: leave it out")
