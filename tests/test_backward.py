"""The backward pass of attention: classes of its schedules, its commands, and what it costs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from test_cli import iosim_, ok

import iosim
from iosim.algorithms import ALGORITHMS, all_algorithms
from iosim.bounds import BOUNDS, CLASSES, best_lower_bound
from iosim.checks import tightness
from iosim.checks.verify import check_point
from iosim.counting.numbers import count_many
from iosim.problem import Array, Attention, AttentionBackward
from iosim.program.ops import OPS, OpSpec
from iosim.tiling import optimal_tiles_many

SCHEDULES = [a.name for a in all_algorithms("attention-backward")]


def moved(name: str, N: int, d: int, M: int) -> int:
    """Words of a schedule with its best tiles, by the closed form in arrays."""
    program = iosim.algorithm(name).program
    sizes = {x: np.array([v]) for x, v in AttentionBackward(N, d).sizes.items()}
    tiles, found = optimal_tiles_many(program, sizes, np.array([M]))
    assert found.all()
    return int(sum(count_many(program, sizes | tiles).values())[0])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_schedule_names_its_classes(name: str) -> None:
    entry = iosim.algorithm(name)
    assert entry.classes
    assert set(entry.classes) <= set(CLASSES)
    # The first has the largest bound, so a count may be held against it alone.
    if entry.problem in (Attention, AttentionBackward):
        problem = entry.problem(300, 8, 4, **dict.fromkeys(entry.needs, 2))
        for M in (40, 200, 1000):
            words = [best_lower_bound(problem, M, klass).words for klass in entry.classes]
            assert words[0] == max(words)


@pytest.mark.parametrize("name", SCHEDULES)
def test_only_what_computes_each_score_once_is_in_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five products of N²d multiplications make the gradients; more is computed again."""
    done = []

    def counting(spec: OpSpec) -> OpSpec:
        def run(into: Array, a: Array, b: Array) -> tuple[Array, ...]:
            done.append(into.size * (a.size * b.size / into.size) ** 0.5)
            return spec.numpy(into, a, b)

        return replace(spec, numpy=run)

    for product in ("matmul_nt", "matmul_nn", "matmul_tn"):
        monkeypatch.setitem(OPS, product, counting(OPS[product]))
    entry, problem = iosim.algorithm(name), AttentionBackward(6, 4)
    tiles = {p.name: 2 * p.least for p in entry.program.params}
    instance = iosim.bind(entry.program, problem.sizes, tiles)
    iosim.simulate(instance, iosim.Machine(999), problem.random(), lanes=1)
    assert (sum(done) == 5 * 6 * 6 * 4) == ("once" in entry.classes)
    assert sum(done) in (5 * 6 * 6 * 4, 7 * 6 * 6 * 4)


def test_the_best_schedule_is_of_the_class() -> None:
    problem, M = AttentionBackward(2**20, 64), 64 * 64**2
    best = {klass: tightness.tightness(problem, M, klass).best.algorithm for klass in CLASSES}
    assert best == {"once": "flash2_backward", "recompute": "two_kernels", "trees": best["once"]}
    assert tightness.best_schedule(problem, M).algorithm == "two_kernels"


def test_a_run_is_held_against_bounds_of_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound of `once` above a count of two_kernels is no failure; of `recompute` it is."""
    problem, M = AttentionBackward(12, 3), 60
    hbm = problem.random()
    want = problem.reference(hbm)
    for klass, failures in (("once", 0), ("recompute", 1)):
        name = f"backward-as-forward-{klass}"
        with monkeypatch.context() as patch:
            patch.setitem(
                BOUNDS, name, replace(BOUNDS[name], numeric=lambda t: np.full(np.shape(t.M), 1e9))
            )
            for schedule, expected in (("two_kernels", failures), ("flash2_backward", 1)):
                assert len(check_point(schedule, problem, M, hbm, want).failures) == expected


def test_leading_terms() -> None:
    """16N²d²/M and 14N²d²/M words at M = 64d².

    A column takes 4d words of K, V, dK and dV and two of scores, and a row streams 4d past it, with
    its L and D; of two kernels' rows 2d + 2 stream, and own ones take 3d + 4 for 2d of a column.
    """
    for d, near in ((64, 0.4), (512, 0.1)):
        N, M = 2**14 * d, 64 * d**2
        with_vectors = {
            "flash2_backward": (4 * d + 2) ** 2,
            "two_kernels": (4 * d + 2) * (2 * d + 2) + (3 * d + 4) * 2 * d,
        }
        for name, leading in (("flash2_backward", 16), ("two_kernels", 14)):
            words = moved(name, N, d, M)
            assert 1 <= words / (with_vectors[name] * N**2 / M) < 1.005
            assert leading < words * M / (N * d) ** 2 < leading + near


def test_tightness_of_the_backward_pass() -> None:
    sizes = ("--N", "4096", "--d", "64", "--M", "32768", "--json")
    forward = json.loads(ok("tightness", *sizes, "--class", "recompute"))
    point = json.loads(
        ok("tightness", "--problem", "attention-backward", *sizes, "--class", "recompute")
    )
    assert list(point) == list(forward)
    assert {tuple(row) for row in point["bounds"]} == {tuple(forward["bounds"][0])}
    assert (point["class"], point["best_algorithm"]) == ("recompute", "two_kernels")
    assert point["gap"] == point["best_words"] / point["lower_bound_words"]
    many = json.loads(ok("tightness", "--problem", "attention-backward", "--causal", "--kv-heads",
                         "1", "--N", "64", "--d", "4,8", "--M", "99,500", "--json"))  # fmt: skip
    assert [(r["d"], r["M"]) for r in many] == [(4, 99), (4, 500), (8, 99), (8, 500)]
    assert all(r["best_algorithm"] != "two_kernels" and r["gap"] > 1 for r in many)


def test_bounds_of_the_backward_pass() -> None:
    sizes = ("--N", "4096", "--d", "64", "--M", "32768", "--json")
    rows = json.loads(ok("bounds", "--problem", "attention-backward", *sizes))
    assert {row["name"] for row in rows} == {
        b.name for b in BOUNDS.values() if b.problem == "attention-backward"
    }
    assert json.loads(ok("bounds", "--problem", "attention", *sizes)) == json.loads(
        ok("bounds", *sizes)
    )


def test_a_model_has_a_backward_pass() -> None:
    """The sizes and options of a model of attention are those of its gradients."""
    sizes = ("--N", "256", "--M", "2Ki", "--json")
    found = json.loads(ok("count", "two_kernels", "--model", "llama3-8b", *sizes))
    forward = json.loads(ok("count", "flash2", "--model", "llama3-8b", *sizes))
    assert found["problem"] == forward["problem"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("tightness --problem attention-backwards --N 8 --d 4 --M 99",
         "problem 'attention-backwards' can't be chosen here: did you mean 'attention-backward'?"),
        ("tightness --problem matmul --N 8 --d 4 --M 99", "known: attention, attention-backward"),
        ("tightness --problem attention-backward --N 8 --d 4 --M 2",
         "no schedule runs in M = 2 words: use M >= 4"),
        ("tightness --problem attention-backward --N 8 --d 4 --M 99 --sinks x", "sinks"),
        ("bounds --problem backward --N 8 --d 4 --M 99", "attention-backward"),
        ("bounds --problem attention-backward --m 8 --M 99", "attention-backward has no size m"),
        ("bounds --problem attention-backward --N 8 --M 99", "attention-backward needs --d"),
        ("count flash2_backward --N 0 --d 4 --M 99", "N"),
        ("count flash2_backward --N 8 --d 4 --M 9", "use M >= "),
        ("count flash2_backward --N 8 --d 4 --heads 3 --kv-heads 2 --M 99", "does not divide"),
        ("count flash2_backward --N 8 --d 4 --M 99 --model bert-base-paged", "unknown model"),
        ("count flash2_backward --N 8 --d 4 --M 99 --tiles B_x=3", "B_x"),
        ("count small_backward --N 8 --d 4 --M 99 --tiles paper", "paper"),
        ("count two_kernels --m 8 --M 99", "attention-backward has no size m"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(words: str, message: str) -> None:
    done = iosim_(*words.split())
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
