"""``iosim gpu``: what it refuses, and what it prints."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest

import iosim
import iosim.gpu
from iosim import cli
from iosim.cli import gpu as commands
from iosim.core.problem import BlockSparse
from iosim.gpu.reports import REPORTS, replay, runner
from iosim.gpu.reports._entry import GpuReport, ReportOption, ReportTable, WorkerRun
from iosim.gpu.run import profiler, worker


def _main(monkeypatch, capsys, *args):
    monkeypatch.setattr("sys.argv", ["iosim", "gpu", *args])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return stop.value.code, capsys.readouterr()


@pytest.mark.numbers
def test_bad_input_is_one_line_and_exit_2(monkeypatch, capsys, tmp_path):
    for args, said in [
        (("emit", "flash3"), "did you mean 'flash"),
        (("emit", "flash2", "--M", "100"), "M >= 3360"),
        (("emit", "flash2", "--tiles", "B_r=16"), "needs the tile sizes B_c"),
        (("emit", "flash2", "--tiles", "B_r=65536,B_c=64", "--N", "65536"), "smaller tiles"),
        (("validate", "--dtype", "fp8"), "choose fp16, bf16, fp32"),
        (("emit", "flash2", "--lockstep", "-1"), "lockstep = -1 is outside 1.."),
        (("emit", "flash2", "--lockstep", "0"), "lockstep = 0 is outside 1.."),
        (("emit", "flash2", "--lockstep", "4", "--every", "0"), "every = 0 is outside 1.."),
        (
            ("validate", "--schedule", "copy", "--out", str(tmp_path)),
            "no CUDA device|PyTorch is not installed",
        ),
        (("layers", "--model", "bert"), "did you mean 'bert-large'"),
        (("layers", "--variant", "fuse"), "unknown variant 'fuse'"),
        (("layers", "--seconds", "0"), "seconds = 0 is outside 1.."),
        (
            ("layers", "--quick", "--out", str(tmp_path)),
            "no CUDA device|PyTorch is not installed",
        ),
        (("emit", "flash2", "--target", "hoper"), "did you mean 'hopper'"),
        (("emit", "flash1", "--target", "hopper"), "emit it for the plain target"),
        (("emit", "flash2", "--style", "persistent"), "of target triton: it has none"),
        (
            ("validate", "--dry-run", "--target", "hopper", "--style", "persistant"),
            "did you mean 'persistent'",
        ),
        (("bench", "--dry-run", "--style", "waits-first"), "of target triton: it has none"),
        (("validate", "--dry-run", "--target", "hopper", "--schedule", "flash1"), "not a grid of"),
        (("validate", "--dry-run", "--target", "hopper", "--dtype", "fp32"), "fp32 has no form"),
        (("bench", "--target", "hoper", "--out", str(tmp_path)), "did you mean 'hopper'"),
        (("replay", str(tmp_path)), "holds no record"),
        (("bench", "--speed", "9"), "No such option"),
    ]:
        code, out = _main(monkeypatch, capsys, *args)
        assert code == 2
        assert len(out.err.strip().splitlines()) == 1
        assert any(part in out.err for part in said.split("|")), out.err


def test_what_no_gpu_can_run_is_told_where_there_is_one(monkeypatch, capsys):
    monkeypatch.setattr(runner, "no_gpu", str)
    small = ("validate", "--schedule", "flash2", "--M", "100")
    code, out = _main(monkeypatch, capsys, *small, "--no-counters")
    assert code == 2
    assert "M >= 3360" in out.err


def test_emit_and_replay_print(monkeypatch, capsys):
    code, out = _main(monkeypatch, capsys, "emit", "flash2", "--N", "1024", "--lockstep", "4")
    assert code == 0
    assert "def flash2(" in out.out
    assert "wait_for_all" in out.out


def test_emit_takes_a_block_mask_from_a_file(monkeypatch, capsys, tmp_path):
    """The kernel is the one that is emitted from Python; what is wrong is one line and exit 2."""
    good, bad, text = (str(tmp_path / x) for x in ("good.npy", "bad.npy", "text.npy"))
    np.save(good, np.tri(3, dtype=bool))
    np.save(bad, np.ones((2, 3), bool))
    (tmp_path / "text.npy").write_text("no array")
    sizes = ("emit", "block_sparse", "--N", "40", "--N-k", "50", "--d", "32", "--heads", "2")
    tiles = ("--tiles", "B_r=16,B_c=20")
    code, out = _main(monkeypatch, capsys, *sizes, *tiles, "--mask", f"blocks={good}")
    problem = BlockSparse(N=40, N_k=50, d=32, heads=2)
    program, given = iosim.algorithm("block_sparse").program, {"blocks": np.tri(3, dtype=bool)}
    instance = iosim.bind(program, problem.sizes, {"B_r": 16, "B_c": 20}, given)
    assert (code, out.out) == (0, iosim.gpu.emit(instance).source)
    for args, said in [
        ((*sizes, *tiles, "--mask", f"blocks={bad}"), "is 2 × 3, and the tiles make 3 × 3"),
        ((*sizes, *tiles, "--mask", f"blocks={text}"), "it is not an array of NumPy"),
        ((*sizes, *tiles, "--mask", f"blocks={good}x"), "No such file"),
        ((*sizes, *tiles, "--mask", f"block={good}"), "did you mean 'blocks'"),
        ((*sizes, *tiles, "--mask", good), "names no file"),
        ((*sizes, *tiles), "needs the block mask blocks"),
        ((*sizes, "--mask", f"blocks={good}"), "no search can choose"),
        (
            ("emit", "flash2", "--tiles", "B_r=16,B_c=16", "--mask", f"blocks={good}"),
            "flash2 has no block mask 'blocks': give none",
        ),
    ]:
        code, out = _main(monkeypatch, capsys, *args)
        assert code == 2
        assert len(out.err.strip().splitlines()) == 1
        assert said in out.err


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
    monkeypatch.setattr(runner, "no_gpu", str)
    monkeypatch.setattr(profiler, "work", lambda *args: worker.main(*map(str, args)))
    command = commands.sums
    assert command.help == "Add two numbers."
    command.main(["--out", str(tmp_path)], standalone_mode=False)
    assert "1 sums" in capsys.readouterr().out
    assert command.main(["--left", "4", "--out", str(tmp_path)], standalone_mode=False) == 1
    (saved,) = replay(tmp_path)
    assert (saved.report.name, saved.table.rows, saved.table.good) == ("sums", [{"sum": 7}], False)
