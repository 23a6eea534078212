"""Training steps as libraries run them: right gradients, and words as counted by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

import iosim
from iosim.core.counting.numbers import count
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.trace import tally
from iosim.gpu import libraries
from iosim.gpu.libraries import StandardStep, first_step, once_bytes, standard_bytes

OPTIONS = list(itertools.product((False, True), repeat=3))


def right(program: Any, problem: Any, tiles: Any) -> Any:
    """Counts that agree, and the outputs of the reference."""
    used = {p.name: tiles.get(p.name, 4 if p.least else 2) for p in program.params}
    instance = iosim.bind(program, problem.sizes, used)
    hbm = problem.random(seed=2)
    run = iosim.simulate(instance, iosim.Machine(iosim.peak(instance)), hbm)
    want = problem.reference(hbm)
    assert iosim.max_error({x: run.outputs[x] for x in want}, want) < 1e-12
    assert run.counts == count(instance) == tally(instance)
    return run.counts


@pytest.mark.parametrize(("masked", "filled", "dropout"), OPTIONS)
def test_standard_steps(masked: bool, filled: bool, dropout: bool) -> None:
    small = StandardStep(9, 4, 2, masked=masked, filled=filled, dropout=dropout)
    right(iosim.build("standard", small.form, libraries.standard_step), small, {})
    # Passes over N² words and tensors of N·d.  Forward: S and P out and in.  Backward: P in for dV;
    # dP out; dP and P in and their product out; that and P in, dS out; dS in for dQ and for dK.
    passes = 14.0
    passes += 2 if masked or filled else 0  # S in and out
    passes += 2 if filled else 0  # dS in and out
    passes += 5 if dropout else 0  # P in and out, dP in and out, twice a byte of the mask
    problem = replace(small, N=128, d=16, heads=3)
    words = 3 * (passes * 128**2 + 12 * 128 * 16)
    assert sum(standard_bytes(problem, "fp16").values()) == 2 * words
    forward = 4 + 2 * (masked or filled) + 2.5 * dropout
    found = standard_bytes(problem, "fp16", backward=False)
    assert sum(found.values()) == 2 * 3 * (forward * 128**2 + 4 * 128 * 16)


def test_fused_backward_adds_to_an_fp32_gradient() -> None:
    problem = AttentionBackward(300, 16, 2)
    program = iosim.build("fused", problem.form, libraries.fused_backward)
    counts = right(program, problem, {"B_r": 64, "B_c": 128, "B_rD": 32, "B_rQ": 32})
    Nd, sweeps = 2 * 300 * 16, 3  # ⌈300/128⌉
    assert counts["store", "dQ32"] == Nd + sweeps * Nd  # zeros, and what is added
    assert counts["load", "dQ32"] == sweeps * Nd + Nd  # added to, and converted
    assert counts["load", "Q"] == sweeps * Nd
    assert counts["load", "O"] == Nd


def test_cudnn_s_kernels_touch_so_many_tensors() -> None:
    problem = Attention(512, 64, 8)
    moved = libraries.fused_bytes(problem, "fp16")
    T, L = 8 * 512 * 64 * 2, 8 * 512 * 4
    # Forward Q, K, V; D of O and dO; Q, K, V, dO, dQ in fp32, L, D; dQ in fp32.
    assert moved["load"] == 3 * T + 2 * T + (4 + 2) * T + 2 * L + 2 * T
    # O and L; D and zeros; dK, dV and dQ in fp32; dQ.
    assert moved["store"] == T + L + 2 * T + L + (2 + 2) * T + T


@pytest.mark.parametrize(("N", "B_c"), [(12, 4), (10, 4), (8, 4), (11, 4)])
def test_the_code_of_2022(N: int, B_c: int) -> None:
    problem = Attention(N, 4, 2, statistics=True)
    after = AttentionBackward.from_forward(problem)
    Nd, sweeps = 2 * N * 4, -(-N // B_c)
    forward = right(
        iosim.build("first", problem.form, libraries.first_forward), problem, {"B_c": B_c, "B_r": 3}
    )
    again = sweeps - 1
    assert forward["load", "Q"] == sweeps * Nd
    assert forward["store", "O32"] == forward["load", "O32"] == again * Nd
    assert (forward["store", "O"], forward["store", "L"]) == (Nd, sweeps * 2 * N)
    backward = right(
        iosim.build("back", after.form, libraries.first_backward), after, {"B_c": B_c, "B_r": 3}
    )
    assert backward["load", "O"] == Nd
    assert backward["store", "dQ32"] == backward["load", "dQ32"] == again * Nd
    assert backward["load", "dO"] == sweeps * Nd


def test_what_a_kernel_stores_first_is_not_read() -> None:
    forward, backward = first_step(Attention(512, 64, 4))
    T, L = 4 * 512 * 64 * 2, 4 * 512 * 4
    assert once_bytes(forward, "fp16") == {"load": 3 * T, "store": T + 2 * T + L}
    assert once_bytes(backward, "fp16") == {"load": 5 * T + L, "store": 3 * T + 2 * T + L}
    # Blocks of 256 columns: 512 rows of K are two of them, and 16 rows of Q pass at a time.
    for one in (forward, backward):
        assert count(one)["load", "Q"] == 2 * 4 * 512 * 64
        assert {name: one.env[name] for name in ("B_r", "B_c")} == {"B_r": 16, "B_c": 256}


def test_the_sessions_would_notice_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the kernel for P ∘ dP the count by hand no longer holds."""
    problem = StandardStep(128, 16, 3)
    before = standard_bytes(problem, "fp16")
    monkeypatch.setattr(libraries, "_product", lambda *_: None)
    assert sum(standard_bytes(problem, "fp16").values()) < sum(before.values())
