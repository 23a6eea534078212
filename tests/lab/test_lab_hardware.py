"""View 6 of the lab: what it carries is what the records say with today's model."""

from __future__ import annotations

import base64
import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from replays import replayed as replayed_once
from unpacked import recorded

from iosim.gpu import l2
from iosim.gpu.records.record import read_record
from iosim.lab.columns import by_column, pack, unpack
from iosim.lab.data import hardware

GPUS = Path(__file__).parents[2] / "experiments" / "data" / "gpu"
MOST_BYTES = 650_000


@pytest.fixture(scope="module")
def replayed(run_folder):
    """The view's data made again, and the replayed reports that it was made of."""
    saved = {}

    def watched(folder):
        found = replayed_once(folder.resolve(), run_folder)
        shown = [one for one in found if hardware.is_shown(one)]
        saved.update({(folder.name, one.folder.name): one for one in shown})
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hardware, "replay", watched)
        return hardware.build_data(GPUS), saved


@pytest.mark.numbers
def test_what_is_committed_is_what_the_records_give_today(replayed):
    made, _ = replayed
    assert hardware.data() == json.loads(json.dumps(made)), (
        "make it again: python -m iosim.lab.data.hardware"
    )
    assert hardware.MADE.stat().st_size < MOST_BYTES


@pytest.mark.numbers
def test_every_row_is_the_replays(replayed):
    _, saved = replayed
    data = hardware.data()
    assert {(r["machine"], r["name"]) for r in data["records"]} == set(saved)
    for at, record in enumerate(data["records"]):
        one = saved[record["machine"], record["name"]]
        want = [
            {k: None if isinstance(x, float) and math.isnan(x) else x for k, x in row.items()}
            for row in one.table.rows
        ]
        assert opened(data, at, "table") == want
        assert record["summary"] == one.table.summary
        where = GPUS / record["machine"] / record["name"] / "provenance.json"
        assert record["provenance"] == json.loads(where.read_text())
        assert {"device", "driver", "date", "commit", "command"} <= set(record["provenance"])


@pytest.mark.numbers
def test_tensors_are_the_kernels_counts_and_add_up_to_the_rows(replayed):
    data = hardware.data()
    seen = 0
    for at, record in enumerate(data["records"]):
        rows, moved = opened(data, at, "table"), opened(data, at, "tensors")
        skipped = hardware.settings()["shown"][record["report"]].get("skipped")
        if skipped is None:
            assert not moved
            continue
        folder = GPUS / record["machine"] / record["name"]
        counted = json.loads(recorded(folder / "measured.json"))["rows"]
        counted = counted[skipped:]
        for row, tensors, measured in zip(rows, moved, counted, strict=True):
            names = [f"{way} {tensor}" for way, tensor, _ in tensors["moves"]]
            assert dict(zip(names, tensors["kernel"], strict=True)) == measured["words"]
            for way, column in (("load", "model_load"), ("store", "model_store")):
                total = sum(
                    words * width
                    for (w, _, width), words in zip(tensors["moves"], tensors["model"], strict=True)
                    if w == way
                )
                assert total == row.get(column, row["sram_load"] if way == "load" else total)
            seen += 1
    assert seen > 1000


def opened(data, at, part):
    """Rows of a record, unpacked with the records that they refer to."""
    record = data["records"][at]
    count = record["rows"] if record[part] else 0
    return unpack(record[part], count, lambda k: by_column(opened(data, k, part)))


def test_columns_that_are_shown_are_known(replayed):
    data, columns = hardware.data(), hardware.settings()["columns"]
    for at, record in enumerate(data["records"]):
        names = set(opened(data, at, "table")[0])
        for points in record["points"]:
            for series in points["series"]:
                ends = {*(series["bars"] or []), series["plus"]} - {None}
                assert {series["x"], series["y"], *ends} <= names
        plain = {"N", "d", "heads", "B_r"}
        assert names - plain <= set(columns), record["name"]
    assert all(pair["load"] in columns for pair in hardware.settings()["pairs"])


def test_drift_shapes_runs_and_sweeps_are_the_records():
    data = hardware.data()
    drift = data["drift"]
    recorded = {
        machine: read_record(GPUS / machine / "dram", ("sram", "dram"))
        for machine in data["machines"]
    }
    for run in drift["runs"]:
        job = recorded[run["machine"]].jobs[1 + run["row"]]
        row = opened(data, run["record"], "table")[run["row"]]
        assert (row["N"], row["B_r"]) == (job.sizes["N"], job.tiles["B_r"])
        assert run["every"] == (job.every if job.programs else 0)
        (shape,) = [x for x in drift["shapes"] if (x["N"], x["d"]) == (row["N"], row["d"])]
        assert shape["swept"] == l2.swept_bytes(job)
        total = l2.footprint_bytes(job.instance, job.dtype)["load"]
        assert shape["swept"] + shape["own"] == total
        assert shape["blocks"] * shape["B_c"] == shape["N"]
        assert shape["blocks"] % drift["pieces"] == 0
        # The page's shares must be whole numbers of bytes, as Python's are.
        assert shape["swept"] % drift["recorded_pieces"] == 0
    assert {run["machine"] for run in drift["runs"]} == set(data["machines"])
    assert drift["share"] == l2.L2_SHARE
    for sweep in drift["sweeps"]:
        run = drift["runs"][sweep["run"]]
        record = recorded[run["machine"]]
        ticks, want = clock(sweep), record.ticks(1 + run["row"])
        assert (ticks * drift["tick_ns"] == want - want.min()).all()
        size = record.device("l2_bytes")
        job, rooms = record.jobs[1 + run["row"]], (size, size * l2.L2_SHARE)
        row = opened(data, run["record"], "table")[run["row"]]
        told = [row["drift_least"], row["drift_most"]]
        assert l2.drift_bytes(ticks, job, rooms, drift["recorded_pieces"]) == told


def clock(sweep):
    """Readings of `hardware.clock_text`, byte by byte."""
    numbers, at, shift = [], 0, 0
    for byte in zlib.decompress(base64.b64decode(sweep["clock"])):
        at |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(-(at + 1) // 2 if at % 2 else at // 2)
            at, shift = 0, 0
    halves = np.array(numbers).reshape(2, sweep["items"])
    return np.cumsum(halves, axis=1).T


def test_tables_are_packed_without_loss():
    rng = np.random.default_rng(11)
    values = [0, 1, 10**15, 0.1, math.nan, "", "naïve", True, None, ["a", 2]]
    for _ in range(200):
        count = int(rng.integers(1, 30))
        few = [values[k] for k in rng.integers(0, len(values), 3)]
        columns = {f"c{k}": [few[j] for j in rng.integers(0, 3, count)] for k in range(4)}
        columns["again"] = list(columns["c1"])
        columns["one"] = [few[0]] * count
        rows = [{name: column[k] for name, column in columns.items()} for k in range(count)]
        other = by_column([*rows[:-1], rows[0]]) if rng.integers(2) else by_column(rows)
        want = [dict(zip(row, plain(row.values()), strict=True)) for row in rows]
        for like in (None, other):
            packed = json.loads(json.dumps(pack(rows, like, 7), allow_nan=False))
            found = unpack(packed, count, {7: other}.__getitem__)
            # As text: 1 and True are equal in Python, and not in a page.
            assert json.dumps(found) == json.dumps(want)


def plain(values):
    return [None if isinstance(x, float) and math.isnan(x) else x for x in values]
