"""Words of vertices, and the variants of the game: what is counted, and what is forbidden."""

from __future__ import annotations

import random

import pytest

from iosim.base.errors import CapacityError, InputError, IosimError, ResidencyError
from iosim.pebbling import Dag, Game, IllegalMove, Move, Unfinished, chain, optimum, replay, tree

SUM = {"a": (), "b": (), "c": ("a", "b"), "d": ("c",)}


def moves(*text: str) -> list[Move]:
    return [Move(*line.split()) for line in text]


def test_a_vertex_takes_and_costs_its_words() -> None:
    dag = Dag("sum", SUM, words=(3, 1, 5, 2))
    assert (dag.least_memory(), dag.unit, Dag("sum", SUM).unit) == (9, False, True)
    made = moves("load a", "load b", "compute c", "delete a", "delete b", "compute d", "store d")
    game = replay(dag, 9, made)
    assert (game.loads, game.stores, game.computes, game.used) == (4, 2, 2, 7)
    with pytest.raises(
        CapacityError, match="c would need 5 words of fast memory in addition to 4, M = 8"
    ):
        replay(dag, 8, made)


def test_words_follow_their_vertices_into_topological_order() -> None:
    dag = Dag("late", {"d": ("c",), "c": ("a", "b"), "b": (), "a": ()}, words=(4, 3, 2, 1))
    assert dag.words_of == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert dag.vertices == ("b", "a", "c", "d")


def test_partial_sums_need_their_words() -> None:
    dag = Dag("sum", {"a": (), "b": (), "s": ("a", "b")}, sums=frozenset("s"), words=(2, 3, 4))
    assert (dag.least_memory(), dag.least_memory(partial=True)) == (9, 7)
    made = moves("load a", "add s a", "delete a", "load b", "add s b", "store s")
    game = replay(dag, 7, made, partial=True)
    assert (game.loads, game.stores, game.computes) == (5, 4, 1)
    with pytest.raises(CapacityError, match="b would need 3 words"):
        replay(dag, 6, made, partial=True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((1, 1, 1), "3 words are given for 4 vertices"),
        ((1, 1, 0, 1), r"vertex 'c' has '0' words: give a whole number, 1\.\."),
        ((1, -2, 1, 1), "vertex 'b' has '-2' words"),
        ((1, 1, 1.5, 1), "vertex 'c' has '1.5' words"),
        ((1, 1, True, 1), "vertex 'c' has 'True' words"),
        ((1, 1, 10**99, 1), "vertex 'c' has '1000"),
    ],
)
def test_words_that_are_none_are_refused(words: tuple[int, ...], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Dag("sum", SUM, words=words)


def test_the_search_counts_words() -> None:
    best = optimum(Dag("sum", SUM, words=(3, 1, 5, 2)), M=9)
    assert (best.cost, best.optimal) == (3 + 1 + 2, True)  # a and b come, d goes


def test_a_pebble_slides_from_an_operand() -> None:
    dag = Dag("sum", SUM)
    made = moves("load a", "load b", "slide c a", "delete b", "slide d c", "store d")
    game = replay(dag, 2, made, sliding=True)
    assert (game.loads, game.stores, game.computes, game.red) == (2, 1, 2, {"d"})
    with pytest.raises(IllegalMove, match="only in a game with sliding pebbles"):
        replay(dag, 2, made)
    game = Game(dag, 2, sliding=True)
    for move in moves("load a", "load b"):
        game.play(move)
    for forbidden, error, says in (
        ("slide c d", IllegalMove, "no operand"),
        ("slide c", IllegalMove, "from None"),
        ("slide d c", ResidencyError, "c has no red pebble"),
        ("slide a a", IllegalMove, "no oper"),
    ):
        with pytest.raises(error, match=says):
            game.play(*moves(forbidden))
    for move in moves("slide c b", "delete a", "load b"):
        game.play(move)
    with pytest.raises(IllegalMove, match="already"):
        game.play(Move("slide", "c", "b"))
    for move in moves("delete c", "load a"):
        game.play(move)
    with pytest.raises(IllegalMove, match="compute c again"):
        game.play(Move("slide", "c", "b"))


def test_what_slides_gives_up_its_words() -> None:
    dag = Dag("grow", {"a": (), "b": ("a",)}, words=(2, 3))
    made = moves("load a", "slide b a", "store b")
    assert replay(dag, 3, made, sliding=True).stores == 3
    with pytest.raises(CapacityError, match="b would need 3 words of fast memory in addition to 0"):
        replay(dag, 2, made, sliding=True)


def test_free_sources_are_computed_once() -> None:
    dag = chain(2)
    game = replay(dag, 2, moves("compute v0", "compute v1", "store v1"), free_sources=True)
    assert (game.loads, game.stores, game.computes) == (0, 1, 2)
    with pytest.raises(IllegalMove, match="load v0: it has no blue pebble"):
        replay(dag, 2, moves("load v0"), free_sources=True)
    again = moves("compute v0", "delete v0", "compute v0", "compute v1", "store v1")
    with pytest.raises(IllegalMove, match="compute v0 again"):
        replay(dag, 2, again, free_sources=True)
    assert replay(dag, 2, again, recompute=True, free_sources=True).computes == 3
    with pytest.raises(Unfinished):
        replay(Dag("lone", {"a": ()}), 1, [], free_sources=True)
    replay(Dag("lone", {"a": ()}), 1, moves("compute a", "store a"), free_sources=True)


def test_sinks_may_end_in_any_color() -> None:
    made = moves("load v0", "compute v1")
    assert replay(chain(2), 2, made, sinks="any").stores == 0
    with pytest.raises(Unfinished, match="output v1 has no blue pebble"):
        replay(chain(2), 2, made)
    with pytest.raises(Unfinished, match="output v1 has no pebble at the end"):
        replay(chain(2), 2, [*made, Move("delete", "v1")], sinks="any")
    with pytest.raises(InputError, match="unknown end of sinks 'red'"):
        Game(chain(2), 2, sinks="red")


def cheapest(dag: Dag, M: int, **options: bool | str) -> int:
    """The least words of any game, by trying every move in every position (Dijkstra by words)."""
    import copy
    import heapq

    every = [Move(kind, v) for kind in ("load", "store", "compute", "delete") for v in dag.vertices]
    every += [Move("slide", v, p) for v, ps in dag.preds.items() for p in ps]
    first = Game(dag, M, **options)  # type: ignore[arg-type]
    queue, number, seen = [(0, 0, first)], 0, set()
    while queue:
        cost, _, game = heapq.heappop(queue)
        key = tuple(map(frozenset, (game.red, game.blue, game.computed)))
        if key in seen:
            continue
        seen.add(key)
        try:
            game.finish()
        except Unfinished:
            pass
        else:
            return cost
        for move in every:
            then = copy.copy(game)
            then.red, then.blue, then.computed = set(game.red), set(game.blue), set(game.computed)
            try:
                then.play(move)
            except IosimError:
                continue
            number += 1
            heapq.heappush(queue, (then.loads + then.stores, number, then))
    raise AssertionError("no game")


def test_variants_cost_what_the_literature_says() -> None:
    # A complete binary tree of depth k takes k + 2 pebbles, and k + 1 where they slide.
    assert [cheapest(tree(2), M) for M in (3, 4)] == [7, 5]
    assert cheapest(tree(2), 3, sliding=True) == 5
    # Free sources save their loads, sinks of any color their stores.
    assert cheapest(tree(2), 4, free_sources=True) == 1
    assert cheapest(tree(2), 4, free_sources=True, sinks="any") == 0
    assert cheapest(tree(2), 3, free_sources=True, sinks="any") == 2
    assert cheapest(tree(2), 4, sinks="any") == 4


def test_equal_words_scale_a_game() -> None:
    for M in (3, 4):
        assert cheapest(Dag("t", tree(2).preds, words=(3,) * 7), 3 * M) == 3 * cheapest(tree(2), M)


@pytest.mark.numbers
@pytest.mark.parametrize("seed", range(8))
def test_optima_with_words_are_the_cheapest_games(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.choice((4, 5, 6))
    preds = {
        f"v{k}": tuple(f"v{p}" for p in range(k) if rng.random() < 0.6)[: 2 + (seed & 1)]
        for k in range(n)
    }
    dag = Dag("random", preds, words=tuple(rng.choice((1, 1, 2, 3)) for _ in range(n)))
    least = dag.least_memory()
    for M in (least, least + 1, least + 3):
        best = optimum(dag, M)
        assert best.optimal
        assert best.cost == cheapest(dag, M), (preds, dag.words, M)
