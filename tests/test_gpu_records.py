"""Saved reports, replayed through the parser and the checks that a run on a GPU uses."""

from __future__ import annotations

import csv
import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import iosim
from iosim import cli
from iosim.gpu import l2 as dram
from iosim.gpu.emitter import layout
from iosim.gpu.errors import GpuError
from iosim.gpu.records import counters as ncu
from iosim.gpu.records import record
from iosim.gpu.reports import dram as dram_table
from iosim.gpu.reports import tables, validate
from iosim.gpu.run import job as jobs
from iosim.gpu.run.job import Job
from iosim.output import provenance

GPUS = Path(__file__).parent.parent / "experiments" / "data" / "gpu"
RECORDED = GPUS / "h200"
MACHINES = ["h200", "h100"]
KINDS = ["validate", "validate-dtypes", "dram", "bench", "paper"]


@functools.cache
def _table(name: str, machine: str = "h200") -> tables.Table:
    return tables.TABLES[name.split("-")[0]](GPUS / machine / name)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", KINDS)
def test_every_record_meets_its_bar_with_todays_model(name, machine):
    table = _table(name, machine)
    assert table.rows
    assert table.good, table.summary


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", KINDS)
def test_provenance_is_complete(name, machine):
    found = json.loads((GPUS / machine / name / "provenance.json").read_text())
    for key in ("device", "driver", "torch", "triton", "date", "commit", "command"):
        assert found[key]
    assert found["command"].startswith("iosim gpu ")


@pytest.mark.parametrize("program", ["/bin/iosim", "x/iosim/__main__.py"])
def test_the_command_is_what_one_would_type(monkeypatch, program):
    monkeypatch.setattr("sys.argv", [program, "gpu", "dram"])
    assert provenance.this_command() == "iosim gpu dram"


@pytest.mark.parametrize("machine", MACHINES)
def test_the_sweep_covers_what_it_should(machine):
    rows = [r for r in _table("validate", machine).rows if not r["failed"]]
    assert len(rows) > 200
    asked = {"naive", "flash1", "flash2", "small_cache", "matmul", "copy"}
    assert {r["algorithm"] for r in rows} >= asked
    assert all(r["unexplained"] == 0 and r["sram_load"] > 0 for r in rows)
    for d in (64, 128, 256):
        assert any(f"d={d}" in r["sizes"] for r in rows if r["algorithm"] == "flash2")
    assert any(r["explained_load"] > 0 for r in rows)  # ragged ones are in it
    assert {r["dtype"] for r in _table("validate-dtypes", machine).rows} >= {"bf16", "fp32"}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_committed_tables_are_what_the_records_say(machine):
    for name in ("validate", "dram"):
        with (GPUS / machine / name / "table.csv").open() as file:
            committed = list(csv.DictReader(file))
        fresh = _table(name, machine).rows
        assert len(committed) == len(fresh)
        for old, new in zip(committed, fresh, strict=True):
            for key in set(old) & {"model_load", "sram_load", "predicted", "measured"}:
                assert int(old[key]) == new[key]


def test_a_change_in_the_model_is_caught(monkeypatch):
    real = validate.count

    def one_word_more(instance):
        counts = real(instance)
        return counts + iosim.Counts((counts.items[0][0], 1))

    monkeypatch.setattr(validate, "count", one_word_more)
    with pytest.raises(GpuError, match="cannot be believed"):
        tables.validate_table(RECORDED / "validate-dtypes")


def _copy(tmp_path: Path, name: str = "validate-dtypes") -> Path:
    return Path(shutil.copytree(RECORDED / name, tmp_path / name))


def _edit(path: Path, line: int, column: str, value: str) -> None:
    rows = list(csv.reader(path.read_text().splitlines()))
    rows[line][rows[0].index(column)] = value
    with path.open("w") as file:
        csv.writer(file).writerows(rows)


LOADS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"


def test_a_wrong_counter_is_caught(tmp_path):
    folder = _copy(tmp_path)
    _edit(folder / "report.csv", 5, LOADS, "12,345")
    table = tables.validate_table(folder)
    assert not table.good
    assert "NOT GOOD: 1" in table.summary
    assert table.rows[1]["unexplained"] > 0


def test_the_gate_refuses_counters_that_miscount_a_copy(tmp_path):
    folder = _copy(tmp_path)
    _edit(folder / "report.csv", 3, LOADS, "4194303")
    with pytest.raises(GpuError, match="a copy of 134217728 bytes showed 134217696 read"):
        tables.validate_table(folder)


def test_reports_that_are_cut_off_or_not_reports(tmp_path):
    folder = _copy(tmp_path)
    report = folder / "report.csv"
    text = report.read_text()
    report.write_text("".join(text.splitlines(True)[:-2]))
    with pytest.raises(GpuError, match=r"has \d+ marks and \d+ jobs were profiled"):
        tables.validate_table(folder)
    report.write_text("hello\n")
    with pytest.raises(GpuError, match="not a report"):
        tables.validate_table(folder)
    with pytest.raises(GpuError, match="is not a record"):
        record.read(tmp_path)
    with pytest.raises(GpuError, match="holds no record"):
        tables.replay(tmp_path / "nowhere")


def test_units_other_than_base_are_refused(tmp_path):
    folder = _copy(tmp_path)
    _edit(folder / "report.csv", 1, "dram__bytes_read.sum", "Mbyte")
    with pytest.raises(GpuError, match="print-units base"):
        tables.validate_table(folder)


def test_a_log_of_ncu_becomes_an_anonymous_report():
    log = (
        '==PROF== Connected to process 7\n"ID","Process ID","Process Name","Host Name",'
        f'"Kernel Name","Context","Grid Size","{LOADS}"\n'
        '"","","","","","","","sector"\n'
        '"0","7","python","secret","spin_kernel(long)","1","(1, 1, 1)","0"\n'
        '"1","7","python","secret","copy","1","(8, 1, 1)","1,024"\n'
        "==PROF== Disconnected\n"
    )
    text = ncu.anonymous(log)
    assert "secret" not in text
    ((launch,),) = ncu.parse(text)
    assert launch.name == "copy"
    assert launch.level("sram") == iosim.Counts((("load", "*"), 32 * 1024))
    assert launch.level("dram") == iosim.Counts()


def test_without_ncu_and_without_permission(tmp_path, monkeypatch):
    spec = tmp_path / "spec.json"
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GpuError, match=r"not on the PATH.*install"):
        ncu.profile("profile", spec, tmp_path / "o", tmp_path / "r.csv")
    fake = tmp_path / "ncu"
    fake.write_text("#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM'\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(GpuError, match="NVreg_RestrictProfilingToAdminUsers=0"):
        ncu.profile("profile", spec, tmp_path / "o", tmp_path / "r.csv")
    fake.write_text("#!/bin/sh\necho 'no such thing' >&2\nexit 3\n")
    with pytest.raises(GpuError, match=r"ncu failed \(3\): no such thing"):
        ncu.profile("profile", spec, tmp_path / "o", tmp_path / "r.csv")


def test_without_counters_counts_and_times_still_come(tmp_path, monkeypatch):
    folder = _copy(tmp_path)
    (folder / "report.csv").unlink()
    table = tables.validate_table(folder)
    assert table.good
    assert "0 with hardware counters" in table.summary
    assert all(r["sram_load"] == -1 and r["kernel_load"] > 0 and r["time_s"] > 0
               for r in table.rows)  # fmt: skip

    measured = (RECORDED / "validate-dtypes" / "measured.json").read_text()
    monkeypatch.setattr(record, "work", lambda mode, spec, out: out.write_text(measured))
    monkeypatch.setenv("PATH", "")
    warning = record.record([jobs.gate_job()], tmp_path / "new", "a command")
    assert warning == ncu.MISSING


def test_a_failed_job_is_a_row_not_a_crash(tmp_path):
    folder = _copy(tmp_path)
    found = json.loads((folder / "measured.json").read_text())
    found["rows"][2] = {"failed": "out of device memory: choose a smaller N or fewer heads"}
    (folder / "measured.json").write_text(json.dumps(found))
    table = tables.validate_table(folder)
    assert not table.good
    assert table.rows[2]["failed"].startswith("out of device memory")


# -- DRAM ---------------------------------------------------------------------------------


def _flash2(N, B_r, heads=1, **more):
    return Job("flash2", {"N": N, "d": 64, "heads": heads}, {"B_r": B_r, "B_c": 64}, **more)


def test_the_wave_model_by_hand():
    sweep = 2 * 2 * 524288 * 64  # K and V in bytes
    assert dram.swept_bytes(_flash2(524288, 64)) == sweep
    # 8192 items of 64 rows, 264 at a time: 32 waves; Q once.
    assert dram.wave_bytes(_flash2(524288, 64), 264) == 32 * sweep + sweep // 2
    # Two heads of 16 items: waves of 12 see heads {0}, {0, 1}, {1}.
    small = 2 * 2 * 1024 * 64
    assert dram.wave_bytes(_flash2(1024, 64, heads=2), 12) == 4 * small + small
    # What fits in L2 is read once.
    assert dram.predicted_bytes(_flash2(1024, 64, heads=2), 12, 60 * 2**20) == 2 * small + small


def test_footprints_by_hand():
    job = jobs.sweep(("naive",), (64,), (8192,), (1024,))[0]
    N, d, heads = 1024, 64, 2
    assert dram.footprint_bytes(job.instance, "fp16") == {
        "load": 2 * heads * (3 * N * d + 2 * N * N),
        "store": 2 * heads * (N * d + 2 * N * N),
    }


def test_drift_of_programs_in_step_is_the_wave_model():
    job = _flash2(4096, 64)
    ticks = np.repeat(np.array([[0, 100], [100, 200], [200, 300], [300, 400]]), 16, axis=0)
    room = dram.swept_bytes(job) // 4
    together = dram.drift_bytes(ticks, job, room)
    assert together == dram.wave_bytes(job, 16)
    assert dram.spread(ticks) == 0
    # Half a sweep behind, with a quarter's room: the followers read everything again.
    late = ticks.copy()
    late[8::16] += 50
    for k in range(9, 16):
        late[k::16] += 50
    apart = dram.drift_bytes(late, job, room)
    assert apart - together == 4 * dram.swept_bytes(job)
    assert dram.spread(late) == pytest.approx(0.5, abs=0.01)
    with pytest.raises(iosim.IosimError, match="heads = 1"):
        dram.drift_bytes(ticks, _flash2(4096, 64, heads=2), room)


@pytest.mark.parametrize("machine", MACHINES)
def test_in_step_runs_are_within_one_percent_and_cover_the_sweep(machine):
    rows = [r for r in _table("dram", machine).rows if r["in_step"]]
    assert len(rows) >= 12
    assert {r["B_r"] for r in rows} == {32, 64, 128}
    assert len({r["programs"] for r in rows}) >= 4
    assert max(abs(r["off"]) for r in rows) < dram_table.IN_STEP_TOLERANCE


@pytest.mark.parametrize("machine", MACHINES)
def test_the_wave_model_fails_beyond_the_window_and_holds_without_spread(machine):
    spreads = []
    for r in _table("dram", machine).rows:
        if r["spread"] > r["window"]:
            assert r["off"] > 0.01
        elif r["spread"] < 0.001:
            assert abs(r["off"]) < 0.01
        else:
            spreads.append((r["spread"], round(r["off"], 2)))
    # Between the two it may go either way: the spread is a median over time.
    assert spreads == ([(0.0581, 0.05)] if machine == "h100" else [])


# -- the command line ---------------------------------------------------------------------


def _main(monkeypatch, capsys, *args):
    monkeypatch.setattr("sys.argv", ["iosim", "gpu", *args])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, capsys.readouterr()


def test_bad_input_is_one_line_and_exit_2(monkeypatch, capsys, tmp_path):
    for args, said in [
        (("emit", "flash3"), "did you mean 'flash"),
        (("emit", "flash2", "--M", "100"), "M >= 3360"),
        (("emit", "flash2", "--tiles", "B_r=16"), "needs the tile sizes B_c"),
        (("emit", "flash2", "--tiles", "B_r=65536,B_c=64", "--N", "65536"), "smaller tiles"),
        (("validate", "--algorithms", "flash2", "--M", "100"), "M >= 3360"),
        (("validate", "--dtype", "fp8"), "choose fp16, bf16, fp32"),
        (("validate", "--out", str(tmp_path)), "no CUDA device|PyTorch is not installed"),
        (("replay", str(tmp_path)), "holds no record"),
        (("bench", "--speed", "9"), "No such option"),
    ]:
        code, out = _main(monkeypatch, capsys, *args)
        assert code == 2
        assert len(out.err.strip().splitlines()) == 1
        assert any(part in out.err for part in said.split("|")), out.err


def test_emit_and_replay_print(monkeypatch, capsys):
    code, out = _main(monkeypatch, capsys, "emit", "flash2", "--N", "1024", "--programs", "4")
    assert code == 0
    assert "def flash2(" in out.out
    assert "wait_for_all" in out.out
    bench = tables.bench_rows(RECORDED / "bench")
    assert bench.good
    assert "of the fused kernel's speed" in bench.summary


def test_sector_bytes_are_never_less_than_the_model():
    for job in jobs.sweep(lengths=(1000, 1001), head_sizes=(64,), capacities=(16384,)):
        model = layout.model_bytes(iosim.count(job.instance), job.instance, "fp16")
        sectors = layout.sector_bytes(job.instance, "fp16")
        assert all(sectors.get(key, 0) >= n for key, n in model.items())
