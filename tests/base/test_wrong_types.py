"""The Python interface: NumPy's integers count as integers, and wrong types are one clear line."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import iosim
from iosim import pebbling
from iosim.base.errors import InputError
from iosim.bounds import best_lower_bound, bound
from iosim.cache import Cache, of_arrays, sampled
from iosim.cache.shared import drifting, interleaved, lockstep, round_robin
from iosim.devices import count_links, on_devices
from iosim.gpu.dram_prediction import reads
from iosim.gpu.run.job import Job
from iosim.gpu.sweeps import Sweeps
from iosim.models.fusion import fused
from iosim.models.hardware import machine
from iosim.models.layers.architectures import layer
from iosim.models.layers.models import Config
from iosim.models.layers.workload import workload
from iosim.models.operators import operand
from iosim.models.roofline.roof import Roof
from iosim.models.roofline.single import single
from iosim.pebbling.bounds import root_bounds
from iosim.sweep import Sweep

FLASH2 = iosim.algorithm("flash2").program
PROBLEM = iosim.Attention(N=64, d=8)
INSTANCE = iosim.bind(FLASH2, PROBLEM.sizes, {"B_r": 8, "B_c": 4})
JOB = Job("flash2", {"N": 4096, "d": 64, "heads": 1}, {"B_r": 64, "B_c": 64})
H200 = machine("h200")
TWO = (of_arrays([0, 0, 0]), of_arrays([1, 1, 1]))
GRAPH = layer("gpt2", "prefill", batch=1, N=8)


def order(found: Any) -> list[list[int]]:
    return [chunk.address.tolist() for chunk in interleaved(TWO, found).stream.chunks()]


def config(size: Any) -> Config:
    return Config(
        name="x",
        family="llama",
        layers=size,
        hidden=64,
        heads=4,
        feed_forward=size,
        vocabulary=size,
        positions=64,
        source="",
    )


# What takes a whole number, and gives the same for NumPy's as for Python's.
WHOLE: dict[str, Callable[[Any], Any]] = {
    "a tensor's sizes": lambda n: operand("X", "i j k", {"i": n, "j": n, "k": n}).words,
    "an operator's sizes": lambda n: single("matmul", {"m": n, "n": n, "k": n}).flop,
    "a model's batch and tokens": lambda n: (
        workload("gpt2", "training", batch=n, N=64, devices=n).flop
    ),
    "a layer's tokens": lambda n: layer("gpt2", "decode", batch=2, N=n, tokens=n).flop,
    "a model of one's own": lambda n: repr(workload(config(n), "prefill", batch=1, N=64).flop),
    "M": lambda n: (
        repr(iosim.Machine(n)),
        repr(iosim.optimal_tiles(FLASH2, PROBLEM, n)),
        best_lower_bound(PROBLEM, n),
        bound("parts").words(PROBLEM, n),
    ),
    "M of kernels": lambda n: repr(fused(GRAPH, "none", n)),
    "a cache": lambda n: repr(Cache(capacity=n, ways=n, seed=n, line_words=1)),
    "programs": lambda n: repr(reads(JOB, H200, programs=n, drift=n, seed=n)),
    "residents": lambda n: [
        order(lockstep(n)),
        order(round_robin(n, n)),
        order(drifting(n, n, n, n)),
    ],
    "sweeps of blocks": lambda n: Sweeps(n, n, n, n, n, n).when(pieces=2).tolist(),
    "a sampled curve": lambda n: sampled(
        of_arrays(range(2048)), [n], rate=1.0, seed=n, line_words=2
    ).loads.tolist(),
    "devices": lambda n: count_links(on_devices("ring-attention", PROBLEM, P=n)).total,
    "graphs of the game": lambda n: [
        g.vertices
        for g in (
            pebbling.chain(n),
            pebbling.grid(n, 2),
            pebbling.tree(1, n),
            pebbling.matmul(n, 1, 1),
        )
    ],
    "the game": lambda n: pebbling.optimum(pebbling.pyramid(2), n, seconds=5).cost,
    "bounds of the game": lambda n: [b.value for b in root_bounds(pebbling.pyramid(2), n)],
    "parts": lambda n: pebbling.fewest_parts(pebbling.pyramid(2), n),
    "a sweep": lambda n: Sweep.of(schedule="flash2", N=n, d=8, M=999, shard_rows=n),
}


@pytest.mark.parametrize("what", WHOLE)
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_integers_of_numpy_are_integers(what: str, kind: Any) -> None:
    """Also where a product of such numbers would overflow: 200³ is beyond eight bits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert WHOLE[what](kind(200)) == WHOLE[what](200), what


def test_sizes_of_narrow_integers_do_not_overflow() -> None:
    n = 60_000
    for kind in (np.int32, np.uint16):
        some = {"m": kind(n), "n": kind(n), "k": kind(n)}
        assert single("matmul", some).flop == 2 * n**3
        assert operand("X", "m n", some).words == n**2


def wrong() -> Iterator[Any]:
    for what, call in WHOLE.items():
        for value in (True, 7.5, "7", None, math.nan):
            if not (what in ("a sweep", "programs") and value in ("7", None)):
                yield pytest.param(call, value, id=f"{what}, {value!r}")
    others: dict[str, Callable[[Any], Any]] = {
        "a tensor's sizes, float": lambda v: operand("X", "i", {"i": v}),
        "transfers": iosim.transfers,
        "count": iosim.count,
        "peak": iosim.peak,
        "show": iosim.show,
        "watch": iosim.watch,
        "simulate": lambda v: iosim.simulate(v, iosim.Machine(9), {}),
        "max_error": lambda v: iosim.max_error(v, {}),
        "of": lambda v: iosim.max_error({}, v),
        "machine": machine,
        "model": lambda v: layer(v, "prefill", batch=1, N=8),
        "schedule": lambda v: on_devices("ring-attention", v, P=2),
        "game": lambda v: pebbling.optimum(v, M=4),
        "parts": lambda v: pebbling.fewest_parts(v, 4),
        "root bounds": lambda v: root_bounds(v, M=4),
        "fusion": lambda v: fused(GRAPH, v, 1000),
        "algorithm": iosim.algorithm,
        "bound": bound,
    }
    for what, call in others.items():
        for value in (True, 7.5, 7, None, np.int64(7)):
            if (what, value) != ("a tensor's sizes, float", 7):
                yield pytest.param(call, value, id=f"{what}, {value!r}")
    for value in (True, -1.0, math.nan, math.inf, "7"):
        yield pytest.param(lambda v: Roof.of(H200, v), value, id=f"launch_s, {value!r}")
        yield pytest.param(lambda v: sampled(TWO[0], [2], rate=v), value, id=f"rate, {value!r}")


@pytest.mark.parametrize(("call", "value"), list(wrong()))
def test_wrong_types_are_one_line(call: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(InputError) as error:
        call(value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1500


def test_an_output_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="no output O"):
        iosim.max_error({}, {"O": np.ones(2)})


@pytest.mark.parametrize(
    "made",
    [
        lambda: pebbling.chain(2**40),
        lambda: pebbling.tree(2**40),
        lambda: pebbling.tree(1, 2**40),
        lambda: pebbling.tree(2**40, 1),
        lambda: pebbling.grid(2**20, 2**20),
        lambda: pebbling.pyramid(2**20),
        lambda: pebbling.butterfly(40),
        lambda: pebbling.matmul(2**13, 2**13, 2**13),
    ],
)
def test_graphs_far_beyond_reach_are_refused_at_once(made: Callable[[], Any]) -> None:
    with pytest.raises(InputError, match="far beyond reach"):
        made()
