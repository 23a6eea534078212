"""What a bound is: a formula, the class of algorithms it covers, and where it applies.

A bound's mathematics is written **once**, as a function of `Terms`: sizes, the memory M, and the
few functions that bounds use (roots, minima, roundings, logarithms).  Read with exact numbers it
gives words; read with NumPy arrays, a curve; read with symbols, the sympy expression.  So the
printed expression and the evaluated number cannot drift apart, and a number needs no sympy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from iosim.base.arrays import Bools, Floats, Ints
from iosim.base.errors import InputError, closest
from iosim.base.rows import Values
from iosim.base.validate import check_size
from iosim.bounds.classes import WIDE, BoundClass, covers
from iosim.bounds.terms import (
    ROUNDED_FROM,
    Arrays,
    Close,
    Exact,
    Symbolic,
    Terms,
    below,
    check_entries,
    lowered,
)
from iosim.core.problem import PROBLEMS, Form, Problem, size_names

Kind = Literal["lower", "upper"]
Strength = Literal["exact", "asymptotic"]


def axis_names(kind: str) -> tuple[str, ...]:
    """Names of a problem's sizes, in the order in which people say them: N, d, heads.

    Raises InputError for an unknown kind of problem.

    >>> axis_names("attention"), axis_names("matmul")
    (('N', 'd', 'heads'), ('m', 'n', 'k'))
    """
    if kind not in PROBLEMS:
        raise InputError(f"unknown problem {kind!r}: {closest(kind, PROBLEMS)}")
    return size_names(PROBLEMS[kind])


# What the theorems about any set of pairs cover.
EVERY_OPTION = ("N_k", "align", "causal", "d_v", "kv_heads", "sinks", "statistics", "window")


def values_and_outputs(t: Any) -> Any:
    """Words of V that are read, and of O, for bounds that look at QKᵀ alone."""
    return t.d_v * (t.heads * t.N + t.kv_heads * t.columns)


def _always(t: Terms) -> str | None:
    return None


def _cite_statement(link: str) -> str:
    """A statement's file and anchor as people write them: ``proofs/towards_nd.md, Theorem 3``."""
    page, _, anchor = link.partition("#")
    kind, _, number = anchor.partition("-")
    if kind.isdigit():  # a heading's: 7-the-other-exact-bounds
        return f"{page}, section {kind}"
    return f"{page}, {kind.capitalize()} {number.upper()}"


def _large(terms: Terms, words: Any) -> Any:
    """Where rounding of floats could add up to a word."""
    return (words >= ROUNDED_FROM) | (terms.products() >= 2.0**53)


@dataclass(frozen=True)
class Bound:
    """A lower or an upper bound on the words moved between the two levels, loads plus stores.

    name
        how the command line and the tables call it.
    kind
        "lower": every algorithm of the class moves at least this many words.
        "upper": a named algorithm moves at most this many.
    strength
        "exact": all constants are explicit and it holds at every finite size where it applies.
        "asymptotic": it holds up to an unnamed constant; compare it with fitted slopes only.
    problem
        the kind of problem: a key of `iosim.core.problem.PROBLEMS`, attention if not given.
    covers
        the algorithms it holds for: for a lower bound all of them, for an upper bound the one
        that attains it.
    formula
        the words, as a function of `Terms`.
    validity
        where it applies, as a sentence; `outside` is the same as a function.
    source
        paper and theorem.
    outside
        `Terms` (exact numbers) → the reason why it does not apply there, or None.
    proof
        the name of its proof in proofs/, without a suffix, or None.
    theorem
        the anchor of the statement in that proof: "theorem-2".
    numeric
        where the words need an optimization rather than a formula: `Arrays` of one shape → words,
        a float64 array of that shape.
    options
        names of the problem's options that its theorem covers.
    options_proof
        the name of the proof that carries it over to them, or None if none is needed.
    options_theorem
        the anchor of the statement in that one.
    checked
        the problem's form and `Terms` (exact numbers) → the words of the statement that proofs/rocq
        checks in Coq, or None where it says nothing; left out, there is none.
    checked_by
        that statement's name in proofs/rocq, and what of the class it leaves out.
    row_sums
        whether it holds only where each row's sum takes a word of fast memory, as in iosim's
        machine; the others hold where row maxima and sums need no space, too.
    classes
        the classes that a lower bound covers, and with each those within it: all of them for one
        in print, none for an upper bound, which is the count of a single algorithm.

    >>> from iosim.bounds import bound
    >>> from iosim.core.problem import Attention
    >>> compulsory = bound("compulsory")
    >>> compulsory.words(Attention(4096, 64), M=1000), compulsory.expression
    (1048576.0, 4*N*d*heads)
    """

    name: str
    covers: str
    formula: Callable[[Any], Any]
    validity: str
    source: str
    kind: Kind = "lower"
    strength: Strength = "exact"
    problem: str = "attention"
    outside: Callable[[Any], str | None] = _always
    proof: str | None = None
    theorem: str = "theorem-1"
    numeric: Callable[[Any], Floats] | None = None
    classes: tuple[BoundClass, ...] = WIDE
    options: tuple[str, ...] = ()
    options_proof: str | None = None
    options_theorem: str = "7-the-other-exact-bounds"
    checked: Callable[[Form, Any], Any] | None = None
    checked_by: str = ""
    row_sums: bool = False

    @property
    def expression(self) -> Any:
        """The sympy expression, over the symbols `sym(size)` and `sym("M")`.

        Not clipped at 0, as `words` is.  Imports sympy.
        """
        return self.expression_for(PROBLEMS[self.problem].plain_form())

    def expression_for(self, problem: Problem | Form) -> Any:
        """`expression` for a problem with options, over the sizes of its form.

        Raises InputError where the bound does not cover them.

        >>> from iosim.bounds import bound
        >>> from iosim.core.problem import Attention
        >>> bound("compulsory").expression_for(Attention(8, 4, N_k=9, d_v=5))
        (d + d_v)*(N*heads + N_k*heads)
        """
        form = problem if isinstance(problem, Form) else problem.form
        self._check(form, None)
        return self.formula(Symbolic(form))

    @property
    def everywhere(self) -> bool:
        """Whether it applies at all sizes, so that `curve` needs no check; options aside."""
        return self.outside is _always

    def covers_form(self, form: Form) -> bool:
        """Whether the theorem covers the form's kind and options."""
        return self._lack(form) is None

    def covers_class(self, klass: BoundClass) -> bool:
        """Whether the theorem covers a class, or the one that it is within.

        >>> from iosim.bounds import CLASSES, bound
        >>> [name for name, klass in CLASSES.items() if bound("parts").covers_class(klass)]
        ['once', 'trees', 'stationary']
        """
        return covers(self.classes, klass)

    def source_for(self, form: Form) -> str:
        """Paper and theorem for problems of a form.

        >>> from iosim.bounds import bound
        >>> from iosim.core.problem import Attention
        >>> bound("sweeps").source_for(Attention(8, 4, causal=True).form)
        'iosim, proofs/towards_nd.md, Theorem 7; with options proofs/towards_nd.md, Theorem 8'
        """
        if not (form.options and self.options_link) or self.options_link == self.theorem_link:
            return self.source
        return f"{self.source}; with options {_cite_statement(self.options_link)}"

    def theorems_for(self, form: Form) -> tuple[str, ...]:
        """The statements that it uses for problems of a form, each as file and anchor.

        >>> from iosim.bounds import bound
        >>> from iosim.core.problem import Attention
        >>> bound("constant-tight-once").theorems_for(Attention(8, 4, causal=True).form)
        ('proofs/constant_tight.md#theorem-1', 'proofs/attention_options.md#theorem-b')
        """
        links = (self.theorem_link, self.options_link if form.options else None)
        return tuple(dict.fromkeys(link for link in links if link))

    @property
    def theorem_link(self) -> str | None:
        """The statement that it uses, as file and anchor, or None for what needs no proof here.

        >>> from iosim.bounds import bound
        >>> bound("constant-tight-once").theorem_link
        'proofs/constant_tight.md#theorem-1'
        """
        return self.proof and f"proofs/{self.proof}.md#{self.theorem}"

    @property
    def options_link(self) -> str | None:
        """`theorem_link` of what carries it over to problems with options."""
        return self.options_proof and f"proofs/{self.options_proof}.md#{self.options_theorem}"

    def proof_for(self, form: Form) -> str | None:
        """The name of the proof for problems of a form, or None."""
        return (form.options and self.options_proof) or self.proof

    def machine_checked(self, problem: Problem, M: int) -> str | None:
        """The statement in Coq that gives all of the words at this point, or None.

        Raises InputError where the bound does not apply.

        >>> from iosim.bounds import bound
        >>> from iosim.core.problem import Attention
        >>> once = bound("constant-tight-once")
        >>> once.machine_checked(Attention(4096, 64), 16384)
        'trees_pairs_widths'
        >>> once.machine_checked(Attention(4096, 64), 4096) is None  # below M = 5d²/2
        True
        """
        if self.checked is None:
            return None
        words = self.checked(problem.form, self._terms(problem, M))
        return None if words is None or self.exact(problem, M) > words else self.checked_by

    def _lack(self, form: Form) -> str | None:
        if form.kind != self.problem:
            return f"it bounds {self.problem}"
        lacking = [name for name in form.options if name not in self.options]
        return f"its theorem does not cover {' and '.join(lacking)}" if lacking else None

    def _terms(self, problem: Problem, M: int) -> Exact:
        if problem.kind != self.problem:
            raise InputError(
                f"{self.name} bounds {self.problem}, got {problem!r}: "
                f"choose a bound for {problem.kind}"
            )
        return Exact(problem.form, {**problem.sizes, "M": check_size("M", M)})

    def why_not(self, problem: Problem, M: int) -> str | None:
        """Why the bound does not apply to `problem` with M words, or None where it applies.

        Raises InputError for a problem of another kind, or an M that is not a size.
        """
        terms = self._terms(problem, M)
        return self._lack(problem.form) or self.outside(terms)

    def applies(self, problem: Problem, M: int) -> bool:
        """Whether the theorem covers these sizes; `why_not` gives the reason if not."""
        return self.why_not(problem, M) is None

    def where(self, form: Form, sizes: Mapping[str, Ints], M: Ints) -> Bools:
        """`applies` at many points of one form: arrays of one dimension and equal length."""
        if not self.covers_form(form):
            return np.zeros(len(M), dtype=bool)
        if self.everywhere:
            return np.ones(len(M), dtype=bool)
        points = (
            {x: int(sizes[x][k]) for x in form.sizes} | {"M": int(M[k])} for k in range(len(M))
        )
        return np.array([self.outside(Exact(form, point)) is None for point in points], dtype=bool)

    def exact(self, problem: Problem, M: int) -> Fraction | float:
        """The words, as a Fraction where no irrational root or logarithm is involved.

        A lower bound that comes out negative is given as 0.  Raises InputError
        where the bound does not apply: it is never extrapolated.
        """
        terms = self._terms(problem, M)
        self._check(problem.form, terms)
        if self.numeric is None:
            value = self.formula(terms)
        else:
            sizes = {**problem.sizes, "M": M}
            value = self.numeric(Arrays(problem.form, {x: np.array([v]) for x, v in sizes.items()}))
            value = value[0]
        return max(Fraction(0), value) if isinstance(value, Fraction) else max(0.0, float(value))

    def _check(self, form: Form, terms: Exact | None) -> None:
        reason = self._lack(form) or (terms and self.outside(terms))
        if reason:
            raise InputError(
                f"{self.name} does not apply: {reason}; choose sizes inside, or another bound"
            )

    def words(self, problem: Problem, M: int) -> float:
        """The words as a float; otherwise like `exact`.

        A lower bound is never rounded up: where a root is irrational, from 2**48 words on.

        >>> from iosim.bounds import bound
        >>> from iosim.core.problem import Attention
        >>> int(bound("compulsory").words(Attention(2**25 + 7, 1, 2**29 + 1), 1))
        72057609204531216
        >>> 4 * (2**25 + 7) * (2**29 + 1)
        72057609204531228
        """
        value = self.exact(problem, M)
        if self.kind != "lower":
            return float(value)
        if self.numeric is None and _large(self._terms(problem, M), value):
            value = max(Fraction(0), self._close(problem.form, {**problem.sizes, "M": M}))
        return below(value)

    def _close(self, form: Form, sizes: Mapping[str, int]) -> Any:
        """The words in fractions, with many digits where a root is irrational."""
        return self.formula(Close(form, sizes))

    def curve(self, form: Form | None = None, **sizes: Any) -> Any:
        """The words at many points: sizes and M as broadcastable arrays → float64 array.

        Args:
            form: the problem's form; left out, the one without options.
            sizes: all sizes of the form, and M; those with a default (heads = 1) may be left out.

        Clipped at 0 and rounded like `words`; whether the bound applies at each point is **not**
        checked here (use `where`).  Raises InputError if a size is missing, or for options that the
        bound does not cover.
        """
        form = PROBLEMS[self.problem].plain_form() if form is None else form
        self._check(form, None)
        axes = PROBLEMS[self.problem].axes()
        sizes = {a.name: a.default for a in axes if a.default and a.name in form.sizes} | sizes
        need = {*form.sizes, "M"}
        if set(sizes) != need:
            raise InputError(f"{self.name} needs {sorted(need)}, got {sorted(sizes)}: give each")
        shape = np.broadcast_shapes(*(np.shape(v) for v in sizes.values()))
        if self.numeric is None:
            terms = Arrays(form, sizes)
            words = np.broadcast_to(self.formula(terms), shape)
            if self.kind == "lower":
                words = self._checked(form, sizes, terms, words)
        else:
            for name, values in sizes.items():
                check_entries(name, values, least=0 if name in form.limits else 1)
            wide = {name: np.broadcast_to(v, shape) for name, v in sizes.items()}
            words = lowered(self.numeric(Arrays(form, wide)))
        return np.maximum(0.0, words)

    def _checked(self, form: Form, sizes: Values, terms: Arrays, words: Any) -> Any:
        """The same words, those of large numbers evaluated again in fractions."""
        large = np.broadcast_to(_large(terms, words), words.shape)
        if not large.any():
            return words
        words = np.array(words, dtype=np.float64)
        wide = {name: np.broadcast_to(v, words.shape) for name, v in sizes.items()}
        for at in map(tuple, np.argwhere(large)):
            point = {name: int(v[at]) for name, v in wide.items()}
            words[at] = below(self._close(form, point))
        return words
