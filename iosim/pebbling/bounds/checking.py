"""Certificates of lower bounds, checked by plain code that shares none with what made them.

`proved` gives the number that a certificate proves, or raises ProgramError at the first thing in
it that is wrong.  What comes before what is found by walking the graph.

>>> from iosim.pebbling import tree
>>> from iosim.pebbling.bounds import root_bound
>>> dag = tree(4)
>>> best = root_bound(dag, M=4)
>>> best.value, proved(dag, 4, best.name, best.certificate)
(23, 23)
"""

from __future__ import annotations

import itertools
from typing import Any

from iosim.base.errors import ProgramError
from iosim.base.rows import Values
from iosim.pebbling.dag import Dag


def proved(
    dag: Dag,
    M: int,
    name: str,
    certificate: Values,
    recompute: bool = False,
    partial: bool = False,
) -> int:
    """What a certificate of a bound of this name proves about a game."""
    plain = _Plain(dag, M, recompute, partial)
    return int(CHECKS[name](plain, certificate))


def _need(true: object, what: str) -> None:
    if not true:
        raise ProgramError(f"the certificate is wrong: {what}")


class _Plain:
    """A game as sets of names: operations are ("vertex",) or ("vertex", "term")."""

    def __init__(self, dag: Dag, M: int, recompute: bool, partial: bool):
        self.dag, self.M, self.recompute = dag, M, recompute
        needed, todo = set(dag.outputs), list(dag.outputs)
        while todo:
            for p in dag.preds[todo.pop()]:
                if p not in needed:
                    needed.add(p)
                    todo.append(p)
        self.reads: dict[tuple[str, ...], set[str]] = {}
        folded = set()
        # Values that take no word while an operation is done, if it is done on the fly.
        self.flying: dict[tuple[str, ...], str] = {}
        for v in needed:
            if partial and v in dag.sums:
                for t in dag.preds[v]:
                    users = [w for w in dag.preds if t in dag.preds[w]]
                    alone = users == [v] and dag.preds[t] and t not in dag.sums
                    alone = alone and t not in dag.outputs
                    if alone and self.words(t) >= self.words(v):
                        folded.add(t)
                        self.reads[v, t] = set(dag.preds[t])
                    else:
                        self.reads[v, t] = {t}
                        if alone:
                            self.flying[t,] = self.flying[v, t] = t
            elif dag.preds[v]:
                self.reads[v,] = set(dag.preds[v])
        for t in folded:
            self.reads.pop((t,), None)
        self.values = needed - folded
        self.makes = {v: [u for u in self.reads if u[0] == v] for v in self.values}
        self.needs = {
            v: {u for u, reads in self.reads.items() if v in reads}
            | (set(self.makes[v]) if len(self.makes[v]) > 1 else set())
            for v in self.values
        }
        self.touches = {v: self.needs[v] | set(self.makes[v]) for v in self.values}
        self.direct = {
            u: {w for r in reads for w in self.makes[r]} for u, reads in self.reads.items()
        }
        self.earlier: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for u in self.reads:
            seen: set[tuple[str, ...]] = set()
            walk = list(self.direct[u])
            while walk:
                w = walk.pop()
                if w not in seen:
                    seen.add(w)
                    walk.extend(self.direct[w])
            self.earlier[u] = seen

    def words(self, v: str) -> int:
        return self.dag.words[list(self.dag.preds).index(v)]

    def resident_set(self, u: tuple[str, ...]) -> set[str]:
        return self.reads[u] | {u[0]}

    def is_stored(self, v: str) -> bool:
        """Whether storing it is not a compulsory transfer."""
        return bool(self.makes[v]) and v not in self.dag.outputs

    def counts(self, v: str) -> bool:
        """Whether a later need must load it, once it is no longer red."""
        return not (self.recompute and self.makes[v])

    def compulsory(self) -> int:
        loads = sum(self.words(v) for v in self.values if not self.makes[v] and self.needs[v])
        return loads + sum(self.words(v) for v in set(self.dag.outputs) if self.makes[v])


def _compulsory(game: _Plain, certificate: Values) -> int:
    return game.compulsory()


def _moments(game: _Plain, certificate: Values) -> int:
    """Add the rows up, each times its multiplier: no more than the cost of each variable."""
    moments = [tuple(u) for u in certificate["moments"]]
    _need(len(set(moments)) == len(moments), "a moment comes twice")
    _need(all(u in game.reads for u in moments), "a moment is not an operation")
    one = certificate["denominator"]
    total, sums = 0, dict[tuple[Any, ...], int]()

    def add(x: int, kind: str, a: Any, u: Any) -> int:
        """Count a term; what is known is not a variable, and its value is returned."""
        if kind == "z":
            if a == u or a in game.earlier[u]:
                return x
            if u in game.earlier[a]:
                return 0
        if kind in ("y", "red") and a in game.resident_set(u):
            _need(kind == "y", "a value that is held is not counted as red besides")
            return 0
        sums[kind, a, u] = sums.get((kind, a, u), 0) + x
        return 0

    for kind, *entries, x in certificate["rows"]:
        _need(isinstance(x, int) and x > 0, "a multiplier is not positive")
        row = [tuple(e) if isinstance(e, list) else e for e in entries]
        least, terms = _row(game, kind, row)
        for u in {u for _, _, _, u in terms}:
            _need(u is None or u in moments, f"{u} is not a moment")
        total += x * least
        for c, variable, a, u in terms:
            total -= add(c * x, variable, a, u)
    for (kind, a, _), have in sums.items():
        cost = game.words(a) * one if kind in "LS" else 0
        most = len(moments) if kind in "LN" else 1
        total -= max(0, have - cost) * most
    return game.compulsory() - int(-total // one)


def _row(game: _Plain, kind: str, row: list[Any]) -> tuple[int, list[tuple[int, str, Any, Any]]]:
    """A row's least value and its terms; raises where it need not hold."""
    if kind == "before":
        made, reader, u = row
        _need(made in game.direct[reader], f"{reader} does not read what {made} makes")
        return 0, [(1, "z", made, u), (-1, "z", reader, u)]
    if kind == "later":
        w, a, b = row
        _need(a in game.earlier[b], f"{a} need not come before {b}")
        return 0, [(1, "z", w, b), (-1, "z", w, a)]
    if kind == "either":
        a, b, sign = row
        _need(sign in (1, -1) and a != b, "no such row")
        return sign, [(sign, "z", a, b), (sign, "z", b, a)]
    if kind == "cap":
        (u,) = row
        rest = [v for v in game.values if v not in game.resident_set(u)]
        held = sum(game.words(v) for v in game.resident_set(u) if v != game.flying.get(u))
        return held - game.M, [(-game.words(v), "red", v, u) for v in rest]
    v, *ops = row
    _need(game.counts(v), f"{v} may be computed again")
    if kind == "live":
        u, t, needs = ops
        _need(t in game.touches[v] and needs in game.needs[v] and t != needs, f"{v} is not live")
        _need(v not in game.resident_set(u), f"{v} is held")
        return 0, [(1, "y", v, u), (1, "red", v, u), (-1, "z", t, u), (1, "z", needs, u)]
    if kind == "loads":
        return 0, [(1, "L", v, None), (-1, "N", v, ops[0]), (-1, "y", v, ops[0])]
    if kind == "store":
        _need(game.is_stored(v), f"{v} need not be stored besides")
        return 0, [(1, "S", v, None), (-1, "y", v, ops[0])]
    a, b = ops[:2]
    _need(a in game.earlier[b], f"{a} need not come before {b}")
    grows = [(1, "N", v, b), (-1, "N", v, a)]
    if kind == "more":
        return 0, grows
    _need(kind == "load" and ops[2] in game.needs[v], f"{v} is not needed there")
    return -1, [*grows, (-1, "y", v, a), (-1, "z", ops[2], b), (1, "z", ops[2], a)]


def _trees(game: _Plain, certificate: Values) -> int:
    """f(v, p) of the certificate is at most what the operands allow, in any order of them."""
    dag, f, M = game.dag, certificate["cuts"], game.M
    _need(not game.recompute and set(dag.words) == {1}, "no game of this kind")
    _need(all(len(u) == 1 for u in game.reads), "a sum is taken term by term")
    _need(all(len(game.needs[v]) <= 1 for v in game.values), "a value is used twice")
    made = {v for v in game.values if game.makes[v]}
    roots = {v for v in made if not game.needs[v]}
    _need(roots == set(dag.outputs) & made, "an output is not a root")
    for v in made:
        operands = sorted(game.reads[v,])
        _need(len(operands) <= 8, "too many operands to try all orders")
        for p in range(len(operands) + 1, M + 1):
            best = None
            for order in itertools.permutations(operands):
                cuts = 0
                for k, r in enumerate(order):
                    if r in made:
                        cuts += min(f[r][p - k - 1], f[r][M - 1] + 1)
                best = cuts if best is None else min(best, cuts)
            _need(best is not None and f[v][p - 1] <= best, f"{v} with {p} pebbles")
    return game.compulsory() + 2 * int(sum(f[v][M - 1] for v in roots))


def _wavefront(game: _Plain, certificate: Values) -> int:
    u = tuple(certificate["operation"])
    _need(u in game.reads and set(game.dag.words) == {1}, "no game of this kind")
    extra = 0
    for which in ("loads", "stores"):
        used: set[str] = set()
        for path in certificate[which]:
            steps = [(tuple(w), v) for w, v in path]
            _need(steps[0][0] == u or steps[0][0] in game.earlier[u], "a path starts outside")
            _need(u in game.earlier[steps[-1][0]], "a path ends inside")
            for (here, _), (there, v) in itertools.pairwise(steps):
                if v is None:
                    _need(there in game.direct[here], f"{here} does not depend on {there}")
                    continue
                _need(here in game.touches[v] and there in game.needs[v], f"no step along {v}")
                _need(
                    v not in used and v not in game.resident_set(u), f"{v} comes twice, or is held"
                )
                _need(game.counts(v), f"{v} may be computed again")
                _need(which == "loads" or game.is_stored(v), f"{v} need not be stored besides")
                used.add(v)
        extra += max(0, len(game.resident_set(u)) + len(certificate[which]) - game.M)
    return game.compulsory() + extra


CHECKS = {
    "compulsory": _compulsory,
    "moments": _moments,
    "trees": _trees,
    "wavefront": _wavefront,
}
