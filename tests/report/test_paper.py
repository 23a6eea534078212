"""The paper's source: its numbers are macros that a command makes, and its references resolve.

Read as text: LaTeX is needed to set it only.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from experiments import _pages, paper
from experiments import _paper_checks as checks
from experiments._latex import tex
from experiments._paper_parts import Made, Part
from iosim.base.errors import IosimError
from iosim.bounds import best_lower_bound, bound
from iosim.bounds.unified import EXACT_FROM, lower_bound
from iosim.core.problem import Attention, AttentionBackward
from iosim.report.proof import load_theorem, run, steps, theorems

pytest.importorskip("z3")

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "proofs" / "paper"
MAIN = (FOLDER / "main.tex").read_text(encoding="utf-8")
DECLARED = {name for part in paper.PARTS.values() for name in part.numbers}
FILES = {name for part in paper.PARTS.values() for name in part.files} | {"numbers"}


def bare(text: str) -> str:
    """Without comments."""
    return re.sub(r"(?<!\\)%.*", "", text)


def body(text: str) -> str:
    """From the document's begin to the references, without comments."""
    text = bare(text).partition(r"\begin{document}")[2]
    return text.partition(r"\begin{thebibliography}")[0]


# ---------------------------------------------------------------- the checks, each text → problems


def macros(text: str) -> list[str]:
    """Macros of numbers that are used and not made, or made and not used."""
    used = set(re.findall(r"\\([A-Z][A-Za-z]+)", body(text)))
    # LaTeX's and amsmath's own with a capital.
    used -= {"Pi", "Omega", "Theta", "Delta", "Bigl", "Bigr"}
    return sorted(used ^ DECLARED)


def inputs(text: str) -> list[str]:
    """Files that are read and not made, or made and not read."""
    text = bare(text)
    read = set(re.findall(r"\{build/([\w.]+)\}", text))
    read |= {f"{name}.tex" for name in re.findall(r"\\rowsof\{(\w+)\}", text)}
    return sorted(read ^ FILES)


def references(text: str) -> list[str]:
    """Labels and items that are missing, twice there, or never referred to."""
    text = bare(text)
    found = []
    for place, use in (
        (r"\\label\{([^}]+)\}", r"\\(?:eq)?ref\{([^}]+)\}"),
        (r"\\bibitem\{([^}]+)\}", r"\\cite\{([^}]+)\}"),
    ):
        there = re.findall(place, text)
        asked = {one.strip() for many in re.findall(use, text) for one in many.split(",")}
        found += [f"{x} twice" for x in sorted({x for x in there if there.count(x) > 1})]
        found += [f"{x} missing" for x in sorted(asked - set(there))]
        if "bibitem" in place:
            found += [f"{x} unused" for x in sorted(set(there) - asked)]
    return found


def structure(text: str) -> list[str]:
    """Environments and braces that do not close."""
    text, found, open_ = bare(text), [], []
    for what, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", text):
        if what == "begin":
            open_.append(name)
        elif not open_ or open_.pop() != name:
            found.append(f"end of {name}")
    plain = re.sub(r"\\[{}\\]", "", text)
    if plain.count("{") != plain.count("}") or open_:
        found.append(f"{open_} open, {plain.count('{')} and {plain.count('}')} braces")
    return found


def numerals(text: str) -> list[str]:
    """Numbers that look computed: with a point, a percent sign, or three digits."""
    text = body(text)
    # Commands to type, names of papers, widths of columns, and exact fractions of proofs.
    text = re.sub(r"\\code\{[^{}]*\}|\\arxiv\{[^}]*\}|L\{\d+mm\}", "", text)
    text = re.sub(r"\\[td]?frac\{\d+\}\{\d+\}", "", text)
    text = re.sub(r"\\(?:setlength|cmidrule)\S*(?:\{[^}]*\})*|\[\d+pt\]|2\^\{\d+\}", "", text)
    return re.findall(r"\d+\.\d+|\d[\d,.]*\s*(?:\\%|percent)|(?<![\dA-Za-z])\d{3,}", text)


CHECKS = (macros, inputs, references, structure, numerals)


def unproved(text: str) -> list[str]:
    """Labels of statements that no proof follows, and that no proof says it is of."""
    text, found = bare(text), []
    of = r"begin\{proof\}\[[^\]]*\\ref\{([^}]+)\}|, which is Theorem~\\ref\{([^}]+)\}\."
    named = {label for both in re.findall(of, text) for label in both}
    kinds = "theorem|lemma|proposition"
    statement = rf"\\begin\{{({kinds})\}}.*?\\label\{{([^}}]+)\}}.*?\\end\{{\1\}}\s*(\S*)"
    for _, label, after in re.findall(statement, text, re.DOTALL):
        if not after.startswith(r"\begin{proof}") and label not in named:
            found.append(label)
    return found


# Statements whose proofs the appendix has in the words of a page: the part of `paper.pages`.
IN_PAGES = {"thm:pairs": "page_options", "thm:backward": "page_backward"}


def test_what_the_figure_uses_is_proved_in_the_paper() -> None:
    """What no proof follows has one in an appendix that is a page's text."""
    assert set(unproved(MAIN)) == IN_PAGES.keys()
    appendix = MAIN.partition(r"\appendix")[2]
    for label, page in IN_PAGES.items():
        assert rf"\ref{{{label}}}" in appendix
        assert rf"\rowsof{{{page}}}" in appendix
    # Of the bounds of proofs/towards_nd.md: parts, stays, what is left over, sweeps.
    for label in ("rectangle", "stays", "leftover", "stay"):
        assert rf"\label{{thm:{label}}}" in MAIN
        assert rf"\ref{{thm:{label}}}" in MAIN


def test_the_pages_sections_are_there_and_have_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """All headings lead somewhere, every sign is known; pandoc itself is not asked."""
    monkeypatch.setattr(_pages, "_convert", lambda text: text)
    made = paper.pages.make().files
    for name, proofs in (("page_options", 4), ("page_backward", 8), ("page_whole", 4)):
        assert str(made[f"{name}.tex"]).count("∎") + str(made[f"{name}.tex"]).count("✓") >= proofs
    with pytest.raises(IosimError, match="no section"):
        _pages.to_latex("towards_nd", "## 99. ", "## 5. ")
    monkeypatch.setattr(_pages, "_convert", lambda text: text + "☃")
    with pytest.raises(IosimError, match="no LaTeX for '☃'"):
        paper.pages.make()


def test_names_with_subscripts_are_formulas() -> None:
    text = "w_ij and d_v, α_iβ_j; `w_ij`, $$ w_ij $$ and a_long_name"
    assert _pages._with_subscripts(text) == (
        "$w_{ij}$ and $d_{v}$, $α_{i}$$β_{j}$; `w_ij`, $$ w_ij $$ and a_long_name"
    )


def test_a_missing_proof_is_found() -> None:
    before, _, after = MAIN.partition(r"\label{thm:leftover}")
    assert "thm:leftover" in unproved(
        before + r"\label{thm:leftover}" + after.replace("{proof}", "{x}")
    )


@pytest.mark.parametrize("check", CHECKS)
def test_the_source(check: Any) -> None:
    assert check(MAIN) == []


@pytest.mark.parametrize(
    ("check", "old", "new"),
    [
        (macros, r"\GapMostOnce", r"\GapMostOncf"),
        (macros, r"\OptimaRows", "136"),
        (inputs, r"\rowsof{gap}", ""),
        (inputs, "{build/gap.pdf}", "{build/gap2.pdf}"),
        (references, r"\label{lem:lw}", ""),
        (references, r"\label{lem:lw}", r"\label{lem:once}"),
        (references, r"\bibitem{smith}", r"\bibitem{smyth}"),
        (structure, r"\end{abstract}", ""),
        (structure, r"\title{", r"\title"),
        (numerals, r"\GapPlainOnce{} times", "1.04 times"),
        (numerals, r"\StepsAll{} steps", "104 steps"),
        (numerals, r"to within \GpuOff", r"to within 3\%"),
    ],
)
def test_a_planted_error_is_found(check: Any, old: str, new: str) -> None:
    assert old in MAIN
    assert check(MAIN.replace(old, new)) != []


# ---------------------------------------------------------------- what the theorems say


def statement(label: str) -> str:
    """The text of the theorem with a label."""
    (text,) = re.findall(
        rf"\\begin\{{theorem\}}\\label\{{{label}\}}(.*?)\\end\{{theorem\}}", MAIN, re.S
    )
    return str(text)


def fraction(text: str) -> Fraction:
    """``\\tfrac52`` and ``\\frac{61}4`` as fractions."""
    return Fraction(*(int(x.strip("{}")) for x in re.findall(r"\{\d+\}|\d", text)))


def test_the_constant_and_where_it_begins() -> None:
    text = statement("thm:four")
    assert text.count("4HN^2d^2/M") == 1
    first, second = re.findall(r"M\\ge(\\t?frac\d\d|\d+)d\^2", text)
    assert [fraction(first)] * 2 == [EXACT_FROM["once"], EXACT_FROM["trees"]]
    assert [fraction(second)] * 2 == [EXACT_FROM["recompute"], EXACT_FROM["recompute-trees"]]
    N, d = 2**12, 64
    for klass, x in EXACT_FROM.items():
        M = int(x * d * d)
        assert lower_bound(N, d, M, klass=klass) == pytest.approx(4 * N**2 * d**2 / M, rel=1e-12)
        assert lower_bound(N, d, M - 1000, klass=klass) < 4 * N**2 * d**2 / (M - 1000) * (1 - 1e-6)
    # Wherever the text says from which M on, it is one of these.
    said = re.findall(r"M\\ge(\\t?frac\d\d|\d+)d\^2", MAIN)
    assert {fraction(x) for x in said} == {Fraction(x) for x in EXACT_FROM.values()}


def test_the_multipliers_of_the_proof() -> None:
    constants = load_theorem("constant_tight").constants
    proof = MAIN.partition(r"[Proof of Theorem~\ref{thm:four}]")[2].partition(r"\end{proof}")[0]
    m1, m2 = (fraction(x) for x in re.findall(r"\$m_[12]=(\\tfrac\{\d+\}\{\d+\})\$", proof))
    assert (m1, m2) == constants.ONCE
    m1, m2 = (fraction(x) for x in re.findall(r"\$m_[12]=(\\tfrac(?:\d+|\d\{\d+\}))\$", proof))
    assert (m1, m2) == constants.RECOMPUTE


def test_the_backward_pass_as_stated() -> None:
    items = re.findall(r"\\item (.*?)(?=\\item|\\end)", statement("thm:backward"), re.S)
    sixteen, fourteen, twelve, small = (x.replace("\n", " ") for x in items)
    N, d, pairs = 2**20, 64, 2**40
    assert "14HN^2d^2/(M+1)-3HNd-1" in fourteen
    M = int(fraction(re.findall(r"\\ge(\S+)d\^2", fourteen)[0]) * d * d) - 1
    words = best_lower_bound(AttentionBackward(N, d), M, "once").words
    assert words == pytest.approx(14 * pairs * d**2 / (M + 1) - 3 * N * d - 1, rel=1e-6)
    assert "12HN^2d^2/M" in twelve
    M = int(fraction(re.findall(r"\\ge(\S+)d\^2", twelve)[0]) * d * d)
    words = best_lower_bound(AttentionBackward(N, d), M, "recompute").words
    assert words == pytest.approx(12 * pairs * d**2 / M, rel=1e-6)
    assert r"(4+3\sqrt3)\,d/\sqrt M-\frac94" in small
    M = d * d // 4
    words = best_lower_bound(AttentionBackward(N, d), M, "recompute").words
    assert words >= pairs * ((4 + 3 * 3**0.5) * d / M**0.5 - 9 / 4) - M - 1
    assert sixteen.startswith("$16HN^2d^2/M")
    words = best_lower_bound(AttentionBackward(2**30, d), 2**14 * d * d, "once").words
    assert 15 < words / (2**60 / 2**14) < 16


# ---------------------------------------------------------------- what the command makes


FAST = ("gap", "optima", "gpu", "formal")


@pytest.mark.numbers
@pytest.mark.parametrize("step", [4.0, pytest.param(paper.STEP, marks=pytest.mark.slow)])
def test_parts_make_what_they_declare(
    step: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(paper, "STEP", step)  # from one fast memory of the figure to the next
    made = paper.write(tmp_path, FAST)
    assert {path.name for path in made} == {
        "numbers.tex",
        *(file for name in FAST for file in paper.PARTS[name].files),
    }
    first = {path.name: path.read_bytes() for path in made}
    again = tmp_path / "again"
    again.mkdir()
    assert {path.name: path.read_bytes() for path in paper.write(again, FAST)} == first
    numbers = dict(re.findall(r"\\newcommand\{\\(\w+)\}\{(.*)\}\n", first["numbers.tex"].decode()))
    assert set(numbers) == {x for name in FAST for x in paper.PARTS[name].numbers}
    N, d = paper.N, paper.DS["Narrow"]
    assert numbers["GapN"] == f"2^{{{N.bit_length() - 1}}}"
    # Theorem thm:nd: 6Nd words at M = Nd, but for O(√(d/N)).
    assert 5.8 < bound("parts").words(Attention(N, d), N * d) / (N * d) < 6
    assert first["gap.pdf"].startswith(b"%PDF")
    for name, text in first.items():
        if name.endswith(".tex"):
            assert structure(text.decode()) == [], name


def test_a_part_that_makes_other_names_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Part(("One",), (), lambda: Made({"Two": "2"}, {}))
    monkeypatch.setitem(paper.PARTS, "wrong", wrong)
    with pytest.raises(IosimError, match="wrong"):
        paper.write(tmp_path, ["wrong"])


def test_every_step_can_be_set() -> None:
    for theorem in theorems():
        for one in steps(load_theorem(theorem)):
            assert structure(tex(one.says)) == []
    for result in run("matmul_tight"):
        assert structure(tex(result.scope or "")) == []
    with pytest.raises(IosimError, match="no LaTeX"):
        tex("☃")


def test_failures_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that fails or is not run stops the paper."""
    module = load_theorem("saha_ye_small")
    module.LEADING = 5  # type: ignore[attr-defined]
    bad = run(module)
    monkeypatch.setattr(checks.proof, "theorems", lambda: ("saha_ye_small",))
    monkeypatch.setattr(checks.proof, "run", lambda name: bad)
    with pytest.raises(IosimError, match="did not pass"):
        paper.PARTS["checks"].make()


def test_an_optimum_below_a_bound_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read = checks.read_csv

    def wrong(path: Path) -> Any:
        table = read(path)
        return [table[0] | {"optimum_words": 1}, *table[1:]]

    monkeypatch.setattr(checks, "read_csv", wrong)
    with pytest.raises(IosimError, match="not as claimed"):
        paper.PARTS["optima"].make()


def test_an_unproved_statement_stops_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in checks.FORMAL.glob("[!.]*"):
        if path.is_file() and path.suffix in (".v", ".txt", ""):
            (tmp_path / path.name).write_text(path.read_text())
    monkeypatch.setattr(checks, "FORMAL", tmp_path)
    assert checks.formal.make().numbers["FormalStatements"] != "0"
    once = tmp_path / "once.v"
    once.write_text(once.read_text() + "\n(* Admitted in a comment is not a gap. *)\n")
    assert checks.formal.make().numbers
    once.write_text(once.read_text() + "\nLemma easy : 1 = 2. Admitted.\n")
    with pytest.raises(IosimError, match="not all of it is proved"):
        checks.formal.make()


def test_the_makefile_names_the_command_and_the_packages() -> None:
    text = (FOLDER / "Makefile").read_text()
    assert "-m experiments.paper" in text
    assert "texlive-latex-recommended" in text
    assert paper.OUT == FOLDER / "build"
