"""``iosim gpu``: what it refuses, and what it prints."""

from __future__ import annotations

import json
import sys
import types

import pytest

from iosim import cli
from iosim.cli import gpu as commands
from iosim.gpu.reports import REPORTS, replay, runner
from iosim.gpu.reports._entry import GpuReport, ReportOption, ReportTable, WorkerRun
from iosim.gpu.run import profiler, worker


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
        (("emit", "flash2", "--programs", "-1"), "programs = -1 is outside 1.."),
        (("emit", "flash2", "--programs", "0"), "programs = 0 is outside 1.."),
        (("emit", "flash2", "--programs", "4", "--every", "0"), "every = 0 is outside 1.."),
        (
            ("validate", "--algorithms", "copy", "--out", str(tmp_path)),
            "no CUDA device|PyTorch is not installed",
        ),
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


def test_a_report_takes_one_record_and_one_line(monkeypatch, tmp_path, capsys):
    """A report that is registered by the test: its command, its worker, its replay."""

    def table(folder):
        rows = json.loads((folder / "sum.json").read_text())["rows"]
        return ReportTable(rows, f"{len(rows)} sums", rows[0]["sum"] == 5)

    module = types.ModuleType("of_a_newcomer")
    module.REPORT = GpuReport(
        name="sums",
        plan=lambda given: (WorkerRun("add", list(given.values()), "asked.json", "sum.json"),),
        tasks={"add": lambda asked, out: {"rows": [{"sum": sum(asked)}]}},
        table=table,
        options=(ReportOption("left", "2", "one", int), ReportOption("right", "3", "other", int)),
    )
    monkeypatch.setitem(sys.modules, "of_a_newcomer", module)
    monkeypatch.setitem(REPORTS, "sums", ("of_a_newcomer", "Add two numbers."))
    monkeypatch.setattr(runner, "torch_module", lambda: None)
    monkeypatch.setattr(profiler, "work", lambda *args: worker.main(*map(str, args)))
    command = commands.sums
    assert command.help == "Add two numbers."
    command.main(["--out", str(tmp_path)], standalone_mode=False)
    assert "1 sums" in capsys.readouterr().out
    assert command.main(["--left", "4", "--out", str(tmp_path)], standalone_mode=False) == 1
    (saved,) = replay(tmp_path)
    assert (saved.report.name, saved.table.rows, saved.table.good) == ("sums", [{"sum": 7}], False)
