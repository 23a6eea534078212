"""`iosim count` of several schedules, and which lines it prints by default."""

from __future__ import annotations

import json

import pytest
from test_cli import iosim_, ok

SIZES = ("--N", "64", "--d", "8", "--M", "1Ki")


@pytest.mark.parametrize("more", [(), ("--causal", "--heads", "4", "--kv-heads", "2")])
def test_schedules_are_compared_as_each_is_counted(more: tuple[str, ...]) -> None:
    names = ("naive", "flash1", "flash2", "small_tiles")
    alone = [json.loads(ok("count", x, *SIZES, *more, "--json")) for x in names]
    found = json.loads(ok("count", ",".join(names), *SIZES, *more, "--json"))
    fewest = min(x["total_words"] for x in alone)
    assert found == [x | {"ratio": x["total_words"] / fewest} for x in alone]
    text = ok("count", "naive,flash,naive", *SIZES, *more, "--dtype", "fp16")
    _, columns, *rows, last = text.splitlines()
    assert columns.split() == [
        "schedule",
        "load_words",
        "store_words",
        "words",
        "bytes",
        "peak",
        "ratio",
    ]
    assert [row.split()[0] for row in rows] == ["naive", "flash2"]
    words = [x["total_words"] for x in alone if x["algorithm"] in ("naive", "flash2")]
    for row, one in zip(rows, words, strict=True):
        assert row.split()[3] == f"{one:,}"
        assert row.split()[-1] == f"{one / min(words):.3f}"
    assert f"{min(words):,}" in next(x for x in rows if x.split()[0] in last)


def test_a_schedule_that_does_not_fit_is_left_out_by_name() -> None:
    small = ("--N", "64", "--d", "64", "--M", "100")
    done = iosim_("count", "naive,flash2", *small)
    assert (done.returncode, "flash2" in done.stdout) == (0, False)
    assert "flash2 is left out: flash2 needs at least 195 words" in done.stderr
    one, other = json.loads(ok("count", "naive,flash2", *small, "--json"))
    assert (one["algorithm"], one["ratio"]) == ("naive", 1)
    assert set(other) == {"algorithm", "error"}
    none = iosim_("count", "flash1,flash2", *small)
    assert (none.returncode, none.stdout) == (2, "")
    other_kind = iosim_("count", "naive,matmul", *SIZES)
    assert "can't be compared: matmul solves matmul, naive solves attention" in other_kind.stderr
    unknown = iosim_("count", "naive,flash3", *SIZES)
    assert "unknown algorithm 'flash3'" in unknown.stderr


def test_details_are_asked_for() -> None:
    short, long = (ok("count", "naive", *SIZES, *more) for more in ((), ("--details",)))
    assert "tiles  10 sizes: --details prints them" in short
    assert "B_r1 = " not in short
    assert "B_r1 = " in long
    assert "B_r = " in ok("count", "flash2", *SIZES)
    masked, where = (
        ok("count", "flash2", *SIZES, "--causal", *more) for more in ((), ("--details",))
    )
    assert where.startswith(masked)
    assert "       at h = 0, i = " in where
    assert "tiles of naive: B_r1 = " in ok("count", "naive,flash2", *SIZES, "--details")
