"""The command line: parses, calls, prints.  What it prints as JSON is meant for scripts."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from iosim.algorithms import Algorithm, algorithm, algorithms
from iosim.choose import choose_tiles, engine
from iosim.errors import InputError, IosimError
from iosim.problem import PROBLEMS, Attention, model, word_bytes
from iosim.program.show import show
from iosim.program.walk import Instance, bind
from iosim.tiling import optimal_tiles
from iosim.units import parse_int, parse_tiles, parse_words

app = typer.Typer(
    name="iosim",
    help="The I/O of attention: written once, run, counted, bounded, proved, measured.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

# Sizes are text here so that a bad one gives one line of ours instead of a page of usage.
Size = Annotated[str | None, typer.Option(metavar="INT")]
Memory = Annotated[str | None, typer.Option("--M", metavar="WORDS|SIZE", help="fast memory: words, 1Mi, "
                                     "or bytes like 96KiB with --dtype")]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Dtype = Annotated[str | None, typer.Option(help="fp16, bf16, fp32, …: adds bytes")]
Algo = Annotated[str, typer.Argument(metavar="ALGO")]
N = Annotated[str | None, typer.Option("--N", metavar="INT", help="sequence length")]
D = Annotated[str | None, typer.Option("--d", metavar="INT", help="head dimension")]
Heads = Annotated[str | None, typer.Option("--heads", metavar="INT", help="batch × heads")]
Mm = Annotated[str | None, typer.Option("--m", metavar="INT", help="rows of C (matmul)")]
Nn = Annotated[str | None, typer.Option("--n", metavar="INT", help="columns of C, or a length")]
Kk = Annotated[str | None, typer.Option("--k", metavar="INT", help="inner size (matmul)")]


def _problem(kind: str, given: Mapping[str, str | None]) -> Any:
    """A problem of one kind from typed sizes."""
    cls = PROBLEMS[kind]
    need = cls._names()
    sizes = {name: parse_int(name, text) for name, text in given.items() if text is not None}
    for name in sizes:
        if name not in need:
            raise InputError(f"{kind} has no size {name}: give {', '.join('--' + x for x in need)}")
    missing = [x for x in need if x not in sizes and x != "heads"]
    if missing:
        raise InputError(f"{kind} needs {', '.join('--' + x for x in missing)}: give it")
    return cls(**sizes)


def _words(M: str | None, dtype: str | None) -> int:
    if M is None:
        raise InputError("M is missing: give --M in words (24576) or bytes (96KiB with --dtype)")
    return parse_words("M", M, dtype)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _remark(text: str) -> None:
    if text:
        typer.echo(f"iosim: note: {text}", err=True)


def _width() -> int:
    return 0 if sys.stdout.isatty() else 140


def _table(columns: list[str], rows: list[list[str]], left: int = 1) -> None:
    """Print an aligned table, the first `left` columns to the left."""
    from rich.console import Console
    from rich.table import Table

    out = Table(box=None, pad_edge=False, header_style="bold")
    for k, column in enumerate(columns):
        out.add_column(column, justify="left" if k < left else "right", overflow="fold")
    for row in rows:
        out.add_row(*row)
    Console(width=_width() or None, highlight=False).print(out)


@app.command("algorithms")
def algorithms_() -> None:
    """List the algorithms."""
    _table(
        ["algorithm", "problem", "tiles", "cost (words)", "source"],
        [
            [a.name, a.problem.kind, " ".join(p.name for p in a.program.params), a.cost, a.source]
            for a in algorithms()
        ],
        left=5,
    )


@app.command("show")
def show_(
    algo: Algo,
    tiles: Annotated[str | None, typer.Option(help="like B_r=64,B_c=64")] = None,
    N: N = None, d: D = None, heads: Heads = None, m: Mm = None, n: Nn = None, k: Kk = None,
) -> None:  # fmt: skip
    """Print a schedule as pseudo-code with the words that each load and store moves."""
    found = algorithm(algo)
    instance: Instance | None = None
    given = {"N": N, "d": d, "heads": heads, "m": m, "n": n, "k": k}
    if tiles is None and any(given.values()):
        raise InputError("sizes alone don't bind a schedule: add --tiles, like B_r=64,B_c=64")
    if tiles is not None:
        if not any(given.values()):
            # Without sizes the words stay symbolic; with them, they are numbers.
            known = {p.name for p in found.program.params}
            unknown = [t for t in parse_tiles(tiles) if t not in known]
            if unknown:
                raise InputError(
                    f"{algo} has no tile size {unknown[0]!r}: known: {', '.join(sorted(known))}"
                )
            typer.echo(_with_tiles(found, parse_tiles(tiles)), nl=False)
            return
        problem = _problem(found.problem.kind, given)
        instance = bind(found.program, problem.sizes, parse_tiles(tiles))
    typer.echo(show(found.program, instance), nl=False)


def _with_tiles(found: Algorithm, tiles: Mapping[str, int]) -> str:
    """A listing with some tile sizes replaced by their numbers, sizes still symbolic."""
    import re

    text = show(found.program)
    for name, value in tiles.items():
        text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", str(value), text)
    return text


@app.command("count")
def count_(
    algo: Algo, M: Memory = None, N: N = None, d: D = None, heads: Heads = None,
    m: Mm = None, n: Nn = None, k: Kk = None,
    tiles: Annotated[str, typer.Option(help="auto, paper, or like B_r=64,B_c=64")] = "auto",
    engine_: Annotated[str, typer.Option("--engine", help="formula or simulate")] = "formula",
    dtype: Dtype = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Count the words that one schedule moves."""
    found = algorithm(algo)
    given = {"N": N, "d": d, "heads": heads, "m": m, "n": n, "k": k}
    problem = _problem(found.problem.kind, given)
    run = engine(engine_)
    size_of = {t.name: word_bytes(dtype, t.wide) for t in found.program.tensors} if dtype else {}
    words = _words(M, dtype)
    choice = choose_tiles(found, problem, words, tiles)
    _remark(choice.remark)
    from iosim.program.evaluate import peak

    counts, top = run(choice.instance, problem, max(words, peak(choice.instance)))
    result: dict[str, Any] = {
        "algorithm": algo, "engine": engine_, "problem": _ordered(problem), "M": words,
        "tiles": choice.tiles, "load_words": counts.load_words, "store_words": counts.store_words,
        "total_words": counts.total_words, "peak_words": top,
        "by_tensor": {"load": counts.by_tensor("load"), "store": counts.by_tensor("store")},
    }  # fmt: skip
    if dtype:
        result["dtype"] = dtype
        result["total_bytes"] = sum(moved * size_of[tensor] for (_, tensor), moved in counts)
    if as_json:
        _print_json(result)
        return
    sizes = ", ".join(f"{name} = {value:,}" for name, value in _ordered(problem).items())
    typer.echo(f"{found.title}: {sizes}, M = {words:,} words, by {engine_}")
    typer.echo(f"tiles  {', '.join(f'{name} = {v}' for name, v in choice.tiles.items())}")
    names = sorted({tensor for (_, tensor), _ in counts})
    rows = [
        [x, f"{counts['load', x]:,}", f"{counts['store', x]:,}"] for x in names
    ]  # fmt: skip
    rows.append(["total", f"{counts.load_words:,}", f"{counts.store_words:,}"])
    _table(["tensor", "load_words", "store_words"], rows)
    typer.echo(f"total  {counts.total_words:,} words" + (
        f", {result['total_bytes']:,} bytes ({dtype})" if dtype else ""))  # fmt: skip
    typer.echo(f"peak   {top:,} of {words:,} words")


def _ordered(problem: Any) -> dict[str, int]:
    sizes: dict[str, int] = problem.sizes
    return sizes


@app.command("tiles")
def tiles_(
    algo: Algo, M: Memory = None, N: N = None, d: D = None, heads: Heads = None,
    m: Mm = None, n: Nn = None, k: Kk = None,
    lattice: Annotated[str, typer.Option(help="all, or pow2 (powers of two ≥ 16)")] = "all",
    dtype: Dtype = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Find the tile sizes that move the fewest words in M."""
    found = algorithm(algo)
    given = {"N": N, "d": d, "heads": heads, "m": m, "n": n, "k": k}
    problem = _problem(found.problem.kind, given)
    words = _words(M, dtype)
    best = optimal_tiles(found.program, problem, words, lattice=lattice)  # type: ignore[arg-type]
    result = {
        "algorithm": algo, "problem": _ordered(problem), "M": words, "lattice": lattice,
        "tiles": best.tiles, "total_words": best.total_words, "peak_words": best.peak_words,
    }  # fmt: skip
    if as_json:
        _print_json(result)
        return
    typer.echo(", ".join(f"{name}={value}" for name, value in best.tiles.items()))
    typer.echo(f"moves {best.total_words:,} words, holds {best.peak_words:,} of {words:,}")


@app.command("bounds")
def bounds_(
    M: Memory = None, N: N = None, d: D = None, heads: Heads = None,
    m: Mm = None, n: Nn = None, k: Kk = None,
    dtype: Dtype = None, as_json: Json = False,
) -> None:  # fmt: skip
    """List upper and lower bounds on the words that any schedule moves."""
    from iosim.bounds import bounds_for

    given = {"N": N, "d": d, "heads": heads, "m": m, "n": n, "k": k}
    kind = "matmul" if m or k else "copy" if n else "attention"
    problem = _problem(kind, given)
    found = bounds_for(problem, _words(M, dtype))
    if as_json:
        keys = ("name", "kind", "strength", "words", "applies", "source")
        _print_json([{key: getattr(b, key) for key in keys} | {
            "reason": b.reason, "class": b.klass} for b in found])  # fmt: skip
        return
    _table(
        ["bound", "kind", "strength", "applies", "words", "source"],
        [
            [b.name, b.kind, b.strength, "yes" if b.applies else "no",
             "" if b.words is None else f"{b.words:,.0f}", b.source]
            for b in found
        ],
        left=4,
    )  # fmt: skip


@app.command("verify")
def verify_(
    N: N = None, d: D = None, heads: Heads = None,
    M: Annotated[str | None, typer.Option("--M", metavar="LIST", help="values of M, like "
                                          "1024,4096,96KiB; by default a sweep")] = None,
    model_: Annotated[str, typer.Option("--model", help="sizes of a known model, one head")]
    = "gpt2-medium",
    input_: Annotated[Path | None, typer.Option("--input", help=".npz with Q, K, V")] = None,
    out: Annotated[Path, typer.Option(help="where the CSV and the figure go")] = Path("iosim-out"),
    dtype: Dtype = None,
    workers: Annotated[int, typer.Option(help="processes, 0 for all cores", min=0)] = 0,
) -> None:  # fmt: skip
    """Run every attention schedule over a sweep of M, and check every number against every other.

    Exit code 1 if a check fails.
    """
    from iosim import plot, table, verify

    hbm: Mapping[str, Any] | None = None
    base = model(model_)
    if input_ is not None:
        problem, hbm = verify.read_inputs(input_)
        for name, text in (("N", N), ("d", d), ("heads", heads)):
            if text is not None and parse_int(name, text) != problem.sizes[name]:
                raise InputError(
                    f"--{name} is {text} and {input_} has {problem.sizes[name]}: leave --{name} out"
                )
    else:
        problem = Attention(
            N=base.N if N is None else parse_int("N", N),
            d=base.d if d is None else parse_int("d", d),
            heads=1 if heads is None else parse_int("heads", heads),
        )
    sizes = None if M is None else [parse_words("M", x, dtype) for x in M.split(",")]
    where = table.out_dir(out)
    from rich.console import Console
    from rich.progress import Progress

    screen = Console(stderr=True)
    with Progress(console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task("running schedules", total=None)
        report = verify.verify(
            problem, sizes=sizes, hbm=hbm, workers=workers or None,
            tick=lambda done, of: progress.update(task, completed=done, total=of),
        )  # fmt: skip
        progress.update(task, description="drawing", total=None)
        table.write_csv(where / "verify.csv", verify.table(report))
        plot.plot_words(where / "verify.csv", where / "verify")
    _table(
        ["algorithm", "M", "loads", "stores", "words", "formula", "peak", "max error",
         "lower bound", "gap", "ok"],
        [
            [p.algorithm, f"{p.M:,}", f"{p.counts.load_words:,}", f"{p.counts.store_words:,}",
             f"{p.counts.total_words:,}", f"{p.formula_words:,}", f"{p.peak_words:,}",
             f"{p.max_error:.0e}", f"{p.lower_bound_words:,.0f}", f"{p.gap:.2f}",
             "no" if p.failures else "yes"]
            for p in report.points
        ],
    )  # fmt: skip
    for s in report.slopes:
        fit = "too few points" if s.fitted is None else f"{s.fitted:+.3f} over {s.points} points"
        typer.echo(f"exponent of M, {s.algorithm}, {s.side}: {fit} (expected {s.expected:+.1f})")
    typer.echo(f"wrote {where / 'verify.csv'}, {where / 'verify.png'}, {where / 'verify.svg'}")
    for failure in report.failures:
        typer.echo(f"FAILED: {failure}", err=True)
    checked = f"{len(report.points)} runs, {len(report.failures)} failures"
    typer.echo(f"{'all checks passed' if report.ok else 'CHECKS FAILED'}: {checked}")
    if not report.ok:
        raise typer.Exit(1)


@app.command("plot")
def plot_(
    table: Annotated[Path, typer.Argument(help="a CSV that iosim wrote")],
    out: Annotated[Path | None, typer.Option(help="stem of the figure")] = None,
) -> None:
    """Draw the figure of a table."""
    from iosim import plot

    for path in plot.plot_words(table, out or table.with_suffix("")):
        typer.echo(f"wrote {path}")


# Command groups that live with what they drive; each is imported only when it is asked for.
GROUPS = {"gpu": "iosim.gpu.cli:app"}


# Typer has carried click inside itself since 0.2x; its errors are found through what it exports.
_USAGE: type[Exception] = next(
    c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException"
)


def main() -> NoReturn:
    """Entry point: one line on stderr and exit code 2 for whatever the user can mend."""
    try:
        if len(sys.argv) > 1 and sys.argv[1] in GROUPS:
            where, name = GROUPS[sys.argv[1]].split(":")
            app.add_typer(getattr(importlib.import_module(where), name), name=sys.argv[1])
        code = app(standalone_mode=False)
    except IosimError as error:
        typer.echo(f"iosim: {error}", err=True)
        sys.exit(2)
    except _USAGE as error:
        said = error.format_message().rstrip(".")  # type: ignore[attr-defined]
        typer.echo(f"iosim: {said} (see iosim --help)", err=True)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("iosim: interrupted", err=True)
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)
