"""What ends `iosim cache` early is one line, in each engine, and leaves no file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from test_interrupts import interrupted_after

LARGE = "cache flash2 --N 4Ki --d 64 --tiles B_r=64,B_c=1"
MANY = "cache flash2 --N 16Ki --d 64 --tiles B_r=64,B_c=4"
ROWS = "cache naive --N 1Mi --d 64 --tiles B_r1=1,B_c1=1,B_d1=1,B_r2=1,B_c2=1,B_r3=1,B_c3=1,B_d3=1"


@pytest.mark.parametrize(
    "words",
    [
        "cache flash2 --N 2Ki --d 64 --tiles B_r=64,B_c=32 --capacity all --policy opt",
        f"{LARGE} --capacity 1Ki,2Ki,4Ki,8Ki --method stream --save trace.iosim",
        f"{MANY} --capacity 4Ki --policy opt --bypass --engine tiles",
        pytest.param(f"{LARGE} --capacity all --method stream", marks=pytest.mark.slow),
        pytest.param(
            "cache flash2 --N 4Ki --d 64 --tiles B_r=64,B_c=32 --capacity 4Ki --policy opt",
            marks=pytest.mark.slow,
        ),
        pytest.param(f"{MANY} --capacity all --engine tiles", marks=pytest.mark.slow),
        pytest.param(f"{ROWS},W1=0,W2=0 --capacity all --engine formula", marks=pytest.mark.slow),
        pytest.param(f"{LARGE} --capacity 4Ki --sample 0.01", marks=pytest.mark.slow),
    ],
)
def test_an_interrupted_cache_is_one_line_and_writes_nothing(words: str, tmp_path: Path) -> None:
    began = time.monotonic()
    code, out, err = interrupted_after(words, 3, tmp_path)
    assert (code, out) == (130, "")
    assert [line for line in err.splitlines() if "note: " not in line] == ["iosim: interrupted"]
    assert time.monotonic() - began < 30
    assert not list(tmp_path.rglob("*"))
