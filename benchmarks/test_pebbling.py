"""The pebble search: compiled loops beside plain Python, automorphisms beside none, and from the
end beside from the beginning.

``pytest benchmarks/test_pebbling.py -s``: states a second, and seconds of one sweep.  At the end
stands which thresholds hold (`thresholds.py`).
"""

from __future__ import annotations

import time

import pytest
import thresholds

from iosim.base.compiled import available
from iosim.pebbling import Dag, butterfly, matmul
from iosim.pebbling.layered_search import Layers, Tables
from iosim.pebbling.packed import Packed
from iosim.pebbling.rules import compile_rules
from iosim.pebbling.symmetry import generators

pytestmark = pytest.mark.skipif(
    not available(), reason="numba is not installed: pip install -e '.[cache]'"
)

FREE = 1e9


def swept(
    dag: Dag, M: int, limit: int, fast: bool, maps: bool = False, back: bool = False
) -> tuple[int, float]:
    """States and processor seconds of one sweep up to a limit, compiled beforehand."""
    rules = compile_rules(dag, M, False, False)
    layers = Layers(packed := Packed(rules, back), Tables(FREE, fast), lambda growth: None)
    if maps:
        layers.set_maps(generators(rules, packed, 5.0))
    layers.sweep(0)
    before, began = layers.expanded, time.process_time()
    layers.sweep(thresholds.size(limit, min(limit, 4)))
    return layers.expanded - before, time.process_time() - began


def test_compiled_is_much_faster_than_plain() -> None:
    for dag, M, limit in ((matmul(2, 2, 2), 4, 4), (butterfly(3), 4, 10)):
        (plain, slow), (same, quick) = (swept(dag, M, limit, fast) for fast in (False, True))
        assert plain == pytest.approx(same, rel=0.3)  # ties are broken otherwise
        print(
            f"\n{dag.name} M={M}: {plain / slow:,.0f} states a second plain, "
            f"{same / quick:,.0f} compiled"
        )
        thresholds.at_least(
            f"{dag.name}: compiled / plain", same / quick / (plain / slow), 10, "times"
        )


@pytest.mark.parametrize(
    ("dag", "M", "limit"), [(matmul(3, 3, 3), 6, 7), (butterfly(3), 3, 18)], ids=str
)
def test_automorphisms_beside_none(dag: Dag, M: int, limit: int) -> None:
    for maps in (False, True):
        states, seconds = swept(dag, M, limit, fast=True, maps=maps)
        print(f"\n{dag.name} M={M}, maps {maps}: {states:,} states, {seconds:.2f} s")


def powers(n: int, times: int) -> Dag:
    """A band matrix times a vector, again and again: a product for each pair, then sums."""
    preds: dict[str, tuple[str, ...]] = {f"x0,{i}": () for i in range(n)}
    near = {i: [j for j in (i - 1, i, i + 1) if 0 <= j < n] for i in range(n)}
    preds |= {f"a{i},{j}": () for i in range(n) for j in near[i]}
    for t in range(times):
        for i in range(n):
            for j in near[i]:
                preds[f"p{t},{i},{j}"] = (f"a{i},{j}", f"x{t},{j}")
            preds[f"x{t + 1},{i}"] = tuple(f"p{t},{i},{j}" for j in near[i])
    return Dag(f"powers n={n} times={times}", preds)


@pytest.mark.parametrize(
    ("dag", "M", "limit"),
    [(powers(4, 3), 5, 12), (powers(4, 3), 6, 12), (matmul(3, 3, 3), 6, 6), (butterfly(3), 4, 14)],
    ids=str,
)
def test_from_the_end_beside_from_the_beginning(dag: Dag, M: int, limit: int) -> None:
    for back in (False, True):
        states, seconds = swept(dag, M, limit, fast=True, back=back)
        print(f"\n{dag.name} M={M}, back {back}: {states:,} states, {seconds:.2f} s")
