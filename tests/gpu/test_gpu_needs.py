"""What a machine lacks is said at once, before anything is planned or imported for it."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iosim.gpu.errors import GpuError
from iosim.gpu.records.plain import read_json
from iosim.gpu.reports import REPORTS, gpu_report, runner
from iosim.gpu.reports.validate import CASES
from iosim.gpu.run import requirements
from iosim.gpu.run.cuda import Cuda

ROOT = Path(__file__).resolve().parents[2]
ORIGIN = {"date": "", "commit": "", "command": ""}


def _set_machine(monkeypatch, *, packages=("torch", "triton"), devices=1, ncu="/usr/bin/ncu"):
    """A machine with these packages, so many GPUs, and ncu or none."""

    def count(where):
        where._obj.value = devices
        return 0

    def find(name):
        return name if name in packages else None

    def load(name):
        if not devices:
            raise OSError(name)
        return SimpleNamespace(cuInit=lambda flags: 0, cuDeviceGetCount=count)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(requirements.shutil, "which", lambda name: ncu)


def _files(monkeypatch, tmp_path, only, held):
    params, status = tmp_path / "params", tmp_path / "status"
    params.write_text(f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {only}\n")
    status.write_text(f"Name:\tpython\nCapEff:\t{held}\n")
    monkeypatch.setattr(requirements, "PARAMETERS", params)
    monkeypatch.setattr(requirements, "STATUS", status)


def test_each_thing_that_may_be_missing_is_named(monkeypatch):
    for packages, devices, said in [
        ((), 1, "pip install torch"),
        (("torch",), 1, "pip install triton"),
        (("torch", "triton"), 0, "no CUDA device"),
        (("torch", "triton"), 1, ""),
    ]:
        _set_machine(monkeypatch, packages=packages, devices=devices)
        assert said in requirements.no_gpu()
        assert bool(said) == bool(requirements.no_gpu())


def test_a_driver_without_devices_is_no_gpu(monkeypatch):
    _set_machine(monkeypatch)
    cuda = SimpleNamespace(cuInit=lambda flags: 100, cuDeviceGetCount=lambda where: 0)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: cuda)
    assert requirements.no_gpu() == requirements.NO_DEVICE
    monkeypatch.setattr(cuda, "cuInit", lambda flags: 0)
    assert requirements.no_gpu() == requirements.NO_DEVICE  # none is counted


def test_forbidden_counters_are_known_before_a_run(monkeypatch, tmp_path):
    _set_machine(monkeypatch)
    for only, held, said in [
        (1, "0000000000000000", "NVreg_RestrictProfilingToAdminUsers=0"),
        (1, "00000000a80425fb", "NVreg_RestrictProfilingToAdminUsers=0"),  # of a container
        (1, "000001ffffffffff", ""),
        (1, f"{1 << 38:016x}", ""),
        (1, f"{1 << 21:016x}", ""),
        (0, "0000000000000000", ""),
    ]:
        _files(monkeypatch, tmp_path, only, held)
        assert said in requirements.no_counters()
        assert bool(said) == bool(requirements.no_counters())
    monkeypatch.setattr(requirements, "PARAMETERS", tmp_path / "none")
    assert requirements.no_counters() == ""
    _set_machine(monkeypatch, ncu=None)
    assert requirements.no_counters() == requirements.NO_NCU


@pytest.mark.parametrize("name", REPORTS)
def test_no_report_plans_without_a_gpu(name, monkeypatch, tmp_path):
    report = gpu_report(name)
    given = {o.name: o.parse(o.default) for o in report.options}

    def plan(options):
        raise AssertionError("planned")

    idle = replace(report, plan=plan)
    _set_machine(monkeypatch, packages=())
    with pytest.raises(GpuError, match="PyTorch is not installed"):
        runner.run_report(idle, given, tmp_path / "out", ORIGIN, print)
    assert not (tmp_path / "out").exists()
    _set_machine(monkeypatch, ncu=None)
    said: list[str] = []
    with pytest.raises((GpuError, AssertionError)) as stop:
        runner.run_report(idle, given, tmp_path / "out", ORIGIN, said.append)
    counters = report.counters(given)
    if counters == "needed":
        assert str(stop.value) == requirements.NO_NCU
    else:
        assert str(stop.value) == "planned"
        assert said == [requirements.NO_NCU if counters else ""]


def test_what_a_report_says_of_counters_is_what_it_plans():
    """The check comes before the plan, so the two are told apart."""
    some = {"schedule": ("copy",), "d": (64,), "M": (8192,), "N": (1024,), "quick": True}
    for name in REPORTS:
        report = gpu_report(name)
        given = {o.name: o.parse(o.default) for o in report.options}
        given |= {k: v for k, v in some.items() if k in given and k == "quick"}
        if name == "validate":
            given |= some
        for value in {given.get("counters", True), False}:
            asked = given | {"counters": value} if "counters" in given else given
            counted = any(run.counters for run in report.plan(asked))
            assert bool(report.counters(asked)) == counted, name
    backward = gpu_report("backward")
    causal = {o.name: o.parse(o.default) for o in backward.options} | {"case": "causal"}
    assert CASES["causal"]
    assert not backward.counters(causal)
    assert not any(run.counters for run in backward.plan(causal))


def test_the_command_imports_no_torch_before_it_says_so():
    text = (
        "import sys, types\n"
        "import importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'torch' else find(name, *a)\n"
        "sys.argv = ['iosim', 'gpu', 'validate']\n"
        "from iosim import cli\n"
        "try:\n    cli.main()\n"
        "except SystemExit as stop:\n    print(stop.code)\n"
        "print([x for x in ('torch', 'triton', 'sympy', 'matplotlib') if x in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["2", "[]"], done.stderr
    assert done.stderr.strip() == f"iosim: {requirements.NO_TORCH}"


def test_a_launch_of_seconds_is_timed_once():
    device, left = Cuda.__new__(Cuda), []
    device.time_launch = lambda go: left.pop(0)  # type: ignore[method-assign]
    left[:] = [9.0, 1.0]
    assert device.median_time(lambda: None) == 9.0
    assert left == [1.0]
    left[:] = [0.9, 0.3, 0.1, 0.2, 0.5, 0.4, 7.0]
    assert device.median_time(lambda: None) == 0.3
    assert left == [7.0]
    left[:] = [0.9, *[0.01] * 7]
    assert device.median_time(lambda: None, least=1) == 0.01
    assert len(left) == 2


def test_the_worker_is_asked_for_schedules_by_the_name_that_records_have() -> None:
    """An option's name may change; what a record says was asked, and a worker reads, does not."""
    for name in ("decode", "backward"):
        report = gpu_report(name)
        given = {o.name: o.parse(o.default) for o in report.options}
        first, *_ = report.plan(given)
        saved = read_json(ROOT / f"experiments/data/gpu/h200/{name}/spec.json", dict[str, Any])
        assert set(first.asked) == set(saved)
