"""bounds, tightness, prove."""

from __future__ import annotations

import typer

from iosim.cli import options as opt

app = typer.Typer()


@app.command("bounds")
def bounds_(
    M: opt.Memory = None, N: opt.N = None, d: opt.D = None, heads: opt.Heads = None,
    m: opt.Mm = None, n: opt.Nn = None, k: opt.Kk = None,
    dtype: opt.Dtype = None, as_json: opt.Json = False,
) -> None:  # fmt: skip
    """List upper and lower bounds on the words that any schedule moves."""
    from iosim.bounds import bounds_for

    given = {"N": N, "d": d, "heads": heads, "m": m, "n": n, "k": k}
    kind = "matmul" if m or k else "copy" if n else "attention"
    problem = opt.problem_from(kind, given)
    found = bounds_for(problem, opt.words_from(M, dtype))
    if as_json:
        keys = ("name", "kind", "strength", "words", "applies", "source")
        opt.print_json([{key: getattr(b, key) for key in keys} | {
            "reason": b.reason, "class": b.klass} for b in found])  # fmt: skip
        return
    opt.print_table(
        ["bound", "kind", "strength", "applies", "words", "source"],
        [
            [b.name, b.kind, b.strength, "yes" if b.applies else "no",
             "" if b.words is None else f"{b.words:,.0f}", b.source]
            for b in found
        ],
    )  # fmt: skip
