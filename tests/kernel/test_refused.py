"""What can't be counted is refused with the line of the source and the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from interpreted import import_file, watch_kernel

from iosim.base.errors import InputError
from iosim.kernel import UnsupportedKernel, count_kernel, describe_launch, load_kernel, trace
from iosim.kernel.launch import read_grid

pytest.importorskip("triton")
FILE = Path(__file__).parent / "refused.py"
RETURNS = "what an atomic operation returns steers the kernel"
DATA = {
    "overwritten": {"index": np.zeros(8, "i4")},
    "outside": {"table": np.zeros(3, "i4")},
}
# Numbers, types and constants of a launch.
GIVEN: dict[str, tuple[dict[str, float], dict[str, str], dict[str, int]]] = {
    "locked": ({}, {"lock": "*i32"}, {}),
    "queue": ({"n": 9}, {"head": "*i32"}, {}),
    "gather": ({}, {"index": "*i32"}, {}),
    "threshold": ({"n": 30}, {}, {"BLOCK": 16}),
    "converge": ({"limit": 0.5}, {}, {}),
    "overwritten": ({}, {"index": "*i32"}, {}),
    "aligned": ({}, {"x": "*fp32"}, {}),
    "missing": ({}, {"n": "i32"}, {}),
    "outside": ({"n": 4}, {"table": "*i32"}, {}),
}


@pytest.mark.parametrize(
    ("name", "line", "why"),
    [
        ("locked", "takes the lock", RETURNS),
        ("queue", "tl.atomic_add(head, 1)", RETURNS),
        ("gather", "# steers", "the words of index steer the kernel: give them with --data index="),
        ("threshold", "# steers", "the words of x steer the kernel: give them with --data x="),
        ("converge", "# steers", "the words of x steer the kernel: give them with --data x="),
        ("overwritten", "reads what it wrote", "steers the kernel, which has written it before"),
        ("aligned", "asks the address itself", "arithmetic with an address"),
        ("missing", "isn't there", "needs n, which isn't given"),
        ("outside", "beyond the table", "reads table[4]: it has 3 words"),
    ],
)
def test_a_refusal_has_the_line_and_the_reason(name: str, line: str, why: str) -> None:
    arguments, types, constants = GIVEN[name]
    kernel = load_kernel(f"{FILE}::{name}")
    call = describe_launch(kernel, "2", arguments, types, constants, DATA.get(name))
    with pytest.raises(UnsupportedKernel) as caught:
        count_kernel(call)
    place, _, reason = str(caught.value).partition(": ")
    text = FILE.read_text().splitlines()
    start = next(i for i, x in enumerate(text) if x.startswith(f"def {name}("))
    lines = [i for i, x in enumerate(text[start:], start + 1) if line in x]
    assert place == f"{FILE}:{lines[0]}"
    assert why in reason


@pytest.mark.parametrize(("name", "times"), [("twice", 1), ("twice_volatile", 2)])
def test_a_second_load_that_the_compiler_removes_counts_once(name: str, times: int) -> None:
    out, x = np.zeros((2, 8), "f4")
    seen = watch_kernel(FILE, name, (8,), {"out": out, "x": x})
    assert set(seen.words["load", "x"].values()) == {2}
    count = trace(getattr(import_file(FILE), name))[8,](out, x)
    assert count.words("load") == {"x": 8 * times}
    assert count.reuse["load", "x"].times == {times: 8}


def test_a_type_that_triton_refuses_is_named() -> None:
    call = describe_launch(load_kernel(f"{FILE}::locked"), "2", {}, {"lock": "*fp32"}, {})
    with pytest.raises(InputError, match="is a --type wrong"):
        count_kernel(call)


def test_where_constants_are_missing_a_decorator_that_fails_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tuned.py"
    begin = "@triton.jit\ndef threshold"
    file.write_text(FILE.read_text().replace(begin, f"@absent.tune()\n{begin}"))
    kernel = load_kernel(f"{file}::threshold")
    with pytest.raises(InputError, match=r"values of BLOCK \(its decorator fails: line \d+: Name"):
        describe_launch(kernel, "2", {"n": 30}, {}, {})


@pytest.mark.parametrize(
    ("grid", "why"),
    [
        ("cdiv(n)", "cdiv takes other values"),
        ("cdiv(n, 0)", "divides by zero"),
        ("next_power_of_2(1.5)", "next_power_of_2 takes other values"),
    ],
)
def test_a_grid_of_wrong_functions_says_so(grid: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_grid(grid, {"n": 9})
