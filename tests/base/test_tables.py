"""What a person reads is whole: no table cuts a number or a name, at any width."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cli import ok

from iosim.base.cells import cell
from iosim.cli import options
from iosim.cli.layout import layout
from iosim.gpu.reports import REPORTS, gpu_report
from iosim.report import plot
from iosim.report.table import read_csv

WIDTHS = [40, 80, 100, 140]
ROOT = Path(__file__).parents[2]
GPU = ROOT / "experiments/data/gpu"
# Reports that have a saved record; all but the one of layers do.
RECORDED = [name for name in REPORTS if (GPU / "h200" / name / "table.csv").is_file()]
EDGES = "()[]{},;:'\""

# Where a table rounds on purpose, and how; everything else is printed whole.
ROUNDED = {"gap": ".3f", "lower_bound_words": ",.0f", "words": ",.0f", "max_error": ".0e"}


def tokens(text: str) -> Counter[str]:
    """The words of a printed text, without the punctuation around them."""
    return Counter(x.strip(EDGES) for x in text.split())


def list_tokens(value: Any, key: str = "") -> list[str]:
    """The tokens that must be seen for a value of the JSON."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, (int, float)) and key in ROUNDED:
        return [format(value, ROUNDED[key])]
    if isinstance(value, int):
        return [f"{value:,}"]
    if isinstance(value, float):
        return [repr(value)]
    if isinstance(value, str):
        return [x.strip(EDGES) for x in value.split()]
    return [x for part in value for x in list_tokens(part)]


def missing(text: str, rows: Iterable[dict[str, Any]]) -> list[str]:
    """What rows hold and a text lacks, or has less often: cut, left out or rounded."""
    want = Counter(x for row in rows for key, value in row.items() for x in list_tokens(value, key))
    return sorted((want - tokens(text)).elements())


def only(rows: Iterable[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{key: row[key] for key in keys} for row in rows]


def exact(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of which nothing may be rounded."""
    return [{f"exact {key}": value for key, value in row.items()} for row in rows]


def bounds_rows(found: Any) -> list[dict[str, Any]]:
    rows = []
    for r in found:
        row = {"name": r["name"]}  # its section says of which kind it is
        row["class"] = "all" if len(r["class"]) == 4 else r["class"]
        row["why"] = r["source"] if r["applies"] else r["reason"]
        row["words"] = r["words"]
        if r["strength"] == "asymptotic" and r["words"] is not None:
            row["words"] = f"{'Ω' if r['kind'] == 'lower' else 'O'}({r['words']:,.0f})"
        rows.append(row)
    return rows


def tensor_rows(found: Any) -> list[dict[str, Any]]:
    by = found["by_tensor"]
    return [{"tensor": x, "way": n} for way in by.values() for x, n in way.items()] + only(
        [found], "M", "load_words", "store_words", "total_words", "peak_words"
    )


POINTS = (
    "algorithm",
    "M",
    "load_words",
    "store_words",
    "total_words",
    "formula_words",
    "peak_words",
    "max_error",
    "class",
    "lower_bound_words",
    "ok",
)
MLP = str(ROOT / "docs/examples/mlp.toml")
ATTENTION = ("--N", "1234567", "--d", "97", "--M", "24576")

# A command, and the rows of its JSON that its tables show.
TABLES: dict[str, tuple[tuple[str, ...], Callable[[Any], list[dict[str, Any]]]]] = {
    "algorithms": (
        ("schedules",),
        lambda found: only(
            found, "algorithm", "problem", "lacks", "needs", "tiles", "cost", "source"
        ),
    ),
    "bounds": (("bounds", *ATTENTION), bounds_rows),
    "bounds that do not apply": (
        ("bounds", "--m", "9999", "--n", "99", "--k", "9", "--M", "9"),
        bounds_rows,
    ),
    "tightness": (
        ("tightness", "--N", "262144", "--d", "96,128", "--M", "24576,65536"),
        lambda found: only(
            found,
            "d",
            "M",
            "best_algorithm",
            "best_words",
            "lower_bound",
            "lower_bound_words",
            "gap",
        ),
    ),
    "tightness at a point": (
        ("tightness", "--N", "262144", "--d", "128", "--M", "65536"),
        lambda found: only(found["bounds"], "name", "words", "source"),
    ),
    "count": (("count", "naive", *ATTENTION), tensor_rows),
    "tiles": (
        ("tiles", "small_cache", *ATTENTION),
        lambda found: only([found], "M", "total_words", "peak_words"),
    ),
    "bounds with options": (("bounds", *ATTENTION, "--N-k", "7654321", "--causal"), bounds_rows),
    "count with options": (
        (
            "count",
            "flash2",
            *ATTENTION,
            "--heads",
            "32",
            "--kv-heads",
            "8",
            "--causal",
            "--N-k",
            "7654321",
            "--d-v",
            "101",
        ),
        lambda found: tensor_rows(found) + only([found["problem"]], "N", "d_v", "N_k", "kv_heads"),
    ),
    "tiles with options": (
        ("tiles", "flash2", *ATTENTION, "--window", "4321,1234"),
        lambda found: only([found], "M", "total_words") + only([found["problem"]], "N", "d"),
    ),
    "verify with options": (
        ("verify", "--N", "16", "--d", "4", "--M", "40,64", "--workers", "1", "--runs", "--causal"),
        lambda found: only(found["points"], *POINTS),
    ),
    "query of options": (("query", "SELECT * FROM rows ORDER BY M_words", "masked"), exact),
    "roofline": (
        (
            "roofline",
            "--model",
            "gpt2",
            "--phase",
            "training",
            "--batch",
            "8",
            "--N",
            "512",
            "--machine",
            "h100",
            "--fusion",
            "best",
            "--operators",
        ),
        lambda found: only(
            found["operators"], "name", "class", "flop", "dram_bytes", "sm_l2_bytes"
        ),
    ),
    "fuse": (
        ("fuse", "--model", "bert-large", "--phase", "training", "--batch", "8", "--N", "512"),
        lambda found: only(found["groups"], "operators", "words_in", "words_out", "words_saved"),
    ),
    "fuse chain": (
        ("fuse", "chain", "--length", "1:16", "--words", "4Mi"),
        lambda found: only(found["chains"], "k", "words_none", "words_best"),
    ),
    "graph": (
        ("graph", MLP),
        lambda found: only(found["operators"], "name", "kind", "flop", "words_in", "words_out"),
    ),
    "machines": (
        ("machines",),
        lambda found: [{"name": r["name"], "year": str(r["year"])} for r in found],
    ),
    "a machine": (
        ("machines", "h100"),
        lambda found: [{"number": x, "source": y} for x, y in found["sources"].items()],
    ),
    "optimal": (
        ("optimal", "matmul", "--m", "2", "--n", "2", "--k", "2", "--M", "4", "--show"),
        lambda found: [
            *only([found], "M", "loads", "stores", "cost"),
            *({"move": x} for x in found["schedule"]),
        ],
    ),
    "verify": (
        ("verify", "--N", "32", "--d", "4", "--M", "40,64", "--workers", "1", "--runs"),
        lambda found: only(found["points"], *POINTS),
    ),
    "query": (("query", "SELECT * FROM rows ORDER BY algorithm, M_words", "rows"), exact),
    "query of sums": (
        (
            "query",
            "SELECT sum(total_words), avg(total_words), max(total_words), 1e300, 0.1, "
            "-7, true, 'a name', count(*) AS \"a rather long name of a column\" FROM rows",
            "rows",
        ),
        exact,
    ),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the rows of a small sweep."""
    folder = tmp_path_factory.mktemp("tables")
    ok(
        "sweep",
        "--schedule",
        "flash2,small_cache",
        "--N",
        "65536,1000003",
        "--d",
        "64",
        "--M",
        "24576,65537",
        "--out",
        "rows",
        "--workers",
        "1",
        cwd=folder,
    )
    ok(
        "sweep",
        "--schedule",
        "flash2",
        "--N",
        "65536",
        "--d",
        "64",
        "--M",
        "24576,65537",
        "--causal",
        "--heads",
        "8",
        "--kv-heads",
        "1,2",
        "--window",
        "1234567,",
        "--align",
        "upper-left",
        "--out",
        "masked",
        "--workers",
        "1",
        cwd=folder,
    )
    return folder


@pytest.fixture(scope="module")
def rows_of(place: Path) -> Callable[[str], list[dict[str, Any]]]:
    known: dict[str, list[dict[str, Any]]] = {}

    def find(name: str) -> list[dict[str, Any]]:
        if name not in known:
            words, pick = TABLES[name]
            with pytest.MonkeyPatch.context() as patch:  # `printed` draws what this would draw
                patch.setattr(plot, "plot_table", lambda table, stem: [])
                known[name] = pick(json.loads(ok(*words, "--json", cwd=place)))
        return known[name]

    return find


@pytest.fixture(scope="module")
def printed(place: Path) -> Callable[[str], tuple[str, list[Any]]]:
    """What a command prints where it is no terminal, and each of its tables with its text.

    A command runs once for all widths: only `print_table` asks for the width.
    """
    known: dict[str, tuple[str, list[Any]]] = {}

    def run(name: str) -> tuple[str, list[Any]]:
        if name not in known:
            asked: list[int] = []
            tables: list[Any] = []

            def width(real: Callable[[], int] = options.width) -> int:
                asked.append(real())
                return asked[-1]

            def lay(columns: Any, rows: Any, width: int) -> str:
                text = layout(columns, rows, width)
                tables.append((columns, rows, text))
                return text

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(options, "width", width)
                patch.setattr(options, "layout", lay)
                known[name] = ok(*TABLES[name][0], cwd=place), tables
            assert len(asked) == len(tables)
        return known[name]

    return run


@pytest.mark.numbers
@pytest.mark.parametrize("width", [*WIDTHS, None])
@pytest.mark.parametrize("name", TABLES)
def test_tables_are_whole_at_every_width(
    name: str, width: int | None, printed: Any, rows_of: Any
) -> None:
    rows = rows_of(name)
    assert rows
    text, tables = printed(name)
    at = 0
    for columns, cells, known in tables if width is not None else ():
        at = text.index(known, at)
        new = layout(columns, cells, width)
        text = text[:at] + new + text[at + len(known) :]
        at += len(new)
    assert missing(text, rows) == []
    assert "…" not in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("report", RECORDED)
def test_tables_of_the_gpu_are_whole_and_name_what_they_leave_out(
    report: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(options, "width", lambda: width)
    rows = read_csv(GPU / "h200" / report / "table.csv")  # what a replay gives, to the byte
    for columns in ((), gpu_report(report).columns, tuple(rows[0])[1::2]):
        options.print_rows(rows, columns)
        text = capsys.readouterr().out
        whole = exact({k: v for k, v in row.items() if not columns or k in columns} for row in rows)
        assert missing(text, whole) == []
        left_out = [x for x in rows[0] if columns and x not in columns]
        if left_out:
            assert text.splitlines()[-1] == f"columns left out: {', '.join(left_out)}"


def test_reports_have_records() -> None:
    assert set(REPORTS) == set(RECORDED)


def in_terminal(words: Sequence[str], columns: int, cwd: Path) -> str:
    """What a command prints on a real terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-m", "iosim", *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
        env=env,
    ) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            text += part
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.decode()).replace("\r\n", "\n")


@pytest.mark.parametrize("name", ["algorithms", "bounds", "tightness", "count", "verify", "query"])
def test_a_real_terminal_of_80_columns(name: str, place: Path, rows_of: Any) -> None:
    text = in_terminal(TABLES[name][0], 80, place)
    assert missing(text, rows_of(name)) == []
    if name in ("algorithms", "bounds"):  # nothing in these is longer than a line
        assert max(map(len, text.splitlines())) <= 80


def cut_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], width: int) -> str:
    """A table that cuts, as the usual libraries make it."""
    from rich.console import Console
    from rich.table import Table

    out = Table(box=None, pad_edge=False)
    for k, column in enumerate(columns):
        out.add_column(column, overflow="fold", no_wrap=k < len(columns) - 1)
    for row in rows:
        out.add_row(*map(cell, row))
    text = io.StringIO()
    Console(file=text, width=width, highlight=False).print(out)
    return text.getvalue()


@pytest.mark.parametrize("name", ["algorithms", "verify", "query"])
def test_the_checker_sees_what_is_cut(name: str, rows_of: Any) -> None:
    rows = rows_of(name)
    columns = list(rows[0])
    cells = [[" ".join(list_tokens(x, key)) for key, x in row.items()] for row in rows]
    assert missing(cut_table(columns, cells, 80), rows)
    assert not missing(layout(columns, cells, 80), rows)
    assert missing(layout(columns, [*cells[:-1], [*cells[-1][:-1], ""]], 80), rows)
    assert missing("24,57", [{"M": 24576}])
    assert missing("1.56548e+07", [{"words": 15654831}])
    assert missing("9 1.56548e+07", [{"x": 15654831.0}])
    assert missing("flas flash1", [{"x": "flash1"}, {"x": "flash1"}])


text_cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=False, places=2),
    st.text("abcdé行 _-²\n\x1b,.", max_size=40),
    st.dates(),
)


@given(
    st.integers(0, 5).flatmap(
        lambda n: st.tuples(
            st.lists(st.text("abcdefgh _²", max_size=20), min_size=n, max_size=n),
            st.lists(st.lists(text_cells, min_size=n, max_size=n), max_size=6),
        )
    ),
    st.integers(1, 160),
)
def test_no_layout_loses_a_word(table: tuple[list[str], list[list[Any]]], width: int) -> None:
    columns, rows = table
    text = layout(columns, rows, width)
    want = Counter(x for row in rows for value in row for x in cell(value).split())
    want |= Counter(x for name in columns for x in name.split())
    assert not want - Counter(text.split())
    assert all(x == x.rstrip() for x in text.splitlines())
    longest = max(map(len, " ".join(want).split()), default=0)
    if text.isascii() and longest <= width:
        names = max(map(len, columns), default=0)
        assert max(map(len, text.splitlines()), default=0) <= max(width, names)


def test_cells_are_exact() -> None:
    for value in (15654831.0, 0.1, 1e300, -2.5e-7, np.float64(1 / 3)):
        assert float(cell(value)) == value
    assert cell(np.int64(24576)) == "24,576"
    assert cell(np.True_) == "yes"
    assert cell(Decimal(10) ** 25) == "10,000,000,000,000,000,000,000,000"
    assert cell("a\nb\x1b[2J") == r"a\nb\x1b[2J"
