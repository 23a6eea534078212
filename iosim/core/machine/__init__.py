"""The strict two-level machine: runs a schedule on numbers, and counts what it moves.

`iosim.simulate` runs it; `iosim.core.engines` has it as an engine, and ``iosim verify`` compares
its counts and outputs with everything else.  Each operand must be in fast memory, scratch memory
starts as NaN, and more than M words in fast memory is an error (`interpreter`).

Iterations of a grid loop are independent, so many of them run at once, each with a fast memory of
its own: a buffer is an array whose leading *lane* dimensions number the iterations.  Iterations
that differ in a shape run in groups (`ragged`).  Iterations of other loops run as one longer
iteration if the result is the same; `iosim.core.program.iterations` proves both.  `lanes=1` runs
all iterations one by one, without lane dimensions.

Changing files here: a faster run must equal the run with ``lanes=1``, bit for bit in its counts.
Never make the machine more lenient: ``tests/core/test_machine.py`` lists what it refuses.  Use no
closed form here, since counts are compared with them.  NumPy is the only library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from iosim.base.display import Tabled
from iosim.base.errors import InputError
from iosim.base.validate import check_size
from iosim.core.counts import Counts
from iosim.core.machine.interpreter import run_body
from iosim.core.machine.places import Array, State
from iosim.core.problem import check_positions, in_shape, joined_shape
from iosim.core.problem.form import Hbm
from iosim.core.program import space
from iosim.core.program.block_masks import numbered_tiles
from iosim.core.program.check import check
from iosim.core.program.ir import Load, Program, Store, nodes
from iosim.core.program.walk import Instance, check_instance

# How many words of one buffer are processed at once.
LANES = 2**18


@dataclass(frozen=True, slots=True)
class Machine:
    """A fast memory of M words next to a slow memory without limit; only transfers cost anything.

    >>> Machine(24_576).M
    24576
    """

    M: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "M", check_size("M", self.M))


@dataclass(frozen=True, kw_only=True)
class Run(Tabled):
    """The result of a simulation.

    Attributes:
        counts: words moved, by direction and tensor.
        peak_words: the largest number of words resident at once.
        outputs: every tensor that is not an input, float64, as it is in slow memory at the end.

    >>> import iosim
    >>> problem = iosim.Copy(n=6)
    >>> instance = iosim.bind(iosim.algorithm("copy").program, problem.sizes, {"B": 4})
    >>> run = simulate(instance, Machine(4), problem.random())
    >>> run.counts.total_words, run.peak_words, run.outputs["Y"].shape
    (12, 4, (6,))
    """

    counts: Counts
    peak_words: int
    outputs: dict[str, Array]
    html_by = "iosim.report.views:run"
    table_by = "iosim.report.views:run_table"

    def __repr__(self) -> str:
        made = ", ".join(f"{name} {array.shape}" for name, array in self.outputs.items())
        moved = self.counts.total_words
        return f"<Run: {moved:,} words moved, peak {self.peak_words:,} words, outputs {made}>"


def simulate(
    instance: Instance,
    machine: Machine,
    hbm: Hbm,
    *,
    lanes: int = LANES,
    tick: Callable[[int], object] | None = None,
) -> Run:
    """Run a bound program on real numbers.

    Args:
        instance: the program with its sizes and tiles.
        machine: the fast memory.
        hbm: the inputs by name, float64, of the shapes that the program's tensors have.  Those of
            four axes or more may be given with the first two as one, which outputs then have, too:
            Q as (heads, N, d) where the program's is (kv_heads, group, N, d).
        lanes: how many words of one buffer may be processed at once (1: strictly in order).
        tick: called now and then with the words moved so far.

    Raises:
        InputError: an input is missing, has the wrong shape, or holds no positions where it should.
        CapacityError: a buffer does not fit next to what is resident.
        ResidencyError: a buffer is used that was freed, or never loaded.
        LeakError: a buffer is still resident where its scope ends.
        ProgramError: a grid loop's iterations are not independent.

    >>> import iosim
    >>> problem = iosim.Attention(N=16, d=4)
    >>> flash2 = iosim.algorithm("flash2").program
    >>> instance = iosim.bind(flash2, problem.sizes, {"B_r": 4, "B_c": 4})
    >>> hbm = problem.random()
    >>> run = simulate(instance, Machine(100), hbm)
    >>> run.counts.total_words, run.peak_words
    (640, 72)
    >>> iosim.max_error(run.outputs, problem.reference(hbm)) < 1e-12
    True
    """
    check_instance("simulate", instance)
    if not isinstance(machine, Machine):
        raise InputError(f"simulate takes a machine, got {machine!r}: give Machine(M)")
    program = instance.program
    check(program)
    if check_size("lanes", lanes, least=0) == 0:
        raise InputError(f"lanes = {lanes} runs nothing: use 1 or more")
    stored = {n.tensor for n in nodes(program.body) if isinstance(n, Store)}
    loaded = {n.tensor for n in nodes(program.body) if isinstance(n, Load)}
    if missing := sorted(loaded - stored - set(hbm)):
        raise InputError(f"{program.name} needs {', '.join(missing)} in HBM: give the arrays")
    memory, joined = _fill_memory(program, instance.env, hbm)
    words = dict.fromkeys(program.keys(), 0)
    state = State(
        instance,
        machine.M,
        lanes,
        memory,
        instance.env,
        words,
        stored,
        named=space.ragged_tiles(program),
        masks=dict(instance.masks),
        numbered=numbered_tiles(program),
        tick=tick,
    )
    run_body(state, program.body, "program")
    outputs = {
        x: a.reshape(joined_shape(a.shape)) if joined and program.tensor(x).joins else a
        for x, a in memory.items()
        if x in stored or x not in hbm
    }
    return Run(counts=Counts.of(state.words), peak_words=state.peak, outputs=outputs)


def _fill_memory(
    program: Program, env: Mapping[str, int], hbm: Hbm
) -> tuple[dict[str, Array], bool]:
    """Slow memory: inputs as given, all else undefined; and whether heads came as one axis."""
    memory: dict[str, Array] = {}
    joined = False
    for tensor in program.tensors:
        shape = tuple(env[axis] for axis in tensor.axes)
        if tensor.name not in hbm:
            memory[tensor.name] = np.full(shape, np.nan)
            continue
        memory[tensor.name] = in_shape(tensor, hbm[tensor.name], shape)
        joined = joined or np.ndim(hbm[tensor.name]) < len(shape)
    for tensor in program.tensors:
        if tensor.positions:
            check_positions(tensor, memory[tensor.name], env[tensor.positions])
    return memory, joined
