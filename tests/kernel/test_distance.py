"""Kernels compared with bounds and schedules: roles found, differences tensor by tensor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from iosim import Attention, algorithm, bind, count
from iosim.cli.commands import COMMANDS
from iosim.cli.registry import program

CORPUS = Path(__file__).with_name("corpus")
ATTENTION = f"{CORPUS}/attention.py::attention"
MATMUL = f"{CORPUS}/matmul.py::matmul"
WRAPPED = f"{CORPUS}/matmul.py::matmul_wrapped"


def invoke(kernel: str, *words: str) -> Result:
    """Run ``iosim kernel count``."""
    return CliRunner().invoke(program(COMMANDS), ["kernel", "count", kernel, *words])


def attention(*words: str, N: int = 256) -> Result:
    """Count an attention kernel of 3 heads."""
    launch = ("--grid", "cdiv(N, BM), 3", "--arg", f"N={N},M={N}", "--type", "[qkvo]=*fp16")
    return invoke(ATTENTION, *launch, "--const", "D=16,BM=64,BN=32,CAUSAL=False", *words)


SIZES = ("--solves", "N=N,d=D,heads=3")


def test_attention_is_flash2_with_its_tiles() -> None:
    done = attention(*SIZES)
    assert done.exit_code == 0, done.output
    assert "roles: Q is q, K is k, V is v, O is o" in done.stderr
    assert "compared with flash2 with B_r = 64, B_c = 32: the same words of every tensor" in (
        done.stdout
    )
    assert "stores 768 words of lse, which has no role" in done.stdout


def test_the_words_are_those_of_the_schedule() -> None:
    far = json.loads(attention(*SIZES, "--json").stdout)["distance"]
    flash2, problem = algorithm("flash2").program, Attention(256, 16, heads=3)
    counts = count(bind(flash2, problem.sizes, {"B_r": 64, "B_c": 32}))
    assert far["words"] == counts.total_words
    assert set(far["more"].values()) == {0}
    assert far["lower_bound_words"] <= far["words"]


def test_roles_that_are_given_are_taken() -> None:
    done = attention(*SIZES, "--roles", "Q=q,K=v,V=k,O=o", "--json")
    assert "roles:" not in done.stderr
    assert set(json.loads(done.stdout)["distance"]["more"].values()) == {0}


def test_sizes_that_are_not_the_kernels_are_doubted() -> None:
    assert "check --solves" not in attention(*SIZES).stdout
    done = attention("--solves", "N=N,d=D,heads=6,kv_heads=3")
    assert "loads 12,288 distinct words of q, but Q has 24,576: check --solves" in done.stdout
    assert "of k, but" not in done.stdout


def matmul(kernel: str, *words: str) -> Result:
    """Count a product of 100 x 60 x 40."""
    strides = "" if kernel == WRAPPED else ",am=40,ak=1,bk=60,bn=1,cm=60,cn=1"
    grid = "cdiv(M, BM) * cdiv(N, BN)" if kernel == WRAPPED else "cdiv(M, BM), cdiv(N, BN)"
    return invoke(
        kernel,
        "--grid",
        grid,
        "--arg",
        f"M=100,N=60,K=40{strides}",
        "--type",
        "[abc]=*fp16",
        *words,
        "--solves",
        "m=M,n=N,k=K",
        "--json",
    )


def test_a_product_has_the_words_of_matmul() -> None:
    done = matmul(MATMUL, "--const", "BM=32,BN=16,BK=16")
    assert done.exit_code == 0, done.output
    far = json.loads(done.stdout)["distance"]
    assert (far["schedule"], far["tiles"]) == ("matmul", {"B_m": 32, "B_n": 16, "B_k": 16})
    assert set(far["more"].values()) == {0}


def test_a_product_that_wraps_at_its_edges_moves_more() -> None:
    done = matmul(WRAPPED, "--const", "BM=32,BN=16,BK=16,GROUP_SIZE_M=2")
    assert done.exit_code == 0, done.output
    more = json.loads(done.stdout)["distance"]["more"]
    # 4 rows of tiles with 32 rows each have 128 rows, and 100 would do; 4 columns of 16 have 64.
    assert more["load A"] == (128 - 100) * 40 * 4
    assert more["load B"] == (64 - 60) * 40 * 4
    assert more["store C"] == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--roles", "Q=q,K=k,V=v,O=o"), "give --solves"),
        ((*SIZES, "--roles", "Q=q"), "give one to each of Q, K, V, O or A, B, C"),
        ((*SIZES, "--roles", "Q=x,K=k,V=v,O=o"), "refers to no 'x'"),
        (
            ("--solves", "N=N"),
            "or has one too many: attention has N, d, heads",
        ),
        (("--solves", "N=L,d=D"), "--solves 'L' needs L"),
    ],
)
def test_bad_roles_are_one_line(words: tuple[str, ...], says: str) -> None:
    done = attention(*words)
    assert says in str(done.exception)
    assert "\n" not in str(done.exception)


def test_products_that_say_nothing_are_refused() -> None:
    launch = ("--grid", "1", "--arg", "columns=64", "--const", "BLOCK=64")
    done = invoke("docs/examples/softmax.py::softmax", *launch, "--solves", "N=64,d=1")
    assert "products don't say which argument is which" in str(done.exception)
