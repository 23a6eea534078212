"""Targets are records: what each needs, and which one runs where a machine lacks something."""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_gpu_cli import _main

import iosim
from iosim.gpu import emit
from iosim.gpu.reports import bench, gpu_report, replay, runner
from iosim.gpu.reports._entry import WorkerRun
from iosim.gpu.reports._targets import ran_instead
from iosim.gpu.run import profiler, requirements
from iosim.gpu.targets import PLAIN, TARGETS, Installation, chosen, target

ORIGIN = {"date": "2026-01-02", "commit": "abc", "command": "iosim gpu bench --target hopper"}
HOPPER = Installation("NVIDIA H200", (9, 0), "3.6.0")
LACKING = {
    "other hardware": (Installation("NVIDIA A100", (8, 0), "3.6.0"), "NVIDIA A100 has 8.0"),
    "newer hardware": (Installation("NVIDIA B200", (10, 0), "3.6.0"), "NVIDIA B200 has 10.0"),
    "an older Triton": (Installation("NVIDIA H200", (9, 0), "3.5.1"), "Triton 3.6 or later"),
}
lacking = pytest.mark.parametrize(("machine", "said"), LACKING.values(), ids=list(LACKING))


def test_every_target_says_what_the_registry_says():
    for name in TARGETS:
        one = target(name)
        assert one.name == name
        assert one.title
        assert not one.missing(HOPPER)
        assert not one.missing(Installation())  # what isn't known isn't said to be missing
    with pytest.raises(iosim.InputError, match="did you mean 'hopper'"):
        target("hoper")


@lacking
def test_where_the_machine_lacks_something_the_plain_target_runs(machine, said):
    name, why = chosen("hopper", machine)
    assert name == PLAIN
    assert said in why
    assert "\n" not in why
    assert chosen(PLAIN, machine) == (PLAIN, "")
    assert chosen("auto", machine) == (PLAIN, "")
    assert chosen("hopper", HOPPER) == chosen("auto", HOPPER) == ("hopper", "")


@pytest.mark.parametrize("version", ["3.6", "3.6.0+git5", "3.10.1", "4.0", "3.6rc1"])
def test_versions_are_numbers(version):
    assert not target("hopper").missing(Installation("H200", (9, 0), version))
    assert target("hopper").missing(Installation("H200", (9, 0), "2.99"))


def _row(case: str, d: int, name: str) -> dict[str, object]:
    return asdict(
        bench.BenchRow(
            4096,
            d,
            32,
            65536,
            "B_c=64 B_r=128",
            8,
            2,
            1e-3,
            1e-3,
            math.nan,
            1.0,
            1.0,
            math.nan,
            1.0,
            0.0,
            10,
            case,
            name,
        )
    )


def _run(
    monkeypatch, folder: Path, asked: str, machine: Installation
) -> tuple[list[str], list[str]]:
    """A bench on a machine that is none: what it planned for, and what it remarked."""
    monkeypatch.setattr(runner, "no_gpu", str)
    monkeypatch.setattr(runner, "machine", lambda: machine)
    planned, remarks = [], []

    def plan(given):
        planned.append(given["target"])
        return (WorkerRun("compare", {"target": given["target"]}, "spec.json", "measured.json"),)

    def work(report, task, spec, found):
        rows = [_row("dense", 64, json.loads(spec.read_text())["target"])]
        found.write_text(json.dumps({"environment": {"device": machine.device}, "rows": rows}))

    monkeypatch.setattr(profiler, "work", work)
    report = replace(gpu_report("bench"), plan=plan)
    given = {o.name: o.parse(o.default) for o in report.options} | {"target": asked}
    runner.run_report(report, given, folder, ORIGIN, remarks.append)
    return planned, [x for x in remarks if x]


@lacking
def test_the_report_and_the_record_say_which_target_ran_and_why(
    machine, said, monkeypatch, tmp_path
):
    planned, remarks = _run(monkeypatch, tmp_path / "bench", "hopper", machine)
    assert planned == [PLAIN]
    assert len(remarks) == 1
    assert said in remarks[0]
    told = json.loads((tmp_path / "bench" / "provenance.json").read_text())
    assert told["target"] == PLAIN
    assert said in told["instead"]
    (saved,) = replay(tmp_path)
    assert said in saved.table.summary
    assert "threshold: 0.5" in saved.table.summary  # the plain target's threshold
    assert "\n" not in saved.table.summary


@pytest.mark.parametrize("asked", ["hopper", "auto"])
def test_where_nothing_is_missing_it_runs_and_nothing_is_said(asked, monkeypatch, tmp_path):
    planned, remarks = _run(monkeypatch, tmp_path / "bench", asked, HOPPER)
    assert (planned, remarks) == (["hopper"], [])
    told = json.loads((tmp_path / "bench" / "provenance.json").read_text())
    assert told["target"] == "hopper"
    assert "instead" not in told
    (saved,) = replay(tmp_path)
    assert "hopper, dense, d 64: 1.00 (threshold: 0.97)" in saved.table.summary
    assert ran_instead(tmp_path / "nowhere") == ""


def test_validate_plans_the_plain_target_where_hopper_is_missing(monkeypatch, capsys):
    """--dry-run shows what would run here."""
    monkeypatch.setattr(runner, "machine", lambda: LACKING["other hardware"][0])
    words = ("validate", "--schedule", "flash2", "--d", "128", "--N", "1000", "--M", "64Ki")
    code, plain = _main(monkeypatch, capsys, *words, "--dry-run")
    assert code == 0
    code, instead = _main(monkeypatch, capsys, *words, "--dry-run", "--target", "hopper")
    assert code == 0
    assert instead.out == plain.out
    assert re.fullmatch(r"iosim: note: --target hopper: .* runs in its place\n", instead.err)
    monkeypatch.setattr(runner, "machine", lambda: HOPPER)
    code, hopper = _main(monkeypatch, capsys, *words, "--dry-run", "--target", "auto")
    assert code == 0
    assert "target" not in plain.out
    assert hopper.out.splitlines()[-1].split()[-1] == "hopper"
    assert hopper.err == ""


def test_styles_go_where_their_target_goes():
    """A style of the target that was asked for is left out where the plain one runs."""
    given = {"target": "hopper", "style": "persistent", "N": 3}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "machine", lambda: HOPPER)
        assert runner.settled(given)[0] == given
        assert runner.settled(given | {"target": "auto"})[0] == given
        patch.setattr(runner, "machine", lambda: LACKING["an older Triton"][0])
        for asked in ("hopper", "auto"):
            found, _ = runner.settled(given | {"target": asked})
            assert found == {"target": PLAIN, "style": "", "N": 3}
        assert runner.settled(given | {"target": PLAIN})[0]["style"] == "persistent"
    jobs = bench.candidates(64, 65792, name="hopper", style="waits-first")
    assert {job.style for job in jobs} == {"waits-first"}
    assert {*map(_shape, jobs)} == {*map(_shape, bench.candidates(64, 65792, name="hopper"))}


def _shape(job):
    return job.stages, *job.tiles.items()


def test_tables_name_styles_where_there_are_any(tmp_path):
    for name, style in (("plain", ""), ("other", "persistent")):
        folder = tmp_path / name
        folder.mkdir()
        row = _row("dense", 64, "hopper") | ({"style": style} if style else {})
        (folder / "measured.json").write_text(json.dumps({"environment": {}, "rows": [row]}))
        (told,) = gpu_report("bench").table(folder).rows
        assert told.get("style", "") == style
        assert told["target"] == "hopper"


def test_text_is_emitted_for_the_target_that_is_asked_for(monkeypatch, capsys):
    def machine():
        raise AssertionError("asked for the device")

    monkeypatch.setattr(runner, "machine", machine)
    monkeypatch.setattr(requirements, "machine", machine)
    words = ("emit", "flash2", "--N", "512", "--tiles", "B_r=64,B_c=64", "--target")
    code, out = _main(monkeypatch, capsys, *words, "hopper")
    assert code == 0
    assert "gluon" in out.out
    code, out = _main(monkeypatch, capsys, *words, "auto")
    assert code == 2
    assert "unknown target 'auto'" in out.err
    sizes, tiles = {"N": 512, "d": 64, "heads": 1}, {"B_r": 64, "B_c": 64}
    instance = iosim.bind(iosim.algorithm("flash2").program, sizes, tiles)
    assert "gluon" in emit(instance, target="hopper").source


def test_the_driver_is_asked_for_the_device(monkeypatch):
    failing: list[str] = []

    def answer(name, value):
        def call(*args):
            if name in failing:
                return 1
            if name == "cuDeviceGetName":
                args[0].value = value
            elif name == "cuDeviceGetAttribute":
                args[0]._obj.value = value[args[1]]
            return 0

        return call

    values = {
        "cuInit": 0,
        "cuDeviceGet": 0,
        "cuDeviceGetName": b"NVIDIA A100-SXM4",
        "cuDeviceGetAttribute": {75: 8, 76: 6},
    }
    cuda = SimpleNamespace(**{name: answer(name, value) for name, value in values.items()})
    monkeypatch.setattr(ctypes, "CDLL", lambda name: cuda)
    monkeypatch.setattr(importlib.metadata, "version", {"triton": "3.7.1"}.__getitem__)
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "PackageNotFoundError", KeyError)
        assert requirements.machine() == Installation("NVIDIA A100-SXM4", (8, 6), "3.7.1")
        for name in values:
            failing[:] = [name]
            assert requirements.machine() == Installation(triton="3.7.1")
        patch.setattr(importlib.metadata, "version", {"pytorch-triton": "3.8"}.__getitem__)
        assert requirements.machine().triton == "3.8"
        patch.setattr(importlib.metadata, "version", {}.__getitem__)
        assert requirements.machine() == Installation()
