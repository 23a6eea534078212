"""A tensor that comes as a descriptor: its shape on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from interpreted import Described, import_file

from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program
from iosim.kernel import trace

pytest.importorskip("triton")
FILE = Path(__file__).parent / "corpus" / "descriptors.py"
SHAPES = "a=[M,K],b=[K,N],c=[M,N]"
TYPES = "a=tensordesc<fp16[32,16]>,b=tensordesc<fp16[16,16]>,c=tensordesc<fp16[32,16]>"


def count(shapes: str = SHAPES) -> Any:
    words = ["--grid", "cdiv(M,BM),cdiv(N,BN)", "--arg", "M=50,N=40,K=24", "--type", TYPES]
    words += ["--const", "BM=32,BN=16,BK=16", *(["--desc", shapes] if shapes else [])]
    line = ["kernel", "count", f"{FILE}::matmul_given", *words, "--json"]
    return CliRunner().invoke(program(COMMANDS), line)


def test_a_shape_is_as_good_as_the_tensor() -> None:
    a, b, c = (np.zeros(shape, "f2") for shape in ((50, 24), (24, 40), (50, 40)))
    tensors = [
        Described(x, tile).describe() for x, tile in ((a, (32, 16)), (b, (16, 16)), (c, (32, 16)))
    ]
    launch = trace(import_file(FILE).matmul_given)[2, 3]
    want = launch(*tensors, 50, 40, 24, BM=32, BN=16, BK=16).to_dict()
    done = count()
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    for key in ("load", "store", "distinct", "hidden", "word_bytes"):
        assert answer[key] == want[key]
    assert json.loads(count(SHAPES.replace("[K,N]", "[K,N]:[N,1]")).stdout) == answer


def test_strides_move_the_words() -> None:
    apart = json.loads(count(SHAPES.replace("[K,N]", "[K,N]:[0,1]")).stdout)
    assert apart["distinct"]["load"]["b"] == 40  # all rows are one
    assert apart["load"] == json.loads(count().stdout)["load"]


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ("", 'a is a descriptor: give its shape, like --desc "a=[M,K]"'),
        ("a=[M]", "--desc a=[M] has other axes than tensordesc<fp16[32,16]>"),
        ("a=M", "--desc: 'M' isn't a shape: write it like [M,K] or [M,K]:[K,1]"),
        ("a=[L,K]", "--desc 'L,K' needs L: "),
        (
            SHAPES + ",M=[K]",
            '--desc M needs a type: --type "M=tensordesc<fp16[64,64]>" has its tile',
        ),
        ("x=[M,K]", "matmul_given has no argument 'x'"),
    ],
)
def test_a_shape_that_is_wrong_is_refused(shapes: str, says: str) -> None:
    done = count(shapes)
    assert done.exit_code != 0
    assert says in (done.output if done.exception is None else f"{done.output}{done.exception}")
