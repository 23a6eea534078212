"""`iosim profile`: real kernels of an H200 judged, and every share of a peak computed once more.

The record is of `docs/examples/profiled_kernels.py`, whose sizes are known: FLOP, bytes and peaks
are worked out here from these alone, with none of the code that judges.
"""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iosim.base.errors import InputError, IosimError
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import run as run_cli
from iosim.gpu.errors import GpuError
from iosim.gpu.profiling import running
from iosim.gpu.profiling.kernels import (
    L2_DRAM,
    SHARED,
    SM_L2,
    ProfiledKernel,
    kernels,
    positions,
)
from iosim.gpu.profiling.metrics import QUANTITIES, RATIOS
from iosim.gpu.profiling.reading import read
from iosim.gpu.profiling.saving import save
from iosim.gpu.profiling.show import details, sentences, to_dict
from iosim.gpu.profiling.verdict import BUSY, HINTS, UNITS, judge
from iosim.gpu.run import requirements
from iosim.models.hardware import machine

RECORD = Path(__file__).parents[2] / "experiments" / "data" / "gpu" / "profile" / "h200"
LAYOUTS = RECORD.parent / "layouts"
N, HEADS, SMS = 4096, 8, 132


def _rows() -> list[dict[str, str]]:
    """The record as it lies on the disk, read by csv alone."""
    header, _, *rows = csv.reader((RECORD / "report.csv").read_text().splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def found() -> list[ProfiledKernel]:
    return kernels(read(RECORD))


def _one(found: list[ProfiledKernel], name: str, **sizes: Any) -> ProfiledKernel:
    mine = [
        k for k in found if name in k.name and all(getattr(k, x) == v for x, v in sizes.items())
    ]
    assert len(mine) == 1, [(k.short, k.grid) for k in mine]
    return mine[0]


JUDGED = {
    # name in the full name, grid → bound by, and a word of the unit
    ("nvjet_sm90", None): ("compute", "tensor"),
    ("matmul_kernel", None): ("compute", "tensor"),
    ("CUDAFunctor_add<c10::Half>", (65536, 1, 1)): ("memory", "DRAM"),
    ("polynomial_kernel", None): ("compute", "FMA"),
    ("exponential_kernel", None): ("compute", "special"),
    ("one_block_kernel", None): ("latency", ""),
    ("reduction_kernel", None): ("latency", ""),
    ("CUDAFunctorOnSelf_add<c10::Half>", None): ("overhead", "launch"),
    ("empty_kernel", None): ("overhead", "launch"),
    ("spilling_kernel", None): ("latency", ""),
    ("vectorized_layer_norm_kernel", None): ("compute", "issue"),
    ("sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64", None): ("latency", ""),
    ("sdpa_sm90_flash_bprop", None): ("memory", "L1"),
}


@pytest.mark.parametrize("name", JUDGED)
def test_verdicts_of_real_kernels(
    found: list[ProfiledKernel], name: tuple[str, tuple[int, int, int] | None]
) -> None:
    kernel = _one(found, name[0], **({"grid": name[1]} if name[1] else {}))
    judged = judge(kernel)
    bound, unit = JUDGED[name]
    assert (judged.bound, judged.absent) == (bound, ()), judged
    assert unit in judged.unit, judged
    assert bound in sentences(kernel, judged)[0]


def test_two_units_that_are_close_are_both_named(found: list[ProfiledKernel]) -> None:
    assert judge(_one(found, "flash_bprop")).against.startswith("almost by arithmetic: tensor")
    assert judge(_one(found, "nvjet_sm90")).against.startswith("not by memory, which does less")
    assert judge(_one(found, "one_block_kernel")).against.startswith("units: ")


def test_each_bound_is_seen() -> None:
    assert {bound for bound, _ in JUDGED.values()} == {"memory", "compute", "latency", "overhead"}


def _peak(row: dict[str, str], cycles: float, work: float, each: float) -> float:
    """Percent of `each` a cycle on every SM."""
    return 100 * work / (cycles * SMS * each)


# Kernel → the share, what it does by its sizes, how much of that an SM does in a cycle (H100 white
# paper: 4 tensor cores of 512 fused products of fp16, 128 of fp32, 16 special functions).
SHARES = {
    "nvjet_sm90": ("sm__pipe_tensor_cycles_active.avg", 2 * N**3, 4096),
    "matmul_kernel": ("sm__pipe_tensor_cycles_active.avg", 2 * N**3, 4096),
    "sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64": (
        "sm__pipe_tensor_cycles_active.avg",
        4 * N * N * 64 * HEADS,
        4096,
    ),
    "polynomial_kernel": ("sm__pipe_fma_cycles_active.avg", 2**22 * 4096, 128),
    "exponential_kernel": ("sm__inst_executed_pipe_xu.avg", 2**22 * 1024, 16),
}


@pytest.mark.parametrize("name", SHARES)
def test_shares_of_compute_peaks_by_hand(name: str) -> None:
    (row,) = [r for r in _rows() if name in r["Kernel Name"]]
    counter, work, each = SHARES[name]
    share = _peak(row, float(row["sm__cycles_elapsed.max"]), work, each)
    # Cycles are of another pass than the share: clocks differ a little.
    assert float(row[f"{counter}.pct_of_peak_sustained_elapsed"]) == pytest.approx(share, rel=0.03)


def test_shares_of_memory_peaks_by_hand() -> None:
    checked = 0
    for row in _rows():
        time = float(row["gpu__time_duration.sum"]) * 1e-9
        if time < 20e-6:  # the clock's own steps are seen in shorter ones
            continue
        moved = float(row["dram__bytes_read.sum"]) + float(row["dram__bytes_write.sum"])
        share = 100 * moved / time / 4.8e12
        assert float(row["dram__bytes.sum.pct_of_peak_sustained_elapsed"]) == pytest.approx(
            share, rel=0.02, abs=0.1
        )
        wavefronts = float(row["l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"])
        least = _peak(row, float(row["sm__cycles_elapsed.max"]), wavefronts, 1)
        pipe = float(row["l1tex__data_pipe_lsu_wavefronts.sum.pct_of_peak_sustained_elapsed"])
        assert pipe >= least * 0.97 - 0.1
        checked += 1
    assert checked > 25


def test_bytes_of_kernels_whose_sizes_are_known(found: list[ProfiledKernel]) -> None:
    add = _one(found, "CUDAFunctor_add<c10::Half>", grid=(65536, 1, 1))
    assert (add.values["l2_read"], add.values["l2_write"]) == (2 * 2**26 * 2, 2**26 * 2)
    assert add.ordinary("read") == 2 * 2**26 * 2
    product = _one(found, "nvjet_sm90")
    assert product.values["bulk_read"] == 2 * N**3 / 128 + 2 * N**3 / 256  # tiles of 256 × 128
    assert product.values["multicast_read"] == 2**30
    assert product.values["bulk_write"] == 2 * N * N
    assert product.values["tensor_fp16"] == product.values["tensor_fp16_groups"] == 2 * N**3
    # A product of 64 × 128 × 16 reads both operands from shared memory: (64 + 128) · 16 words.
    least = 2 * N**3 / (2 * 64 * 128 * 16) * (64 + 128) * 16 * 2
    assert least < (product.values["shared"] or 0) < 1.05 * least
    fused = _one(found, "fprop_wgmma_f16_knob_7_64x128x64")
    assert fused.values["bulk_read"] == (N + 2 * (N // 128) * N) * 64 * 2 * HEADS
    assert fused.tensor_flop == 4 * N * N * 64 * HEADS
    polynomial = _one(found, "polynomial_kernel")
    assert polynomial.vector_flop == polynomial.flop == 2 * 2**22 * 4096
    assert add.values["vector_fp32"] == 2 * 2**26  # alpha · y + x, in fp32
    reduced = _one(found, "reduction_kernel")
    assert (reduced.values["reduced"], reduced.values["bulk_reduced"]) == (2**22 * 4, 0)
    assert reduced.ordinary("write") == 0
    back = _one(found, "flash_bprop")
    assert back.values["bulk_reduced"] == math.ceil(N / 128) * N * 128 * 4 * HEADS
    # FlashAttention-2 has its products by single warps, and loads through the load-store units.
    flash = [k for k in found if k.short == "flash_fwd_kernel"]
    assert {k.values["tensor_fp16_groups"] for k in flash} == {0}
    assert {k.values["bulk_read"] for k in flash} == {0}


def test_positions_are_worked_out_from_flop_bytes_and_time_alone(
    found: list[ProfiledKernel],
) -> None:
    product = _one(found, "nvjet_sm90")
    (row,) = [r for r in _rows() if "nvjet_sm90" in r["Kernel Name"]]
    time = float(row["gpu__time_duration.sum"]) * 1e-9
    moved = float(row["dram__bytes_read.sum"]) + float(row["dram__bytes_write.sum"])
    at = {p.boundary: p for p in positions(product)}
    assert set(at) == {L2_DRAM, SM_L2, SHARED}
    assert at[L2_DRAM].intensity == pytest.approx(2 * N**3 / moved)
    assert at[L2_DRAM].attained == pytest.approx(100 * 2 * N**3 / time / 989.4e12)
    assert at[SM_L2].attained is None  # no source gives an H200's bandwidth there
    a100 = kernels(read(RECORD), machine("a100"))
    moved = positions(_one(a100, "nvjet_sm90"))
    assert {p.boundary: p.peak_bytes_per_s for p in moved}[SM_L2] == 7219e9


def test_hints_name_what_the_kernels_were_written_for(found: list[ProfiledKernel]) -> None:
    said = [(k.name, judge(k).next) for k in found]

    def of(name: str) -> str:
        return " ".join(x for full, each in said if name in full for x in each)

    assert "registers spill" in of("spilling_kernel")
    assert "1 block for 132 SMs" in of("one_block_kernel")
    assert "32.0 sectors a request" in of("direct_copy_kernel_cuda")
    assert "L2↔DRAM reads 2 times what SM↔L2 does" in of("direct_copy_kernel_cuda")
    assert "200 launches" in of("CUDAFunctorOnSelf_add")
    assert "single warps (mma.sync)" in of("flash_fwd_kernel")
    assert "mma.sync" not in of("sdpa_sm90")
    assert "bank conflicts" in of("sm80_xmma_gemm")
    assert "matrix units are full" in of("nvjet_sm90")
    assert "registers spill" not in of("nvjet_sm90")
    seen = {h.name for h in HINTS for k in found if h.says(k) and judge(k).bound in h.bounds}
    assert seen == {h.name for h in HINTS}


def test_launches_of_one_function_are_told_apart_by_their_times(
    found: list[ProfiledKernel],
) -> None:
    """A strided copy and four ordinary ones are one function with one grid."""
    mine = [k for k in found if "direct_copy_kernel_cuda" in k.name and k.grid == (8192, 1, 1)]
    assert sorted(k.launches for k in mine) == [1, 4]
    rows = [r for r in _rows() if r["Grid Size"] == "(8192, 1, 1)"]
    times = sorted(float(r["gpu__time_duration.sum"]) for r in rows)
    assert times[-1] > 1.5 * times[-2]
    assert sum(k.launches for k in found) == len(_rows())


def test_launches_are_added_and_shares_averaged_by_time() -> None:
    launch = read(RECORD)[0]
    time, share = "gpu__time_duration.sum", "dram__bytes.sum.pct_of_peak_sustained_elapsed"
    one = replace(launch, metrics={time: 100.0, share: 10.0, "dram__bytes_read.sum": 5.0})
    two = replace(launch, metrics={time: 140.0, share: 40.0, "dram__bytes_read.sum": 7.0})
    (k,) = kernels([one, two])
    assert (k.values["time"], k.values["dram_read"]) == (240.0, 12.0)
    assert k.values["dram_busy"] == pytest.approx((100 * 10 + 140 * 40) / 240)
    three = replace(launch, metrics={time: 120.0})
    assert kernels([one, two, three])[0].values["dram_read"] is None  # one has none: no sum


def test_what_is_absent_is_said_with_its_counter_and_never_guessed() -> None:
    launch = read(RECORD)[0]
    some = {"gpu__time_duration.sum": 1e6, "dram__bytes.sum.pct_of_peak_sustained_elapsed": 31.0}
    (k,) = kernels([replace(launch, metrics=some)])
    judged = judge(k)
    assert judged.bound == "unknown"
    assert "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed" in judged.absent
    text = " ".join(sentences(k, judged))
    assert "can't be told" in text
    assert "DRAM (L2↔DRAM) 31.0%" in text
    rows = {name: (value, source) for name, value, source in details(k)}
    assert rows["L2↔DRAM, read"] == ("absent", "needs dram__bytes_read.sum")
    hits = replace(
        launch,
        metrics={
            "lts__t_sectors_srcunit_tex.sum": 4.0,
            "lts__t_sectors_srcunit_tex_lookup_hit.sum": 1.0,
        },
    )
    assert (
        "found in L2",
        "25 %",
        "lts__t_sectors_srcunit_tex_lookup_hit.sum / lts__t_sectors_srcunit_tex.sum",
    ) in details(kernels([hits])[0])
    assert rows["sectors of a request, loads"][1] == (
        "needs l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum and "
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    )
    # Tensor cores that are busy say what bounds it, whatever DRAM does; so they change the verdict.
    more = some | {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 84.0}
    judged = judge(kernels([replace(launch, metrics=more)])[0])
    assert (judged.bound, judged.unit) == ("compute", "tensor cores")
    assert "DRAM (L2↔DRAM) 31.0%" in judged.against
    assert judged.absent


@pytest.mark.parametrize("unit", UNITS, ids=lambda u: u.quantity)
def test_every_unit_alone_decides(found: list[ProfiledKernel], unit: Any) -> None:
    """Break the record in one place: the verdict follows the unit that is made busy."""
    quiet = _one(found, "one_block_kernel")
    raised = dict(quiet.values) | {unit.quantity: BUSY + 1}
    if unit.whole:
        raised |= {u.quantity: None for u in UNITS if u.instead == unit.quantity}
    judged = judge(
        replace(
            quiet, values=raised, counters=dict(quiet.counters) | {unit.quantity: ("a counter",)}
        )
    )
    assert (judged.bound, judged.unit) == (unit.bound, unit.says)


def test_saved_records_are_read_again_and_name_nobody(tmp_path: Path) -> None:
    launches = read(RECORD)
    save(launches, tmp_path / "again", {"command": "iosim profile"})
    again = read(tmp_path / "again")
    assert again == launches
    text = (tmp_path / "again" / "report.csv").read_text()
    header = text.splitlines()[0]
    assert not {"Process", "Host", "Context", "Stream"} & set(header.replace(",", " ").split())
    for path in (RECORD, tmp_path / "again"):
        both = "".join(p.read_text() for p in path.iterdir())
        assert not [x for x in ("127.0.0.1", "/tmp", "/home", "/root", "python3.12") if x in both]


def test_a_record_that_is_there_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second --out of the same name is refused, of a command before it runs."""
    out = tmp_path / "out"
    _run(capsys, str(RECORD), "--out", str(out))
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def started(asked: object) -> None:
        raise AssertionError("the command ran")

    monkeypatch.setattr("iosim.cli.profiling.run_profiled", started)
    other = str(LAYOUTS / "raw-base.csv")
    for words in ([other], ["--kernel", "nvjet", str(RECORD)], []):
        command = [] if words else ["--", "true"]
        with pytest.raises(IosimError, match="holds a record already: give another") as error:
            run_cli(COMMANDS, ["profile", *words, "--out", str(out), *command])
        assert "\n" not in str(error.value)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (out / "report.csv").unlink()  # what is left is a record's, too
    with pytest.raises(IosimError, match="holds a record already"):
        save(read(RECORD), out, {})
    (out / "provenance.json").unlink()
    _run(capsys, other, "--out", str(out))  # the folder itself may be there


def test_records_name_ncu_and_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a record as it says; of a table, which doesn't, unknown; of a command those here."""

    def read_provenance(name: str) -> tuple[str, str]:
        found = json.loads((tmp_path / name / "provenance.json").read_text())
        return found["ncu"], found["driver"]

    _run(capsys, str(RECORD), "--out", str(tmp_path / "record"))
    assert read_provenance("record") == ("2025.3.1.0", "580.159.04")
    _run(capsys, str(LAYOUTS / "raw-base.csv"), "--out", str(tmp_path / "table"))
    assert read_provenance("table") == ("unknown", "unknown")
    _run(capsys, str(tmp_path / "record"), "--out", str(tmp_path / "again"))
    assert read_provenance("again") == read_provenance("record")
    monkeypatch.setattr("iosim.cli.profiling.run_profiled", lambda asked: read(RECORD))
    for name in ("ncu", "nvidia-smi"):
        says = "Nsight\\nVersion 2026.1.2.0 (build 7)" if name == "ncu" else "601.5\\n601.5"
        (tmp_path / name).write_text(f"#!/bin/sh\nprintf '{says}\\n'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    _run(capsys, "--out", str(tmp_path / "command"), "--", "true")
    assert read_provenance("command") == ("2026.1.2.0", "601.5")
    for name in ("ncu", "nvidia-smi"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 9\n")
    _run(capsys, "--out", str(tmp_path / "silent"), "--", "true")
    assert read_provenance("silent") == ("unknown", "unknown")


def _run(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_cli(COMMANDS, ["profile", *words]) == 0
    return capsys.readouterr().out


def test_the_command_prints_whole_names_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    text = _run(capsys, str(RECORD), "--top", "2")
    kernels_ = kernels(read(RECORD))
    for k in kernels_[:2]:
        assert k.name in text
    assert f"{len(kernels_) - 2} more kernels" in text
    rows = json.loads(_run(capsys, str(RECORD), "--json", "--top", "0", "--kernel", "nvjet|^empty"))
    assert [r["kernel"][:5] for r in rows] == ["nvjet", "empty"]
    assert rows[0]["verdict"]["bound"] == "compute"
    assert rows[0]["needs"]["used_read"] == list(QUANTITIES["used_read"].needs)
    assert set(rows[0]["values"]) == set(QUANTITIES) | set(RATIOS)
    assert rows[0] == json.loads(
        json.dumps(to_dict(_one(kernels_, "nvjet"), judge(_one(kernels_, "nvjet"))))
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give one report, or a command after --"),
        (["a.csv", "b.csv"], "give one report"),
        (["--"], "give a report, or a command after --"),
        ([str(RECORD), "--", "true"], "give a report, or a command after --"),
        ([str(RECORD), "--kernel", "nowhere"], "no kernel of .*: there are .*nvjet"),
        ([str(RECORD), "--kernel", "("], "not a regular expression"),
        (["nowhere.csv"], "cannot read nowhere.csv"),
        ([str(RECORD), "--out", "/dev/null/x"], "cannot write"),
        ([str(RECORD), "--out", str(RECORD)], "give another folder"),
        ([str(RECORD / "report.csv"), "--out", str(RECORD)], "give another folder"),
        (["--", "true"], "ncu .* is not on the PATH"),
    ],
)
def test_wrong_uses_are_one_line(
    words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(IosimError, match=said) as error:
        run_cli(COMMANDS, ["profile", *words])
    assert "\n" not in str(error.value)


FAKE = """#!/bin/sh
case "$1" in --query-metrics) cat {listed}; exit 0;; esac
echo "$@" > {asked}
while [ "$1" != --log-file ]; do shift; done
cp {report} "$2"; echo {says} >> "$2"; exit {code}
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An `ncu` that leaves a report, and a driver that shows a GPU."""
    monkeypatch.setattr(requirements, "devices", lambda: 1)
    monkeypatch.setattr(requirements, "forbidden", lambda: False)

    def make(report: str, code: int = 0, says: str = "") -> Path:
        ncu, asked = tmp_path / "ncu", tmp_path / "asked"
        (tmp_path / "report").write_text(report)
        counters = [x.partition(".")[0] for q in QUANTITIES.values() for x in q.forms[-1]]
        (tmp_path / "listed").write_text("\n".join(f"{x}  Counter" for x in counters))
        ncu.write_text(
            FAKE.format(
                listed=tmp_path / "listed",
                asked=asked,
                code=code,
                says=says,
                report=tmp_path / "report",
            )
        )
        ncu.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return asked

    return make


def test_a_command_is_run_under_ncu(fake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    asked = fake((RECORD / "report.csv").read_text())
    text = _run(
        capsys,
        "--kernel",
        "nvjet",
        "--launches",
        "9",
        "--skip",
        "2",
        "--marked",
        "--no-vector-flop",
        "--",
        "python3",
        "x.py",
        "--top",
    )
    assert "compute-bound: tensor cores 90.0%" in text
    said = asked.read_text()
    assert (
        "--kernel-name regex:nvjet --launch-count 9 --launch-skip 2 --profile-from-start off"
        in said
    )
    assert said.endswith("python3 x.py --top\n")
    names = said.partition("--metrics ")[2].split()[0].split(",")
    assert not [x for x in names if "sass" in x]
    # Of several names of one counter the one that this chip lists is asked for, and it alone.
    assert "sm__ops_path_tensor_src_fp16_dst_fp32_sparsity_off.sum" in names
    assert "sm__ops_path_tensor_src_fp16.sum" not in names


def test_a_command_is_profiled_for_the_kernel_that_is_expected(
    fake: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("triton")
    asked = fake((RECORD / "report.csv").read_text())
    kernel = f"{Path(__file__).parents[2]}/docs/examples/profiled_kernels.py::one_block_kernel"
    launch = ("--grid", "1", "--arg", "n=2**20", "--const", "B=1024")
    text = _run(capsys, "--expect", kernel, *launch, "--", "python3", "x.py")
    assert "--kernel-name regex:one_block_kernel " in asked.read_text()
    assert "stores and atomics: exactly the expected bytes" in text


@pytest.mark.parametrize(
    ("report", "code", "says", "said"),
    [
        ("", 1, "==ERROR== ERR_NVGPUCTRPERM - no permission", "run as root"),
        ("", 9, "==ERROR== The application returned an error code (9).", "error code"),
        ("==WARNING== No kernels were profiled.\n", 0, "", "holds no kernels"),
    ],
)
def test_what_ncu_says_is_handed_on(
    fake: Any, report: str, code: int, says: str, said: str
) -> None:
    fake(report, code, f"'{says}'")
    with pytest.raises(GpuError, match=said):
        running.run(running.Profiling(("true",)))


def test_a_machine_without_a_gpu_or_permission(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake("")
    with pytest.raises(GpuError, match="no command 'nowhere'"):
        running.run(running.Profiling(("nowhere",)))
    monkeypatch.setattr(requirements, "forbidden", lambda: True)
    with pytest.raises(GpuError, match="ERR_NVGPUCTRPERM"):
        running.run(running.Profiling(("true",)))
    monkeypatch.setattr(requirements, "devices", lambda: 0)
    with pytest.raises(GpuError, match="no NVIDIA GPU"):
        running.run(running.Profiling(("true",)))


def test_quantities_and_units_agree() -> None:
    for name, one in QUANTITIES.items():
        assert one.name == name
        assert all(one.forms)
        assert one.of(dict.fromkeys(one.needs, 1.0)) == sum(one.forms[0].values())
        assert one.of({}) is None
    assert {x for r in RATIOS.values() for x in (r.top, r.bottom)} <= set(QUANTITIES)
    assert {u.quantity for u in UNITS} <= set(QUANTITIES)
    assert not set(QUANTITIES) & set(RATIOS)
    with pytest.raises(InputError):
        machine("nowhere")
