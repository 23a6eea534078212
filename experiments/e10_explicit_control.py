"""What explicit control is worth: schedules' own transfers beside caches over the same references.

One head (N = 256, d = 32) by three schedules: naive, FlashAttention-2's, and the one for small
caches.  Each program runs with all tiles of one word (untiled loops) and with the tiles that are
best for M words.  The explicit count is what its loads and stores move.  Beside it stands what a
fully associative cache that writes back moves for the same operand references, by LRU and by OPT
(Belady's, which minimizes loads): with lines of one word and of 32, and with K row-major and
column-major.  Words are between fast memory, or the cache, and what is behind it, in the model.

OPT may bypass with lines of one word, as a schedule may.  With longer ones every miss enters: the
words of a line that follow one another are then one access, with the same misses.

An operation is atomic: it touches each word of its operands once, whatever its inner loops would
do.  So a tiled program's numbers mean something from the capacity on that holds the operands of its
largest operation; the curves are drawn from there on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iosim.base.compiled import available
from iosim.base.errors import IosimError, install
from iosim.bounds import best_lower_bound
from iosim.cache import Cache, Stream, curve, replay_many, touches
from iosim.core.algorithms import algorithm
from iosim.core.counting.numbers import count, peak
from iosim.core.problem import Attention
from iosim.core.program.walk import Instance, bind
from iosim.core.tiling import optimal_tiles
from iosim.report.plot import MODEL, STYLE, WIDTH, WORDS, pyplot, save
from iosim.report.slope import allocated, cached, largest_operation
from iosim.report.table import read_csv

from . import COLORS, Experiment, Rows, digits, run_main

PROBLEM = Attention(256, 32)
NAMES = ("naive", "flash2", "small_cache")
MEMORIES = (256, 1024, 4096)  # M/d² = 1/4, 1, 4
FIXED = 1024  # words that the fixed program's tiles are best for
LINE = 32  # a row of K
# Lines and the layout of K: of lines of one word, the layout decides nothing.
KINDS = ((1, "row-major"), (LINE, "row-major"), (LINE, "column-major"))
FIRST, LAST = 6, 16  # capacities are 2⁶ to 2¹⁶ words


def tables() -> dict[str, Rows]:
    """Caches beside explicit control: tiled at M and 2M, untiled, what LRU needs, the slopes.

    Raises IosimError where numba isn't installed: plain Python would take hours.
    """
    if not available():
        raise IosimError(f"experiment e10 needs numba: install it with {install('cache')}")
    loops = {name: _instance(name) for name in NAMES}
    best = {(name, M): _instance(name, M) for name in NAMES for M in MEMORIES}
    return {
        "tiled.csv": tiled(best),
        "untiled.csv": untiled(loops),
        "needs.csv": needs(best),
        "slopes.csv": slopes(loops, {name: best[name, FIXED] for name in NAMES}),
    }


def _instance(name: str, M: int | None = None) -> Instance:
    """A schedule with the tiles that are best for M words, or with tiles of one word."""
    program = algorithm(name).program
    if M is None:
        return bind(program, PROBLEM.sizes, {p.name: p.least for p in program.params})
    return bind(program, PROBLEM.sizes, optimal_tiles(program, PROBLEM, M).tiles)


def _stream(instance: Instance, line_words: int, layout: str) -> Stream:
    if line_words == 1:
        return touches(instance)
    return touches(instance, unit="lines", line_words=line_words, layouts={"K": layout})


def _replayed(
    stream: Stream, capacities: Sequence[int], line_words: int, policies: Sequence[str]
) -> Rows:
    """A row for each policy and capacity."""
    caches = [
        Cache(
            capacity=c,
            policy=policy,
            line_words=line_words,
            bypass=policy == "opt" and line_words == 1,
        )
        for policy in policies
        for c in capacities
    ]
    return [
        {
            "policy": cache.policy,
            "capacity": cache.capacity,
            "loads": moved.loads,
            "write_backs": moved.write_backs,
            "flush": moved.flush,
            "words": moved.words,
        }
        for cache, moved in zip(caches, replay_many(stream, caches), strict=True)
    ]


def tiled(best: Mapping[tuple[str, int], Instance]) -> Rows:
    """The tiles that are best for M, in caches of M and of 2M words."""
    found: Rows = []
    for (name, M), instance in best.items():
        for line_words, layout in KINDS:
            head = {"algorithm": name, "M_words": M, "line_words": line_words, "K": layout}
            stream = _stream(instance, line_words, layout)
            rows = _replayed(stream, (M, 2 * M), line_words, ("lru", "opt"))
            found += [head | row for row in rows]
    return found


def untiled(loops: Mapping[str, Instance]) -> Rows:
    """The untiled loops, in caches of powers of two."""
    found: Rows = []
    for name, instance in loops.items():
        least = largest_operation(instance)
        powers = [2**k for k in range(FIRST, LAST + 1) if 2**k >= least]
        for line_words, layout in KINDS:
            head = {"algorithm": name, "line_words": line_words, "K": layout}
            stream = _stream(instance, line_words, layout)
            rows = _replayed(stream, powers, line_words, ("lru", "opt"))
            found += [head | row for row in rows]
    return found


def needs(best: Mapping[tuple[str, int], Instance]) -> Rows:
    """The explicit count, and the least cache with which LRU loads no more, lines of one word."""
    found: Rows = []
    for (name, M), instance in best.items():
        counts, steps = count(instance), curve(touches(instance))
        loads = counts.load_words
        # Loads never rise with capacity; they end at the words that are read first.
        reached = int(steps.capacities[int((steps.loads > loads).sum())])
        found.append(
            {
                "algorithm": name,
                "M_words": M,
                "peak_words": peak(instance),
                "largest_operation_words": largest_operation(instance),
                "explicit_loads": loads,
                "explicit_words": counts.total_words,
                "lower_bound_words": digits(best_lower_bound(PROBLEM, M).words),
                "lru_capacity": reached,
                "lru_capacity_over_M": digits(reached / M, 4),
            }
        )
    return found


def slopes(loops: Mapping[str, Instance], fixed: Mapping[str, Instance]) -> Rows:
    """Words against capacity: explicit at its best tiles, a fixed program in caches, the bound."""
    found: Rows = []
    fine = sorted({round(2 ** (k / 8)) for k in range(8 * FIRST, 8 * LAST + 1)})
    for name in NAMES:
        made = [
            row | {"words": digits(row["words"])} if row["series"] == "bound" else row
            for row in allocated(algorithm(name), PROBLEM, fine)
        ]
        for series, instance in (("lru tiled", fixed[name]), ("lru untiled", loops[name])):
            made += [row | {"series": series} for row in cached(instance, "lru", fine)]
        made += [row | {"series": "opt tiled"} for row in cached(fixed[name], "opt", fine[::4])]
        found += [{"algorithm": name} | row for row in made]
    return found


def draw(folder: Path, stem: Path) -> list[Path]:
    """Words against capacity, and loads of the untiled loops by line and layout, side by side."""
    plt = pyplot()
    slope, laid = read_csv(folder / "slopes.csv"), read_csv(folder / "untiled.csv")
    marks = {r["algorithm"]: r for r in read_csv(folder / "needs.csv") if r["M_words"] == FIXED}
    with plt.rc_context(STYLE | {"axes.titlesize": 10.5}):
        figure, panels = plt.subplots(
            3, 2, figsize=(WIDTH, 11), sharex=True, sharey="col", layout="constrained"
        )
        for (left, right), name in zip(panels, NAMES, strict=True):
            _slopes(left, [r for r in slope if r["algorithm"] == name], marks[name])
            _untiled(right, [r for r in laid if r["algorithm"] == name])
            left.set_ylabel(WORDS)
            right.set_ylabel(f"loads, {MODEL}")
        for axes in panels[-1]:
            axes.set_xlabel("capacity in words: fast memory, or the cache")
        for axes, title, side in zip(
            panels[0],
            ("left: lines of 1 word", "right: untiled loops"),
            ("left", "right"),
            strict=True,
        ):
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(
                handles, labels, loc=f"outside lower {side}", title=title, alignment="left"
            )
        figure.suptitle(_describe(marks.values(), laid))
        return save(figure, stem)


def _describe(needs: Iterable[dict[str, Any]], laid: Rows) -> str:
    """What the figure shows: what LRU needs, and how much more untiled loops load."""
    needs = list(needs)
    least = [r["lru_capacity_over_M"] for r in needs]
    untiled = {
        r["algorithm"]: r["loads"]
        for r in laid
        if (r["line_words"], r["policy"], r["capacity"]) == (1, "lru", FIXED)
    }
    more = [untiled[r["algorithm"]] / r["explicit_loads"] for r in needs]
    return (
        f"One head, N = {PROBLEM.N}, d = {PROBLEM.d}: for the loads of explicit control in "
        f"{FIXED:,} words\nLRU needs {min(least):.2f} to {max(least):.2f} times the words; "
        f"untiled loops load {min(more):.0f} to {max(more):.0f} times as much"
    )


def _slopes(axes: Any, rows: Rows, mark: dict[str, Any]) -> None:
    series = (
        ("lru untiled", "words", "untiled loops, LRU", COLORS[6], "-", 1.4),
        ("lru tiled", "words", f"tiles for {FIXED:,} words, LRU", COLORS[1], "-", 1.4),
        ("opt tiled", "words", f"tiles for {FIXED:,} words, OPT", COLORS[2], "-", 1.4),
        ("opt tiled", "loads", "the same, loads alone", COLORS[2], ":", 1.4),
        ("explicit", "words", "explicit, its best tiles", COLORS[0], "-", 2.4),
        ("bound", "words", "proven lower bound", "black", "--", 1.4),
    )
    for name, column, label, color, line, width in series:
        some = [r for r in rows if r["series"] == name]
        axes.plot(
            [r["capacity"] for r in some],
            [r[column] for r in some],
            color=color,
            linestyle=line,
            linewidth=width,
            label=label,
        )
    axes.plot(
        FIXED,
        mark["explicit_words"],
        "o",
        color=COLORS[0],
        markersize=7,
        label=f"explicit, tiles for {FIXED:,} words",
    )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_title(
        f"{mark['algorithm']}: LRU loads as little\nfrom {mark['lru_capacity']:,} words on"
    )


def _untiled(axes: Any, rows: Rows) -> None:
    labels = ("lines of 1", f"lines of {LINE}, K row-major", f"lines of {LINE}, K column-major")
    at: dict[str, int] = {}
    for (line_words, layout), label, color in zip(KINDS, labels, COLORS[3:6], strict=True):
        for policy, style in (("lru", "-"), ("opt", ":")):
            which = line_words, layout, policy
            some = [r for r in rows if (r["line_words"], r["K"], r["policy"]) == which]
            capacities, loads = [r["capacity"] for r in some], [r["loads"] for r in some]
            axes.plot(
                capacities,
                loads,
                style,
                color=color,
                marker="o",
                label=f"{label}, {policy.upper()}",
            )
            if (line_words, policy) == (LINE, "lru"):
                at[layout] = loads[capacities.index(FIXED)]
    axes.set_yscale("log")
    times = at["column-major"] / at["row-major"]
    axes.set_title(
        f"{rows[0]['algorithm']}: K column-major,\n{times:.1f} × the loads at {FIXED:,} words"
    )


EXPERIMENT = Experiment("e10_explicit_control", tables, draw)

if __name__ == "__main__":
    run_main(EXPERIMENT.main)
