"""LaTeX of the paper's tables: text with the signs of mathematics, names, rows, closed forms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from iosim.base.errors import IosimError
from iosim.core.algorithms import Algorithm

SYMBOLS = {
    "α": r"\alpha", "β": r"\beta", "γ": r"\gamma", "δ": r"\delta", "ε": r"\varepsilon",
    "θ": r"\theta", "κ": r"\kappa", "λ": r"\lambda", "μ": r"\mu", "ν": r"\nu", "ρ": r"\rho",
    "σ": r"\sigma", "ς": r"\varsigma", "τ": r"\tau", "φ": r"\varphi", "ω": r"\omega",
    "Π": r"\Pi", "Σ": r"\Sigma", "Φ": r"\Phi", "Ψ": r"\Psi", "Ω": r"\Omega", "Δ": r"\Delta",
    "ℓ": r"\ell", "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "−": "-", "·": r"\cdot", "×": r"\times",
    "√": r"\surd", "∗": "*", "′": "'", "²": "^2", "³": "^3", "⁴": "^4", "½": r"\frac12",
    "¼": r"\frac14", "ᵀ": r"^{\mathsf T}", "∈": r"\in", "∪": r"\cup", "∩": r"\cap", "∞": r"\infty",
    "→": r"\to", "⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor", "⌋": r"\rfloor", "≪": r"\ll",
    "≫": r"\gg", "≈": r"\approx", "÷": r"\div", "𝓡": r"\mathcal R", "𝓛": r"\mathcal L", "±": r"\pm",
    "ψ": r"\psi", "χ": r"\chi", "η": r"\eta", "ξ": r"\xi", "ζ": r"\zeta", "π": r"\pi",
    "⊂": r"\subset", "⁻": "^-", "¹": "^1", "∧": r"\wedge", "∨": r"\vee", "↦": r"\mapsto",
    "⁺": "^+", "‖": r"\|", "∑": r"\sum", "¬": r"\neg", "∎": r"\square", "∀": r"\forall",
    "<": "<", ">": ">", "|": "|",
}  # fmt: skip
PLAINLY = {
    "–": "--", "—": "---", "…": r"\dots{}", "§": "Sec.~", "_": r"\_", "&": r"\&", "%": r"\%",
    "#": r"\#", "{": r"\{", "}": r"\}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "$": r"\$", "~": r"\textasciitilde{}", "é": r"\'e", "’": "'", "“": "``", "”": "''",
}  # fmt: skip
LOWERED = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def tex(text: str) -> str:
    """Plain text with the signs of mathematics, as LaTeX; IosimError for a sign without a name.

    >>> tex("E ≤ dP², d_v ≠ d")
    'E $\\\\le$ dP$^2$, $d_v$ $\\\\ne$ d'
    """
    made = []
    for sign in re.split(r"([₀-₉]+|\b[a-zA-Z]_[a-zA-Z]\b|.)", text):
        if re.fullmatch("._.", sign):
            made.append(f"${sign}$")
        elif re.fullmatch("[₀-₉]+", sign):
            made.append(f"$_{{{sign.translate(LOWERED)}}}$")
        elif sign in SYMBOLS:
            made.append(f"${SYMBOLS[sign]}$")
        elif sign in PLAINLY:
            made.append(PLAINLY[sign])
        elif sign == "`":
            made.append("'")
        elif sign.isascii():
            made.append(sign)
        else:
            raise IosimError(f"no LaTeX for {sign!r} in {text!r}: add it to experiments/_latex.py")
    return "".join(made).replace("$$", " ")


def name(text: str) -> str:
    """A name of code, which may be broken at its dashes."""
    return rf"\code{{{tex(text).replace('-', '-' + chr(92) + 'allowbreak{}')}}}"


def rows(lines: Iterable[Sequence[str]]) -> str:
    """Rows of a table: cells between &, one line each."""
    return "".join(" & ".join(line) + " \\\\\n" for line in lines)


def power(x: int) -> str:
    """A power of two as 2^k, else the number, for mathematics."""
    return f"2^{{{x.bit_length() - 1}}}" if x & (x - 1) == 0 and x > 8 else f"{x}"


def closed(entry: Algorithm, **fixed: Any) -> tuple[str, str]:
    """A schedule's words and its peak in closed form, as LaTeX, for one head and these tiles."""
    import sympy

    from iosim.core.counting import symbols

    counts = symbols.count(entry.program)
    told = []
    for total in (counts.total_words, counts.peak_words):
        by = {str(s): s for s in total.free_symbols}
        total = total.subs({by[k]: by.get(v, v) for k, v in fixed.items() if k in by})
        total = total.subs({s: 1 for s in total.free_symbols if str(s) == "heads"})
        # Some rows of K and V are stationary, and some are not.
        some, rest = sympy.symbols("W n", integer=True, positive=True)
        if "W" in by:
            total = total.subs({by["W"]: some, **({} if total.has(sympy.ceiling)
                                                  else {by["N"]: some + rest})})  # fmt: skip
        words = sympy.latex(sympy.expand(total) if total.has(sympy.ceiling) else total.simplify())
        words = words.replace(r"\left(", "(").replace(r"\right)", ")").replace(", ", r",\penalty0 ")
        told.append(re.sub(r"\\left\\lceil\{\\frac\{(\w)\}\{(B_\{\w+\})\}\}\\right\\rceil",
                           r"\\lceil \1/\2\\rceil ", words))  # fmt: skip
    return told[0], told[1]
