"""Several GPUs: what their processes do, on CPUs, and how a record of them is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iosim.base.errors import InputError
from iosim.devices import SCHEDULES, count_links, schedule
from iosim.devices.ops import OPS
from iosim.devices.program import Compute
from iosim.gpu.errors import GpuError
from iosim.gpu.links.cases import CALLS, LinkCase, calls, schedules
from iosim.gpu.links.execute import TORCH_OPS, _visible_runs
from iosim.gpu.links.nvlink import FIELDS, LinkBytes, LinkCounters, _Field
from iosim.gpu.reports import gpu_report, replay
from iosim.gpu.reports.devices import MeasuredLinks


def test_cases_say_what_crosses() -> None:
    found = calls((1, 4), 2) + schedules((2048, 4096, 16384), 2)
    assert {case.schedule for case in found} > set(CALLS)
    by_name = {(case.schedule, case.text): case.sent_bytes for case in found}
    assert by_name["all-gather", "n=524288"] == (2**19, 2**19)
    assert by_name["all-reduce", "n=524288"] == by_name["send", "n=524288"] == (2**20, 2**20)
    assert by_name["ring-attention", "N=16384 d=128 heads=8"] == (2**25, 2**25)
    # pieces of a schedule move what the whole does
    for case in found:
        whole = LinkCase(**{**case.as_dict(), "pieces": 1, "cut": ""})
        assert sum(case.sent_bytes) == sum(whole.sent_bytes), case


def test_a_plan_for_one_device_or_an_odd_size_is_refused() -> None:
    report = gpu_report("devices")
    given = {option.name: option.parse(option.default) for option in report.options}
    (run,) = report.plan(given)
    assert len(run.asked["cases"]) > 50
    assert {case["graph"] for case in run.asked["cases"]} == {False, True}
    with pytest.raises(InputError, match="P = 1 has no link"):
        report.plan(given | {"P": 1})


def test_too_few_gpus_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim.gpu.reports import devices

    monkeypatch.setattr(devices, "devices", lambda: 1)
    report = gpu_report("devices")
    given = {option.name: option.parse(option.default) for option in report.options}
    with pytest.raises(GpuError, match="P = 2 GPUs are needed and the driver shows 1: run on"):
        report.plan(given)


def test_operations_on_gpus_are_those_of_devices() -> None:
    assert set(TORCH_OPS) <= set(OPS)
    for name in SCHEDULES:
        body = str(schedule(name).program)
        lacking = {op for op in OPS if f"Compute(name='{op}'" in body} - set(TORCH_OPS)
        assert bool(lacking) == (name == "ring-attention-backward")
    assert Compute("copy", ()).name in TORCH_OPS


def test_what_a_run_of_rows_sees() -> None:
    """Runs are as they are kept: those before are whole, one's own is masked, later ones unseen."""
    runs = [(0, 3, 1), (9, 3, 1), (3, 3, 1), (6, 3, 1)]
    assert _visible_runs(3, 3, runs) == [(0, 3, False), (6, 9, True)]
    assert _visible_runs(9, 3, runs) == [(0, 3, False), (3, 6, True), (6, 12, False)]
    assert _visible_runs(0, 3, runs) == [(0, 3, True)]


def test_counters_without_a_gpu_say_why() -> None:
    found = LinkCounters("0", 0)
    assert found.read() is None
    assert found.why
    assert _Field.value.offset == 32  # after two fields, two times and two results
    assert tuple(LinkBytes.__dataclass_fields__) == tuple(FIELDS)
    assert set(FIELDS) <= set(MeasuredLinks.__dataclass_fields__)


def record(folder: Path, **changes: Any) -> Path:
    """A record of three cases."""
    cases = [
        LinkCase("all-reduce", {"n": 2**24}, call=True),
        LinkCase("all-gather", {"n": 2**19}, call=True, protocol="LL"),
        LinkCase("ring-attention", {"N": 4096, "d": 128, "heads": 32}),
    ]
    sent = cases[0].sent_bytes[0]
    rows = [
        {
            "counted_runs": 4,
            "data_sent": [4 * sent + 2048] * 2,
            "data_received": [4 * sent] * 2,
            "raw_sent": [5 * sent] * 2,
            "raw_received": [5 * sent] * 2,
            "communication_s": 1e-3,
            "runs": 9,
            "difference": 0.0,
        },
        {"failed": "RuntimeError: no"},
        {
            "counted_runs": 0,
            "compute_s": 2e-3,
            "communication_s": 1e-3,
            "apart_s": 3.1e-3,
            "overlapped_s": 2.2e-3,
            "runs": 3,
            "difference": 1e-3,
        },
    ]
    told = {"rows": rows, "environment": {}, "counters": ""} | changes
    own = folder / "devices"
    own.mkdir(parents=True)
    spec = {"cases": [case.as_dict() for case in cases], "backend": "nccl", "limit_s": 9}
    (own / "spec.json").write_text(json.dumps(spec))
    (own / "measured.json").write_text(json.dumps(told))
    (own / "provenance.json").write_text(json.dumps({"device": "NVIDIA H200"}))
    return folder


def test_a_record_is_read(tmp_path: Path) -> None:
    (found,) = replay(record(tmp_path))
    rows = found.table.rows
    assert found.table.good
    assert found.table.summary.startswith("3 cases, 1 failed; bytes on NVLink are 1.0000")
    assert rows[0]["data_over_model"] == pytest.approx(1 + 512 / 2**25, abs=1e-5)
    assert rows[0]["raw_over_model"] == 1.25
    assert (rows[2]["max_us"], rows[2]["overlapped_over_max"]) == (2000, 1.1)
    assert rows[2]["sum_us"] == 3000
    # 4 N² d heads over two devices and the peak; a step of the ring is longer than its transfer
    assert rows[2]["least_us"] == pytest.approx(4 * 4096**2 * 128 * 32 / 2 / 989.4e6, rel=1e-3)
    assert "with overlap" not in found.table.summary  # it is too short
    assert rows[1]["failed"] == "RuntimeError: no"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("rows", [], "has 0 rows and spec.json 3 cases"),
        ("rows", [{"runs": "x"}] * 3, "not int"),
        ("environment", 3, "not dict"),
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, name: str, value: Any, message: str) -> None:
    with pytest.raises(GpuError, match=message):
        replay(record(tmp_path, **{name: value}))


def test_wrong_bytes_and_wrong_results_miss_the_bar(tmp_path: Path) -> None:
    (found,) = replay(record(tmp_path))
    whole = json.loads((tmp_path / "devices/measured.json").read_text())
    for change in ({"data_sent": [2**30] * 2}, {"difference": 0.1}):
        rows = [whole["rows"][0] | change, *whole["rows"][1:]]
        (tmp_path / "devices/measured.json").write_text(json.dumps(whole | {"rows": rows}))
        assert not replay(tmp_path)[0].table.good
    assert found.table.good


@pytest.mark.torch
def test_processes_on_cpus_compute_what_one_does(tmp_path: Path) -> None:
    """Two processes over gloo: the same code that runs over NCCL."""
    pytest.importorskip("torch")
    cases = [
        LinkCase(
            "ring-attention",
            {"N": 13, "d": 8, "heads": 2},
            causal=True,
            deal="zigzag",
            dtype="fp32",
        ),
        LinkCase(
            "tensor-parallel",
            {"rows": 10, "width": 8, "inner": 9},
            pieces=2,
            cut="rows",
            dtype="fp32",
        ),
    ]
    spec, out = tmp_path / "spec.json", tmp_path / "out.json"
    asked = {"cases": [case.as_dict() for case in cases], "backend": "gloo", "limit_s": 100}
    spec.write_text(json.dumps(asked))
    work = [sys.executable, "-m", "iosim.gpu.run.worker", "devices", "measure", str(spec), str(out)]
    subprocess.run(work, check=True, capture_output=True)
    rows = json.loads(out.read_text())["rows"]
    assert all(row.get("failed", "") == "" and row["difference"] < 1e-5 for row in rows)
    assert sum(count_links(cases[0].instances[0]).sent) * 4 == sum(cases[0].sent_bytes)
