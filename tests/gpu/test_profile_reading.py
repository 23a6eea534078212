"""Reports of Nsight Compute: every layout gives the same launches, and what is none is named."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from unpacked import recorded

from iosim.gpu.errors import GpuError
from iosim.gpu.profiling.launch import KernelLaunch
from iosim.gpu.profiling.reading import read
from iosim.gpu.profiling.saving import as_csv, save
from iosim.gpu.profiling.units import in_base

RECORDED = Path(__file__).parents[2] / "experiments" / "data" / "gpu" / "h200"
HEAD = [
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
]
READ, TIME = "dram__bytes_read.sum", "gpu__time_duration.sum"


def _csv(*rows: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _place(k: int, kernel: str) -> list[str]:
    return [
        str(k),
        "77",
        "python3",
        "somewhere",
        kernel,
        "1",
        "7",
        "(128, 1, 1)",
        "(64, 2, 1)",
        "0",
        "9.0",
    ]


RAW = _csv(
    [*HEAD, READ, TIME],
    [*[""] * len(HEAD), "byte", "ns"],
    [*_place(0, "void a::f<2>(int)"), "1,234,000", "5,000"],
    [*_place(1, "g"), "n/a", "7"],
)
AUTO = RAW.replace('"byte","ns"', '"Mbyte","us"').replace('"1,234,000","5,000"', '"1.234","5.00"')
AUTO = AUTO.replace('"n/a","7"', '"n/a","0.007"')
LONG = _csv(
    [*HEAD, "Section Name", "Metric Name", "Metric Unit", "Metric Value"],
    [*_place(0, "void a::f<2>(int)"), "metrics", READ, "Kbyte", "1,234"],
    [*_place(0, "void a::f<2>(int)"), "metrics", TIME, "usecond", "5"],
    [*_place(1, "g"), "metrics", READ, "byte", "n/a"],
    [*_place(1, "g"), "metrics", TIME, "nsecond", "7"],
)


def _write_report(tmp_path: Path, text: str | bytes, name: str = "report.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


SAME = [
    RAW,
    AUTO,
    LONG,
    "==PROF== Connected\nmy output\n" + RAW,
    "\ufeff" + RAW,
    RAW.replace("\n", "\r\n"),
    RAW.rstrip("\n"),
]


@pytest.mark.parametrize("text", [*SAME, ("\ufeff" + RAW).encode("utf-16-le")])
def test_every_layout_gives_the_same_launches(tmp_path: Path, text: str | bytes) -> None:
    f, g = read(_write_report(tmp_path, text))
    assert (f.name, f.short, f.grid, f.block) == ("void a::f<2>(int)", "f", (64, 2, 1), (128, 1, 1))
    assert dict(f.metrics) == {READ: 1234000.0, TIME: 5000.0}
    assert dict(f.units) == {READ: "byte", TIME: "ns"}
    assert (g.name, dict(g.metrics)) == ("g", {TIME: 7.0})
    assert f.rounded == (frozenset() if text not in (AUTO, LONG) else frozenset({READ, TIME}))


@pytest.mark.parametrize("report", ["validate-paged", "layers-gpt2", "paper"])
def test_a_record_is_read_as_its_table_has_it(report: str) -> None:
    """Read once more by hand: columns by place, commas taken out, marks left out."""
    header, _, *rows = csv.reader(recorded(RECORDED / report / "report.csv").decode().splitlines())
    rows = [row for row in rows if "spin_kernel" not in row[0]]
    found = read(RECORDED / report)
    assert len(found) == len(rows)
    for launch, row in zip(found, rows, strict=True):
        assert (launch.name, launch.device) == (row[0], "NVIDIA H200")
        numbers = {x: row[k].replace(",", "") for k, x in enumerate(header) if "__" in x}
        assert launch.metrics == {x: float(v) for x, v in numbers.items() if v not in ("n/a", "")}


@pytest.mark.parametrize(
    ("text", "unit", "found"),
    [
        ("1,234,567", "byte", (1234567.0, "byte", False)),
        ("1.5", "Gbyte", (1.5e9, "byte", True)),
        ("4.8", "Tbyte/second", (4.8e12, "byte/s", True)),
        ("1.98", "Ghz", (1.98e9, "hz", True)),
        ("1.98", "cycle/nsecond", (1.98e9, "cycle/s", False)),
        ("16.38", "Kbyte/block", (16380.0, "byte/block", True)),
        ("2.5", "ms", (2.5e6, "ns", True)),
        ("2", "second", (2e9, "ns", True)),
        ("12", "ns", (12.0, "ns", False)),
        ("31.5", "%", (31.5, "%", False)),
        ("1e+06", "inst", (1e6, "inst", False)),
        ("nan", "%", (None, "%", False)),
    ],
)
def test_units(text: str, unit: str, found: tuple[float | None, str, bool]) -> None:
    value, base, rounded = in_base(text, unit)
    assert (value, base) == found[:2]
    assert rounded == found[2] or unit == "cycle/nsecond"


@pytest.mark.parametrize("text", ["1.234.567", "12,5", "1'234'567", "1.234,5", "x", "1,23,456"])
def test_a_value_in_another_language_is_refused(text: str) -> None:
    with pytest.raises(GpuError, match=r"LC_ALL=C|not a counter's value"):
        in_base(text, "byte")


REFUSED = {
    "empty": (b"", "is empty"),
    "blank": (b" \n\n", "is empty"),
    "html": (b"<!DOCTYPE html>\n<html>", "a page of HTML"),
    "json": (b'{"traceEvents": []}', "JSON"),
    "sqlite": (b"SQLite format 3\x00\x00", "SQLite"),
    "zip": (b"PK\x03\x04\xff\xfe", "unpack it"),
    "nsys": (b"\nTime (%),Total Time (ns),Instances,Avg (ns),Name\n1,2,3,4,f\n", "line 2.*nsys"),
    "nvprof": (b'"Type","Time(%)","Time","Calls","Avg"\n', "line 1.*nvprof"),
    "random": (b"a,b\n1,2\n", "line 1: 'a,b'"),
    "binary": (b"\x00\x01\xff\xfe", "line 1"),
    "none": (b"==PROF== Connected\n==WARNING== No kernels were profiled.\n", "holds no kernels"),
    "header": (RAW.split("\n")[0], "line 1: the report ends within its header"),
    "units": ("\n".join(RAW.split("\n")[:2]) + "\n", "holds no kernels"),
    "no row": (RAW.split("\n")[0] + "\n", "holds no kernels"),
    "no units": ("\n".join([RAW.split("\n")[0], *RAW.split("\n")[2:]]), "line 2: the row of units"),
    "cells": (RAW[: RAW.rindex('"7"') - 1] + "\n", "line 4: 12 cells, and the header has 13"),
    "in a cell": (RAW[: RAW.rindex('7"')], "line 4"),
    "in a number": (
        RAW.replace('"', "")
        .replace("(64, 2, 1)", "n/a")
        .replace("(128, 1, 1)", "n/a")
        .replace("1,234,000", "1")
        .replace("5,000", "5")[:-1],
        "line 4: the report ends within a line",
    ),
    "damaged": (RAW.replace("1,234,000", "12a"), f"line 3, {READ}: '12a'"),
    "huge": (RAW.replace("1,234,000", "9" * 30), "larger than any counter"),
    "a unit of another kind": (
        RAW.replace('"byte","ns"', '"ns","byte"'),
        f"line 3, {READ}: its unit is 'ns', and not one of 'byte'",
    ),
    "an unknown unit": (RAW.replace('"byte"', '"KiB"'), f"line 3, {READ}: its unit is 'KiB'"),
    "no unit": (RAW.replace('"byte"', '""'), f"line 3, {READ}: its unit is ''"),
    "a negative time": (RAW.replace('"5,000"', '"-5,000"'), f"line 3, {TIME}: -5000 is negative"),
    "a negative count": (
        RAW.replace(READ, "x__sectors.sum").replace('"1,234,000"', '"-1"'),
        "line 3, x__sectors.sum: -1 is negative",
    ),
    "a huge exponent": (RAW.replace("1,234,000", "1e999999999"), "not a counter's value"),
    "a large exponent": (RAW.replace("1,234,000", "1e300"), "larger than any counter"),
    "digits of another script": (RAW.replace("1,234,000", "٣"), "not a counter's value"),
    "a grid without blocks": (RAW.replace("(64, 2, 1)", "(64, 0, 1)"), "line 3, Grid Size"),
    "a grid with endless digits": (
        RAW.replace("(64, 2, 1)", f"({'9' * 5000}, 2, 1)"),
        "line 3, Grid Size",
    ),
    "semicolons": (RAW.replace('","', '";"'), "line 1.*semicolons.*with commas"),
    "tabs": (RAW.replace('","', '"\t"'), "line 1.*tabs.*with commas"),
    "a long line of the program": (f"Kernel Name '{'x' * 200_000}', Block Size\n", "line 1"),
    "utf-16 cut off": (RAW.encode("utf-16")[:-9], "line 4: "),
    "grid": (RAW.replace("(64, 2, 1)", "(64, 2"), "line 3, Grid Size"),
    "nameless": (RAW.replace('"g"', '""'), "line 4: a launch without"),
    "doubled": (RAW.replace(TIME, READ), f"line 1: two columns are called '{READ}'"),
    "summary": (_csv([*HEAD, "Invocations", "Average"]), "line 1: a summary"),
    "no counters": (_csv(["Kernel Name", "Block Size"], ["f", "(1, 1, 1)"]), "line 1: a table of"),
    "source": (_csv(["Kernel Name", "f"], ["Address", "Source", "# Samples"]), "line 2.*page raw"),
    "within": (LONG.rstrip("\n") + '\n"GPU ID","GPU Name"\n', "line 6: 2 cells.*--page raw"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_report_is_named(tmp_path: Path, what: str) -> None:
    text, said = REFUSED[what]
    path = _write_report(tmp_path, text)
    with pytest.raises(GpuError) as error:
        read(path)
    message = str(error.value)
    assert str(path) in message, message
    assert re.search(said, message), message
    assert "\n" not in message


def test_every_cut_of_a_report_is_refused_or_has_fewer_launches(tmp_path: Path) -> None:
    whole = read(_write_report(tmp_path, RAW))
    for end in range(len(RAW) - 1):
        try:
            found = read(_write_report(tmp_path, RAW[:end]))
        except GpuError:
            continue
        assert found == whole[: len(found)], end
        assert len(found) < len(whole), end


def test_a_saved_record_keeps_what_was_rounded_and_no_folder(tmp_path: Path) -> None:
    lambda_ = "void f<(lambda at {}x.cu:3:1)>(float const*, a/b)"
    text = AUTO.replace(
        "void a::f<2>(int)", lambda_.format("/home/some body/src/".replace(" ", ""))
    )
    save(read(_write_report(tmp_path, text)), tmp_path / "saved", {})
    f, g = read(tmp_path / "saved")
    assert (f.name, f.rounded) == (lambda_.format(""), frozenset({READ, TIME}))
    assert g.rounded == {TIME}
    both = "".join(p.read_text() for p in (tmp_path / "saved").iterdir())
    assert "/home" not in both
    windows = KernelLaunch(name=lambda_.format("C:\\Users\\me too\\"), metrics={TIME: 1.0})
    assert as_csv([windows]).splitlines()[2].startswith(f'"{lambda_.format("")}"')
    (tmp_path / "saved" / "provenance.json").write_text('{"device": "", "rounded": 3}')
    with pytest.raises(GpuError, match="rounded: 3 are not names"):
        read(tmp_path / "saved")


def test_names_of_kernels_are_kept_whatever_they_have(tmp_path: Path) -> None:
    name = 'void k<"a, b", λ>(int, ::std::array<char *, 2>)::[lambda (instance 1)]'
    doubled = name.replace('"', '""')
    text = RAW.replace('"g"', f'"{doubled}"')
    assert read(_write_report(tmp_path, text))[1].name == name
    other = read(_write_report(tmp_path, RAW.replace('"g"', '"gé"').encode("latin-1")))
    assert (other[1].name, other[1].metrics) == ("g\ufffd", {TIME: 7.0})


def test_a_missing_file_and_a_folder_without_a_report(tmp_path: Path) -> None:
    with pytest.raises(GpuError, match="there is no such file"):
        read(tmp_path / "x.csv")
    with pytest.raises(GpuError, match=r"holds no report\.csv"):
        read(tmp_path)


def _fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0) -> None:
    ncu = tmp_path / "bin" / "ncu"
    ncu.parent.mkdir()
    out = _write_report(tmp_path, text, "out")
    ncu.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {out}\nexit {code}\n')
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ncu.parent}:/usr/bin:/bin")


def test_a_report_of_its_own_format_goes_through_ncu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write_report(tmp_path, b"NVR\x00 and so on", "x.ncu-rep")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GpuError, match=r"needs ncu .*--page raw --print-units base > report\.csv"):
        read(path)
    _fake_ncu(tmp_path, monkeypatch, RAW)
    assert read(path) == read(_write_report(tmp_path, RAW))
    assert (tmp_path / "asked").read_text() == (
        f"--import {path} --csv --page raw --print-units base\n"
    )


def test_a_damaged_report_of_its_own_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_ncu(tmp_path, monkeypatch, "==ERROR== Failed to load report\n", 1)
    for text, said in (
        (b"", "is empty"),
        (b"abc", "not a report of ncu"),
        (b"NVR\0", "Failed to load"),
    ):
        with pytest.raises(GpuError, match=said):
            read(_write_report(tmp_path, text, "x.ncu-rep"))


def test_a_launch_says_its_function_and_registers() -> None:
    launch = KernelLaunch(name="void f<2>(int)")
    assert (launch.short, launch.registers, launch.device) == ("f", None, "")


LAYOUTS = Path(__file__).parents[2] / "experiments" / "data" / "gpu" / "profile" / "layouts"


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 0.006 * abs(other) + 0.01  # two digits behind the point


def test_real_layouts_of_one_report_agree() -> None:
    """The same report as ncu exported it: base units, scaled ones, and one row for each metric."""
    base, auto, long = (
        read(LAYOUTS / f"{x}.csv") for x in ("raw-base", "raw-auto", "details-metrics")
    )
    assert [x.short for x in base] == [
        "vectorized_elementwise_kernel",
        "elementwise_kernel",
        "flash_fwd_kernel",
    ]
    assert base[0].device == long[0].device == "NVIDIA H200"
    assert base[0].metrics["l1tex__m_xbar2l1tex_read_bytes.sum"] == 2 * 2**26 * 2
    assert not base[0].rounded
    assert "l1tex__m_xbar2l1tex_read_bytes.sum" in auto[0].rounded & long[0].rounded
    for exact, *others in zip(base, auto, long, strict=True):
        for other in others:
            assert (other.name, other.grid, other.block) == (exact.name, exact.grid, exact.block)
            assert len(set(other.metrics) & set(exact.metrics)) > 40
            for name, value in other.metrics.items():
                assert _close(value, exact.metrics[name]), name
                assert other.units[name] == exact.units[name], name


def test_real_labels_are_the_counters_that_ncu_names() -> None:
    label, name, both = (
        read(LAYOUTS / f"details-{x}.csv") for x in ("label", "name", "label-name")
    )
    assert name[0].metrics == both[0].metrics
    assert len(label[0].metrics) > 25
    for counter, value in label[0].metrics.items():
        assert name[0].metrics[counter] == value
    throughput = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
    assert label[0].metrics[throughput] == 88.94
    assert label[0].metrics["dram__bytes.sum.per_second"] == 4.28e12


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("summary.csv", "line 1: a summary"),
        ("source.csv", "line 2.*one kernel's lines"),
        ("text.txt", "line 10.*as text.*--csv --page raw"),
    ],
)
def test_real_pages_that_are_not_read(file: str, said: str) -> None:
    with pytest.raises(GpuError, match=said):
        read(LAYOUTS / file)
