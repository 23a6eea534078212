"""Sections of the pages in proofs/ as LaTeX: the paper's appendix has the same text as the pages.

Pandoc converts them (the extra `paper` brings it).  Sessions are left out, and Coq's statements are
named.
"""

from __future__ import annotations

import re
from pathlib import Path

from iosim.base.errors import IosimError

from ._latex import SYMBOLS

PROOFS = Path(__file__).parent.parent / "proofs"
# Beside those of tables: subscripts, and what is no formula.
MORE = {
    "§": r"\S",
    "υ": r"\upsilon",
    "″": "''",
    "∘": r"\circ",
    "✓": r"\checkmark",
    "ĝ": r"\hat g",
    **{sign: f"_{k}" for k, sign in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    **{sign: f"^{k}" for k, sign in enumerate("⁵⁶⁷⁸⁹", start=5)},
}
# Signs that pandoc takes from a font of symbols, which a small TeX has as bitmaps only.
PLAIN = {"textquotesingle": "'", "textless": "$<$", "textgreater": "$>$", "textbar": "$|$"}
IN_COQ = "*(The statements are in proofs/rocq.md.)*"
FORMAT = "markdown-smart-raw_tex-subscript-superscript-strikeout+tex_math_dollars"
# A name with a subscript in running text: w_ij, d_v, C*_σ.
SUBSCRIPT = re.compile(
    r"((?:(?<![A-Za-z0-9_$`])[A-Za-zΠΣ𝓡𝓛]{1,3}|[α-ω])′?)_([A-Za-z0-9σδ]{1,3})(?![A-Za-z0-9_])"
)


def signs() -> str:
    """What tells pdfLaTeX how to set each sign that is not ASCII."""
    return "".join(
        f"\\DeclareUnicodeCharacter{{{ord(sign):04X}}}{{\\ensuremath{{{text}}}}}\n"
        for sign, text in (SYMBOLS | MORE).items()
        if not sign.isascii()
    )


def to_latex(page: str, first: str, last: str) -> str:
    """The LaTeX of a page's sections from the heading `first` up to the heading `last`.

    Raises IosimError where a heading is missing, where there is no pandoc, and for a sign that
    `signs` does not know.
    """
    text = (PROOFS / f"{page}.md").read_text(encoding="utf-8")
    start, stop = text.find(f"\n{first}"), text.find(f"\n{last}")
    if not 0 <= start < stop:
        raise IosimError(f"proofs/{page}.md has no section {first!r} before {last!r}")
    section = re.sub(r"```coq.*?```", IN_COQ, text[start:stop], flags=re.S)
    tex = _convert(_with_subscripts(re.sub(r"```.*?```", "", section, flags=re.S)))
    tex = re.sub(r"\\((?:sub)+section)\{", r"\\\1*{", tex)
    # A link to a page leads nowhere in a PDF: its text stays.
    tex = re.sub(r"\\href\{[^}]*\}\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1", tex)
    tex = re.sub(r"\\label\{[^}]*\}", "", tex)
    for command, text in PLAIN.items():
        tex = re.sub(rf"\\{command}(?:\{{\}}| ?)", lambda _, text=text: text, tex)
    known = SYMBOLS.keys() | MORE.keys()
    if unknown := sorted({x for x in tex if not x.isascii()} - known):
        raise IosimError(f"no LaTeX for {unknown[0]!r} in proofs/{page}.md: add it to {__name__}")
    return tex


def _with_subscripts(text: str) -> str:
    """Names with subscripts in running text as formulas; code and formulas stay."""
    parts = re.split(r"(\$\$.*?\$\$|`[^`]*`)", text, flags=re.S)
    return "".join(
        part if k % 2 else SUBSCRIPT.sub(r"$\1_{\2}$", part) for k, part in enumerate(parts)
    )


def _convert(text: str) -> str:
    try:
        import pypandoc
    except ImportError:
        raise IosimError("the paper's appendix needs pandoc: pip install -e '.[paper]'") from None
    found: str = pypandoc.convert_text(text, "latex", format=FORMAT, extra_args=["--wrap=preserve"])
    return found
