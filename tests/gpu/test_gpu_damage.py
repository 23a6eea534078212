"""Damaged records: every file missing, cut, of wrong types or of another run is one line.

A small record is cut out of the saved ones, one thing in it is changed, and it is read again.  The
answer may be a table, since some changes leave a record that makes sense, or a GpuError that names
a file of the record; never anything else.
"""

from __future__ import annotations

import csv
import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from layers_record import write_record
from unpacked import copy_record

from iosim.gpu.errors import GpuError
from iosim.gpu.layers.cases import QUICK
from iosim.gpu.reports import REPORTS, gpu_report

RECORDED = Path(__file__).parents[2] / "experiments" / "data" / "gpu" / "h200"
GONE = object()  # the key or item is left out
JUNK = [GONE, None, True, -1, 0, 10**9, 10**25, 1.5, float("nan"), "x", "", [], {}, [[1]], {"a": 1}]


def _cut_out(report: str, folder: Path, jobs: list[int]) -> Path:
    """A record of a few jobs of a saved one."""
    copy_record(
        RECORDED / report,
        folder,
        ignore=shutil.ignore_patterns("*.npz", "table.csv", "moved.csv", "SHA256SUMS"),
    )
    for name, key in (
        ("spec", "jobs"),
        ("spec", "cases"),
        ("spec", "runs"),
        ("measured", "rows"),
        ("profiled", "rows"),
    ):
        path = folder / f"{name}.json"
        if not path.exists() or key not in (found := json.loads(path.read_text())):
            continue
        kept = [found[key][k] for k in jobs if k < len(found[key])]
        for at, row in enumerate(kept):
            if name == "profiled":
                if "job" in row:
                    row["job"] = at
                if clock := row.get("clock"):
                    shutil.copy(RECORDED / report / clock, folder / clock)
        path.write_text(json.dumps(found | {key: kept}))
    report_csv = folder / "report.csv"
    if report_csv.exists():
        header, units, *rows = csv.reader(report_csv.read_text().splitlines())
        starts = [k for k, row in enumerate(rows) if "spin_kernel" in row[0]]
        ends = [*starts[1:], len(rows)]
        kept = [row for k in jobs for row in rows[starts[k] : ends[k]]]
        _write(report_csv, [header, units, *kept])
    return folder


TIMED = ("bench", "decode")  # no counters: only times
UNASKED = (*TIMED, "backward")  # what was asked and where it ran is not read
WITHOUT = (("validate", "report.csv"), ("layers", "report.csv"), ("backward", "report.csv"))


def _write(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Report → a small record of it: the gate, a job of several kernels, and clocks for dram."""
    top = tmp_path_factory.mktemp("records")
    jobs = {"validate": [0, 1, 2], "dram": [0, 1], "bench": [0, 1, 2, 3], "paper": [0, 1, 2]}
    jobs |= {
        "l2size": [0, 1, 18],
        "decode": [0, 1],
        "backward": list(range(7)),
        "devices": [0, 20, 40],
    }
    found = {name: _cut_out(name, top / name, jobs[name]) for name in REPORTS if name in jobs}
    # No GPU has run this one: a test makes it up.
    return found | {"layers": write_record(top / "layers", QUICK[1:2], variants=("compiled",))}


def _says(report: str, folder: Path) -> str:
    """What reading the record says: nothing, or one line that names a file of it."""
    try:
        table = gpu_report(report).table(folder)
    except GpuError as error:
        said = str(error)
        assert "\n" not in said
        assert len(said) < 1000
        assert str(folder) in said
        return said
    assert isinstance(table.good, bool)
    return ""


def _places(value, path=()):
    """Every key and item of JSON data; of lists the first two and the last items."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key)
            yield from _places(inner, (*path, key))
    if isinstance(value, list):
        for at in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            yield (*path, at)
            yield from _places(value[at], (*path, at))


def _changed(data, path, junk):
    """A copy of JSON data with one place changed."""
    found = json.loads(json.dumps(data))
    inner = found
    for step in path[:-1]:
        inner = inner[step]
    if junk is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = junk
    return found


@pytest.mark.parametrize("report", REPORTS)
def test_whole_records_are_good(records, report):
    assert _says(report, records[report]) == ""


@pytest.mark.numbers
@pytest.mark.parametrize("every", [29, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("report", REPORTS)
def test_json_of_wrong_types(records, tmp_path, report, every):
    """Each key and item of each file in turn gets each kind of wrong value, or is left out."""
    folder, said = Path(shutil.copytree(records[report], tmp_path / report)), set()
    for path in sorted(folder.glob("*.json")):
        text = path.read_text()
        data = json.loads(text)
        cases = list(itertools.product(_places(data), JUNK))
        cases += [((), junk) for junk in JUNK[1:]] + [((), {**data, "more": 1})]
        # A short run takes some, which meet each kind of wrong value in other places.
        for place, junk in cases[::every]:
            path.write_text(json.dumps(_changed(data, place, junk) if place else junk))
            try:
                said.add(_says(report, folder))
            except Exception as error:
                raise AssertionError(f"{path.name} {place} = {junk}") from error
        path.write_text(text)
    assert len(said) > 10


@pytest.mark.numbers
@pytest.mark.parametrize("report", REPORTS)
def test_files_that_are_missing_or_cut_or_garbage(records, report, tmp_path):
    for path in sorted(records[report].iterdir()):
        whole = path.read_bytes()
        for junk in (
            None,
            b"",
            b"\x00\xff\xfe" * 99,
            b"[" * 10**5,
            b"{}",
            b"9" * 5000,
            whole[: len(whole) // 2],
            whole[:-3],
            b"\x00" + whole,
        ):
            folder = Path(shutil.copytree(records[report], tmp_path / "record"))
            where = folder / path.name
            where.unlink()
            if junk is not None:
                where.write_bytes(junk)
            said = _says(report, folder)
            # Without the counters' file, these are records of runs without counters.
            without = junk is None and (report, path.name) in WITHOUT
            unread = path.name in ("spec.json", "provenance.json") and report in UNASKED
            assert without or unread or path.name in said, (path.name, junk and junk[:9], said)
            shutil.rmtree(folder)


@pytest.mark.numbers
@pytest.mark.parametrize("most", [40, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("report", [name for name in REPORTS if name not in TIMED])
def test_reports_with_cells_rows_and_columns_out_of_place(records, tmp_path, report, most):
    folder = Path(shutil.copytree(records[report], tmp_path / report))
    for path in sorted(folder.glob("*.csv")):
        text = path.read_text()
        rows = list(csv.reader(text.splitlines()))
        tried = []
        for line, column in itertools.product(range(len(rows)), range(len(rows[0]))):
            for junk in ("", "x", "-1", "nan", "1e400", "9" * 400, "spin_kernel", "Mbyte"):
                tried.append([[*row] for row in rows])
                tried[-1][line][column] = junk
        tried += [[row[:k] + row[k + 1 :] for row in rows] for k in range(len(rows[0]))]
        tried += [rows[:k] + rows[k + 1 :] for k in range(len(rows))]
        tried += [[*rows[:k], rows[k][:2], *rows[k + 1 :]] for k in range(len(rows))]
        tried += [[*rows[:k], [*rows[k], "1"], *rows[k + 1 :]] for k in range(len(rows))]
        for case in tried[:: max(1, len(tried) // most)]:
            _write(path, case)
            _says(report, folder)
        path.write_text(text)


def test_clock_readings_that_are_not(records, tmp_path):
    folder = Path(shutil.copytree(records["dram"], tmp_path / "dram"))
    (clock, *_) = sorted(folder.glob("*.npz"))
    ns = np.load(clock)["ns"]
    for junk in (
        {"other": ns},
        {"ns": ns[:-1]},
        {"ns": ns.astype(float)},
        {"ns": ns.ravel()},
        {"ns": np.array([{}], object)},
        {"ns": np.zeros((10**4, 10**3))},
    ):
        np.savez_compressed(clock, **junk)
        assert clock.name in _says("dram", folder)
    np.savez_compressed(clock, ns=ns)
    assert _says("dram", folder) == ""
    profiled = json.loads((folder / "profiled.json").read_text())
    profiled["rows"][1]["clock"] = "../elsewhere.npz"
    (folder / "profiled.json").write_text(json.dumps(profiled))
    assert "is not a file next to it" in _says("dram", folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"algorithm": "flash9"}, "unknown algorithm 'flash9'"),
        ({"dtype": "fp8"}, "dtype 'fp8' has no GPU form"),
        ({"speed": 3}, "unknown keys ['speed']"),
        ({"sizes": {"N": 10**9, "d": 64, "heads": 2}}, "the device has"),
        ({"sizes": {"N": 1024, "d": 64}}, "is over the sizes"),
        ({"tiles": {}}, "needs the tile sizes"),
        ({"programs": -3}, "programs = -3 is outside"),
        ({"algorithm": "flash2", "tiles": {"B_r": 64, "B_c": 64}}, "flash2 moves no 'load P'"),
    ],
)
def test_jobs_that_no_run_can_have_had(records, tmp_path, change, said):
    folder = Path(shutil.copytree(records["validate"], tmp_path / "validate"))
    spec = json.loads((folder / "spec.json").read_text())
    spec["jobs"][1] |= change
    (folder / "spec.json").write_text(json.dumps(spec))
    assert said in _says("validate", folder)
