"""Sectors by TTIR against the counters of an H200, for the corpus and for large launches.

What was measured crosses SM↔L2.  Stores and atomic operations are sectors of tiles, to the byte,
but for those in `WRITES_DIFFER`.  Loads are at most sectors of tiles: L1 keeps some of them.
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
}


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
def test_products_and_attention_read_every_sector_of_their_tiles() -> None:
    large = {n: x for n, x in compare().items() if n.startswith(("product", "attention 1"))}
    assert len(large) == 8
    for name, x in large.items():
        assert x["read_bytes"] == x["load"], name
