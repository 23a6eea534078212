"""Sectors by TTIR against the counters of an H200, for the corpus and for large launches.

What was measured crosses SM↔L2.  Stores and atomic operations are sectors of tiles, to the byte,
but for those in `WRITES_DIFFER`.  Loads are sectors of tiles without what L1 has: warps ask L1 for
sectors of tiles, some of them several times, and what it hasn't crosses, to the byte.
`python -m experiments.record_kernels` made the record.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from iosim.kernel import trace
from iosim.kernel.reuse import SECTOR

pytest.importorskip("triton")

from experiments.record_kernels import list_cases

RECORD = Path("experiments/data/gpu/h200/kernels/measured.json")
SPLIT = "a sector is written by several instructions of one tile"
MERGED = "L1 merges what two tiles write into a sector"
COLLIDE = "several lanes of an atomic operation have one word, and each is sent"
# Launches whose written bytes are not those of the sectors of tiles, and why.
WRITES_DIFFER = {
    "softmax 333 x 777": SPLIT,
    "norms layer_norm 1": SPLIT,
    "norms rms_norm 0": SPLIT,
    "steering scatter_rows 1": SPLIT,
    "elementwise interleave 0": MERGED,
    "steering cross_entropy 0": MERGED,
    "steering cross_entropy 1": MERGED,
    "steering rope 0": MERGED,
    "elementwise by_exponent 0": COLLIDE,
    "elementwise by_exponent 1": COLLIDE,
    "steering add_rows 0": COLLIDE,
    "steering add_rows 1": COLLIDE,
    "steering histogram 0": COLLIDE,
    "steering histogram 1": COLLIDE,
    "steering largest_magnitude 1": COLLIDE,
    "steering shuffles 0": COLLIDE,
    "steering shuffles 1": COLLIDE,
    "steering swap_words 0": COLLIDE,
    "steering swap_words 1": COLLIDE,
}
# The profiler runs a launch twice for these counters; what L1 has depends on the time of programs.
TWO_RUNS = {"softmax 4096 x 1024", "softmax 1000 x 1000"}


@functools.cache
def compare() -> dict[str, dict[str, Any]]:
    """Launch → bytes that were measured, and bytes of sectors by kind of reference."""
    measured = json.loads(RECORD.read_text())["launches"]
    out = {}
    for name, kernel, grid, arguments in list_cases():
        if name.startswith("block_pointers") or name not in measured:
            continue  # newer versions of Triton have none; or it came after the record
        found = trace(kernel)[grid](**arguments).to_dict()["sector_bytes"]
        sectors = {kind: sum(found[kind].values()) for kind in ("load", "store", "atomic")}
        out[name] = measured[name] | sectors
    missing = {n for n in measured if not n.startswith("block_pointers")} - set(out)
    assert not missing, "record the corpus again: python -m experiments.record_kernels"
    return out


@pytest.mark.numbers
def test_written_bytes_are_sectors_of_tiles() -> None:
    rows = compare()
    differ = {n for n, x in rows.items() if x["write_bytes"] != x["store"] + x["atomic"]}
    assert differ == set(WRITES_DIFFER)
    assert all(x["write_bytes"] % SECTOR == 0 for x in rows.values())


@pytest.mark.numbers
def test_read_bytes_are_at_most_sectors_of_tiles() -> None:
    for name, x in compare().items():
        if WRITES_DIFFER.get(name) != COLLIDE:
            assert x["read_bytes"] <= x["load"] + x["atomic"], name


@pytest.mark.numbers
def test_what_l1_is_asked_for_and_has_not_is_what_is_read() -> None:
    differ = set()
    for name, x in compare().items():
        missed = SECTOR * (x["asked_sectors"] - x["hit_sectors"])
        # An atomic operation gets back as many sectors as it sends.
        sent = x["write_bytes"] - x["store"] if x["atomic"] else 0
        if x["read_bytes"] != missed + sent:
            differ.add(name)
    assert differ == TWO_RUNS


@pytest.mark.numbers
def test_tiles_of_which_less_is_read_are_in_l1() -> None:
    rows = compare()
    without_atomics = {n: x for n, x in rows.items() if not x["atomic"]}
    less = {n for n, x in without_atomics.items() if x["read_bytes"] < x["load"]}
    assert len(less) > 30
    for name, x in without_atomics.items():
        assert x["load"] <= SECTOR * x["asked_sectors"], name
        assert x["load"] - x["read_bytes"] <= SECTOR * x["hit_sectors"], name
        if not x["hit_sectors"]:
            assert x["read_bytes"] == x["load"], name


@pytest.mark.numbers
def test_products_and_attention_read_every_sector_of_their_tiles() -> None:
    large = {n: x for n, x in compare().items() if n.startswith(("product", "attention 1"))}
    assert len(large) == 8
    for name, x in large.items():
        assert x["read_bytes"] == x["load"], name
