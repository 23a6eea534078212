"""The backward pass of attention: classes of its schedules, its commands, and what it costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import iosim_, ok

import iosim
from iosim.base.errors import InputError
from iosim.bounds import BOUNDS, CLASSES, best_lower_bound
from iosim.core.algorithms import ALGORITHMS, all_algorithms
from iosim.core.counting.numbers import count_many
from iosim.core.problem import Array, Attention, AttentionBackward, max_error
from iosim.core.program.ops import OPS, OpSpec
from iosim.core.tiling import optimal_tiles_many
from iosim.report import inputs, tightness, verify

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
    # Of the wide ones the first has the largest bound, so a count may be held against it alone.
    if entry.problem in (Attention, AttentionBackward):
        problem = entry.problem(300, 8, 4, **dict.fromkeys(entry.needs, 2))
        for M in (40, 200, 1000):
            wide = [klass for klass in entry.classes if not CLASSES[klass].within]
            words = [best_lower_bound(problem, M, klass).words for klass in wide]
            assert wide[0] == entry.classes[0]
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
    wide = [name for name, klass in CLASSES.items() if not klass.within]
    best = {klass: tightness.tightness(problem, M, klass).best.algorithm for klass in wide}
    once, again = "flash2_backward", "two_kernels"
    assert best == {"once": once, "recompute": again, "trees": once, "recompute-trees": again}
    assert tightness.best_schedule(problem, M).algorithm == "two_kernels"


def test_a_run_is_held_against_bounds_of_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound of `once` above a count of two_kernels is not a failure; of `recompute` it is."""
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
                assert len(verify.check_point(schedule, problem, M, hbm, want).failures) == expected


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
    many = json.loads(
        ok(
            "tightness",
            "--problem",
            "attention-backward",
            "--causal",
            "--kv-heads",
            "1",
            "--N",
            "64",
            "--d",
            "4,8",
            "--M",
            "99,500",
            "--json",
        )
    )
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
        (
            "tightness --problem attention-backwards --N 8 --d 4 --M 99",
            (
                "problem 'attention-backwards' can't be chosen here: did "
                "you mean 'attention-backward'?"
            ),
        ),
        ("tightness --problem matmul --N 8 --d 4 --M 99", "known: attention, attention-backward"),
        (
            "tightness --problem attention-backward --N 8 --d 4 --M 2",
            "no schedule runs in M = 2 words: use M >= 4",
        ),
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
)
def test_bad_input_is_one_line(words: str, message: str) -> None:
    done = iosim_(*words.split())
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


VARIANTS = [
    AttentionBackward(20, 4, causal=True),
    AttentionBackward(12, 5, 4, N_k=17, d_v=3, kv_heads=2, window=(4, 1), sinks=2),
]


@pytest.mark.numbers
@pytest.mark.parametrize("problem", VARIANTS, ids=str)
def test_verify_checks_every_schedule(problem: AttentionBackward) -> None:
    sizes = verify.memory_sizes(problem)
    report = verify.verify(problem, sizes=[sizes[0], 60, sizes[-1]], workers=1)
    assert report.ok, report.failures
    assert {p.algorithm for p in report.points} == set(SCHEDULES)


def test_a_table_says_which_pass_it_is_of() -> None:
    point = tightness.tightness(AttentionBackward(9, 4), 99)
    (row,) = tightness.table([point])
    assert row["pass"] == "backward"
    assert "pass" not in tightness.table([tightness.tightness(Attention(9, 4), 99)])[0]


@pytest.mark.numbers
@pytest.mark.parametrize(("N", "d"), [(512, 32), (256, 16), (1000, 24), (128, 40), (64, 4)])
def test_coarse_tiles_are_no_wrong_exponent(N: int, d: int) -> None:
    """−1 above d² and −1/2 below, where tiles are fine enough to show either."""
    problem, fitted = AttentionBackward(N, d), {}
    for name in SCHEDULES:
        program, points = iosim.algorithm(name).program, []
        columns, runs = optimal_tiles_many(
            program, problem.sizes, sizes := verify.memory_sizes(problem)
        )
        for k in np.flatnonzero(runs):
            tiles = {x: int(values[k]) for x, values in columns.items()}
            counts = iosim.count(iosim.bind(program, problem.sizes, tiles))
            points.append(verify.Point(name, sizes[k], tiles, counts, 0, 0, 0.0, "", 1.0, ()))
        if iosim.algorithm(name).exponent:
            slope = verify.fit_slope(name, problem, points)
            assert slope.ok, slope
            fitted[name] = slope.fitted
    assert (N, d) != (512, 32) or fitted["two_kernels"] == pytest.approx(-1, abs=0.1)


def arrays(problem: AttentionBackward) -> dict[str, Array]:
    """Inputs as people have them: all heads of Q in one axis."""
    return {
        x: a.reshape(problem.heads, problem.N, *a.shape[-1:] * (x != "L"))
        if x in ("Q", "O", "dO", "L")
        else a
        for x, a in problem.random().items()
    }


@pytest.mark.numbers
def test_own_arrays_are_verified(tmp_path: Path) -> None:
    problem = VARIANTS[1]
    given = arrays(problem)
    assert given["L"].shape == (4, 12)
    np.savez(tmp_path / "in.npz", **given)
    read, hbm = inputs.read_inputs(tmp_path / "in.npz", AttentionBackward)
    assert read == AttentionBackward(12, 5, 4, N_k=17, d_v=3, kv_heads=2)
    assert all((hbm[x] == given[x]).all() for x in given)
    typed = ("--window", "4,1", "--sinks", "2", "--M", "200", "--workers", "1", "--json")
    report = json.loads(
        ok(
            "verify",
            "--problem",
            "attention-backward",
            "--input",
            str(tmp_path / "in.npz"),
            "--out",
            str(tmp_path / "out"),
            *typed,
        )
    )
    assert report["ok"]
    assert [p["algorithm"] for p in report["points"]] == SCHEDULES
    # Of one head, without an axis for it; and L in half precision is that of the forward pass.
    one = AttentionBackward(9, 4).random()
    one["L"] = one["L"].astype(np.float16)
    np.savez(tmp_path / "one.npz", **{x: a[0] for x, a in one.items()})
    assert inputs.read_inputs(tmp_path / "one.npz", AttentionBackward)[0].N == 9
    ok(
        "verify",
        "--problem",
        "attention-backward",
        "--input",
        str(tmp_path / "one.npz"),
        "--M",
        "99",
        "--workers",
        "1",
        "--out",
        str(tmp_path / "out"),
    )


def test_bad_arrays_are_one_line(tmp_path: Path) -> None:
    good = {x: a[0] for x, a in AttentionBackward(9, 4).random().items()}
    cases: list[tuple[dict[str, Any], str]] = [
        ({x: a for x, a in good.items() if x != "L"}, "has no array L (it has Q, K, V, O, dO)"),
        ({x: a for x, a in good.items() if x in "QKV"}, "has no array O, dO, L"),
        (good | {"L": good["L"][:5]}, "L has shape (5,), and with Q of (9, 4)"),
        (good | {"L": good["L"][:, None]}, "it has (9,): give a number for each row of Q"),
        (
            good | {"O": good["O"][:, :3]},
            "O has shape (9, 3), and with Q of (9, 4) and V of (9, 4) "
            "it has (9, 4): give a row for each row of Q, as long as V's",
        ),
        (good | {"dO": good["dO"].T}, "dO has shape (4, 9)"),
        (good | {"V": good["V"][:7]}, "V has shape (7, 4) and K (9, 4)"),
        (good | {"L": good["L"].astype("U4")}, "L is of dtype <U4: give real numbers"),
        (good | {"L": good["L"] + np.nan}, "L holds 9 values that are NaN or infinite"),
        (good | {"L": good["L"] + 1}, "L differs by "),
        (good | {"O": good["V"]}, "O differs by "),
    ]
    for k, (found, message) in enumerate(cases):
        np.savez(tmp_path / f"{k}.npz", **found)
        done = iosim_(
            "verify",
            "--problem",
            "attention-backward",
            "--input",
            str(tmp_path / f"{k}.npz"),
            "--out",
            str(tmp_path / "out"),
        )
        assert done.returncode == 2, done.stdout
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    with pytest.raises(
        InputError, match="L is missing among the arrays: give Q, K, V, O, dO and L"
    ):
        verify.verify(
            AttentionBackward(9, 4), hbm={x: a[None] for x, a in good.items() if x != "L"}
        )


@pytest.mark.parametrize("name", ["O", "L"])
def test_rounding_is_no_other_forward_pass(name: str) -> None:
    """O and L of bf16, which has 8 bits, are those of Q, K and V; 3% more are not."""
    problem = AttentionBackward(9, 4)
    hbm = problem.random()
    mantissa, exponent = np.frexp(hbm[name])
    rounded = hbm | {name: np.ldexp(np.round(mantissa * 2**8) / 2**8, exponent)}
    assert (rounded[name] != hbm[name]).all()
    assert (problem.settled(rounded)[name] == hbm[name]).all()
    far = hbm | {name: hbm[name] + 0.03 * np.maximum(1, abs(hbm[name]))}
    with pytest.raises(InputError, match=f"{name} differs by 0.03 from that of the forward pass"):
        problem.settled(far)


def test_statistics_may_have_one_axis_of_heads() -> None:
    """Of grouped heads, as Q and O; outputs are as inputs were given."""
    problem = VARIANTS[1]
    program = iosim.algorithm("two_kernels").program_for(problem)
    tiles = dict.fromkeys((p.name for p in program.params), 3)
    instance = iosim.bind(program, problem.sizes, tiles)
    split, joined = problem.random(), arrays(problem)
    want = iosim.simulate(instance, iosim.Machine(999), split).outputs["dQ"]
    found = iosim.simulate(instance, iosim.Machine(999), joined).outputs["dQ"]
    assert (want.shape, found.shape) == ((2, 2, 12, 5), (4, 12, 5))
    np.testing.assert_array_equal(found, want.reshape(found.shape))
    assert max_error({"dQ": found}, {"dQ": problem.reference(joined)["dQ"]}) < 1e-12
    with pytest.raises(InputError, match=r"L has shape \(4, 11\), the problem needs \(2, 2, 12\)"):
        iosim.simulate(instance, iosim.Machine(999), joined | {"L": joined["L"][:, 1:]})
    with pytest.raises(InputError, match="two_kernels needs L in HBM"):
        iosim.simulate(instance, iosim.Machine(999), {x: joined[x] for x in joined if x != "L"})
