"""The numbers, tables and figure of the paper in `proofs/paper/`, each from iosim's own functions.

``python -m experiments.paper`` writes them into the folder `build` there (``--out`` says another
one): `numbers.tex` with a macro for each number, a `.tex` for each table, `gap.pdf`.  The same
source gives the same bytes.  `main.tex` has no computed number of its own;
tests/report/test_paper.py holds its macros against those that are declared here.  Needs
``.[proofs]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import iosim
from iosim.base.errors import IosimError
from iosim.base.writing import publish
from iosim.bounds.classes import WIDE
from iosim.core.problem import Attention, AttentionBackward, Attentions
from iosim.report.plot import PALETTE, pyplot
from iosim.report.tightness import Tightness, sweep, tightness

from . import (
    _paper_checks,  # noqa: F401
    run_main,
)
from ._latex import closed, name, power, rows
from ._pages import signs, to_latex
from ._paper_parts import PARTS, Made, part

OUT = Path(__file__).parent.parent / "proofs" / "paper" / "build"
NAMES, CLASSES = ("Narrow", "Wide"), tuple(klass.name for klass in WIDE)
SHOWN_CLASSES = tuple(c for c in CLASSES if c != "trees")  # where it equals `once`
TITLES = {c: c.title().replace("-", "") for c in CLASSES}
N, DS = 2**18, dict(zip(NAMES, (64, 128), strict=True))
# Fast memories of the figure, and of the tables in units of d² and of Nd.
FROM, STEP = 64, 1.07
SQUARES = tuple(
    Fraction(x)
    for x in (
        "1/64",
        "1/16",
        "1/4",
        "1/2",
        "3/4",
        "1",
        "5/4",
        "3/2",
        "2",
        "5/2",
        "3",
        "4",
        "8",
        "16",
        "64",
    )
)
SHARES = (64, 16, 8, 4, 2, 1)
PLAIN = (Fraction(5, 2), 64)  # where the bound is 4N²d²/M and the 2Nd words of Q and O are few
SMALL_DS, SMALL_MS, SMALL_N = (1, 2, 8, 32, 64, 128), (2**12, 2**16, 2**20), 2**28
BACKWARD = (1 / 16, 1 / 4, 1, 4 / 3, 2, 3, 4, 8, 16, 64, 256)


# ---------------------------------------------------------------- how far from optimal


def near(points: Iterable[Tightness], keep: Callable[[int, int], bool]) -> float:
    """The largest gap of those with keep(d, M)."""
    return max(p.gap for p in points if keep(p.problem.sizes["d"], p.M))


_GAPS = (
    "GapN",
    "GapFrom",
    "DNarrow",
    "DWide",
    "GapPlainOnce",
    "GapPlainRecompute",
    *(f"GapMost{TITLES[c]}" for c in SHOWN_CLASSES),
    *(f"GapSquare{TITLES[c]}{n}" for c in SHOWN_CLASSES[:2] for n in NAMES),
    *(f"GapTwice{TITLES[c]}" for c in SHOWN_CLASSES),
    "BoundSquare",
    "WordsSquare",
    "GapSixteenthOnce",
    "GapHalfOnce",
    "GapWholeOnce",
    "GapTowardsOnce",
    "GapWholeRecompute",
    "StayFar",
    "StaySquareNarrow",
    "StaySquareWide",
)


@part(*_GAPS, files=("gap.tex", "towards.tex", "gap.pdf"))
def gap() -> Made:
    """The best registered schedule over the largest bound, in all classes."""
    Ms = {int(FROM * STEP**k) for k in range(400)}
    Ms |= {int(x * d * d) for d in DS.values() for x in SQUARES if x * d * d >= FROM}
    Ms |= {N * d // k for d in DS.values() for k in SHARES}
    top = N * max(DS.values())
    chosen = [M for M in sorted(Ms) if top >= M]
    found = {c: sweep(N, list(DS.values()), chosen, c) for c in CLASSES}
    at = {(c, p.problem.sizes["d"], p.M): p for c in CLASSES for p in found[c]}

    def far(d: int, M: int) -> bool:
        return FROM <= M <= N * d // 16

    numbers = {"GapN": power(N), "GapFrom": str(FROM), **{f"D{n}": str(d) for n, d in DS.items()}}
    for c in SHOWN_CLASSES:
        points, title = found[c], TITLES[c]
        numbers[f"GapMost{title}"] = f"{near(points, far):.2f}"
        numbers[f"GapTwice{title}"] = (
            f"{near(points, lambda d, M: 2 * d * d <= M <= N * d // 16):.2f}"
        )
        if c in SHOWN_CLASSES[:2]:
            for n, d in DS.items():
                numbers[f"GapSquare{title}{n}"] = f"{at[c, d, d * d].gap:.2f}"
    low, high = PLAIN
    for c in ("once", "recompute"):
        most = near(found[c], lambda d, M: low * d * d <= M <= high * d * d)
        numbers[f"GapPlain{c.title()}"] = f"{most:.2f}"
    p = at["once", DS["Wide"], DS["Wide"] ** 2]
    numbers["BoundSquare"] = f"{(p.binding.words or 0) / N**2:.2f}"
    numbers["WordsSquare"] = f"{p.best.words / N**2:.2f}"
    d = DS["Narrow"]
    for word, k in (("Sixteenth", 16), ("Half", 2), ("Whole", 1)):
        numbers[f"Gap{word}Once"] = f"{at['once', d, N * d // k].gap:.2f}"
    numbers["GapWholeRecompute"] = f"{at['recompute', d, N * d].gap:.2f}"
    towards = near(found["once"], lambda d, M: N * d // 16 <= M <= N * d)
    numbers["GapTowardsOnce"] = f"{towards:.2f}"
    stay = sweep(N, list(DS.values()), chosen, "stationary")
    numbers["StayFar"] = f"{near(stay, lambda d, M: N * d // 16 <= M <= N * d):.2f}"
    for n, d in DS.items():
        numbers[f"StaySquare{n}"] = f"{near(stay, lambda p, M, d=d: p == d and d * d == M):.2f}"
    for p, other in zip(found["once"], found["trees"], strict=True):
        if p.gap != other.gap:
            raise IosimError(f"paper: trees is not as once at {p!r}")

    def line(M: Callable[[int], int]) -> list[str]:
        cells = []
        for d in DS.values():
            if FROM <= M(d) <= top:
                here = [at[c, d, M(d)] for c in CLASSES]
                if len({p.best.algorithm for p in here}) > 1:
                    raise IosimError(f"paper: classes differ in their best schedule, {here[0]!r}")
                shown = [f"{at[c, d, M(d)].gap:.3f}" for c in SHOWN_CLASSES]
                cells += [name(here[0].best.algorithm), *shown]
            else:
                cells += ["--"] * (1 + len(SHOWN_CLASSES))
        return cells

    squares = [[f"${x}$", *line(lambda d, x=x: int(x * d * d))] for x in SQUARES]  # type: ignore[misc]
    shares = [
        [f"$Nd/{k}$" if k > 1 else "$Nd$", *line(lambda d, k=k: N * d // k)]  # type: ignore[misc]
        for k in SHARES
    ]
    return Made(
        numbers,
        {
            "gap.tex": rows(squares),
            "towards.tex": rows(shares),
            "gap.pdf": lambda path: draw(found, path),
        },
    )


def draw(found: Mapping[str, Sequence[Tightness]], path: Path) -> None:
    """The figure: a panel for each d, a line for each class."""
    plt = pyplot()
    style = {"font.size": 9, "font.family": "serif", "mathtext.fontset": "cm"}
    with plt.rc_context(style):
        figure, panels = plt.subplots(1, 2, figsize=(6.3, 2.7), sharey=True)
        for axes, d in zip(panels, DS.values(), strict=True):
            for k, c in enumerate(SHOWN_CLASSES):
                said = "once, trees" if c == "once" else c
                mine = [(p.M / d**2, p.gap) for p in found[c] if p.problem.sizes["d"] == d]
                mine = [(x, y) for x, y in mine if x * d <= N]
                axes.plot(
                    *zip(*mine, strict=True),
                    color=PALETTE[k],
                    linewidth=1.4 - 0.3 * k,
                    linestyle=("-", "--", ":")[k],
                    label=said,
                )
            axes.axhline(1, color="black", linewidth=0.6)
            for x, said in ((1, "$d^2$"), (N / d, "$Nd$")):
                axes.axvline(x, color="grey", linewidth=0.6, linestyle=":")
                axes.annotate(
                    said,
                    (x, 0.03),
                    xycoords=("data", "axes fraction"),
                    xytext=(-3, 0),
                    textcoords="offset points",
                    ha="right",
                    color="grey",
                )
            axes.set(xscale="log", xlabel="$M/d^2$", title=f"$d={d}$", ylim=(0.9, None))
        panels[0].set_ylabel("best schedule ÷ bound")
        panels[0].legend(frameon=False, loc="upper center")
        figure.tight_layout()
        figure.savefig(path, metadata={"CreationDate": None, "Producer": None, "Creator": None})
        plt.close(figure)


# ---------------------------------------------------------------- schedules


SHOWN = (
    ("flash2", {"B_c": 1}, "rows of $Q$ and $O$ stationary, $K$ and $V$ streamed"),
    ("flash2_chunked", {"B_c": 1, "B_d": 1}, "the same, $K$ and $V$ streamed by the word"),
    ("flash2_keep", {"B_c": 1}, "$W$ rows of $K$ and of $V$ stationary, too"),
    ("flash2_log", {"B_c": 1, "B_d": 1}, "one statistic a row, $K$ and $V$ by the word"),
    ("flash2_parts", {"B_c": 1, "B_p": 1}, "one statistic a row, one score at a time"),
    ("small_cache", {"W1": 0, "B_d1": 1, "B_c2": 1}, "two passes, tiles of scores"),
    (
        "small_tiles",
        {"W1": 0, "B_d1": 1, "B_k1": 1, "B_c2": 1, "B_v2": 1},
        "the same, one column and one word beside a tile",
    ),
    (
        "small_tiles",
        {"W1": "d", "B_c1": 1, "B_d1": 1, "B_k1": 1, "B_c2": 1, "B_v2": 1},
        "two passes, whole rows of $Q$ in the first",
    ),
)


@part("SmallN", "SmallNarrowGap", files=("schedules.tex", "small.tex"))
def schedules() -> Made:
    """Closed forms of the schedules, and how the gap closes as M grows at a fixed d."""
    lines = []
    for known, fixed, says in SHOWN:
        entry = iosim.algorithm(known)
        words, peak = closed(entry, **fixed)
        lines.append([name(known), says, f"${words}$", f"${peak}$"])
    small, gaps = [], {}
    for d in SMALL_DS:
        for M in SMALL_MS:
            gaps[d, M] = tightness(Attention(SMALL_N, d), M).gap
        small.append([str(d), *(f"{gaps[d, M]:.3f}" for M in SMALL_MS)])
    numbers = {"SmallN": power(SMALL_N), "SmallNarrowGap": f"{gaps[1, SMALL_MS[-1]]:.2f}"}
    return Made(numbers, {"schedules.tex": rows(lines), "small.tex": rows(small)})


# ---------------------------------------------------------------- options and the backward pass


def _options() -> list[tuple[str, Attentions, str]]:
    long, window = 2**16, 2**12
    return [
        ("dense", Attention(long, 128), r"N^2"),
        ("causal", Attention(long, 128, causal=True), r"N(N+1)/2"),
        (
            f"causal, window of ${power(window)}$ columns",
            Attention(long, 128, causal=True, window=(window - 1, None)),
            r"\approx N\ell",
        ),
        ("grouped: 32 heads, 8 of $K$ and $V$", Attention(long, 128, 32, kv_heads=8), r"HN^2"),
        ("causal and grouped", Attention(long, 128, 32, kv_heads=8, causal=True), r"HN(N+1)/2"),
        ("$d_v=2d$", Attention(long, 128, d_v=256), r"N^2"),
        ("$d_v=d/2$", Attention(long, 128, d_v=64), r"N^2"),
    ]


@part("OptionsN", "OptionsMost", "OptionsWhere", files=("options.tex",))
def options() -> Made:
    """Best schedule and bound for attention with options, at M = 4d² and 16d²."""
    lines, gaps = [], []
    for says, problem, pairs in _options():
        for x in (4, 16):
            p = tightness(problem, x * problem.sizes["d"] ** 2)
            gaps.append((p.gap, says))
            first = [says, f"${pairs}$"] if x == 4 else ["", ""]
            lines.append([*first, f"${x}d^2$", name(p.best.algorithm), f"{p.gap:.3f}"])
    longest = _options()[0][1].sizes["N"]
    most, where = max(gaps)
    numbers = {"OptionsN": power(longest), "OptionsMost": f"{most:.2f}", "OptionsWhere": where}
    return Made(numbers, {"options.tex": rows(lines)})


@part("BackwardN", "BackwardMostOnce", "BackwardMostRecompute", files=("backward.tex",))
def backward() -> Made:
    """Words of the backward pass over pairs: the bound, and the best schedule."""
    d = DS["Narrow"]
    problem = AttentionBackward(N, d)
    lines, gaps = [], {c: [] for c in ("once", "recompute")}  # type: dict[str, list[float]]
    for x in BACKWARD:
        line = [f"${Fraction(x).limit_denominator(100)}$"]
        for c, mine in gaps.items():
            p = tightness(problem, round(x * d * d), c)
            mine.append(p.gap)
            bound = p.binding.words or 0.0
            line += [
                f"{bound / N**2:.3f}",
                f"{p.best.words / N**2:.3f}",
                f"{p.gap:.2f}",
                name(p.best.algorithm),
            ]
        lines.append(line)
    most = {f"BackwardMost{c.title()}": f"{max(mine):.2f}" for c, mine in gaps.items()}
    return Made({"BackwardN": power(N), **most}, {"backward.tex": rows(lines)})


@part(files=("signs.tex", "page_options.tex", "page_backward.tex", "page_whole.tex"))
def pages() -> Made:
    """Proofs that the appendix has from the pages, in their words."""
    return Made(
        {},
        {
            "signs.tex": signs(),
            "page_options.tex": to_latex("attention_options", "## 1. ", "## 6. "),
            "page_backward.tex": to_latex("attention_backward", "## 1. ", "## 11. "),
            "page_whole.tex": to_latex("towards_nd", "### Corollary", "## 5. ")
            + to_latex("towards_nd", "## 8. ", "## What the machine checks"),
        },
    )


# ---------------------------------------------------------------- all of it


def write(folder: Path, parts: Iterable[str] = ()) -> list[Path]:
    """Make parts (all, if none is named) in a folder; IosimError for names not declared."""
    made: list[Path] = []
    macros = {}
    for title in parts or PARTS:
        one = PARTS[title]
        result = one.make()
        if (set(result.numbers), set(result.files)) != (set(one.numbers), set(one.files)):
            raise IosimError(f"paper: part {title} makes other names than it declares")
        macros |= {k: result.numbers[k] for k in one.numbers}
        for file in one.files:
            content, path = result.files[file], folder / file
            content(path) if callable(content) else path.write_text(content, encoding="utf-8")
            made.append(path)
    text = "% Made by: python -m experiments.paper\n"
    text += "".join(f"\\newcommand{{\\{k}}}{{{v}}}\n" for k, v in macros.items())
    (folder / "numbers.tex").write_text(text, encoding="utf-8")
    return [folder / "numbers.tex", *made]


def main() -> None:
    """Make everything: all files at the end, or none."""
    words_ = sys.argv[1:]
    if words_ and (len(words_) != 2 or words_[0] != "--out"):
        raise IosimError(f"unknown words {' '.join(words_)!r}: give --out FOLDER, or nothing")
    out = Path(words_[1]) if words_ else OUT
    for path in publish(out, write):
        print(path)


if __name__ == "__main__":
    run_main(main)
