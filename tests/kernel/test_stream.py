"""A kernel's stream of lines, against loops written by hand, and what caches make of it."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from iosim.base.errors import InputError
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.kernel import describe_launch, load_kernel
from iosim.kernel.count import count_kernel, lower_call
from iosim.kernel.stream import to_stream

SOFTMAX = "docs/examples/softmax.py::softmax"
COLUMNS, BLOCK, WORD = 40, 16, 4


def stream_of(rows: int, resident: int, line: int) -> list[tuple[int, bool]]:
    """The accesses of the softmax, each a line and whether it is written."""
    call = describe_launch(
        load_kernel(SOFTMAX), str(rows), {"columns": COLUMNS}, {}, {"BLOCK": BLOCK}
    )
    found = to_stream(lower_call(call), call.to_evaluate(), resident, line)
    return [
        (int(at), bool(write))
        for chunk in found.chunks()
        for at, write in zip(chunk.address, chunk.write, strict=True)
    ]


def lines_by_hand(rows: int, resident: int, line: int) -> list[tuple[int, bool]]:
    """The same by loops: x begins at 0, y behind it at a multiple of 512 bytes."""
    behind = -(-rows * COLUMNS * WORD // 512) * 512
    out: list[tuple[int, bool]] = []

    def refer(base: int, row: int, start: int, write: bool) -> None:
        seen: list[int] = []
        for column in range(start, min(start + BLOCK, COLUMNS)):
            at = (base + (row * COLUMNS + column) * WORD) // line
            if at not in seen:
                seen.append(at)
        out.extend((at, write) for at in seen)

    for first in range(0, rows, resident):
        wave = range(first, min(first + resident, rows))
        for start in range(0, COLUMNS, BLOCK):
            for row in wave:
                refer(0, row, start, False)
        for start in range(0, COLUMNS, BLOCK):
            for row in wave:
                refer(0, row, start, False)
            for row in wave:
                refer(behind, row, start, True)
    return out


@pytest.mark.parametrize(
    ("rows", "resident", "line"), [(5, 1, 32), (5, 2, 32), (7, 7, 128), (4, 9, 4), (3, 2, 512)]
)
def test_lines_come_in_the_order_of_loops(rows: int, resident: int, line: int) -> None:
    assert stream_of(rows, resident, line) == lines_by_hand(rows, resident, line)


def invoke(*words: str) -> Result:
    """Run ``iosim kernel cache`` on the softmax."""
    launch = ("--grid", "100", "--arg", "columns=1000", "--const", "BLOCK=256")
    return CliRunner().invoke(program(COMMANDS), ["kernel", "cache", SOFTMAX, *launch, *words])


def test_a_row_that_fits_is_read_once() -> None:
    done = invoke("--bytes", "2KiB,16KiB", "--json")
    assert done.exit_code == 0, done.output
    small, large = json.loads(done.stdout)["rows"]
    assert small["reads"] == 2 * 100 * 1000 * WORD
    assert large["reads"] == 100 * 1000 * WORD
    assert large["writes"] + large["flush"] == 100 * 1000 * WORD


def test_rows_of_resident_programs_share_the_cache() -> None:
    (row,) = json.loads(invoke("--bytes", "16KiB", "--resident", "8", "--json").stdout)["rows"]
    assert row["reads"] > 1.9 * 100 * 1000 * WORD


def test_a_stream_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iosim.kernel.stream.MOST_ACCESSES", 100)
    done = invoke("--bytes", "2KiB")
    assert isinstance(done.exception, InputError)
    assert "more than 100 lines of 32 bytes" in str(done.exception)


@pytest.mark.parametrize(("columns", "block"), [(40, 16), (777, 256), (8, 8), (33, 64)])
def test_sectors_are_the_stream_s_lines_of_32_bytes(columns: int, block: int) -> None:
    call = describe_launch(load_kernel(SOFTMAX), "13", {"columns": columns}, {}, {"BLOCK": block})
    found = count_kernel(call).reuse
    stream = to_stream(lower_call(call), call.to_evaluate(), 1, 32)
    writes = sum(int(chunk.write.sum()) for chunk in stream.chunks())
    assert found["store", "y"].sectors == writes
    assert found["load", "x"].sectors == stream.length - writes


def test_a_kernel_that_refers_to_nothing_is_refused() -> None:
    launch = ("--grid", "4", "--arg", "columns=0", "--const", "BLOCK=256", "--bytes", "2KiB")
    done = CliRunner().invoke(program(COMMANDS), ["kernel", "cache", SOFTMAX, *launch])
    assert isinstance(done.exception, InputError)
    assert "refers to no memory" in str(done.exception)


def test_a_machine_gives_the_bytes_of_its_cache() -> None:
    launch = ["--grid", "9", "--arg", "columns=256", "--const", "BLOCK=64", "--json"]

    def replay(*words: str) -> Result:
        command = ["kernel", "cache", SOFTMAX, *launch, *words]
        return CliRunner().invoke(program(COMMANDS), command)

    by_name = json.loads(replay("--machine", "h100").stdout)
    assert by_name == json.loads(replay("--bytes", "50MiB").stdout)
    for words in ((), ("--machine", "h100", "--bytes", "1MiB")):
        done = replay(*words)
        assert isinstance(done.exception, InputError)
        assert "give --bytes, like --bytes 50MiB, or --machine" in str(done.exception)
