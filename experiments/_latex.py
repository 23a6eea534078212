"""LaTeX of the paper's tables: text with the signs of mathematics, names, rows and powers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from iosim.errors import IosimError

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
    'E $\\\\le$ dP$^2$, d\\\\_v $\\\\ne$ d'
    """
    made = []
    for sign in re.split(r"([₀-₉]+|.)", text):
        if re.fullmatch("[₀-₉]+", sign):
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
    return "".join(made).replace("$$", "")


def name(text: str) -> str:
    """A name of code, which may be broken at its dashes."""
    return rf"\code{{{tex(text).replace('-', '-' + chr(92) + 'allowbreak{}')}}}"


def rows(lines: Iterable[Sequence[str]]) -> str:
    """Rows of a table: cells between &, one line each."""
    return "".join(" & ".join(line) + " \\\\\n" for line in lines)


def power(x: int) -> str:
    """A power of two as 2^k, else the number, for mathematics."""
    return f"2^{{{x.bit_length() - 1}}}" if x & (x - 1) == 0 and x > 8 else f"{x}"
