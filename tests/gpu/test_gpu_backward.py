"""PyTorch's backward passes beside the model, from the record of a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import iosim_
from test_gpu_records import RECORDED
from unpacked import copy_record

from iosim.gpu.dram_prediction import reads
from iosim.gpu.errors import GpuError
from iosim.gpu.layers.launch_counters import STREAM_WORDS
from iosim.gpu.records.counters import BOUNDARIES
from iosim.gpu.records.record import COUNTERS, PROFILED, read_record
from iosim.gpu.reports import _moved, backward, gpu_report, runner
from iosim.gpu.reports._moved import BACKENDS, WATCHED, modeled, moved_rows
from iosim.gpu.reports.validate import validate_rows
from iosim.models.hardware import machine

RECORD = RECORDED / "backward"
BLOCK = 128  # columns of PyTorch's kernels


@pytest.mark.parametrize(("N", "d", "heads"), [*WATCHED, (1000, 64, 3)])
def test_the_model_by_hand(N, d, heads):
    """Each block of columns reads all rows once, and adds to all of dQ."""
    blocks = -(-N // BLOCK)
    found = modeled(N, d, heads)
    assert found.rows == heads * (2 + 2 * blocks) * N * d * 2
    assert found.statistics == heads * 2 * blocks * N * 4
    assert found.reduced == heads * blocks * N * d * 4
    assert found.stored == heads * 2 * N * d * 2


def test_fused_passes_move_what_the_model_says():
    rows = moved_rows(RECORD)
    assert [(r.N, r.d, r.heads, r.implementation) for r in rows] == [
        (*sizes, name) for sizes in WATCHED for name in BACKENDS
    ]
    for row in rows:
        assert row.reduced == row.model_reduced
        assert 0 <= row.main_load - row.model_load <= row.model_load / 200
        bulk = row.model_rows if row.implementation == "cuDNN" else 0
        assert row.bulk_load == bulk
        assert row.model_store <= row.main_store <= row.store
        assert 0 < row.dram_load < row.load


def test_speed_is_that_of_both_masks():
    for name, case in (("backward", "dense"), ("backward-causal", "causal")):
        rows = gpu_report("backward").table(RECORDED / name).rows
        assert {(r["case"], r["d"], r["N"]) for r in rows} == {
            (case, d, N) for d in (64, 128) for N in (4096, 8192, 16384)
        }
        for row in rows:
            assert row["of_flash"] == round(row["flash_s"] / row["emitted_s"], 3)
            assert row["difference"] < 0.02
            if row["d"] == 64:
                assert min(row["of_flash"], row["of_cudnn"]) >= backward.THRESHOLD


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    return copy_record(RECORD, tmp_path / "backward")


def _changed(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_reduction_more_misses_the_bar(copied):
    (first, *_) = moved_rows(copied)
    _changed(copied / COUNTERS, f"{first.reduced:,}", f"{first.reduced + 32:,}")
    table = gpu_report("backward").table(copied)
    assert not table.good
    assert "5 of 6 fused passes" in table.summary


def test_a_model_with_other_blocks_misses_the_bar(monkeypatch):
    monkeypatch.setitem(_moved.FUSED_TILES, "B_c", 64)
    table = gpu_report("backward").table(RECORD)
    assert not table.good
    assert "0 of 6 fused passes" in table.summary


def test_a_wrong_gate_is_an_error(copied):
    _changed(copied / COUNTERS, f"{2 * STREAM_WORDS:,}", f"{2 * STREAM_WORDS + 64:,}")
    with pytest.raises(GpuError, match="the counters are wrong: x \\+ 1 of 134217728 bytes"):
        moved_rows(copied)


def test_marks_of_another_run_are_an_error(copied):
    _changed(copied / PROFILED, "[4096, 64, 8], ", "")
    with pytest.raises(GpuError, match="they are of different runs"):
        moved_rows(copied)


def test_a_record_without_counters_has_no_second_table(copied):
    (copied / COUNTERS).unlink()
    table = gpu_report("backward").table(copied)
    assert table.good
    assert not table.files
    assert "reductions" not in table.summary


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--schedule flash2", "flash2 is not a backward pass: give of"),
        ("--case window", "case 'window' is not timed: give dense or causal"),
        ("--M 100", "M = 100 words holds no tile of two_kernels at d = 64: use M >="),
    ],
)
def test_bad_input_is_a_line(words, said, monkeypatch):
    monkeypatch.setattr(runner, "no_gpu", str)  # which comes first
    monkeypatch.setattr(runner, "no_counters", str)
    done = iosim_("gpu", "backward", *words.split())
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("name", "more"), [("validate-backward", 0.03), ("validate-backward-options", 0.07)]
)
def test_dram_reads_are_those_that_are_said_before_a_run(name, more):
    """L2↔DRAM: what is touched fits into L2, and is read once in each launch; under masks a little
    more is read, as in the forward pass."""
    record = read_record(RECORDED / name, BOUNDARIES)
    rows = list(zip(record.jobs, validate_rows(record), strict=True))[1:]  # the gate apart
    assert len(rows) >= 20
    for job, row in rows:
        said = reads(job, machine("h200"))
        assert said.least == said.lockstep == said.most
        assert 0.99 <= row.dram_load / said.most <= 1 + more, (row.algorithm, row.sizes)
