"""The red-blue pebble game: its rules, known optima, limits, the command line, and its table."""

from __future__ import annotations

import csv
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sizes import draws
from test_cli import Done, iosim_

from experiments.pebbling_table import GAMES, START, STOP, graph, lower_bound, markdown, named
from iosim import pebbling
from iosim.base.errors import CapacityError, InputError, ResidencyError
from iosim.bounds import exact_lower_bounds
from iosim.core.problem import PROBLEMS, Attention, AttentionBackward, Problem
from iosim.pebbling import (
    Dag,
    Game,
    IllegalMove,
    Known,
    Move,
    Unfinished,
    attention,
    butterfly,
    chain,
    from_edges,
    from_file,
    grid,
    matmul,
    optimum,
    replay,
    tree,
)
from iosim.pebbling.rules import compile_rules
from iosim.pebbling.symmetry import automorphisms

pytestmark = pytest.mark.usefixtures("brief_annealing")
DATA = Path(__file__).parents[2] / "experiments" / "data" / "pebbling"
PAIR = Dag("pair", {"a": (), "b": (), "c": ("a", "b")})


def moves(*text: str) -> list[Move]:
    return [Move(*line.split()) for line in text]


# --- the rules -----------------------------------------------------------------------------------


def test_a_game_counts_its_transfers() -> None:
    game = replay(PAIR, 3, moves("load a", "load b", "compute c", "store c"))
    assert (game.loads, game.stores, game.moves) == (2, 1, 4)


@pytest.mark.parametrize(
    ("lines", "error", "says"),
    [
        (["load a", "compute c"], ResidencyError, "b has no red pebble: load or compute it"),
        (["load c"], IllegalMove, "no blue pebble"),
        (["load a", "load a"], IllegalMove, "red pebble already"),
        (["store a"], ResidencyError, "a has no red pebble"),
        (["load a", "store a"], IllegalMove, "blue pebble already"),
        (["delete a"], ResidencyError, "a has no red pebble"),
        (["compute a"], IllegalMove, "it is an input: load it"),
        (["load a", "load b", "compute c", "delete c", "compute c"], IllegalMove, "recomputation"),
        (["load z"], InputError, "unknown vertex 'z'"),
        (["lode a"], IllegalMove, "did you mean 'load'"),
        (["load a", "load b", "compute c"], Unfinished, "output c has no blue pebble"),
        (["add c a"], IllegalMove, "partial computations"),
    ],
)
def test_a_forbidden_move_is_named(lines: list[str], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        replay(PAIR, 3, moves(*lines))


def test_memory_is_bounded() -> None:
    with pytest.raises(CapacityError, match="M = 2: delete one first"):
        replay(PAIR, 2, moves("load a", "load b", "compute c"))


def test_terms_are_added_once_and_outdate_what_was_stored() -> None:
    dag = Dag("sum", {"a": (), "b": (), "s": ("a", "b")}, sums=frozenset({"s"}))
    game = Game(dag, 2, partial=True)
    for move in moves("load a", "add s a", "store s"):
        game.play(move)
    with pytest.raises(IllegalMove, match="already"):
        game.play(Move("add", "s", "a"))
    with pytest.raises(IllegalMove, match="not a term"):
        game.play(Move("add", "s", "s"))
    for move in moves("delete a", "load b", "add s b", "delete s"):
        game.play(move)
    assert "s" not in game.blue
    with pytest.raises(IllegalMove, match="no blue pebble"):
        game.play(Move("load", "s"))
    with pytest.raises(Unfinished):
        game.finish()


def test_an_unfinished_sum_is_no_operand() -> None:
    dag = Dag("s", {"a": (), "b": (), "s": ("a", "b"), "t": ("s",)}, sums=frozenset({"s"}))
    game = Game(dag, 3, partial=True)
    for move in moves("load a", "add s a"):
        game.play(move)
    with pytest.raises(IllegalMove, match="still lacks terms"):
        game.play(Move("compute", "t"))


# --- graphs --------------------------------------------------------------------------------------


def test_vertex_counts() -> None:
    assert len(matmul(2, 2, 2).vertices) == 20
    assert len(attention(2, 1).vertices) == 20
    assert len(attention(3, 1).vertices) == 42
    assert len(attention(3, 1, "vertex").vertices) == 36
    assert len(attention(2, 1, "vertex", "exp").vertices) == 24
    assert len(attention(2, 1, causal=True).vertices) == 16  # E, W and two additions fewer
    assert len(attention(2, 1, statistics=True).outputs) == 4  # two of O, two of L


def test_neighbouring_heads_share_keys_and_values() -> None:
    dag = attention(1, 1, heads=4, kv_heads=2)
    for head, group in enumerate((0, 0, 1, 1)):
        assert dag.preds[f"E[{head},0,0]"] == (f"Q[{head},0,0]", f"K[{group},0,0]")
        assert dag.preds[f"W[{head},0,0,0]"] == (f"E[{head},0,0]", f"V[{group},0,0]")
    assert len(butterfly(3).vertices) == 32


def test_a_graph_is_checked() -> None:
    with pytest.raises(InputError, match=r"cycle, .* ← .*: remove one edge"):
        from_edges("loop", [("a", "b"), ("b", "c"), ("c", "b")])
    with pytest.raises(InputError, match="unknown vertex 'x'"):
        Dag("g", {"a": (), "b": ("x",)})
    with pytest.raises(InputError, match="unknown vertex 'x'"):
        Dag("g", {"a": ()}, outputs=("x",))
    with pytest.raises(InputError, match="empty"):
        Dag("g", {})


def test_files(tmp_path: Path) -> None:
    lines = tmp_path / "g.txt"
    lines.write_text("# a comment\na c\nb c  # operands first\n")
    assert from_file(lines).preds == {"a": (), "b": (), "c": ("a", "b")}
    nx = pytest.importorskip("networkx")
    graph = nx.DiGraph([("a", "c"), ("b", "c")], name="pair")
    graph.nodes["c"]["sum"] = True
    node_link = tmp_path / "g.json"
    node_link.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    for dag in (from_file(node_link), pebbling.from_networkx(graph)):
        assert (dag.vertices, dag.outputs, dag.sums) == (("a", "b", "c"), ("c",), {"c"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a b c\n", ":1: expected 'operand result'"),
        ("# nothing\n", "no edge"),
        ("{", "not node-link JSON"),
        ('{"nodes": [{"id": 1}], "edges": [{"source": 1, "target": 2}]}', "unknown vertex '2'"),
        ("a b\nb a\n", "cycle"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "g").write_text(text)
    with pytest.raises(InputError, match=says):
        from_file(tmp_path / "g")


def test_automorphisms_keep_every_relation() -> None:
    for dag, partial, order in (
        (matmul(2, 2, 2, "vertex"), True, 16),
        (attention(3, 1, "vertex", "free"), True, 36),
        (butterfly(2), False, 64),
    ):
        rules = compile_rules(dag, 4, False, partial)
        found = automorphisms(rules)
        n = len(rules.values)
        assert found[0] == tuple(range(n + len(rules.ops)))
        assert len(found) == len(set(found)) == order
        for p in found:
            for k, op in enumerate(rules.ops):
                image = rules.ops[p[n + k] - n]
                assert image.target == p[op.target]
                assert set(image.reads) == {p[r] for r in op.reads}


@pytest.mark.parametrize(
    ("words", "outputs", "order"),
    [
        ((1, 1, 1, 1), "c", 2),
        ((1, 1, 2, 1), "c", 1),
        ((1, 1, 1, 1), "ac", 1),
        ((1, 1, 1, 1), "abc", 2),
    ],
)
def test_automorphisms_keep_words_and_outputs(
    words: tuple[int, ...], outputs: str, order: int
) -> None:
    """Of x → a, x → b, both → c: a and b change places where they are alike."""
    preds = {"x": (), "a": ("x",), "b": ("x",), "c": ("a", "b")}
    rules = compile_rules(Dag("diamond", preds, tuple(outputs), words=words), 9, False, False)
    assert len(automorphisms(rules)) == order


# --- optima that are known -----------------------------------------------------------------------


def solved(dag: Dag, M: int, **variant: bool) -> int:
    best = optimum(dag, M, **variant)
    assert best.optimal
    assert best.cost == best.loads + best.stores
    game = replay(dag, M, best.schedule, **variant)
    assert (game.loads, game.stores) == (best.loads, best.stores)
    assert best.cost is not None
    return best.cost


@pytest.mark.numbers
def test_matmul_2_2_2() -> None:
    # M = 3, 6 and 8 were proved by a plain CP-SAT model as well; 4 and 5 were beyond it.
    assert [solved(matmul(2, 2, 2), M) for M in range(3, 9)] == [25, 17, 14, 13, 12, 12]


def test_attention_2_1() -> None:
    # M = 5, 6 and 8 were proved by a plain CP-SAT model as well; 4 was beyond it.
    assert [solved(attention(2, 1), M) for M in range(3, 9)] == [24, 15, 11, 10, 9, 8]


@pytest.mark.numbers
def test_attention_3_1() -> None:
    costs = {6: 21, 7: 18, 8: 16, 9: 14, 10: 13, 11: 12}
    for M in list(costs)[:: 2 // draws(2, 1)]:
        assert solved(attention(3, 1), M) == costs[M]


@pytest.mark.slow
def test_attention_3_1_in_little_memory() -> None:
    assert [solved(attention(3, 1), M) for M in (3, 4, 5)] == [57, 33, 26]


def test_a_chain_moves_its_ends() -> None:
    assert [solved(chain(n), 2) for n in (2, 5, 9)] == [2, 2, 2]
    assert solved(chain(9), 2, recompute=True) == 2


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_a_tree_needs_its_pebbling_number(depth: int) -> None:
    # The complete binary tree of this depth takes depth + 2 pebbles (Paterson & Hewitt 1970).
    assert solved(tree(depth), depth + 2) == 2**depth + 1
    if depth > 1:
        assert solved(tree(depth), depth + 1) == 2**depth + 3


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_a_diamond_needs_one_pebble_more_than_its_side(n: int) -> None:
    assert solved(grid(n, n), n + 1) == 2
    if n > 2:
        assert solved(grid(n, n), n) > 2


def test_butterflies() -> None:
    # n + 2 pebbles hold the whole transform; with fewer, two ranks at a time go through M ≥ 6.
    assert solved(butterfly(1), 3) == 5 - 1
    assert [solved(butterfly(2), M) for M in (3, 4, 5, 6)] == [14, 11, 9, 8]
    assert solved(butterfly(3), 10) == 16
    assert [solved(butterfly(3), M) for M in (8, 9)] == [20, 18]


def test_recomputation_and_partial_computations_change_the_answer() -> None:
    # a is made from x for free: with recomputation it is never stored.
    far = {
        "x": (),
        "y": (),
        "z": (),
        "a": ("x",),
        "b": ("a", "y"),
        "c": ("b", "z"),
        "e": ("c", "x"),
        "f": ("e", "a"),
    }
    dag = Dag("far", far)
    assert solved(dag, 3) > solved(dag, 3, recompute=True)
    product = matmul(2, 2, 2, "vertex")
    assert solved(product, 4) > solved(product, 4, partial=True)
    with pytest.raises(InputError, match="can't be combined"):
        optimum(product, 4, recompute=True, partial=True)


@pytest.mark.parametrize("recompute", [False, True])
def test_more_memory_never_costs_more(recompute: bool) -> None:
    costs = [solved(matmul(2, 2, 1), M, recompute=recompute) for M in range(3, 9)]
    assert costs == sorted(costs, reverse=True)


def test_the_same_schedule_every_time() -> None:
    first, second = (optimum(attention(2, 1), 4) for _ in range(2))
    assert first.schedule == second.schedule
    assert first.states == second.states


def test_a_second_opinion_agrees() -> None:
    from cp_sat_model import cp_sat

    for dag, M in ((butterfly(1), 3), (grid(2, 3), 3), (tree(2), 3), (matmul(1, 2, 2), 4)):
        best = optimum(dag, M)
        assert cp_sat(dag, M) == (best.lower_bound, best.cost)
    with pytest.raises(InputError, match="too small"):
        cp_sat(grid(2, 3), 2)


# --- limits --------------------------------------------------------------------------------------


def test_time_that_is_up_leaves_an_interval() -> None:
    dag = matmul(3, 3, 3, "vertex")
    began = time.monotonic()
    best = optimum(dag, 3, partial=True, seconds=0.2)
    assert time.monotonic() - began < 20
    assert best.stopped == "time is up"
    assert not best.optimal
    assert best.cost is not None
    assert 27 <= best.lower_bound <= 55 <= best.cost
    replay(dag, 3, best.schedule, partial=True)


def test_far_beyond_reach_is_said_at_once() -> None:
    with pytest.raises(InputError, match=r"far beyond reach.* 512 at most"):
        optimum(butterfly(7), 5)
    with pytest.raises(InputError, match="far beyond reach"):
        matmul(100, 100, 100)
    with pytest.raises(InputError, match=r"M = 2 is too small .* M >= 3"):
        optimum(grid(3, 3), 2)


def test_graphs_without_operations_and_with_very_many_choices() -> None:
    assert solved(Dag("lone", {"a": ()}), 1) == 0
    assert solved(Dag("lone", {"a": ()}), 1, recompute=True) == 0
    # 12 of 24 operands each: thousands of ways to evict at every step.
    wide = {f"x{i}": () for i in range(24)}
    wide |= {f"y{k}": tuple(f"x{(5 * i + k) % 24}" for i in range(12)) for k in range(3)}
    best = optimum(Dag("wide", wide), 16, seconds=5)
    assert best.cost is not None
    assert best.lower_bound <= best.cost


def test_progress_is_told() -> None:
    told = []
    optimum(attention(2, 1), 4, progress=told.append)
    assert all(a.lower_bound <= b.lower_bound for a, b in itertools.pairwise(told))
    assert told[-1].cost == 15


# --- the command line ----------------------------------------------------------------------------


def command(*words: str) -> Done:
    return iosim_("optimal", *words)


def test_json_has_its_keys() -> None:
    done = command("matmul", "--m", "2", "--n", "2", "--k", "2", "--M", "6", "--json")
    row = json.loads(done.stdout)
    keys = "dag vertices M recompute cost lower_bound optimal loads stores seconds schedule"
    assert set(keys.split()) <= set(row)
    assert (row["vertices"], row["cost"], row["lower_bound"], row["optimal"]) == (20, 13, 13, True)
    game = replay(matmul(2, 2, 2), 6, [Move(*move) for move in row["schedule"]])
    assert (game.loads, game.stores) == (row["loads"], row["stores"])


def test_the_command_prints_a_proved_optimum_and_the_schedule(tmp_path: Path) -> None:
    (tmp_path / "pair.txt").write_text("a c\nb c\n")
    done = command(str(tmp_path / "pair.txt"), "--M", "3", "--show", "--recompute")
    assert "optimum 3 I/Os: 2 loads, 1 stores; proved" in done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines()[2:]][:4] == [
        "load",
        "load",
        "compute",
        "store",
    ]


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["matmul", "--m", "2", "--n", "2", "--k", "2", "--M", "2"], "M = 2 is too small"),
        (["attention", "--N", "1000", "--d", "64", "--M", "9"], "would do"),
        (["attention", "--N", "2", "--M", "9"], "attention needs --d"),
        (["attention", "--N", "2", "--d", "1", "--k", "3", "--M", "9"], "no size k"),
        (
            ["attention", "--N", "3", "--d", "1", "--N-k", "2", "--causal", "--M", "9"],
            "row 0 sees no column, so that its output is 0",
        ),
        (
            ["attention", "--N", "2", "--d", "1", "--heads", "3", "--kv-heads", "2", "--M", "9"],
            "kv_heads = 2 does not divide heads = 3",
        ),
        (
            [
                "attention",
                "--N",
                "9",
                "--d",
                "2",
                "--heads",
                "32",
                "--kv-heads",
                "8",
                "--causal",
                "--window",
                "7,",
                "--M",
                "9",
            ],
            "attention --N 9 --d 2 --heads 32 --kv-heads 8 --causal "
            "--window 7, is far beyond reach: "
            "the search takes 512 vertices at most; --N 4 --d 2 --heads 4 --kv-heads 4 --causal "
            "--window 7, would do",
        ),
        (
            ["attention", "--N", "2", "--d", "1", "--N-k", "1Gi", "--window", "1,0", "--M", "9"],
            "N_k = 1,073,741,824 columns are too many",
        ),
        (
            ["matmul", "--m", "2", "--n", "2", "--k", "2", "--causal", "--M", "9"],
            "matmul has no option --causal, which is for attention",
        ),
        (["nothing.json", "--N-k", "9", "--M", "9"], "nothing.json has no size N_k: leave it out"),
        (["nothing.json", "--M", "9"], "neither matmul, attention, attention-backward nor a file"),
        (
            ["attention-backward", "--N", "99", "--d", "8", "--kv-heads", "1", "--M", "9"],
            "attention-backward --N 99 --d 8 --kv-heads 1 is far beyond reach",
        ),
        (
            ["attention", "--N", "2", "--d", "1", "--statistics", "--softmax", "free", "--M", "9"],
            "no row sums to make statistics of: choose fused or exp",
        ),
        (["attention", "--N", "2", "--d", "1"], "M is missing"),
        (
            ["attention", "--N", "2", "--d", "1", "--M", "5", "--seconds", "no"],
            "--seconds must be a time above 0",
        ),
        (["attention", "--N", "2", "--d", "1", "--M", "5", "--sums", "x"], "unknown style"),
        (
            ["matmul", "--m", "2", "--n", "2", "--k", "2", "--M", "4", "--partial", "--recompute"],
            "can't be combined",
        ),
    ],
)
def test_bad_input_is_one_line(words: list[str], says: str) -> None:
    done = command(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interrupt_prints_what_is_known() -> None:
    words = ["attention", "--N", "4", "--d", "1", "--M", "3", "--partial", "--softmax", "free"]
    run = subprocess.Popen(
        [sys.executable, "-m", "iosim", "optimal", *words, "--seconds", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(4)
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "between" in out
    assert "interrupted" in out


def test_an_interrupt_that_leaves_no_result_prints_the_last_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that comes while the schedule is written, or while something is imported."""

    def interrupted(*_: object, progress: Callable[[Known], None], **__: object) -> None:
        progress(Known(7, 12, 99))
        raise KeyboardInterrupt

    monkeypatch.setattr(pebbling, "optimum", interrupted)
    words = ["matmul", "--m", "2", "--n", "2", "--k", "1", "--M", "3,4"]
    done = command(*words)
    assert done.returncode == 130
    assert "M = 3: at least 7 I/Os, and 12 were found; interrupted\n" in done.stdout
    assert done.stdout.count("\n") == 1

    def interrupt_at_four(dag: Dag, M: int, *_: object, **__: object) -> pebbling.Optimum:
        if M == 4:
            raise KeyboardInterrupt
        return optimum(dag, M)

    monkeypatch.setattr(pebbling, "optimum", interrupt_at_four)
    done = command(*words, "--json")
    assert (done.returncode, [row["M"] for row in json.loads(done.stdout)]) == (130, [3])


# --- the committed table -------------------------------------------------------------------------


def table() -> list[dict[str, str]]:
    with (DATA / "optima.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def instance(text: str) -> Problem:
    kind, *sizes = text.split()
    given = {k: int(v) for k, v in (s.split("=") for s in sizes)}
    return PROBLEMS[kind](**given)


@pytest.mark.numbers
def test_no_bound_is_above_an_optimum() -> None:
    for row in table():
        problem, M = instance(row["instance"]), int(row["M_words"])
        game = GAMES[row["game"]]
        for bound in exact_lower_bounds(problem, M, game.classes[0]):
            if set(game.classes) <= set(bound.classes) and not bound.row_sums:
                assert (bound.words or 0.0) <= int(row["optimum_words"]) + 1e-9, (row, bound)
        words, name = lower_bound(problem, M, game)
        assert words <= int(row["optimum_words"]) + 1e-9
        assert (round(words, 3), name) == (float(row["lower_bound_words"]), row["lower_bound"])


def test_no_algorithm_is_below_the_optimum_of_its_model() -> None:
    rows = {(r["instance"], r["game"], int(r["M_words"])): r for r in table() if r["best_words"]}
    assert {instance(name).kind for name, _, _ in rows} == {
        "matmul",
        "attention",
        "attention-backward",
    }
    for (name, game, M), row in rows.items():
        problem = instance(name)
        if game == ("partial" if problem.kind == "matmul" else "words"):
            # A schedule makes dS in the place of dP; in the game dS has a word of its own.
            own = int(problem.kind == "attention-backward")
            optimum = rows.get((name, game, M + own), row)  # with more words it is the same
            assert int(row["best_words"]) >= int(optimum["proved_words"]), row


OPTIONS = [
    Attention(3, 1, causal=True),
    Attention(2, 1, N_k=4, causal=True),
    Attention(2, 2, causal=True),
    Attention(4, 1, window=(1, 0)),
    Attention(4, 1, window=(0, 0), sinks=1),
    Attention(2, 1, d_v=2),
    Attention(1, 1, 4, kv_heads=2, N_k=3),
    AttentionBackward(2, 1),
    AttentionBackward(2, 1, causal=True),
    AttentionBackward(1, 2),
    AttentionBackward(1, 1, 2, kv_heads=1, N_k=2),
    AttentionBackward(1, 1, N_k=3, d_v=2),
]


@pytest.mark.numbers
@pytest.mark.parametrize("problem", OPTIONS, ids=str)
def test_optima_with_options_lie_between_bounds_and_schedules(problem: Problem) -> None:
    """In the game that bounds and schedules count; there a schedule's dS takes the place of dP."""
    game = GAMES["words"]
    dag, own = graph(problem, game), int(problem.kind == "attention-backward")
    for M in (4, 6, 8):
        best = solved(dag, M, partial=True)
        words, name = lower_bound(problem, M, game)
        assert words <= best + 1e-9, (M, name)
        assert best <= min(named(problem, M - own, game).values(), default=best)
    assert solved(dag, 40, partial=True) == len(dag.inputs) + len(dag.outputs)


def test_stricter_games_cost_no_less() -> None:
    costs = {(r["instance"], r["M_words"], r["game"]): r for r in table()}
    order = [("words", "partial"), ("partial", "chain"), ("recompute", "chain")]
    for (name, M, game), row in costs.items():
        for less, more in order:
            if game == less and (name, M, more) in costs:
                other = costs[name, M, more]
                assert int(row["proved_words"]) <= int(other["optimum_words"])


def test_every_optimum_of_the_table_is_proved() -> None:
    assert [r for r in table() if r["optimum_words"] != r["proved_words"]] == []


def test_the_documentation_shows_the_table() -> None:
    page = (DATA.parents[2] / "docs" / "pebbling.md").read_text(encoding="utf-8")
    shown = page.partition(START)[2].partition(STOP)[0].strip()
    assert shown == markdown(table()).strip()


@pytest.mark.slow
def test_the_table_is_what_the_solver_finds() -> None:
    from experiments.pebbling_table import graph

    for row in table():
        if float(row["seconds"]) < 5:
            game = GAMES[row["game"]]
            best = optimum(
                graph(instance(row["instance"]), game),
                int(row["M_words"]),
                recompute=game.recompute,
                partial=game.partial,
            )
            assert (best.cost, best.lower_bound) == (
                int(row["optimum_words"]),
                int(row["proved_words"]),
            )
