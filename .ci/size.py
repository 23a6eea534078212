#!/usr/bin/env python3
"""Measure each wing in tokens, and all data in bytes, and hold them to their budgets.

    python .ci/size.py            compare with .ci/budgets.toml; exit code 1 where something exceeds
    python .ci/size.py --list     print the measures only

A token is a name, a number, a string or an operator. Comments, docstrings, imports and blank space
are free, so no formatting changes a measure. Whoever needs more raises a line of the budgets, with
the reason in the commit.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FREE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DATA = {".csv", ".gz", ".gif", ".json", ".npz", ".png", ".svg"}
LINES, PARAMETERS = 80, 8  # a function fits on a screen
# A name that says that something was done, and not what.
VAGUE = re.compile(
    "_?(told|said|made|known|called|found|asked|given|held|kept|taken|shown|drawn|done|seen|had|"
    "gone|left|put|got|laid|met|written|counted|wanted|needed|again|before|after|beside|apart|"
    "together|whole|own|others?|same|firsts?|seconds?|rests?|ends|halves)"
)


def measure_file(path: Path) -> Counter[str]:
    """Tokens of one Python file, and what a reader trips over."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    free = {line for node in ast.walk(tree) for line in _free_lines(node)}
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    reader = io.StringIO(text).readline
    return Counter(
        tokens=sum(
            token.type not in FREE and token.start[0] not in free
            for token in tokenize.generate_tokens(reader)
        ),
        unformatted=len(re.findall(r"#\s*fmt:\s*(?:skip|off)", text)),
        vague=sum(VAGUE.fullmatch(f.name) is not None for f in functions)
        + (VAGUE.fullmatch(path.stem) is not None),
        long=sum(_count_lines(f) > LINES for f in functions),
        wide=sum(_count_parameters(f) > PARAMETERS for f in functions),
    )


def _free_lines(node: ast.AST) -> range:
    """The lines of an import or a docstring."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return range(node.lineno, (node.end_lineno or 0) + 1)
    match getattr(node, "body", None):
        case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
            return range(first.lineno, (first.end_lineno or 0) + 1)
    return range(0)


def _count_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def _count_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """But for Triton's kernels, which take each size and stride on its own."""
    if any("triton.jit" in ast.unparse(x) for x in function.decorator_list):
        return 0
    args = function.args
    return len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs)


def measure_wings() -> dict[str, Counter[str]]:
    """The measures of each folder: those under iosim/, and each other folder of code."""
    wings: dict[str, Counter[str]] = {}
    for top in ("iosim", "proofs", "experiments", "tests", "benchmarks"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            if "node_modules" in parts:
                continue
            wing = "/".join(parts[:2]) if top == "iosim" and len(parts) > 2 else top
            wings[wing] = wings.get(wing, Counter()) + measure_file(path)
    return wings


def measure_data() -> int:
    """Bytes of all figures, tables and records that git keeps."""
    git = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    paths = [ROOT / name for name in git.stdout.decode().split("\0")]
    return sum(path.stat().st_size for path in paths if path.suffix in DATA and path.exists())


def main(words: list[str]) -> int:
    """Print each wing beside its budget; the exit code."""
    wings = measure_wings()
    if words == ["--list"]:
        for wing, found in sorted(wings.items()):
            print(f"{wing:20}", *(f"{name} {n:,}" for name, n in found.items()))
        print(f"data                 bytes {measure_data():,}")
        return 0
    budgets = tomllib.loads((ROOT / ".ci/budgets.toml").read_text(encoding="utf-8"))
    tokens, limits = budgets["tokens"], budgets["everywhere"]
    every = sum(wings.values(), Counter[str]())
    wrong = [f"{x} has no budget: add a line" for x in wings.keys() - tokens.keys()]
    wrong += [f"{x} is gone: remove its line" for x in tokens.keys() - wings.keys()]
    wrong += [
        f"{wing} has {wings[wing]['tokens']:,} tokens, its budget is {most:,}"
        for wing, most in tokens.items()
        if wings.get(wing, every)["tokens"] > most and wing in wings
    ]
    wrong += [
        f"{every[name]} {name} in all, at most {most}"
        for name, most in limits.items()
        if every[name] > most
    ]
    package = ROOT / "iosim"
    layout = {
        "wings": len([x for x in wings if x.startswith("iosim/")]),
        "loose": len(list(package.glob("*.py"))),
    }
    wrong += [
        f"{layout[name]} {name} under iosim/, at most {most}"
        for name, most in budgets["package"].items()
        if layout[name] > most
    ]
    if (size := measure_data()) > (most := budgets["data"]["bytes"]):
        wrong.append(f"data has {size:,} bytes, its budget is {most:,}: pack it, or keep less")
    for line in sorted(wrong):
        print(f".ci/budgets.toml: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
