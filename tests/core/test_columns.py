"""Sums and peaks over tiles in arrays, held against the closed forms of one instance at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples
from strategies import Square, dependent_schedules

import iosim
from iosim.core.counting import columns
from iosim.core.counting.arrays import OnArrays
from iosim.core.counting.closed import close, highest
from iosim.core.counting.integers import OnInts
from iosim.core.counting.poly import Part, Sum, names_of
from iosim.core.program.index import Affine, Span, Tile

pytestmark = pytest.mark.numbers

CAUSAL = {
    name: iosim.algorithm(name).program_for(iosim.Attention(8, 2, causal=True))
    for name in ("flash1", "flash2", "small_cache", "flash2_keep")
}
OPTIONS = iosim.Attention(8, 2, N_k=9, window=(3, 1), sinks=2)
WINDOW = iosim.algorithm("flash2").program_for(OPTIONS)


def one_by_one(program: Any, given: dict[str, Any]) -> None:
    """Counts and peaks of every row are those of its instance."""
    counts, peaks = iosim.count_many(program, given), iosim.peak_many(program, given)
    params = {p.name for p in program.params}
    for k in range(max(np.size(x) for x in given.values())):
        row = {name: int(x[k]) if np.ndim(x) else int(x) for name, x in given.items()}
        tiles = {name: row.pop(name) for name in params}
        instance = iosim.bind(program, row, tiles)
        assert {key: int(words[k]) for key, words in counts.items()} == dict(iosim.count(instance))
        assert int(peaks[k]) == iosim.peak(instance)


@given(dependent_schedules(), st.integers(0, 2**32))
@examples(3 / 2)
def test_random_programs_are_counted_alike_in_arrays(case: Any, seed: int) -> None:
    program, sizes, tiles = case
    rng = np.random.default_rng(seed)
    least = {p.name: p.least for p in program.params}
    given = {name: rng.integers(least.get(name, 1), 40, 25) for name in (*sizes, *tiles)}
    one_by_one(program, given | {"L": rng.integers(0, 20, 25)})


@pytest.mark.parametrize("largest", [9, 1000, 2**27])
@pytest.mark.parametrize("name", CAUSAL)
def test_causal_schedules_are_counted_alike_in_arrays(name: str, largest: int) -> None:
    rng = np.random.default_rng(largest)
    given = {"heads": 1, "N": rng.integers(1, largest, 200), "d": rng.integers(1, 9, 200)}
    tiles = {p.name: rng.integers(p.least, largest, 200) for p in CAUSAL[name].params}
    one_by_one(CAUSAL[name], given | tiles)


def test_a_million_points_need_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registered schedules have a form in arrays, which a walk over points would hide."""
    monkeypatch.setattr("iosim.core.counting.arrays.OnInts", None)
    for program in (*CAUSAL.values(), WINDOW):
        given = {"heads": 1, "N": np.arange(5, 25), "d": 3}
        given |= OPTIONS.sizes | {"N": np.arange(5, 25)} if program is WINDOW else {}
        tiles: dict[str, Any] = {p.name: 3 for p in program.params}
        assert iosim.count_many(program, given | tiles)["load", "K"].shape == (20,)
        assert iosim.peak_many(program, given | tiles).shape == (20,)


def test_a_window_is_counted_alike_in_arrays() -> None:
    rng = np.random.default_rng(3)
    given = {name: rng.integers(1, 60, 300) for name in ("N", "N_k")}
    given |= {name: rng.integers(0, 30, 300) for name in ("left", "right", "sinks")}
    sizes = iosim.Attention.extents(OPTIONS.form, given | {"heads": 2, "d": 3})
    one_by_one(WINDOW, sizes | {name: rng.integers(1, 60, 300) for name in ("B_r", "B_c")})


def test_different_roundings_are_counted_alike() -> None:
    """What has no form in arrays is evaluated a point at a time."""

    def schedule(b: iosim.Builder) -> None:
        (B,), C, D = b.tile_sizes("n", "B"), *b.tile_sizes("m", "C", "D")
        for i in b.tiles("n", B):
            for j in b.tiles("m", C, 0, i.stop):
                for k in b.tiles("m", D, 0, i.stop):
                    b.free(b.load("A", i, b.span("m", 0, 1)), b.alloc("x", i, j), b.alloc("y", k))

    program = iosim.build("two", Square, schedule)
    rng = np.random.default_rng(5)
    one_by_one(program, {x: rng.integers(1, 30, 50) for x in ("n", "m", "B", "C", "D")})


def test_python_integers_are_counted_where_64_bits_do_not_reach() -> None:
    program = CAUSAL["flash2"]
    env = {"heads": 3, "N": 2**40 - 1, "d": 2**39, "B_r": 1001, "B_c": 7}
    given = {name: np.array([value, value], object) for name, value in env.items()}
    closed = close(program)
    reading = OnArrays(given)
    words = {key: poly.evaluate(reading)[1] for key, poly in closed.counts.items()}
    tiles = {"B_r": env.pop("B_r"), "B_c": env.pop("B_c")}
    instance = iosim.bind(program, env, tiles)
    assert words == dict(iosim.count(instance))
    assert max(words.values()) > 2**64
    assert highest(closed.peak, reading)[1] == iosim.peak(instance)


@given(st.lists(st.tuples(*[st.integers(0, 50)] * 2, *[st.integers(-60, 60)] * 2), min_size=1))
@examples(2)
def test_floors_add_up(cases: list[tuple[int, int, int, int]]) -> None:
    n, m, a, b = np.array(cases).T
    want = [sum((x * t + y) // (k + 1) for t in range(c)) for c, k, x, y in cases]
    assert columns._floors(n, m + 1, a, b).tolist() == want


def test_floors_of_lines_that_fall_stay_in_64_bits() -> None:
    """As many tiles as positions, and roundings by 2**30: their product is far beyond."""
    i = Tile("i", "n")
    for start, stop in ((i.start, Affine.of("n")), (Affine(), i.stop)):
        part = Part(Span("n", start, stop), "C")
        atom = Sum(i, Span("n", Affine(), Affine.of("n")), "B", (part,))
        rows = [{"n": 2**40 - k, "B": k + 1, "C": 2**30 + 7 * k} for k in range(9)]
        env = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        assert columns.total(atom, env, {}).tolist() == [OnInts(row)(atom) for row in rows]


def test_sums_that_share_their_tiles_are_exact() -> None:
    """Of spans and roundings of their own, at the same points, and at those that boxes are."""
    i, rng = Tile("i", "n"), np.random.default_rng(7)
    whole = Span("n", Affine(), Affine.of("n"))
    seen = Part(Span("n", Affine(), i.stop))
    near = Part(Span("n", i.start - 20, i.stop - 3))
    spans: list[tuple[Any, ...]] = [(seen,), (i, seen), (seen, near), (near,), (i, near, seen)]
    spans += [(Part(seen.span, "C"),), (i, Part(seen.span, "C")), (i, Part(near.span, "D"))]
    env = {x: rng.integers(1, 60, 40) for x in ("n", "B", "C", "D")}
    rows = [{x: int(values[k]) for x, values in env.items()} for k in range(40)]
    odd = np.arange(40) % 2
    apart = {"B": env["B"] + odd, "C": env["C"] + 1 - odd, "D": env["D"]}
    reading, boxes = OnArrays(env), OnArrays(env, env | apart)
    for step in ("B", "C"):
        for factors in spans:
            atom = Sum(i, whole, step, factors)
            want = [OnInts(row)(atom) for row in rows]
            assert reading(atom).tolist() == want
            names = names_of(atom) - {"n"}
            points = np.all([apart[x] == env[x] for x in names], axis=0)
            assert boxes(atom)[points].tolist() == np.array(want)[points].tolist()


def test_counts_that_fit_are_given_where_their_terms_do_not() -> None:
    """A window over 2**38 rows: whole axes would move more than 2**62 words, and it doesn't."""
    window = iosim.Attention(2**38, 4, window=(512, 0))
    program = iosim.algorithm("flash2").program_for(window)
    short = window.sizes | {"N": 4096}
    tiles = {"B_r": np.array([2, 2, 3, 4096]), "B_c": 1}
    given = {x: np.array([window.sizes[x]] * 2 + [short[x]] * 2) for x in short} | tiles
    one_by_one(program, given)
    counts = iosim.count_many(program, {x: np.reshape(v, (-1, 1)) for x, v in given.items()})
    assert {v.shape for v in counts.values()} == {(4, 1)}
    assert int(counts["load", "K"][0, 0]) > 2**45
    with pytest.raises(iosim.InputError, match=r"exceed 2\*\*62: count these one at a time"):
        iosim.count_many(program, given | {"d": np.array([4, 2**20, 4, 4])})


def test_peaks_that_fit_are_given_where_their_terms_do_not() -> None:
    window = iosim.Attention(2**38, 4, window=(512, 0))
    program = iosim.algorithm("flash1").program_for(window)
    tiles = {"B_r": np.array([2**36, 3]), "B_c": np.array([7, 3])}
    one_by_one(program, window.sizes | tiles)


def test_binomial_coefficients_are_exact_modulo_2_to_the_64() -> None:
    n = np.array([0, 1, 2, 3, 5, 8, 13, 64, 2**40 - 1, 2**40, 2**40 - 7])
    for k in range(1, 8):
        want = [(math.comb(int(x), k) + 2**63) % 2**64 - 2**63 for x in n]
        with np.errstate(over="ignore"):
            assert columns._choose(n, k).tolist() == want
