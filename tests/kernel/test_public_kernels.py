"""The list of public kernels, without checkouts; the comparison, on a project made here."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from interpreted import Described

pytest.importorskip("triton")

from experiments import public_kernels
from experiments.public_kernels import (
    PublicLaunch,
    Row,
    compare_launch,
    imported_from,
    read_launches,
    sum_up,
)

TABLE = Path("experiments/data/public_kernels.csv")
PAGE = Path("docs/how-to/count-a-triton-kernel.md")
KERNEL = """
import triton
import triton.language as tl
import transformers_that_nobody_has
from own.sizes import FACTOR
from .sizes import pick

@triton.autotune(configs=transformers_that_nobody_has.list_configs(), key=["n"])
@triton.jit
def double(out, x, index, n, BLOCK: tl.constexpr):
    row = pick(index)
    at = tl.arange(0, BLOCK)
    tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.load(x + row * n + at, mask=at < n) * FACTOR, mask=at < n)

@triton.jit
def wait(lock):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
"""
SIZES = """
import triton
import triton.language as tl
FACTOR: tl.constexpr = tl.constexpr(2)

@triton.jit
def pick(index):
    return tl.load(index + tl.program_id(0))
"""
DOUBLE = PublicLaunch(
    "mine/src/own/kernel.py::double",
    "3",
    {"n": 10},
    ("fp32[n]", "fp32[4,n]", "i32 = 3, 0, 3", "n", 16),
)


def compare(folder: Path, launch: PublicLaunch, **more: dict[str, object]) -> Row:
    package = folder / "mine/src/own"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('needs a GPU')\n")
    (package / "kernel.py").write_text(KERNEL)
    (package / "sizes.py").write_text(SIZES)
    with imported_from(folder, {"mine": {"packages": "src"}}) as checkouts:
        return compare_launch(
            folder, launch, checkouts, more.get("traced", {}), more.get("measured", {})
        )


def test_a_kernel_of_a_checkout_is_counted_and_compared(tmp_path: Path) -> None:
    bytes_asked = [3 * (4 + 10 * 4 * 2), 3 * 10 * 4]
    sectors = {"write_bytes": 3 * 2 * 32, "read_bytes": 32}
    name = DOUBLE.name
    row = compare(tmp_path, DOUBLE, traced={name: bytes_asked}, measured={name: sectors})
    equal = "equal before the compiler left out 30 words"
    reads = "equal but for reads that L1 keeps"
    kernel = "src/own/kernel.py::double"
    assert row == Row("mine", kernel, "33", "30", "counted", equal, equal, reads)


def test_what_differs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = public_kernels.watch_kernel

    def miss(*operands: object) -> object:
        seen = watch(*operands)  # type: ignore[arg-type]
        seen.words["store", "out"] = Counter({0: 1})
        return seen

    monkeypatch.setattr(public_kernels, "watch_kernel", miss)
    measured = {DOUBLE.name: {"write_bytes": 64, "read_bytes": 32}}
    row = compare(tmp_path, DOUBLE, traced={DOUBLE.name: [1, 2]}, measured=measured)
    assert row.interpreter.startswith("words: ")
    assert row.triton_viz == "bytes: [252, 120], traced [1, 2]"
    assert row.counters == "192 bytes written, measured 64"


def test_a_refusal_has_no_other_columns(tmp_path: Path) -> None:
    row = compare(tmp_path, PublicLaunch("mine/src/own/kernel.py::wait", "2", {}, ("i32[1]",)))
    reason = "what an atomic operation returns steers the kernel (a lock, or a queue)"
    assert row.verdict == f"refused: mine/src/own/kernel.py:18: {reason}"
    assert row.interpreter == row.loaded == "-"


def test_every_launch_of_the_list_is_well_formed() -> None:
    projects, launches = read_launches()
    names = [x.name for x in launches]
    assert len(set(names)) == len(names)
    assert {x.place.partition("/")[0] for x in launches} == projects.keys()
    for launch in launches:
        assert launch.place.count(".py::") == 1, launch.name
        assert 1 <= len(launch.read_grid()) <= 3, launch.name
        values = launch.build_arguments([str(i) for i in range(len(launch.arguments))])
        assert any(hasattr(x, "nbytes") or isinstance(x, Described) for x in values.values())


def test_the_table_is_of_the_list_and_nothing_in_it_differs() -> None:
    rows = list(csv.DictReader(TABLE.read_text().splitlines()))
    for numbers in sum_up([Row(**x) for x in rows]):
        assert f"| {' | '.join(numbers)} |\n" in PAGE.read_text()
    assert [f"{x['project']}/{x['kernel']}" for x in rows] == [x.name for x in read_launches()[1]]
    counted = [x for x in rows if x["verdict"] == "counted"]
    assert all(x["verdict"].startswith("refused: ") for x in rows if x not in counted)
    for column in ("interpreter", "triton_viz"):
        assert all(x[column].startswith(("equal", "-")) for x in rows), column
    assert all(("measured" in x["counters"]) or x["counters"][0] in "e-" for x in rows)
    outside = "lanes of a"  # what the interpreter says of words beyond every argument
    assert not any(outside in x["interpreter"] for x in rows)
    equal = [x for x in counted if x["interpreter"].startswith("equal")]
    assert len(equal) >= 40
    assert len({x["project"] for x in equal}) >= 5
