"""Loads that nothing reads: found by a fold, and by spoiling each load and running the kernel."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import iosim
from iosim.core.algorithms._entry import Algorithm
from iosim.core.algorithms._shape import heads
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention
from iosim.core.program.walk import bind
from iosim.gpu.emitter import layout
from iosim.gpu.emitter.dead import live
from iosim.gpu.emitter.kernels import emit
from iosim.gpu.probes import PROBES, probe
from iosim.gpu.run.interpreter import interpret
from iosim.report.table import read_csv

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

ROOT = Path(__file__).resolve().parents[2]
PROBLEM = Attention(40, 16, heads=2)
TILES = {"B_r": 16, "B_c": 16}


def _overwritten(b):
    """O = Q, after a load of K into the block that is cleared, and one that feeds a dead sum."""
    (B,) = b.tile_sizes("N", "B")
    for h in heads(b):
        for i in b.grid("N", B):
            k, v, q = (b.load(x, *h.q, i, "d") for x in "KVQ")
            b.op("zero", k)
            s = b.zeros("s", i)
            b.op("row_dots", s, v, q)  # nothing reads s
            b.store(q, "O", *h.q, i, "d")
            b.free(k, v, q, s)


def _in_a_loop(b):
    """K is read in a loop of its own, V in none."""
    (B,) = b.tile_sizes("N", "B")
    for h in heads(b):
        for i in b.grid("N", B):
            k, v, o = b.load("K", *h.k, i, "d"), b.load("V", *h.k, i, "d"), b.zeros("o", i, "d")
            for j in b.tiles("N", B):
                q = b.load("Q", *h.q, j, "d")
                s = b.zeros("s", i, j)
                b.op("matmul_nt", s, k, q)
                b.op("matmul_nn", o, s, q)
                b.free(q, s)
            b.store(o, "O", *h.q, i, "d")
            b.free(k, v, o)


def _bound(name):
    """A program and the tensors whose loads it doesn't need, told by hand."""
    if name in ("keys_twice", "flash2"):
        return bind(probe(name).program_for(PROBLEM), PROBLEM.sizes, TILES)
    schedule = {"overwritten": _overwritten, "in_a_loop": _in_a_loop}[name]
    entry = Algorithm(name, name, Attention, schedule, "", "")
    return bind(entry.program_for(PROBLEM), PROBLEM.sizes, {"B": 16})


N_d = 2 * 40 * 16  # words of a tensor
DEAD = {
    "flash2": {},
    "keys_twice": {"K": 3 * N_d},  # once for each of three tiles of rows
    "overwritten": {"K": N_d, "V": N_d},
    "in_a_loop": {"V": N_d},
}


@pytest.mark.parametrize("name", DEAD)
def test_dead_words_and_sectors_are_those_told_by_hand(name):
    instance = _bound(name)
    alive = live(instance)
    words, less = count(instance).by_tensor("load"), count(alive).by_tensor("load")
    found = {x: n - less.get(x, 0) for x, n in words.items() if n != less.get(x, 0)}
    assert found == DEAD[name]
    assert count(instance).by_tensor("store") == count(alive).by_tensor("store")
    both = (layout.sector_bytes(x, "fp16") for x in (instance, alive))
    all_, some = (sum(n for (way, _), n in x.items() if way == "load") for x in both)
    assert all_ - some == 2 * sum(DEAD[name].values())  # rows of 16 words fill their sector


@pytest.mark.numbers
@pytest.mark.parametrize("name", DEAD)
def test_a_load_is_dead_where_spoiling_it_changes_nothing(name):
    """An experiment that shares no code with the fold: what is loaded is changed."""
    instance, inputs = _bound(name), PROBLEM.random(3)
    emitted = emit(instance)
    whole = interpret(emitted, inputs, "fp32").outputs["O"]
    assert np.isfinite(whole).all()
    loads = re.findall(r"^ +(\w+) = tl\.load\((\w)_ptr.*\n", emitted.source, re.M)
    spoilt = set()
    for block, tensor in loads:
        line = re.compile(rf"^( +){block} = tl\.load\({tensor}_ptr.*$", re.M)
        text, times = line.subn(rf"\g<0>\n\1{block} = {block} * 3 + 1", emitted.source)
        assert times >= 1
        out = interpret(replace(emitted, source=text), inputs, "fp32").outputs["O"]
        if np.array_equal(out, whole):
            spoilt.add((block, tensor))
    assert len(loads) >= 3
    assert {tensor for _, tensor in spoilt} == set(DEAD[name])
    assert len(spoilt) == len(DEAD[name])


def test_no_registered_schedule_has_a_dead_load():
    for entry in iosim.core.algorithms.all_algorithms():
        program = entry.program
        axes = {a for t in program.tensors for a in t.axes} | {p.axis for p in program.params}
        if program.derived or program.mask or entry.name == "block_sparse":
            continue
        tiles = {p.name: max(p.least, 4) for p in program.params}
        instance = bind(program, dict.fromkeys(axes, 8), tiles)
        assert live(instance) is instance, entry.name


def test_probes_are_apart_from_schedules():
    assert not set(PROBES) & set(iosim.core.algorithms.ALGORITHMS)
    with pytest.raises(iosim.InputError, match="did you mean 'keys_twice'"):
        probe("key_twice")


def test_an_h200_left_out_dead_loads_and_nothing_else():
    path = ROOT / "experiments" / "data" / "gpu" / "h200" / "validate-shapes" / "table.csv"
    rows = read_csv(path)
    twice = [r for r in rows if r["algorithm"] == "keys_twice"]
    assert len(twice) >= 12
    for r in rows:
        assert r["unexplained"] == 0
        assert (r["dead_load"] > 0) == (r["algorithm"] == "keys_twice")
    for r in twice:  # K is loaded as often as V, twice
        assert r["kernel_load"] == r["model_load"] > r["sram_load"]
        assert 0.3 <= r["dead_load"] / r["model_load"] < 0.34
