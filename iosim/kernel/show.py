"""A kernel's count as a table, and as lines that a person reads.

``iosim kernel`` and notebooks call it.  Keys of ``--json`` stay; sessions in ``docs/`` compare what
is printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iosim.base import html
from iosim.base.rows import Table
from iosim.kernel.configs import KernelConfig
from iosim.kernel.count import KernelCount
from iosim.kernel.formula import KernelFormula
from iosim.kernel.reuse import SECTOR
from iosim.kernel.sectors import sum_traffic

COLUMNS = ("argument", "reference", "words", "bytes", "sector_bytes", "distinct", "times", "hidden")
CROSSING = ("asked_bytes", "sm_l2_bytes")  # with a GPU's name


def to_rows(count: KernelCount) -> list[dict[str, Any]]:
    """A row for each argument and kind of reference."""
    rows = []
    for (kind, argument), traffic in count.traffic.items():
        reuse = count.reuse.get((kind, argument))
        rows.append(
            {
                "argument": argument,
                "reference": kind,
                "words": traffic.words,
                "bytes": traffic.words * traffic.width,
                "sector_bytes": reuse.sectors * SECTOR if reuse else None,
                "distinct": reuse.distinct if reuse else None,
                "times": _format_times(reuse.times) if reuse else None,
                "hidden": traffic.hidden,
            }
        )
        if count.crossing:
            moved = count.crossing.get((kind, argument))
            rows[-1] |= {
                "asked_bytes": moved.asked if moved else 0,
                "sm_l2_bytes": moved.crossing if moved else 0,
            }
    return rows


def _format_times(times: dict[int, int]) -> str:
    """How often words are referred to: one number, or a range.

    >>> _format_times({4: 100}), _format_times({1: 5, 8: 3})
    ('4', '1 to 8')
    """
    if not times:
        return ""
    low, high = min(times), max(times)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def to_table(count: KernelCount) -> Table:
    """The count's table."""
    return Table(tuple(to_rows(count)), f"words of {count.kernel}")


def to_html(count: KernelCount) -> str:
    """The count in a notebook."""
    table = to_table(count)
    cells = [[row.get(x) for x in table.columns] for row in table.rows]
    lines = "".join(html.line(line) for line in to_lines(count))
    return html.section(table.title, html.table(table.columns, cells) + lines)


def formula_to_table(formula: KernelFormula) -> Table:
    """A row for each argument and kind of reference, with its formula as text."""
    rows = [
        {"argument": argument, "reference": kind, "words": str(words)}
        for (kind, argument), words in formula.words().items()
    ]
    by = f", by {', '.join(formula.sizes)}" if formula.sizes else ""
    return Table(tuple(rows), f"words of {formula.program.name}{by}")


def formula_to_html(formula: KernelFormula) -> str:
    """The formulas in a notebook."""
    table = formula_to_table(formula)
    cells = [list(row.values()) for row in table.rows]
    return html.section(table.title, html.table(table.columns, cells))


def to_lines(count: KernelCount) -> Iterator[str]:
    """The lines below the table."""
    work = count.work
    yield (
        f"{work.products + work.rest:,} FLOP: {work.products:,} of products, {work.rest:,} of the "
        f"rest; {count.intensity or 0:.4g} for each byte that the kernel asks for"
    )
    foot = count.footprint
    where = f", at line {foot.line.rpartition(':')[2]}" if foot.line else ""
    size = f"{foot.words:,} words ({foot.bytes:,} bytes)"
    yield f"{size} of tiles are live at once in a program{where}"
    yield from map(str, (*count.repeated, *count.wrapped))
    if count.crossing:
        yield _say_crossing(count)
    found = count.resources
    if found is not None:
        registers = (
            ""
            if found.registers is None
            else (f", {found.registers} registers and {found.spills} bytes of spills a thread")
        )
        shared = f"{found.shared:,} bytes of shared memory"
        yield f"sm_{found.capability}: {shared}, {found.warps} warps{registers}"


def _say_crossing(count: KernelCount) -> str:
    """What crosses SM↔L2, with the most that may cross where L1 decides."""

    def add_up(what: str) -> tuple[int, int]:
        answers = sum_traffic(count.crossing, "atomic descriptor", "answered")
        sent = sum_traffic(count.crossing, "atomic descriptor", "crossing")
        read = sum_traffic(count.crossing, "load", what)
        return read + answers, sum_traffic(count.crossing, "store", what) + sent

    parts = [
        f"{n:,} bytes {way}{f' (at most {most:,})' if most > n else ''}"
        for n, most, way in zip(
            add_up("crossing"), add_up("asked"), ("come in", "go out"), strict=True
        )
    ]
    model = ", if L1 keeps what a program loads and merges what it stores"
    return f"SM↔L2: {' and '.join(parts)}{model * any('most' in x for x in parts)}"


def to_config_table(configs: Sequence[KernelConfig]) -> Table:
    """The comparison of constants; its figure is the front."""
    rows = tuple(to_config_rows(configs))
    return Table(rows, "constants compared", "iosim.report.figures:front")


def to_config_rows(configs: Sequence[KernelConfig]) -> list[dict[str, Any]]:
    """The comparison of constants that compile; those that are the same everywhere are left out."""
    counted = [c for c in configs if c.count is not None]
    names = dict.fromkeys(name for c in counted for name in c.constants)
    varying = [
        n for n in names if len({repr(c.constants.get(n)) for c in counted}) > 1 or len(counted) < 2
    ]
    return [
        {n: c.constants.get(n) for n in varying} | _config_cells(c, c.count)
        for c in counted
        if c.count is not None
    ]


def _config_cells(config: KernelConfig, count: KernelCount) -> dict[str, Any]:
    words = sum(t.words for t in count.traffic.values())
    row: dict[str, Any] = {
        "words": words,
        "bytes": count.total_bytes,
        "live_words": count.footprint.words,
        "live_bytes": count.footprint.bytes,
    }
    found = count.resources
    if found is not None:
        row |= {
            "shared": found.shared,
            "registers": found.registers,
            "spills": found.spills,
            "per_SM": config.resident,
        }
    if config.dram is not None:
        row["dram_bytes"] = config.dram.bytes
    return row | {"front": "doesn't run" if config.reason else "*" if config.best else ""}


def to_config_lines(
    configs: Sequence[KernelConfig], told: str = "if programs drift"
) -> Iterator[str]:
    """The lines below the comparison: the front, constants that can't run, and reads of DRAM.

    Args:
        configs: with their counts.
        told: which drift the range is of.
    """
    yield "*: no other choice moves fewer bytes and takes less room"
    if any(c.dram for c in configs):
        yield "dram_bytes: L2↔DRAM, both ways, if resident programs run in lockstep in half of L2"
    for config in configs:
        said = ", ".join(f"{k}={v}" for k, v in config.constants.items())
        if config.reason:
            yield f"{said} doesn't run: {config.reason}"
        if config.dram:
            dram, of = config.dram, f"{said}: " if said else ""
            yield (
                f"{of}L2↔DRAM reads in lockstep {dram.reads:,} bytes; {told}, at least "
                f"{dram.least:,}, at most {dram.most:,}"
            )
        if config.untold:
            yield f"{said} has no dram_bytes: {config.untold}"
