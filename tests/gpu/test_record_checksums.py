"""Records whose files were changed after the run: found by their checksums, and said in a line."""

from __future__ import annotations

import csv
import gzip
import hashlib
from pathlib import Path

import pytest
from test_cli import iosim_
from unpacked import copy_record, recorded

from iosim.gpu.errors import GpuError
from iosim.gpu.profiling.reading import read
from iosim.gpu.profiling.saving import save
from iosim.gpu.records.checksums import CHECKSUMS, check_checksums, write_checksums
from iosim.gpu.reports import REPORTS, replay

GPUS = Path(__file__).parents[2] / "experiments" / "data" / "gpu"
RECORDS = [
    path
    for path in (*sorted(GPUS.glob("h*/*")), GPUS / "profile" / "h200")
    if path.is_dir() and (path.name.split("-")[0] in REPORTS or path.parent.name == "profile")
]


@pytest.mark.parametrize("folder", RECORDS, ids=lambda x: f"{x.parent.name}-{x.name}")
def test_every_record_has_the_checksums_of_what_was_measured(folder):
    lines = (folder / CHECKSUMS).read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert {"provenance.json"} <= sums.keys()
    assert sums.keys() <= {path.name.removesuffix(".gz") for path in folder.iterdir()}
    assert not {"table.csv", "moved.csv", "classes.csv"} & sums.keys()
    for name, digest in sums.items():
        assert hashlib.sha256(recorded(folder / name)).hexdigest() == digest, name
    check_checksums(folder)


@pytest.fixture
def records(tmp_path):
    """A folder with one record, which replays in little time."""
    copy_record(GPUS / "h200" / "validate-paged", tmp_path / "validate-paged")
    return tmp_path


def test_a_changed_dram_number_is_not_called_good(records):
    assert "all good" in replay(records)[0].table.summary
    report = records / "validate-paged" / "report.csv"
    header, *rows = csv.reader(report.read_text().splitlines())
    column = header.index("dram__bytes_read.sum")
    rows[-1][column] = str(2 * int(rows[-1][column].replace(",", "")))
    with report.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    with pytest.raises(GpuError, match=r"report.csv was changed after it was measured"):
        replay(records)
    done = iosim_("gpu", "replay", str(records))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "report.csv was changed after it was measured" in done.stderr


@pytest.mark.parametrize("name", ["provenance.json", "spec.json", "measured.json", "report.csv"])
def test_any_byte_that_is_added_is_found(records, name):
    path = records / "validate-paged" / name
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(GpuError, match=rf"{name} was changed after it was measured"):
        check_checksums(path.parent)
    path.unlink()
    with pytest.raises(GpuError, match=rf"{name} is missing"):
        check_checksums(path.parent)


def test_a_packed_file_has_the_checksum_of_what_was_packed(records):
    """gzip may pack another file in the same time; damage to the packed one is found as well."""
    folder = records / "validate-paged"
    said = replay(records)[0].table.summary
    path, packed = folder / "measured.json", folder / "measured.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    path.unlink()
    assert replay(records)[0].table.summary == said
    before = (folder / CHECKSUMS).read_text()
    assert write_checksums(folder).read_text() == before
    packed.write_bytes(packed.read_bytes()[:-1])
    with pytest.raises(GpuError, match=r"measured\.json \(gzip can't unpack it: it is cut off"):
        check_checksums(folder)
    packed.unlink()
    with pytest.raises(GpuError, match=r"measured\.json is missing"):
        check_checksums(folder)


def test_checksums_that_are_damaged_or_of_another_run(records):
    folder = records / "validate-paged"
    sums = folder / CHECKSUMS
    kept = sums.read_text()
    sums.write_text(kept.replace("  ", " "))
    with pytest.raises(GpuError, match=r"SHA256SUMS, line 1: no line of sha256sum"):
        check_checksums(folder)
    sums.write_text("".join(kept.splitlines(keepends=True)[1:]))
    with pytest.raises(GpuError, match="has no line in SHA256SUMS: it is of another run"):
        check_checksums(folder)
    sums.write_text(kept)
    (folder / "table.csv").unlink()  # computed, so not what was measured
    check_checksums(folder)


def test_a_record_without_checksums_is_read_and_that_is_said(records):
    (records / "validate-paged" / CHECKSUMS).unlink()
    done = iosim_("gpu", "replay", str(records))
    assert (done.returncode, done.stdout.count("all good")) == (0, 1)
    assert "without checksums, so that changes after the run can't be found" in done.stderr
    write_checksums(records / "validate-paged")
    assert "without checksums" not in iosim_("gpu", "replay", str(records)).stderr


def test_a_record_of_a_profile_has_checksums_too(tmp_path):
    launches = read(GPUS / "profile" / "h200")[:2]
    folder = save(launches, tmp_path / "mine", {"ncu": "2025.3"})
    assert len(read(folder)) == 2
    report = folder / "report.csv"
    report.write_text(report.read_text().replace("12648448", "12648449", 1))
    with pytest.raises(GpuError, match=r"report.csv was changed after it was measured"):
        read(folder)
