"""The forward pass stores L, the backward pass reads it, and both are one table."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import draws, examples
from strategies import attention_options, attention_programs
from test_cli import iosim_, ok

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.core.counting import symbols
from iosim.core.problem import Attention, AttentionBackward
from iosim.core.program.ops import OPS
from iosim.core.trace import tally
from iosim.gpu import emit, interpret
from iosim.report.step import run_step, training_step

FORWARD = [a.name for a in iosim.all_algorithms("attention")]
BACKWARD = [a.name for a in iosim.all_algorithms("attention-backward")]


def log_sums(problem: Any, hbm: Any) -> Any:
    """L a row at a time, from what a row sees one column at a time."""
    Q = np.reshape(hbm["Q"], (problem.heads, problem.N, problem.d))
    L = []
    for h in range(problem.heads):
        K = hbm["K"][h * problem.groups // problem.heads]
        for i in range(problem.N):
            own = [math.fsum(Q[h, i] * K[j]) for j in range(problem.keys) if problem.sees(i, j)]
            L.append(math.log(math.fsum(map(math.exp, own))) if own else 0.0)
    return np.reshape(L, [problem.sizes[a] for a in problem.form.tensor("L").axes])


def stored(algorithm: Any, problem: Any, tiles: Any) -> dict[tuple[str, str], int]:
    """The words that L adds: a word a row, beside what a schedule does to have it."""
    rows = problem.heads * problem.N
    if algorithm.name == "flash1":
        return {("store", "L"): rows, ("load", "m"): rows, ("load", "l"): rows}
    if algorithm.name == "small_cache":
        return {("store", "L"): rows * -(-problem.values // tiles["B_d2"])}
    return {("store", "L"): rows}


@pytest.mark.numbers
@given(attention_programs(), st.integers(0, 9))
@examples(3 / 2)
def test_l_is_stored_and_counted_in_every_way(case: Any, seed: int) -> None:
    check_l(case, seed)


@pytest.mark.numbers
@examples(1 / 5)
@given(attention_programs(most=draws(7, 5)), st.integers(0, 9))
def test_the_formula_counts_it_too(case: Any, seed: int) -> None:
    check_l(case, seed, in_symbols=True)


def check_l(case: Any, seed: int, *, in_symbols: bool = False) -> None:
    algorithm, plain, tiles = case
    problem = replace(plain, statistics=True)
    program = algorithm.program_for(problem)
    instance = iosim.bind(program, problem.sizes, tiles)
    before = iosim.bind(algorithm.program_for(plain), plain.sizes, tiles)
    closed, top = iosim.count(instance), iosim.peak(instance)
    more = {key: words - iosim.count(before)[key] for key, words in closed}
    assert {key: n for key, n in more.items() if n} == stored(algorithm, problem, tiles)
    assert top == iosim.peak(before)
    hbm = problem.random(seed)
    run = iosim.simulate(instance, iosim.Machine(max(1, top)), hbm)
    assert run.counts == closed == tally(instance)
    assert run.peak_words == top
    if in_symbols:
        assert symbols.count(program).at(problem.sizes, tiles) == (closed, top)
    many = iosim.count_many(program, problem.sizes | tiles)
    assert {key: int(words) for key, words in many.items()} == dict(closed)
    want = AttentionBackward.from_forward(problem).forward(hbm)
    assert iosim.max_error({x: run.outputs[x] for x in want}, want) < 1e-12
    assert iosim.max_error(want, problem.reference(hbm)) == 0
    assert np.allclose(run.outputs["L"], log_sums(problem, hbm), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FORWARD)
def test_without_it_nothing_changes(name: str) -> None:
    """A form without L has the program that it had, and L is nowhere in it."""
    program = iosim.algorithm(name).program
    assert "L" not in {t.name for t in program.tensors}
    assert "log_sums" not in iosim.show(program)


@examples(3 / 5)
@given(attention_options(most=6), st.sampled_from(FORWARD), st.sampled_from(BACKWARD), st.data())
def test_a_step_gives_the_gradients(problem: Any, first: str, second: str, data: Any) -> None:
    """The backward pass reads O and L as the forward pass left them, in the same memory."""
    forward, backward = iosim.algorithm(first), iosim.algorithm(second)
    after = AttentionBackward.from_forward(problem)
    if not (forward.supports(problem) and backward.supports(after)):
        return
    stat = replace(problem, statistics=True)
    tiles = [
        ",".join(
            f"{p.name}={data.draw(st.integers(p.least, 8), label=p.name)}"
            for p in algorithm.program_for(of).params
        )
        for algorithm, of in ((forward, stat), (backward, after))
    ]
    step = training_step(problem, 2000, first, second, *tiles)
    runs = run_step(step, seed=3)
    for one, run in zip(step.passes.values(), runs, strict=True):
        assert (run.counts, run.peak_words) == (one.counts, one.peak)
    hbm = after.random(3)
    want = after.reference(hbm)
    assert iosim.max_error({x: runs[1].outputs[x] for x in want}, want) < 1e-11
    total = step.rows()[-1]
    assert total["words"] == step.words == sum(run.counts.total_words for run in runs)
    assert total["forward_store_words"] == runs[0].counts.store_words
    assert total["backward_load_words"] == runs[1].counts.load_words


def test_a_wrong_l_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of gradients can fail: L without the row maximum."""
    step = training_step(Attention(12, 4), 100, "flash2", "two_kernels")
    problem = step.backward.problem
    want = problem.reference(problem.random())
    good = run_step(step)[1].outputs
    assert iosim.max_error({x: good[x] for x in want}, want) < 1e-12
    wrong = replace(OPS["log_sums"], numpy=lambda l, m: (np.log(l),))
    monkeypatch.setitem(OPS, "log_sums", wrong)
    bad = run_step(step)[1].outputs
    assert iosim.max_error({x: bad[x] for x in want}, want) > 0.1


def test_a_wrong_o_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backward pass reads the O that the forward pass stored, not one of its own."""
    step = training_step(Attention(12, 4), 100, "flash2", "two_kernels")
    problem = step.backward.problem
    want = problem.reference(problem.random())
    wrong = replace(OPS["finish"], numpy=lambda o, l: (2 * o / l[..., None],))
    monkeypatch.setitem(OPS, "finish", wrong)
    forward, bad = run_step(step)
    O = 2 * Attention(12, 4).reference(problem.random())["O"]
    assert iosim.max_error({"O": forward.outputs["O"]}, {"O": O}) < 1e-12
    assert iosim.max_error({x: bad.outputs[x] for x in want}, want) > 0.1


# Ragged, masked with rows that see nothing, grouped with keys of their own.
EMITTED = {
    "dense": Attention(37, 24, 2, statistics=True),
    "causal": Attention(45, 16, N_k=20, causal=True, statistics=True),
    "groups": Attention(20, 16, 4, N_k=37, kv_heads=2, window=(9, 3), statistics=True),
}


@pytest.mark.numbers
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "case"),
    [(x, case) for case, p in EMITTED.items() for x in FORWARD if iosim.algorithm(x).supports(p)],
)
def test_l_is_emitted(name: str, case: str) -> None:
    algorithm, problem = iosim.algorithm(name), EMITTED[case]
    program = algorithm.program_for(problem)
    tiles = {p.name: 16 if p.least else 0 for p in program.params}
    instance = iosim.bind(program, problem.sizes, tiles)
    hbm = problem.random(seed=1)
    outcome = interpret(emit(instance), hbm, "fp32")
    want = problem.reference(hbm)
    assert list(want) == ["O", "L"]
    assert iosim.max_error({x: outcome.outputs[x] for x in want}, want) < 3e-6
    assert outcome.counts == iosim.count(instance)


def test_every_schedule_emits_it_in_some_case() -> None:
    for name in FORWARD:
        assert any(iosim.algorithm(name).supports(p) for p in EMITTED.values()), name


def test_the_command_prints_one_table() -> None:
    args = (
        "step",
        "--N",
        "64",
        "--d",
        "8",
        "--M",
        "999",
        "--forward",
        "flash2",
        "--backward",
        "flash2_backward",
        "--causal",
    )
    found = json.loads(ok(*args, "--json", "--dtype", "fp16"))
    step = training_step(Attention(64, 8, causal=True), 999, "flash2", "flash2_backward")
    assert found["problem"] == {"N": 64, "d": 8, "heads": 1, "causal": True}
    assert found["total_words"] == step.words
    assert found["forward"] == json.loads(json.dumps(step.forward.as_dict()))
    assert found["backward"]["total_words"] == step.backward.counts.total_words
    alone = json.loads(ok("count", "flash2_backward", *args[1:7], "--causal", "--json"))
    assert alone["by_tensor"] == found["backward"]["by_tensor"]
    alone = json.loads(ok("count", "flash2", *args[1:7], "--causal", "--statistics", "--json"))
    assert alone["by_tensor"] == found["forward"]["by_tensor"]
    # Row statistics have 4 bytes in fp16.
    wide = sum(n for one in step.passes.values() for (_, x), n in one.counts if x in "LD")
    assert found["total_bytes"] == 2 * step.words + 2 * wide
    text = ok(*args)
    assert f"total  {step.words:,} words" in text
    (line,) = (x for x in text.splitlines() if x.startswith("total  ") and "words" not in x)
    assert line.split()[-1] == f"{step.words:,}"


def test_the_best_schedules_are_the_default() -> None:
    problem = Attention(64, 8)
    best = training_step(problem, 300)
    every = [
        training_step(problem, 300, x, y)
        for x in (
            "naive",
            "flash1",
            "flash2",
            "flash2_chunked",
            "flash2_keep",
            "spill_rows",
            "flash2_log",
            "flash2_parts",
            "small_tiles",
        )
        for y in BACKWARD
    ]
    assert best.words == min(one.words for one in every)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ("--forward", "two_kernels"),
            "two_kernels solves attention-backward, not attention: choose a schedule for attention",
        ),
        (
            ("--backward", "small_tiles"),
            "small_tiles solves attention, not attention-backward: "
            "choose a schedule for attention-backward",
        ),
        (("--forward", "decode"), "decode needs N_k: give that, or choose"),
        (("--backward-tiles", "B_x=8"), "B_x"),
        (("--backward-tiles", "paper"), "has no tile rule 'paper'"),
        (("--M", "2"), "no schedule runs in M = 2 words: use M >= 3"),
    ],
)
def test_bad_input_of_a_step_is_one_line(args: tuple[str, ...], says: str) -> None:
    done = iosim_("step", "--N", "8", "--d", "4", *(() if "--M" in args else ("--M", "99")), *args)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_bad_input_of_the_function() -> None:
    with pytest.raises(InputError, match="a step is one of attention"):
        training_step(iosim.MatMul(2, 3, 4), 99)  # type: ignore[arg-type]
    with pytest.raises(CapacityError, match="use M >= 3"):
        training_step(Attention(8, 4), 2)
    with pytest.raises(InputError, match="statistics = 1 is neither True nor False"):
        Attention(8, 4, statistics=1)  # type: ignore[arg-type]
