"""A second opinion on small graphs: the game without recomputation as a CP-SAT model.

It shares no code with the search.  One vertex is computed in each step; what is red during a step
was red in the step before, is loaded in it, or is computed in it.
"""

from __future__ import annotations

import pytest

from iosim.pebbling.dag import Dag, check_memory

cp_model = pytest.importorskip("ortools.sat.python.cp_model")


def cp_sat(dag: Dag, M: int) -> tuple[int, int | None]:
    """A lower bound on the words moved, and the fewest found (None if nothing was).

    Raises InputError where M allows no pebbling.
    """
    check_memory(dag, M)
    model = cp_model.CpModel()
    vertices = [v for v in dag.vertices if v in dag.output_ancestors]
    made = [v for v in vertices if dag.preds[v]]
    words = dag.words_of
    steps = range(len(made))

    def table(what: str) -> dict[tuple[str, int], cp_model.IntVar]:
        return {(v, k): model.new_bool_var(f"{what} {v} {k}") for v in vertices for k in steps}

    now, red, load, store, blue = map(table, ("compute", "red", "load", "store", "blue"))
    for k in steps:
        model.add_exactly_one(now[v, k] for v in made)
        model.add(sum(words[v] * red[v, k] for v in vertices) <= M)
        for v in vertices:
            if v not in made:
                model.add(now[v, k] == 0)
            # During a step: its operands and its result are red, and all stores happen at its end.
            model.add_implication(now[v, k], red[v, k])
            for p in dag.preds[v]:
                model.add_implication(now[v, k], red[p, k])
            model.add_implication(store[v, k], red[v, k])
            before = [red[v, k - 1]] if k else []
            model.add_bool_or(red[v, k].negated(), load[v, k], now[v, k], *before)
            if v in made:
                was = [blue[v, k - 1]] if k else []
                model.add_bool_or(load[v, k].negated(), *was)
                model.add_bool_or(blue[v, k].negated(), store[v, k], *was)
    for v in made:
        model.add_exactly_one(now[v, k] for k in steps)
        if v in dag.outputs:
            model.add(blue[v, steps[-1]] == 1)
    model.minimize(sum(words[v] * x for moved in (load, store) for (v, _), x in moved.items()))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = 60.0
    solver.parameters.num_workers = 2
    status = solver.solve(model)
    known = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    lower = int(-(-solver.best_objective_bound // 1))
    return lower, int(solver.objective_value) if known else None
