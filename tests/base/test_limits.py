"""What is too much is refused before it begins: ranges, simulations, files that unpack to more."""

from __future__ import annotations

import contextlib
import io
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sizes import examples
from test_cli import iosim_, ok

import iosim
from iosim.base.errors import InputError
from iosim.core import engines, units
from iosim.report import inputs


@contextlib.contextmanager
def most_memory() -> Iterator[Callable[[], int]]:
    """The most bytes that are allocated in the block."""
    tracemalloc.start()
    most: list[int] = []
    try:
        yield lambda: most[0]
    finally:
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


def by_the_loop(low: int, high: int, way: str, by: float, most: int) -> list[int] | None:
    """The values of a range by going through it; None where that takes more steps than `most`."""
    found, value = [], float(low)
    for _ in range(most):
        if round(value) > high:
            return sorted(set(found))
        found.append(round(value))
        value = value * by if way == "x" else value + by
    return None


MOST = 400
bounds = st.integers(1, 50) | st.integers(1, 2**40)
factors = st.decimals("1.000001", 9, places=6) | st.decimals("1.01", 3, places=2)
summands = st.integers(1, 2**40) | st.decimals("0.01", 99, places=2)


@examples(4)
@given(bounds, bounds, st.tuples(st.just("x"), factors) | st.tuples(st.just("+"), summands))
@example(1, 1, ("x", "1.1"))
@example(7, 7, ("+", "0.01"))
@example(2**39, 2**40, ("+", 1))
@example(1, 2**40, ("x", 2))
def test_ranges_are_those_of_the_loop_and_counted_beforehand(
    a: int, b: int, step: tuple[str, Any]
) -> None:
    low, high, (way, by) = min(a, b), max(a, b), step
    want = by_the_loop(low, high, way, float(by), MOST)
    steps = units._steps(low, high, way, float(by))
    if want is None:
        assert steps > MOST - 2
        return
    assert units.parse_range("M", f"{low}:{high}:{way}{by}") == want
    assert steps <= MOST + 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1Ki:1Gi:+1", "takes 1,073,740,801 steps, more than 16,777,216"),
        ("1Ki:1Gi:x1.000000000000001", "takes more than 1,000,000,000,000,000 steps"),
        ("1Ki:1Gi:+0.00000001", "steps, more than"),
        ("1:16777217:+1", "takes 16,777,217 steps, more than 16,777,216"),
        ("5:5:x1.000000000000001", "steps, more than"),
        ("1:9:+0." + "0" * 330 + "1", "does not advance"),
        ("1:9:+0." + "0" * 307 + "1", "takes more than 1,000,000,000,000,000 steps"),
        ("1:9000000:+1,1:9000000:+1", "takes 18,000,000 steps"),
        ("9" * 5000, "M has 5,000 digits"),
        ("1:" + "9" * 5000 + ":x2", "M has 5,000 digits"),
        ("x" * 5000, "and so on, 5,000 characters is not a size"),
    ],
    ids=lambda x: x[:20],
)
def test_ranges_that_are_too_long_are_refused_at_once(text: str, said: str) -> None:
    with most_memory() as most, pytest.raises(InputError) as error:
        units.parse_range("M", text)
    assert most() < 2**20
    assert said in str(error.value)
    assert len(str(error.value)) < 300


def test_the_longest_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "LONGEST_AXIS", 100)
    for text, way in (("1:100:+1", 1), ("1:50:+0.5", 2), ("1:40:+1,101:160:+1", 1)):
        assert len(units.parse_range("M", text)) == 100 // way, text
    for text in ("1:101:+1", "1:51:+0.5", "1:41:+1,101:160:+1"):
        with pytest.raises(InputError, match=r"10[12] steps, more than 100"):
            units.parse_range("M", text)


def test_a_size_means_the_same_in_every_command() -> None:
    for text, size in (
        ("4096", 4096),
        ("4_096", 4096),
        ("4,096", 4096),
        ("4Ki", 4096),
        ("5K", 5000),
    ):
        assert units.parse_int("N", text) == size
        assert units.parse_words("N", text) == size
    assert units.parse_tiles("B_r=1Ki,B_c=2", ("B_r", "B_c")) == {"B_r": 1024, "B_c": 2}
    for text in ("4KiB", "Ki", "4Pi", "1.5Ki", "1e3"):
        with pytest.raises(InputError, match="must be a whole number"):
            units.parse_int("N", text)


def test_ranges_of_any_step_end() -> None:
    assert units.parse_range("M", f"3:9:x{'9' * 400}") == [3]
    assert units.parse_range("M", f"3:9:+{'9' * 400}") == [3]
    assert len(units.parse_range("M", "1:1000000:+1")) == 10**6


@pytest.mark.parametrize("name", ["--N", "--d", "--heads", "--M", "--tiles"])
@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "9" * 101])
def test_numbers_of_too_many_digits_are_one_line(name: str, text: str) -> None:
    given = {"--N": "64", "--d": "8", "--heads": "1", "--M": "999", "--tiles": "auto"}
    given[name] = f"B_r={text}" if name == "--tiles" else text
    done = iosim_("count", "flash2", *(x for pair in given.items() for x in pair))
    assert done.returncode == 2
    assert "digits: choose a size inside" in done.stderr
    assert done.stderr.count("\n") == 1


# -- simulations ----------------------------------------------------------------------------


def bound(name: str, M: int, **sizes: int) -> iosim.Instance:
    algorithm = iosim.algorithm(name)
    problem = algorithm.problem(**sizes)
    tiles = iosim.optimal_tiles(algorithm.program, problem, M).tiles
    return iosim.bind(algorithm.program, problem.sizes, tiles)


def test_the_estimate_is_the_sum_of_tensors_and_lanes() -> None:
    lanes = 3 * 2**18
    # copy: X is read (and copied), Y is written, one buffer
    assert engines.run_bytes(bound("copy", 4, n=10)) == 8 * (2 * 10 + 10 + lanes)
    # matmul: A and B are read, C is written, buffers a, b, c
    instance = bound("matmul", 99, m=30, n=50, k=70)
    assert engines.run_bytes(instance) == 8 * (2 * 30 * 70 + 2 * 70 * 50 + 30 * 50 + 3 * lanes)
    # a peak above the lanes is what the buffers take
    instance = bound("copy", 2**21, n=2**21)
    assert engines.run_bytes(instance) == 8 * (3 * 2**21 + 3 * 2**21)


@pytest.mark.parametrize("name", ["naive", "flash2", "small_cache"])
def test_the_estimate_is_above_what_a_simulation_allocates(name: str) -> None:
    problem = iosim.Attention(512, 16)
    instance = bound(name, 2000, N=512, d=16)
    with most_memory() as most:
        engines.by_simulation(instance, problem, 2000)
    assert most() < engines.run_bytes(instance)


def test_a_simulation_may_take_just_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, problem = bound("copy", 4, n=10), iosim.Copy(10)
    need = engines.run_bytes(instance)
    monkeypatch.setattr(engines, "LARGEST_RUN", need)
    assert engines.by_simulation(instance, problem, 4)[0].total_words == 20
    monkeypatch.setattr(engines, "LARGEST_RUN", need - 1)
    with pytest.raises(InputError, match="use --engine formula, which gives the same counts"):
        engines.by_simulation(instance, problem, 4)


def test_tensors_are_limited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each below the limit, and all together above it: 3.5 GiB of K, of V and of others."""
    monkeypatch.setattr(engines, "simulate", lambda *_, **__: pytest.fail("it ran"))
    done = iosim_(
        "count", "flash2", "--N", "4000000", "--d", "64", "--M", "24576", "--engine", "simulate"
    )
    assert done.returncode == 2
    assert "takes about 13.4 GiB, more than 4 GiB: use --engine formula" in done.stderr


def test_a_large_simulation_says_so_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("count", "copy", "--n", "1000", "--M", "4", "--engine", "simulate")
    assert not iosim_(*words).stderr
    for limit, value in (("LARGE_RUN", 2**20), ("LONG_RUN", 2000)):
        with monkeypatch.context() as patch:
            patch.setattr(engines, limit, value)
            said = iosim_(*words).stderr
            assert said == (
                "iosim: note: simulating moves 2,000 words and takes about 0.0 GiB; "
                "--engine formula gives the same counts at once\n"
            )
            assert not iosim_(*words[:-1], "formula").stderr


@pytest.mark.parametrize("lanes", [1, 2**18])
def test_a_simulation_reports_the_words_it_has_moved(lanes: int) -> None:
    instance, problem = bound("naive", 300, N=40, d=8), iosim.Attention(40, 8)
    seen: list[int] = []
    hbm = problem.random()
    run = iosim.simulate(instance, iosim.Machine(300), hbm, lanes=lanes, tick=seen.append)
    assert seen == sorted(seen)
    assert 0 <= seen[0] < seen[-1] <= run.counts.total_words
    assert len(set(seen)) > 3
    pairs: list[tuple[int, int]] = []
    engines.by_simulation(instance, problem, 300, tick=lambda done, of: pairs.append((done, of)))
    assert {of for _, of in pairs} == {run.counts.total_words}


# -- files ----------------------------------------------------------------------------------


def bomb(path: Path, shape: tuple[int, ...], dtype: str = "<f4", zeros: int = 2**27) -> Path:
    """An .npz that is small and claims, and partly unpacks to, a lot."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for x in "QKV":
            with archive.open(f"{x}.npy", "w", force_zip64=True) as file:
                head = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    head, {"descr": dtype, "fortran_order": False, "shape": shape}
                )
                file.write(head.getvalue())
                for _ in range(zeros // 2**20):
                    file.write(bytes(2**20))
    return path


def test_a_file_that_unpacks_to_gigabytes_is_refused_by_its_header(tmp_path: Path) -> None:
    path = bomb(tmp_path / "b.npz", (2**25, 64), zeros=2**24)
    assert path.stat().st_size < 2**20
    with most_memory() as most:
        done = iosim_("verify", "--input", str(path), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "is too large: Q, K and V with Q of shape (33554432, 64) take 48.0 GiB" in done.stderr
    assert "more than 4 GiB; choose a smaller N" in done.stderr
    assert done.stderr.count("\n") == 1
    assert most() < 2**26
    assert not (tmp_path / "out").exists()


def test_the_limit_of_a_file_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **{x: np.ones((5, 3), np.float32) for x in "QKV"})
    monkeypatch.setattr(inputs, "LARGEST_INPUT", 3 * 8 * 15)
    assert inputs.read_inputs(path)[0] == iosim.Attention(5, 3)
    monkeypatch.setattr(inputs, "LARGEST_INPUT", 3 * 8 * 15 - 1)
    with pytest.raises(InputError, match="is too large"):
        inputs.read_inputs(path)


def test_headers_that_say_something_wrong(tmp_path: Path) -> None:
    for name, shape, dtype, said in (
        ("short", (2**20, 8), "<f8", "is not an .npz file"),
        ("object", (8, 8), "|O", "Q is of dtype object: give real numbers"),
        ("text", (8, 8), "<U4", "Q is of dtype <U4: give real numbers"),
        ("flat", (8,), "<f8", "Q has shape (8,)"),
        ("negative", (-8, 8), "<f8", ""),
        ("huge", (2**62, 2**62), "<f8", "is too large"),
    ):
        path = bomb(tmp_path / f"{name}.npz", shape, dtype, zeros=2**20)
        with pytest.raises(InputError) as error:
            inputs.read_inputs(path)
        assert said in str(error.value), name
        assert "\n" not in str(error.value)


def test_tightness_over_a_list_reports_its_points(monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim.report import tightness
    from iosim.report.tightness import sweep

    seen: list[tuple[int, int]] = []
    whole = sweep(64, [8, 4], [2, 99], tick=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    monkeypatch.setattr(tightness, "TOGETHER", 3)
    assert sweep(64, [8, 4], [2, 99]) == whole
    assert ok("tightness", "--N", "64", "--d", "8", "--M", "99,999")
