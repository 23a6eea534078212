"""The page's pebble game in node, against Python: rules, hints, optima, segments, drawings."""

from __future__ import annotations

import copy
import itertools
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from engine import Ask, asker
from test_lab_pebbles import BOARDS, best_of, cleaned, dag_of, moves_of
from test_pebbling_oracle import as_dag, random_graph

import proofs.hong_kung as hong_kung
from iosim.base.errors import IosimError
from iosim.pebbling import Dag, Game, Move, grid, optimum, replay, segments
from iosim.pebbling.game import KINDS as ALL
from proofs.hong_kung.game import clean

KINDS = tuple(kind for kind in ALL if kind != "slide")  # the page has no sliding pebbles


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Asks the page's code questions, all at once: the answers."""
    return asker(tmp_path_factory.mktemp("pebbles") / "cli.mjs", "src/views/pebbles/cli.ts")


def graph_to_dict(dag: Dag) -> dict[str, Any]:
    """A graph as the page has it."""
    return {
        "vertices": [[v, list(ps)] for v, ps in dag.preds.items()],
        "outputs": list(dag.outputs),
        "sums": sorted(dag.sums),
    }


# --- the theorem's segments -----------------------------------------------------------------------


@pytest.mark.parametrize(("graph", "game"), [b for b in BOARDS if not BOARDS[b]["partial"]])
def test_segments_of_optimal_games_are_iosims(graph: str, game: str, ask: Ask) -> None:
    row = BOARDS[graph, game]
    dag = dag_of(row)
    for best in row["optima"]:
        M = best["M"]
        _, _, moves = cleaned(dag, moves_of(best["moves"]))
        texts = [f"{m.kind} {m.vertex}" for m in moves]
        kept, *shown = ask(
            [
                {"ask": "clean", "board": graph_to_dict(dag), "moves": best["moves"], "over": True},
                *(
                    {"ask": "segments", "board": graph_to_dict(dag), "moves": texts, "s": s}
                    for s in range(1, 2 * M + 1)
                ),
            ]
        )
        assert [best["moves"][k] for k in kept] == texts
        for s, page in enumerate(shown, 1):
            for mine, told in zip(segments(dag, moves, s), page, strict=True):
                for name in ("part", "dominator", "last", "minimum"):
                    assert set(told[name]) == getattr(mine, name)
                    assert len(told[name]) == len(getattr(mine, name))
                assert (told["loads"], told["stores"]) == (mine.loads, mine.stores)
                assert told["to"] - told["from"] == mine.moves
                assert told["dominated"]


def test_a_game_that_goes_on_keeps_what_may_yet_be_used(ask: Ask) -> None:
    """Whatever is stored or still red; what was deleted unused is left out at once."""
    board = {
        "vertices": [["a", []], ["b", []], ["c", ["a", "b"]], ["d", ["c"]]],
        "sums": [],
        "outputs": ["d"],
    }
    game = [
        "load a",
        "load b",
        "compute c",
        "store c",
        "delete a",
        "delete b",
        "delete c",
        "load c",
        "compute d",
        "store d",
    ]
    asks = [
        {"ask": "clean", "board": board, "moves": game[:k], "over": False}
        for k in range(len(game) + 1)
    ]
    wasted = ["load a", "delete a", "load b"]
    asks.append({"ask": "clean", "board": board, "moves": wasted, "over": False})
    asks.append({"ask": "clean", "board": board, "moves": game[:4], "over": True})
    *prefixes, waste, over = ask(asks)
    assert prefixes == [list(range(k)) for k in range(len(game) + 1)]
    assert waste == [2]
    assert over == []


def test_the_page_cleans_and_cuts_wasteful_games_as_the_proof_does(ask: Ask) -> None:
    rng = random.Random(3)
    questions, want = [], []
    for _ in range(300):
        theirs, M, numbers = hong_kung._random_game(rng, rng.randint(4, 12))
        names = [f"v{k}" for k in range(theirs.n)]
        vertices = [
            [names[k], [names[p] for p in hong_kung.bits(theirs.parents[k])]]
            for k in range(theirs.n)
        ]
        graph = {
            "vertices": vertices,
            "sums": [],
            "outputs": [names[k] for k in hong_kung.bits(theirs.outputs)],
        }
        moves = [f"{kind} {names[v]}" for kind, v in numbers]
        cleaned = clean(theirs, numbers)
        questions.append({"ask": "clean", "board": graph, "moves": moves, "over": True})
        want.append(cleaned)
        s = rng.randint(1, M)
        questions.append(
            {
                "ask": "segments",
                "board": graph,
                "s": s,
                "moves": [f"{kind} {names[v]}" for kind, v in cleaned],
            }
        )
        want.append(hong_kung.parts(theirs, cleaned, s))
    for question, answer, right in zip(questions, ask(questions), want, strict=True):
        if question["ask"] == "clean":
            kept = [question["moves"][k] for k in answer]
            assert kept == [f"{kind} v{v}" for kind, v in right]
        else:
            cut = [
                [sum(1 << int(v[1:]) for v in x[k]) for k in ("part", "dominator", "last")]
                for x in answer
            ]
            assert cut == [list(x) for x in right]
            assert all(x["dominated"] for x in answer)
    lengths = [
        len(q["moves"]) - len(a)
        for q, a in zip(questions, want, strict=True)
        if q["ask"] == "clean"
    ]
    assert sum(x > 0 for x in lengths) > 50


def misses(dag: Dag, v: str, found: set[str]) -> bool:
    """Whether a path from an input ends in a vertex, and has none of a set: path by path."""
    if v in found:
        return False
    return not dag.preds[v] or any(misses(dag, p, found) for p in dag.preds[v])


def test_a_set_dominates_where_every_path_meets_it(ask: Ask) -> None:
    rng = random.Random(8)
    questions, want = [], []
    for _ in range(400):
        dag = random_dag(rng, 9, False)
        found, part = ({v for v in dag.vertices if rng.random() < x} for x in (0.4, 0.3))
        questions.append(
            {
                "ask": "dominates",
                "board": graph_to_dict(dag),
                "set": sorted(found),
                "part": sorted(part),
            }
        )
        want.append(not any(misses(dag, v, found) for v in part))
    assert ask(questions) == want
    assert 50 < sum(want) < 350


# --- the page's rules ----------------------------------------------------------------------------


def random_dag(rng: random.Random, most: int, sums: bool) -> Dag:
    graph, outputs = random_graph(rng, most)
    inner = [v for v, ps in enumerate(graph) if ps]
    return as_dag(graph, outputs, {v for v in inner if sums and rng.random() < 0.6})


def random_moves(rng: random.Random, game: Game, many: int) -> Iterator[tuple[str, Any]]:
    """Moves, and what Python says: the position after it, or why it is forbidden.

    Half of them are drawn from all, most of which are forbidden; the others from legal ones.
    """
    dag = game.dag
    every = [
        Move(kind, v, t)
        for v in dag.vertices
        for kind in KINDS
        for t in ((*dag.preds[v], dag.vertices[0]) if kind == "add" else (None,))
    ]
    for _ in range(many):
        tries = [rng.choice(every)] if rng.random() < 0.5 else rng.sample(every, len(every))
        for move in tries:
            after = copy_of(game)
            text = " ".join(x for x in (move.kind, move.vertex, move.term) if x)
            try:
                after.play(move)
            except IosimError as error:
                if len(tries) == 1:
                    yield text, str(error)
                continue
            for name in ("red", "blue", "computed", "terms", "loads", "stores", "moves"):
                setattr(game, name, getattr(after, name))
            yield text, game_to_dict(game)
            break


def copy_of(game: Game) -> Game:
    """The same position of the same graph, to try a move in."""
    after = copy.copy(game)
    after.red, after.blue, after.computed = set(game.red), set(game.blue), set(game.computed)
    after.terms = {v: set(terms) for v, terms in game.terms.items()}
    return after


def game_to_dict(game: Game) -> dict[str, Any]:
    return {
        "red": sorted(game.red),
        "blue": sorted(game.blue),
        "computed": sorted(game.computed),
        "terms": [[v, sorted(ts)] for v, ts in sorted(game.terms.items()) if ts],
        "loads": game.loads,
        "stores": game.stores,
    }


def variants() -> list[tuple[bool, bool]]:
    return [(False, False), (True, False), (False, True)]


@pytest.mark.parametrize("block", range(3))
def test_the_page_plays_by_pythons_rules(block: int, ask: Ask) -> None:
    """Thousands of random games: positions, counts and messages, move by move."""
    rng = random.Random(block)
    questions, want = [], []
    for k in range(700):
        recompute, partial = variants()[k % 3]
        dag = random_dag(rng, 8, partial)
        M = rng.randint(1, 5)
        game = Game(dag, M, recompute, partial)
        played = list(random_moves(rng, game, 16))
        try:
            game.finish()
            over = True
        except IosimError:
            over = False
        questions.append(
            {
                "ask": "game",
                "board": graph_to_dict(dag),
                "moves": [text for text, _ in played],
                "rules": {"M": M, "recompute": recompute, "partial": partial},
            }
        )
        want.append(([x for _, x in played], over, dag.least_memory(partial)))
    reasons = set()
    for answer, (right, over, least) in zip(ask(questions), want, strict=True):
        shown = [x.get("why", x) for x in answer["answers"]]
        assert shown == right
        assert (answer["finished"], answer["least"]) == (over, least)
        for x in answer["answers"]:
            if "why" in x:
                assert x["culprits"]
                reasons.add(" ".join(w for w in x["why"].split() if not w.startswith("v")))
    # Every rule was broken, and every kind of move was made.
    for words in (
        "no blue pebble",
        "leave the load out",
        "leave the store out",
        "is an input",
        "delete one first",
        "recomputation",
        "lacks terms",
        "on the fly",
        "only a sum",
        "not a term",
        "in it already",
        "has no red pebble",
    ):
        assert any(words in reason for reason in reasons), words


def test_the_page_shows_all_legal_moves_and_no_others(ask: Ask) -> None:
    rng = random.Random(11)
    questions, want = [], []
    for k in range(200):
        recompute, partial = variants()[k % 3]
        dag = random_dag(rng, 7, partial)
        game = Game(dag, rng.randint(2, 4), recompute, partial)
        moves = [text for text, after in random_moves(rng, game, 10) if not isinstance(after, str)]
        questions.append(
            {
                "ask": "legal",
                "board": graph_to_dict(dag),
                "moves": moves,
                "rules": {"M": game.M, "recompute": recompute, "partial": partial},
            }
        )
        want.append(
            {
                " ".join(x for x in (m.kind, m.vertex, m.term) if x)
                for m in moves_in(dag)
                if allows(game, m)
            }
        )
    for answer, right in zip(ask(questions), want, strict=True):
        assert len(answer) == len(set(answer))
        assert set(answer) == right


def moves_in(dag: Dag) -> list[Move]:
    return [
        Move(kind, v, t)
        for v in dag.vertices
        for kind in KINDS
        for t in (dag.preds[v] if kind == "add" else (None,))
    ]


def allows(game: Game, move: Move) -> bool:
    try:
        copy_of(game).play(move)
    except IosimError:
        return False
    return True


# --- the page's search ---------------------------------------------------------------------------


@pytest.mark.usefixtures("brief_annealing")
@pytest.mark.parametrize("block", range(3))
def test_the_page_finds_the_solvers_optima(block: int, ask: Ask) -> None:
    rng = random.Random(100 + block)
    questions, want = [], []
    for k in range(90):
        recompute, partial = variants()[k % 3]
        dag = random_dag(rng, 11 if partial else 12, partial)
        M = dag.least_memory(partial) + rng.choice((0, 0, 0, 1))
        found = optimum(dag, M, recompute, partial)
        assert found.optimal
        questions.append(
            {
                "ask": "search",
                "board": graph_to_dict(dag),
                "rules": {"M": M, "recompute": recompute, "partial": partial},
            }
        )
        want.append((dag, found))
    gaps = 0
    for question, answer, (dag, found) in zip(questions, ask(questions), want, strict=True):
        assert answer.get("words") == found.cost, (question, answer)
        moves = [Move(m["kind"], m["vertex"], m.get("term")) for m in answer["moves"]]
        game = replay(dag, found.M, moves, found.recompute, found.partial)
        assert game.loads + game.stores == found.cost
        used = [v for v in dag.inputs if dag.succs[v]]
        gaps += found.cost > len(used) + len([v for v in dag.outputs if dag.preds[v]])
    assert gaps > 15


def test_with_room_for_all_vertices_a_game_moves_what_it_must(ask: Ask) -> None:
    """Inputs that something uses, and outputs; an input that nothing uses is not loaded."""
    rng = random.Random(6)
    dags = [random_dag(rng, 7, False) for _ in range(500)]
    found = ask([{"ask": "compulsory", "board": graph_to_dict(dag)} for dag in dags])
    assert found == [optimum(dag, len(dag.vertices)).cost for dag in dags]
    assert sum(any(not dag.succs[v] for v in dag.inputs) for dag in dags) > 10


@pytest.mark.parametrize(("graph", "game"), BOARDS)
def test_the_page_solves_every_board_at_its_least_memory(graph: str, game: str, ask: Ask) -> None:
    row = BOARDS[graph, game]
    (best, *_) = row["optima"]
    rules = {"M": best["M"], "recompute": row["recompute"], "partial": row["partial"]}
    if (graph, game) == ("diamond", "recompute"):
        rules["M"] = 4
        best = best_of(graph, game, 4)
    (answer,) = ask([{"ask": "search", "board": graph_to_dict(dag_of(row)), "rules": rules}])
    assert answer["words"] == best["words"]


def remaining(game: Game) -> int | None:
    """The fewest transfers to the end, by playing every legal move; None if there is no end."""
    dag, every = game.dag, moves_in(game.dag)

    def key(g: Game) -> Any:
        terms = tuple((v, frozenset(ts)) for v, ts in sorted(g.terms.items()) if ts)
        return frozenset(g.red), frozenset(g.blue), frozenset(g.computed), terms

    best, queue = {key(game): 0}, deque([(game, 0)])
    while queue:
        here, cost = queue.popleft()
        if best[key(here)] < cost:
            continue
        if all(v in here.blue and here._complete(v) for v in dag.outputs):
            return cost
        for move in every:
            after = copy_of(here)
            try:
                after.play(move)
            except IosimError:
                continue
            price = move.kind in ("load", "store")
            if cost + price < best.get(key(after), 1 << 30):
                best[key(after)] = cost + price
                (queue.append if price else queue.appendleft)((after, cost + price))
    return None


def test_hints_are_optimal_from_any_position(ask: Ask) -> None:
    rng = random.Random(5)
    questions, want = [], []
    for k in range(75):
        recompute, partial = variants()[k % 3]
        dag = random_dag(rng, 5, partial)
        M = dag.least_memory(partial) + rng.randint(0, 1)
        game = Game(dag, M, recompute, partial)
        moves = [text for text, after in random_moves(rng, game, 8) if not isinstance(after, str)]
        questions.append(
            {
                "ask": "search",
                "board": graph_to_dict(dag),
                "moves": moves,
                "rules": {"M": M, "recompute": recompute, "partial": partial},
            }
        )
        want.append((game, remaining(game)))
    lost = 0
    for question, answer, (game, right) in zip(questions, ask(questions), want, strict=True):
        assert answer.get("words") == right, (question, answer)
        if right is None:
            assert answer["lost"] in game.dag.preds
            lost += 1
            continue
        for m in answer["moves"]:
            game.play(Move(m["kind"], m["vertex"], m.get("term")))
        game.finish()
    assert 5 < lost < 60


def test_a_search_that_is_too_large_says_so(ask: Ask) -> None:
    rules = {"M": 3, "recompute": True, "partial": False}
    small, large = grid(4, 4), grid(6, 6)
    (stopped, refused) = ask(
        [
            {"ask": "search", "board": graph_to_dict(small), "rules": rules, "limit": 2000},
            {"ask": "search", "board": graph_to_dict(large), "rules": rules},
        ]
    )
    assert stopped["stopped"] == "more than 2,000 positions"
    assert refused["stopped"] == "the graph has more than 30 vertices"


# --- graphs drawn by hand ------------------------------------------------------------------------


def test_a_drawing_from_text_is_the_graph_that_python_reads(ask: Ask) -> None:
    rng = random.Random(2)
    graphs = [random_dag(rng, 12, False) for _ in range(60)]
    texts = []
    for dag in graphs:
        edges = [f"{p} {v}" for v, ps in dag.preds.items() for p in ps]
        rng.shuffle(edges)
        alone = [v for v in dag.vertices if not dag.preds[v] and not dag.succs[v]]
        texts.append("\n".join(["# drawn by hand", "", *alone, *edges]))
    shown = ask([{"ask": "text", "text": text} for text in texts])
    again = ask([{"ask": "text", "text": x["text"]} for x in shown])
    for dag, answer, twice in zip(graphs, shown, again, strict=True):
        assert {v: set(ps) for v, ps in answer["vertices"]} == {
            v: set(ps) for v, ps in dag.preds.items()
        }
        before: set[str] = set()
        for v, ps in answer["vertices"]:
            assert set(ps) <= before
            before.add(v)
        assert {v: set(ps) for v, ps in twice["vertices"]} == {
            v: set(ps) for v, ps in answer["vertices"]
        }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a b\nb c\nc a", "line 3: the edge c → a would close a cycle, a → b → c → a"),
        ("a a", "line 1: a cannot be its own operand"),
        ("a b\na b", "line 2: a is an operand of b already"),
        ("a b c", "line 1 has 3 names"),
        ("a_name_that_is_long b", "longer than 12 letters"),
        ("\n".join(f"v{k} w" for k in range(40)), "at most 26 vertices"),
    ],
)
def test_bad_text_is_refused_with_its_line(text: str, says: str, ask: Ask) -> None:
    (answer,) = ask([{"ask": "text", "text": text}])
    assert says in answer["refused"]


def test_names_that_a_script_knows_are_only_names(ask: Ask) -> None:
    (answer,) = ask([{"ask": "text", "text": "__proto__ constructor\n2 1\nconstructor 1"}])
    assert dict(answer["vertices"]) == {
        "__proto__": [],
        "constructor": ["__proto__"],
        "2": [],
        "1": ["2", "constructor"],
    }


def test_every_cycle_is_refused_and_nothing_else(ask: Ask) -> None:
    rng = random.Random(4)
    for _ in range(5):
        names = [f"v{k}" for k in range(7)]
        edges = [tuple(rng.sample(names, 2)) for _ in range(60)]
        (answer,) = ask([{"ask": "edges", "names": names, "edges": edges}])
        kept: list[tuple[str, str]] = []
        for (a, b), refused in zip(edges, answer, strict=True):
            if (a, b) in kept:
                assert "already" in refused
                continue
            cycle = not acyclic(names, [*kept, (a, b)])
            assert ("cycle" in refused) == cycle
            if not refused:
                kept.append((a, b))


def acyclic(names: list[str], edges: list[tuple[str, str]]) -> bool:
    left = set(names)
    while free := {v for v in left if not any(b == v and a in left for a, b in edges)}:
        left -= free
    return not left


def test_no_two_vertices_of_a_board_are_drawn_on_each_other(ask: Ask) -> None:
    rows = list(BOARDS.values())
    shown = ask([{"ask": "layout", "board": graph_to_dict(dag_of(r))} for r in rows])
    for row, places in zip(rows, shown, strict=True):
        at = {v: (p["x"], p["y"]) for v, p in places}
        assert set(at) == set(row["vertices"])
        for v, w in itertools.combinations(at, 2):
            assert at[v] != at[w]
        for v, ps in row["vertices"].items():
            assert all(at[p][1] < at[v][1] for p in ps)
