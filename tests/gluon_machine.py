"""A machine in NumPy that runs kernels for Hopper: warps are threads, and copies and products late.

It takes the place of Triton's modules.  A bulk copy lands some time after it was asked for, a
product reads its tiles when it is waited for, and barriers count arrivals and bytes as the
hardware's do: a tile that is used before it came, or given back too early, shows in the output.
Layouts are not looked at; that is what compiling is for.
"""

from __future__ import annotations

import random
import sys
import threading
import types
from collections import Counter
from typing import Any
from unittest import mock

import numpy as np

import iosim
from iosim.gpu import emit

WORD = 2
_own = threading.local()


class Block(np.ndarray):
    """A value in registers."""

    type = types.SimpleNamespace(layout=None)

    def to(self, dtype: Any) -> Any:
        return self.astype(dtype).astype(np.float32 if dtype == np.float16 else dtype)


def block(x: Any) -> Block:
    return np.asarray(x).view(Block)


class Shared:
    """Shared memory, or a part of it."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def index(self, k: int) -> Any:
        return Shared(self.array[k]) if isinstance(self.array, np.ndarray) else self.array[k]

    def reshape(self, shape: list[int]) -> Shared:
        return Shared(self.array.reshape(shape))

    def permute(self, order: tuple[int, ...]) -> Shared:
        return Shared(self.array.transpose(order))

    def store(self, value: Any) -> None:
        self.array[...] = value


class Barrier:
    """Completes a phase when all arrivals and all bytes of it are in."""

    def __init__(self) -> None:
        self.count = self.left = self.bytes = self.phase = 0

    def arrive(self, bytes: int = 0) -> None:
        self.left -= 1
        self.bytes += bytes
        assert self.left >= 0, "one arrival too many"
        self.check()

    def check(self) -> None:
        if self.left == 0 and self.bytes == 0:
            self.phase += 1
            self.left = self.count
            _machine().wake()


class Box:
    """A descriptor of boxes in a tensor."""

    dtype, layout = np.float16, None

    def __init__(self, tensor: np.ndarray, sides: tuple[int, ...], name: str) -> None:
        self.tensor, self.sides, self.name = tensor, sides, name
        self.block_type = types.SimpleNamespace(nbytes=int(np.prod(sides)) * WORD)

    def parts(self, at: list[int]) -> tuple[Any, Any]:
        ends = [min(a + n, e) for a, n, e in zip(at, self.sides, self.tensor.shape, strict=True)]
        here = tuple(slice(a, max(a, e)) for a, e in zip(at, ends, strict=True))
        inner = tuple(slice(0, max(0, e - a)) for a, e in zip(at, ends, strict=True))
        return here, inner


class Words:
    """A pointer to the kernel's counts."""

    def __init__(self, words: Any, at: int = 0) -> None:
        self.words, self.at = words, at

    def __add__(self, n: int) -> Words:
        return Words(self.words, self.at + n)


class Machine:
    """One run: copies on their way, and bytes that were copied by tensor."""

    def __init__(self, seed: int) -> None:
        self.changed = threading.Condition()
        self.random, self.copies = random.Random(seed), list[Any]()
        self.moved: Counter[tuple[str, str]] = Counter()
        self.masks = 0  # applied to blocks of scores
        self.failed: list[BaseException] = []
        self.alive = self.waiting = 0  # warps, and those of them that found nothing to do

    def wake(self) -> None:
        """Everybody looks again whether to go on."""
        self.waiting = 0
        self.changed.notify_all()

    def land(self) -> None:
        """One copy that is on its way arrives."""
        box, at, barrier, to = self.copies.pop(self.random.randrange(len(self.copies)))
        here, inner = box.parts(at)
        to.array[...] = 0
        to.array[inner] = box.tensor[here]
        barrier.bytes -= box.block_type.nbytes
        barrier.check()

    def wait(self, ready: Any) -> None:
        """Until something holds; copies land meanwhile, now and then."""
        while not ready():
            assert not self.failed, "another warp failed"
            if self.copies:
                self.land()
                continue
            self.waiting += 1
            assert self.waiting < self.alive, "the warps wait for each other"
            self.changed.wait()


def _machine() -> Machine:
    return _own.machine


def _load(box: Box, at: list[int], barrier: Any, to: Shared) -> None:
    m = _machine()
    m.moved["load", box.name] += box.block_type.nbytes
    m.copies.append((box, at, _one(barrier), to))
    m.wake()
    if m.random.random() < 0.3:
        m.land()


def _store(box: Box, at: list[int], source: Shared) -> None:
    here, inner = box.parts(at)
    box.tensor[here] = source.array[inner]
    _machine().moved["store", box.name] += box.tensor[here].size * WORD


def _one(barrier: Any) -> Barrier:
    return barrier.array[0] if isinstance(barrier, Shared) else barrier[0]


def _mma(left: Any, right: Shared, goal: Any, use_acc: bool = True, is_async: bool = False) -> Any:
    a = left if isinstance(left, Shared) else left.copy()
    job = {"left": a, "right": right, "goal": goal if use_acc else 0.0, "done": None}
    _own.running.append(job)
    return job


def _finish(job: dict[str, Any]) -> None:
    left = job["left"].array if isinstance(job["left"], Shared) else job["left"]
    goal = job["goal"]["done"] if isinstance(job["goal"], dict) else job["goal"]
    job["done"] = block(goal + np.asarray(left, np.float32) @ job["right"].array)


def _mma_wait(running: int, jobs: list[Any]) -> Any:
    while len(_own.running) > running:
        _finish(_own.running.pop(0))
    assert jobs[0]["done"] is not None, "used before it is there"
    return jobs[0]["done"]


def _specialize(parts: list[Any], warps: list[int], registers: list[int]) -> None:
    machine, item, programs = _own.machine, _own.item, _own.programs
    assert len(warps) == len(registers) == len(parts) - 1

    def go(function: Any, args: Any) -> None:
        _own.machine, _own.item, _own.programs, _own.running = machine, item, programs, []
        with machine.changed:
            try:
                function(*args)
                assert not _own.running, "a product was not waited for"
            except BaseException as error:
                machine.failed.append(error)
            machine.alive -= 1
            machine.wake()

    threads = [threading.Thread(target=go, args=part) for part in parts]
    machine.alive = len(parts)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if machine.failed:
        raise machine.failed[0]
    assert not machine.copies, "a copy was asked for that nobody waits for"


def _shared(dtype: Any, shape: list[int], layout: Any) -> Shared:
    if dtype is np.int64:
        return Shared([[Barrier()] for _ in range(shape[0])] if len(shape) > 1 else [Barrier()])
    return Shared(np.full(shape, np.nan, np.float32))


def _init(barrier: Any, count: int) -> None:
    one = _one(barrier)
    one.count = one.left = count


def _wait(barrier: Any, phase: int) -> None:
    one = _one(barrier)
    _machine().wait(lambda: one.phase % 2 != phase)


def _arrive(barrier: Any) -> None:
    """Arrive; the others may go on first."""
    _one(barrier).arrive()
    m = _machine()
    m.wake()
    if m.random.random() < 0.5:
        m.changed.wait(timeout=0.002)


def _add(at: Words, n: Any) -> None:
    at.words[at.at] += int(n)


def _where(chosen: Any, a: Any, b: Any) -> Block:
    if np.ndim(chosen) > 1:
        _machine().masks += 1
    return block(np.where(chosen, a, b).astype(np.float32))


def _modules() -> dict[str, Any]:
    gl: Any = types.SimpleNamespace(
        constexpr=lambda x: x,
        float32=np.float32,
        int64=np.int64,
        NVMMADistributedLayout=lambda *x: types.SimpleNamespace(value=None),
        SliceLayout=lambda *x: None,
        DotOperandLayout=lambda *x: None,
        zeros=lambda shape, dtype, layout: block(np.zeros(shape, dtype)),
        full=lambda shape, x, dtype, layout: block(np.full(shape, x, dtype)),
        maximum=np.maximum,
        exp2=np.exp2,
        where=_where,
        max=lambda x, axis: x.max(axis),
        sum=lambda x, axis: x.sum(axis),
        expand_dims=np.expand_dims,
        convert_layout=lambda x, layout: x,
        arange=lambda a, b, layout: block(np.arange(a, b)),
        to_tensor=block,
        static_range=range,
        program_id=lambda axis: _own.item,
        num_programs=lambda axis: _own.programs,
        atomic_add=_add,
        allocate_shared_memory=_shared,
        warp_specialize=_specialize,
    )
    tma = types.SimpleNamespace(async_load=_load, async_store=_store, store_wait=lambda n: None)
    barriers = types.SimpleNamespace(
        MBarrierLayout=lambda: None,
        init=_init,
        wait=_wait,
        arrive=_arrive,
        expect=lambda b, n: _one(b).arrive(n),
    )
    hopper = types.SimpleNamespace(
        fence_async_shared=lambda: None,
        mbarrier=barriers,
        tma=tma,
        warpgroup_mma=_mma,
        warpgroup_mma_wait=_mma_wait,
    )
    gluon = types.SimpleNamespace(jit=lambda f: f, language=gl)
    base = "triton.experimental.gluon"
    found = {x: types.ModuleType(x) for x in ("triton", "triton.experimental")}
    found["triton.experimental"].gluon = gluon  # type: ignore[attr-defined]
    return {
        **found,
        base: gluon,
        f"{base}.language": gl,
        f"{base}.language.nvidia": gl,
        f"{base}.language.nvidia.hopper": hopper,
    }


def run(
    emitted: Any, tensors: dict[str, np.ndarray], seed: int = 0, masks: list[int] | None = None
) -> tuple[Any, Any]:
    """Run emitted kernels; returns words by key, and bytes that boxes moved by key.

    Args:
        tensors: by name; outputs are written.
        masks: gets, of each program in order, how many masks it applied to blocks of scores.
    """
    space: dict[str, Any] = {}
    with mock.patch.dict(sys.modules, _modules()):
        exec(compile(emitted.source, "<hopper>", "exec"), space)
    words: Counter[Any] = Counter()
    moved: Counter[Any] = Counter()
    for kernel in emitted.kernels:
        boxes = [Box(tensors[b.tensor], b.sides, b.tensor) for b in kernel.boxes]
        table = np.zeros(kernel.grid * len(kernel.keys), np.int64)
        for item in range(kernel.grid):
            _own.machine, _own.item, _own.programs = Machine(seed + item), item, kernel.grid
            space[kernel.name](*boxes, Words(table), True)
            moved.update(_own.machine.moved)
            if masks is not None:
                masks.append(_own.machine.masks)
        for key, n in zip(kernel.keys, table.reshape(kernel.grid, -1).sum(axis=0), strict=True):
            words[key] += int(n)
    return words, moved


def bound(problem: Any, tiles: dict[str, int], name: str = "flash2") -> Any:
    """An instance of a schedule that the package has."""
    return iosim.bind(iosim.algorithm(name).program_for(problem), problem.sizes, tiles)


def relative_error(got: Any, want: Any) -> Any:
    """The largest difference, of the largest value or 1."""
    return np.abs(got - want).max() / max(1, np.abs(want).max())


def ran(
    problem: Any,
    tiles: dict[str, int],
    name: str = "flash2",
    masks: list[int] | None = None,
    **options: Any,
) -> tuple[Any, Any, Any]:
    """The instance, words by key, and bytes by key; outputs are held against the reference."""
    return run_instance(bound(problem, tiles, name), problem, masks, **options)


def run_instance(
    instance: Any, problem: Any, masks: list[int] | None = None, **options: Any
) -> tuple[Any, Any, Any]:
    """As `ran`, for an instance."""
    hbm = problem.random()
    tensors = {x: v.astype(np.float16).astype(np.float32) for x, v in hbm.items()}
    exact = {x: v.astype(np.float64) for x, v in tensors.items()}
    for tensor in problem.form.outputs:
        shape = tuple(instance.env[axis] for axis in tensor.axes)
        tensors[tensor.name] = np.full(shape, np.nan, np.float32)
    words, moved = run(emit(instance, target="hopper", **options), tensors, 0, masks)
    want = problem.reference(exact)
    for tensor in problem.form.outputs:
        assert relative_error(tensors[tensor.name], want[tensor.name]) < 2e-3
    return instance, words, moved
