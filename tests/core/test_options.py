"""Options of problems on the command line and in sweeps: what is typed is what is counted."""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import entries, iosim_, ok, save

import iosim
from iosim.base.errors import InputError
from iosim.core.problem import MODELS, PROBLEMS, Attention, Family, every_option
from iosim.core.units import parse_option, parse_range, typed_option
from iosim.sweep import Sweep, query
from iosim.sweep.work import compute

SIZES = ("--N", "60", "--d", "8", "--M", "700")
# What is typed, and the problem that it says.
TYPED: dict[str, tuple[tuple[str, ...], Attention]] = {
    "causal": (("--causal",), Attention(60, 8, causal=True)),
    "not causal": (("--no-causal",), Attention(60, 8)),
    "keys": (("--N-k", "1Ki"), Attention(60, 8, N_k=1024)),
    "keys, as the size is called": (("--N_k", "99"), Attention(60, 8, N_k=99)),
    "fewer keys": (("--N-k", "16", "--causal"), Attention(60, 8, N_k=16, causal=True)),
    "values": (("--d-v", "5"), Attention(60, 8, d_v=5)),
    "grouped": (("--heads", "6", "--kv-heads", "2"), Attention(60, 8, 6, kv_heads=2)),
    "window": (("--window", "16,3"), Attention(60, 8, window=(16, 3))),
    "to the left": (("--window", "16,"), Attention(60, 8, window=(16, None))),
    "to the right": (("--window", " , 7"), Attention(60, 8, window=(None, 7))),
    "sinks": (("--window", "9,0", "--sinks", "4"), Attention(60, 8, window=(9, 0), sinks=4)),
    "upper left": (
        ("--N-k", "80", "--causal", "--align", "upper-left"),
        Attention(60, 8, N_k=80, causal=True, align="upper left"),
    ),
}


@pytest.mark.parametrize("name", TYPED)
def test_what_is_typed_is_counted(name: str) -> None:
    words, problem = TYPED[name]
    found = json.loads(ok("count", "flash2", *SIZES, *words, "--json"))
    told = json.loads(json.dumps(problem.as_dict))  # a pair is a list there
    assert found["problem"] == told
    assert list(found)[:4] == ["algorithm", "engine", "problem", "M"]
    program = iosim.algorithm("flash2").program_for(problem)
    counts = iosim.count(iosim.bind(program, problem.sizes, found["tiles"]))
    assert found["total_words"] == counts.total_words
    run = json.loads(ok("count", "flash2", *SIZES, *words, "--engine", "simulate", "--json"))
    assert run["by_tensor"] == found["by_tensor"]
    best = json.loads(ok("tiles", "flash2", *SIZES, *words, "--json"))
    assert (best["problem"], best["total_words"]) == (told, counts.total_words)
    text = ok("count", "flash2", *SIZES, *words)
    assert ("causal" in text) == problem.causal
    options = words[2:] if words[0] == "--heads" else words
    listing = ok("show", "flash2", *options)
    assert listing == iosim.show(program)
    assert (listing == ok("show", "flash2")) == (problem.form == Attention.plain_form())
    bound = ",".join(f"{x}={v}" for x, v in found["tiles"].items())
    numbers = ok("show", "flash2", *SIZES[:4], *words, "--tiles", bound)
    assert f"in all {counts['store', 'O']:,}" in numbers


def test_the_iteration_that_has_the_peak_is_shown_where_it_may_be_any(tmp_path: Path) -> None:
    """The first rows see fewer columns than fill a tile."""
    flash2 = shlex.split("count flash2 --N 10 --d 2 --M 99 --tiles B_r=3,B_c=4")
    window = (*flash2, "--window", "2,0")
    assert ok(*window, "--details").splitlines()[-2:] == [
        "peak   38 of 99 words",
        "       at h = 0, i = 3 to 5, j = 1 to 4, with q, o, m, l, k, s",
    ]
    found, dense = json.loads(ok(*window, "--json")), json.loads(ok(*flash2, "--json"))
    assert found.pop("peak_at") == {
        "tiles": {"h": [0, 1], "i": [3, 6], "j": [1, 5]},
        "buffers": ["q", "o", "m", "l", "k", "s"],
    }
    assert list(found) == list(dense)
    assert ok(*flash2, "--details").splitlines()[-1].startswith("peak ")
    np.save(tmp_path / "mask.npy", np.eye(2, dtype=bool)[::-1])
    mask = ("--mask", f"blocks={tmp_path / 'mask.npy'}", "--tiles", "B_r=3,B_c=4")
    blocks = ok(*shlex.split("count block_sparse --N 6 --N-k 8 --d 2 --M 99 --details"), *mask)
    assert "at h = 0, i = 0 to 2, j = 4 to 7, with" in blocks.splitlines()[-1]


# Operations of dense schedules, whose mathematics is too long to stand beside them.
LONG = {
    "online_softmax",
    "online_mean",
    "online_weights",
    "row_stats",
    "normalise",
    "log_mean",
    "log_weights",
}
SIGNS = {
    r"\b[a-z]\.start": r"[a-z]\.start",
    r"\b[a-z]\.stop": r"[a-z]\.stop",
    "Σ_": "Σ_[a-z]",
    r"\|[^|\n]*\.st[^|\n]*\|": r"\|.*\|",
    r" within ": "within .*",
    "s\\[r, c\\]": r"s\[r, c\]",
    r"[a-z]+×[a-z]": ".*×.*",
    r"#[a-z]": "#[a-z]",
    "@": "@.*",
    r"\[[^]]*0:\|": r"0:\|.*\|",
    " where [a-z]+\\[": "where .*",
    "blocks_marked": "blocks_marked",
    r"\bleft\b": "left",
    r"\bright\b": "right",
    r"\bsinks\b": "sinks",
    r"\bunseen\b": "unseen",
    r"\bsplits\b": "splits",
}


@pytest.mark.parametrize("name", iosim.ALGORITHMS)
def test_listings_say_what_their_signs_mean(name: str) -> None:
    entry = iosim.algorithm(name)
    forms = {entry.plain_form}
    if entry.problem is Attention:
        forms |= {problem.form for _, problem in TYPED.values()}
        forms |= {Attention(60, 8, 6, N_k=70, kv_heads=2, window=(9, 2), sinks=1).form}
    if name == "paged":
        forms |= {PROBLEMS["paged"].plain_form(("causal",))}
    for form in filter(entry.supports, forms):
        text = iosim.show(entry.program_for(form))
        body, _, legend = text.partition("notation\n")
        said = [re.split("  +", line.strip(), maxsplit=1) for line in legend.splitlines()]
        assert all(len(line) == 2 for line in said)
        for sign, line in SIGNS.items():
            there = sum(re.fullmatch(line, mark) is not None for mark, _ in said)
            assert there == bool(re.search(sign, body)), (sign, text)
        if not form.options and name not in ("paged", "block_sparse", "split_kv"):
            cut = ("grouped_rows", "small_backward", "small_tiles", "flash2_parts")
            assert not legend or name in cut
        for op in re.findall(r"^ +(\w+)\([^▷\n]*\)$", body, re.M):
            assert op in LONG, op


def test_every_command_of_sizes_takes_every_option() -> None:
    """And none of them lists the options itself: they are those of the registered problems.

    The attention of fuse is its model's, and reports of a GPU have cases instead.
    """
    found = {}
    others = ("fuse", "validate", "bench", "dram", "paper")
    for words, place, _ in entries():
        module, _, attribute = place.partition(":")
        params = {str(p.name) for p in getattr(importlib.import_module(module), attribute).params}
        if "N" in params and words[-1] not in others:
            found[words[-1]] = {*every_option(), "model"} - params
    assert found.keys() >= {
        "count",
        "tiles",
        "show",
        "bounds",
        "tightness",
        "sweep",
        "verify",
        "emit",
    }
    assert found.pop("optimal") == {"model"}  # they are far beyond reach
    assert found.pop("profile") == {"model"}  # what it expects is one kernel of sizes of its own
    assert not {name: lacking for name, lacking in found.items() if lacking}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("count", "flash2", *SIZES, "--heads", "32", "--kv-heads", "5"),
            "kv_heads = 5 does not divide heads = 32: give a divisor",
        ),
        (("count", "flash2", *SIZES, "--kv-heads", "0"), "kv_heads = 0 is outside 1.."),
        (("count", "flash2", *SIZES, "--N-k", "x"), "N_k must be a whole number, got 'x'"),
        (
            ("count", "flash2", *SIZES, "--window", "3"),
            "window = '3' is not LEFT,RIGHT: give both, like 128,0, or leave one empty",
        ),
        (("count", "flash2", *SIZES, "--window", "1,024,0"), "window = '1,024,0' is not LEFT,"),
        (("count", "flash2", *SIZES, "--window", ","), "window = ',' is not LEFT,RIGHT"),
        (("count", "flash2", *SIZES, "--window", "-1,0"), "window's left = -1 is outside 0.."),
        (("count", "flash2", *SIZES, "--window", "0,-7"), "window's right = -7 is outside 0.."),
        (("count", "flash2", *SIZES, "--window", "a,0"), "window's left must be a whole number"),
        (("count", "flash2", *SIZES, "--sinks", "-1"), "sinks = -1 is outside 0.."),
        (
            ("count", "flash2", *SIZES, "--align", "lower"),
            "unknown align 'lower': did you mean 'lower-right'?",
        ),
        (
            ("count", "matmul", "--m", "4", "--n", "4", "--k", "4", "--M", "99", "--causal"),
            "matmul has no option --causal, which is for attention",
        ),
        (("show", "copy", "--kv-heads", "2"), "copy has no option --kv-heads, which is for"),
        (("gpu", "emit", "matmul", "--causal"), "matmul has no option --causal"),
        (
            ("bounds", "--m", "4", "--n", "4", "--k", "4", "--M", "99", "--sinks", "3"),
            "sizes of two problems",
        ),
        (
            ("count", "flash2_keep", *SIZES, "--window", "3,0"),
            "flash2_keep does not support window: choose naive or flash1 or flash2 or",
        ),
        (("tiles", "decode", *SIZES), "decode needs N_k: give that, or choose"),
        (("show", "flash2_keep", "--window", "3,0"), "flash2_keep does not support window"),
        (("gpu", "emit", "flash2_keep", "--window", "3,0"), "flash2_keep does not support window"),
        (("show", "flash2", "--causal", "--N", "9"), "write --tiles"),
        (("show", "flash2", "--model", "gpt2"), "write --tiles"),
        (("count", "flash2", "--model", "gpt5", "--M", "9"), "unknown model 'gpt5': did you mean"),
        (
            ("count", "copy", "--model", "gpt2", "--M", "9"),
            "--model gives the sizes of attention, not of copy: leave gpt2 out",
        ),
        (
            ("count", "paged", "--model", "llama3-8b", "--M", "9999"),
            "not of paged: leave llama3-8b out, and give --d 128 --heads 32 --kv-heads 8",
        ),
        (("verify", "--causal", "--N", "8", "--d", "2", "--M", "1"), "no algorithm runs in M = 1"),
        (("verify", "--model", "llama3-8b"), "choose a smaller N or fewer heads"),
    ],
)
def test_bad_options_are_one_line_and_exit_2(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    done = iosim_(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    lines = [x for x in done.stderr.splitlines() if not x.startswith("iosim: note: ")]
    assert len(lines) == 1
    assert message in lines[0]
    assert not done.stdout
    assert not list(tmp_path.rglob("*"))


SINKS = "sinks = 3 changes nothing: no limit to the left hides the first columns"
ALIGN = "align = upper left changes nothing: there is no mask to align"
RIGHT = "window's right = 5 changes nothing: causal sets it to 0"


@pytest.mark.numbers
@pytest.mark.parametrize(
    ("words", "notes"),
    [
        (("--sinks", "3"), [SINKS]),
        (("--sinks", "3", "--causal"), [SINKS]),
        (("--sinks", "3", "--window", ",4", "--align", "upper-left"), [SINKS]),
        (("--align", "upper-left"), [ALIGN]),
        (("--align", "upper-left", "--sinks", "3"), [SINKS, ALIGN]),
        (("--causal", "--window", "4,5"), [RIGHT]),
        (("--sinks", "3", "--window", "4,"), []),
        (("--causal", "--window", "4,0"), []),
        (("--causal", "--window", "4,", "--align", "upper-left"), []),
        (("--align", "lower-right", "--sinks", "0"), []),
    ],
)
def test_options_that_change_nothing_are_noted(
    words: tuple[str, ...], notes: list[str], tmp_path: Path
) -> None:
    sized = ("--N", "16", "--d", "4", "--M", "200")
    commands: list[tuple[str, ...]] = [("bounds", *sized), ("show", "flash2")]
    if notes == [SINKS, ALIGN]:  # the others, once
        commands += [
            ("count", "flash2", *sized),
            ("tiles", "flash2", *sized),
            ("tightness", *sized),
            ("verify", *sized),
            ("gpu", "emit", "flash2"),
            ("optimal", "attention", "--N", "1", "--d", "1", "--M", "5"),
            ("sweep", "--schedule", "flash2,naive", *sized, "--out", "rows", "--workers", "1"),
        ]
    for command in commands:
        done = iosim_(*command, *words, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
        said = [line.removeprefix("iosim: note: ") for line in done.stderr.splitlines()]
        assert [x for x in said if "changes nothing" in x] == notes, command


def test_a_model_sets_options_and_what_is_typed_wins() -> None:
    asked = ("count", "flash2", "--M", "48Ki", "--json")
    done = iosim_(*asked, "--model", "llama3-8b")
    assert json.loads(done.stdout)["problem"] == {
        "N": 8192,
        "d": 128,
        "heads": 32,
        "kv_heads": 8,
        "causal": True,
    }
    assert done.stderr.startswith(
        "iosim: note: llama3-8b is N = 8,192, d = 128, heads = 32, kv_heads = 8, causal (Llama 3 "
    )
    other = json.loads(ok(*asked, "--model", "llama3-8b", "--no-causal", "--N", "64", "--N-k", "7"))
    assert other["problem"] == {"N": 64, "d": 128, "heads": 32, "N_k": 7, "kv_heads": 8}
    assert {name: (x.causal, x.kv_heads) for name, (x, _) in MODELS.items()} == {
        "gpt2": (True, None),
        "gpt2-medium": (True, None),
        "gpt2-xl": (True, None),
        "bert-base": (False, None),
        "bert-large": (False, None),
        "llama3-8b": (True, 8),
        "llama3-70b": (True, 8),
        "mixtral-8x7b": (True, 8),
    }


@pytest.mark.numbers
def test_verify_with_options(tmp_path: Path) -> None:
    for k, words in enumerate(
        [
            ("--causal", "--heads", "4", "--kv-heads", "2"),
            ("--N-k", "5", "--causal"),  # rows that see nothing
            ("--N-k", "20", "--d-v", "3", "--window", "6,2", "--sinks", "2"),
        ]
    ):
        out = ("--workers", "1", "--json", "--out", str(tmp_path / str(k)))
        found = json.loads(ok("verify", "--N", "12", "--d", "4", "--M", "60,64", *words, *out))
        assert found["ok"]
        assert len({p["algorithm"] for p in found["points"]}) >= 5
        assert found["slopes"] == []  # exponents are claimed of attention without options
        names = {x.removeprefix("--").replace("-", "_") for x in words if x.startswith("--")}
        assert names <= found["problem"].keys()
        header = (tmp_path / str(k) / "verify.csv").read_text().splitlines()[0].split(",")
        assert names <= set(header)


@pytest.mark.numbers
def test_arrays_of_grouped_heads_and_keys_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        x: rng.standard_normal(shape)
        for x, shape in {"Q": (4, 6, 3), "K": (2, 9, 3), "V": (2, 9, 5)}.items()
    }
    path = save(tmp_path / "in.npz", **arrays)
    asked = ("verify", "--input", path, "--M", "80", "--workers", "1", "--out", str(tmp_path / "o"))
    found = json.loads(ok(*asked, "--causal", "--json"))
    assert found["ok"]
    told = {"N": 6, "d": 3, "heads": 4, "N_k": 9, "d_v": 5, "kv_heads": 2, "causal": True}
    assert found["problem"] == told
    assert "--kv-heads is 4 and" in iosim_(*asked, "--kv-heads", "4").stderr
    assert "sizes of its own: leave --model out" in iosim_(*asked, "--model", "gpt2").stderr
    bad = save(tmp_path / "bad.npz", **arrays | {"K": arrays["K"][:, :, :2]})
    done = iosim_("verify", "--input", bad)
    assert "K has shape (2, 9, 2) and Q (4, 6, 3): give K of (N_k, d) and V of (N_k, d_v)" in (
        done.stderr
    )
    bad = save(tmp_path / "bad.npz", **arrays | {"Q": arrays["Q"][:3]})
    assert "kv_heads = 2 does not divide heads = 3" in iosim_("verify", "--input", bad).stderr


def test_tables_of_tightness_show_a_window_as_it_is_typed(tmp_path: Path) -> None:
    sizes = ("--N", "64", "--d", "8", "--M", "400")
    ok("tightness", *sizes, "--window", "9,", "--out", "t", cwd=tmp_path)
    assert ',"9,",400,' in (tmp_path / "t" / "tightness.csv").read_text()


def test_options_as_typed_read_back() -> None:
    options = every_option()
    for name, value in {
        "N_k": 7,
        "sinks": 0,
        "causal": True,
        "window": (None, 3),
        "align": "upper left",
    }.items():
        one = options[name]
        assert parse_option(one, typed_option(one, value)) == value
    with pytest.raises(InputError, match="causal = 'yes' is neither true nor false"):
        parse_option(options["causal"], "yes")
    assert parse_range("left", "0:32:+16", least=0) == [0, 16, 32]
    for text in ("0:9:x2", "-1"):
        with pytest.raises(InputError):
            parse_range("left", text, least=0)


# -- families and sweeps ----------------------------------------------------------------------

GRID = {
    "N": "16,25",
    "d": "4",
    "heads": "4",
    "kv_heads": "1,2,4",
    "N_k": "12:48:x2",
    "causal": True,
    "window": "4:16:x4,",
    "sinks": "0,3",
    "M": "90,200",
}


def rows_of(sweep: Sweep) -> list[dict[str, Any]]:
    return [row for k in range(sweep.shards) for row in compute(sweep, k).table.to_pylist()]


@pytest.mark.numbers
@pytest.mark.parametrize("engine", ["formula", "simulate"])
@pytest.mark.parametrize("tiles", ["auto", "B_r=4,B_c=1:5:+4"])
def test_a_sweep_counts_every_point_as_one_is_counted(engine: str, tiles: str) -> None:
    grid = GRID if engine == "formula" else GRID | {"N": "16", "kv_heads": "2", "M": "90"}
    sweep = Sweep.of(schedule="flash2", tiles=tiles, engine=engine, **grid)
    rows = rows_of(sweep)
    assert len(rows) == sweep.points
    seen = set()
    for k, row in enumerate(rows):
        task = sweep.task(k)
        assert row["hash"] == task.hash
        sizes = dict(task.sizes)
        assert list(sizes) == ["N", "d", "heads", "N_k", "kv_heads", "left", "sinks"]
        assert {x: row[x] for x in sizes} == sizes
        assert row["causal"] is True
        problem = Attention(
            sizes["N"],
            sizes["d"],
            sizes["heads"],
            N_k=sizes["N_k"],
            kv_heads=sizes["kv_heads"],
            causal=True,
            window=(sizes["left"], None),
            sinks=sizes["sinks"],
        )
        program = iosim.algorithm("flash2").program_for(problem)
        used = {"B_r": row["tile_B_r"], "B_c": row["tile_B_c"]}
        counts = iosim.count(iosim.bind(program, problem.sizes, used))
        assert row["total_words"] == counts.total_words
        assert row["lower_bound_words"] == pytest.approx(
            iosim.bounds.best_lower_bound(problem, row["M_words"]).words
        )
        if tiles == "auto":
            best = iosim.optimal_tiles(program, problem, row["M_words"])
            assert row["total_words"] == best.total_words
        seen.add(row["total_words"])
    assert len(seen) > 3


def test_families() -> None:
    family = Family.of(Attention, {"N": 9, "d": 4, "heads": 2, "sinks": 0}, {"causal": True})
    assert family.form == Attention(1, 1, causal=True).form  # no sinks anywhere
    family = Family.of(
        Attention, {"N": 9, "d": 4, "heads": 6, "kv_heads": 3, "left": 5, "sinks": 99}
    )
    columns = {
        "N": np.array([9, 7]),
        "d": np.array([4, 4]),
        "heads": np.array([6, 2]),
        "kv_heads": np.array([3, 2]),
        "left": np.array([0, 5]),
        "sinks": np.array([0, 99]),
    }
    found = family.extents(columns)
    for k in range(2):
        problem = family.at({x: int(v[k]) for x, v in columns.items()})
        mine = {x: int(found[x][k]) for x in problem.sizes}
        assert mine == problem.sizes
    assert found["group"].tolist() == [2, 1]
    assert found["sinks"].tolist() == [0, 7]
    with pytest.raises(InputError, match="copy has no size N: it has n"):
        Family.of(PROBLEMS["copy"], {"N": 4})


def test_sweeps_from_files_and_python_and_the_command_line_are_one(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(
        'schedule = "flash2"\nN = 16\nd = 4\nheads = 4\nkv_heads = [2, 4]\nwindow = [[4, 8], ""]\n'
        'causal = true\nalign = "upper-left"\nM = 90\n'
    )
    sweep = Sweep.from_toml(tmp_path / "sweep.toml")
    given: dict[str, Any] = {
        "schedule": "flash2",
        "N": 16,
        "d": 4,
        "heads": 4,
        "kv_heads": [2, 4],
        "window": ([4, 8], None),
        "causal": True,
        "align": "upper-left",
        "M": 90,
    }
    assert sweep == Sweep.of(**given)
    assert sweep == Sweep.from_dict(json.loads(json.dumps(sweep.as_dict())))
    assert sweep.typed == (
        "--N 16 --d 4 --heads 4 --kv-heads 2,4 --window 4,8, --causal --align upper-left"
    )
    words = ("sweep", "--config", "sweep.toml", "--out", "rows", "--workers", "1")
    ok(*words, cwd=tmp_path)
    dense = Sweep.of(**given | {"causal": False, "window": None, "align": None})
    assert dense.options == ()
    assert sweep.id != dense.id
    done = iosim_(*words, "--no-causal", cwd=tmp_path)
    assert done.returncode == 2
    assert "belongs to another sweep (--schedule flash2 --N 16 " in done.stderr
    assert "--causal --align upper-left --M 90" in done.stderr
    with pytest.raises(InputError, match="a sweep has no option 'left'"):
        Sweep.of(schedule="flash2", N=1, d=1, M=9, left=4)
    with pytest.raises(InputError, match=r"window = ',' is not LEFT,RIGHT"):
        Sweep.of(schedule="flash2", N=1, d=1, M=9, window=["", ""])
    with pytest.raises(InputError, match="left = -4 is outside 0"):
        Sweep.of(schedule="flash2", N=1, d=1, M=9, window=[-4, 0])


def test_the_first_point_that_makes_no_sense_is_named_before_anything_is_counted(
    tmp_path: Path,
) -> None:
    for words, message in (
        (
            ("--heads", "8,12,16", "--kv-heads", "2,4,8"),
            "kv_heads = 8 does not divide heads = 12, the first such point of the grid",
        ),
        (("--kv-heads", "2"), "kv_heads = 2 does not divide heads = 1, the first such point"),
        (("--window", "3"), "window = '3' is not LEFT,RIGHT"),
        (
            ("--schedule", "matmul", "--m", "4", "--n", "4", "--k", "4", "--causal"),
            "no algorithm of the sweep has --",
        ),
        (("--schedule", "flash2_keep", "--window", "3,"), "flash2_keep does not support window"),
        (("--schedule", "decode"), "decode needs N_k"),
    ):
        schedule = () if "--schedule" in words else ("--schedule", "flash2")
        sizes = () if "--m" in words else ("--N", "16", "--d", "4")
        done = iosim_(
            "sweep", *schedule, *sizes, *words, "--M", "99", "--out", "rows", cwd=tmp_path
        )
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done
        assert message in done.stderr
        assert not list(tmp_path.rglob("*"))


def test_folders_with_and_without_options_combine(tmp_path: Path) -> None:
    usual = (
        "--schedule",
        "flash2",
        "--N",
        "16",
        "--d",
        "4",
        "--heads",
        "4",
        "--M",
        "90,200",
        "--workers",
        "1",
    )
    ok("sweep", *usual, "--out", "dense", cwd=tmp_path)
    ok("sweep", *usual, "--kv-heads", "1,2", "--causal", "--out", "causal", cwd=tmp_path)
    ok("sweep", *usual, "--window", "3,5", "--align", "upper-left", "--out", "window", cwd=tmp_path)
    told = json.loads((tmp_path / "dense" / "sweep.json").read_text())
    assert "options" not in told["sweep"]
    assert not {"causal", "kv_heads", "left", "align"} & told["columns"].keys()
    ok("combine", "dense", "causal", "window", "--out", "all", "--csv", "all.csv", cwd=tmp_path)
    folders = [str(tmp_path / x) for x in ("dense", "causal", "window")]
    names = 'causal, align, kv_heads, "left", "right"'
    asked = f"SELECT {names}, count(*) AS n FROM rows GROUP BY ALL ORDER BY ALL"
    for paths in ([str(tmp_path / "all")], folders):
        with pytest.warns(UserWarning, match="rows of flash2 come from 3 programs"):
            found = query(asked, paths).to_pylist()
        assert [tuple(row.values()) for row in found] == [
            (True, None, 1, None, None, 2),
            (True, None, 2, None, None, 2),
            (None, "upper left", None, 3, 5, 2),
            (None, None, None, None, None, 2),
        ]
    lines = (tmp_path / "all.csv").read_text().splitlines()
    assert len(lines) == 9
    header = lines[0].replace('"', "").split(",")
    assert {"causal", "align", "kv_heads", "left", "right"} <= set(header)


def test_dense_sweeps_keep_their_hashes() -> None:
    """Ids and hashes as they were before problems had options."""
    grid = {"N": "64:256:x2", "d": "8,16", "M": "999:9Ki:x2"}
    sweep = Sweep.of(schedule="flash2,small_cache", **grid)
    sweep = dataclasses.replace(sweep, version="0.1.0", revision=1)
    assert sweep.id == "3ca6f83b30fb012ec751f382bc8a3efd"
    assert sweep.task(0).hash == "c23bced999da1631362e47a3235e5ee9"
    assert sweep.task(sweep.points - 1).hash == "d66891a8c66c129ab958866a02e047c7"
    assert "options" not in sweep.as_dict()
    masked = Sweep.of(schedule="flash2,small_cache", causal=True, **grid)
    assert dataclasses.replace(masked, version="0.1.0", revision=1).id != sweep.id
    assert masked.task(0).hash != sweep.task(0).hash


def test_emit_takes_the_sizes_of_every_problem() -> None:
    """What is typed wins; the rest is beside attention of N 4096, d 64 and one head."""
    asked = ("--heads", "4", "--kv-heads", "2", "--N-k", "300", "--causal")
    grouped = ok("gpu", "emit", "flash2", "--N", "100", *asked)
    assert grouped != ok("gpu", "emit", "flash2", "--N", "100", *asked[:2], *asked[4:])
    paged = ("gpu", "emit", "paged", "--d", "16", "--heads", "4")
    assert ok(*paged) == ok(*paged, "--kv-heads", "4", "--N-k", "4096", "--N", "1", "--page", "16")
    assert ok(*paged) != ok(*paged, "--N", "2", "--page", "32", "--batch", "3")
    assert ok("gpu", "emit", "matmul") == ok("gpu", "emit", "matmul", "--m", "4Ki", "--k", "64")
    assert ok("gpu", "emit", "copy", "--n", "6400") == ok("gpu", "emit", "copy", "--N", "100")


def test_a_model_is_swept_and_held_against_its_bounds(tmp_path: Path) -> None:
    """What is typed wins there, too."""
    typed = ("--N", "256", "--M", "16Ki")
    mine = ("--d", "64", "--heads", "12", "--causal")
    point = iosim_("tightness", "--model", "gpt2", *typed, "--json")
    assert point.stdout == ok("tightness", *typed, *mine, "--json")
    assert point.stderr.startswith("iosim: note: gpt2 is N = 1,024, d = 64, heads = 12, causal")
    bad = iosim_("tightness", "--model", "gpt5", *typed)
    assert (bad.returncode, bad.stdout) == (2, "")
    asked = ("sweep", "--schedule", "flash2", "--workers", "1", "--json")
    ok(*asked, "--model", "gpt2", *typed, "--out", str(tmp_path / "model"))
    ok(*asked, *typed, *mine, "--out", str(tmp_path / "typed"))
    one, other = (
        query("SELECT hash, total_words FROM rows", [tmp_path / x]).to_pylist()
        for x in ("model", "typed")
    )
    assert one == other
    assert len(one) == 1


def test_a_program_of_another_mask_is_refused() -> None:
    """The sizes of a causal problem are those of a dense one: the program must know its mask."""
    problem = Attention(64, 8, causal=True)
    flash2 = iosim.algorithm("flash2")
    with pytest.raises(InputError, match="problem has a causal mask: take flash2"):
        iosim.optimal_tiles(flash2.program, problem, 1000)
    with pytest.raises(InputError, match="is for a causal mask, and the problem has no mask"):
        iosim.smallest_capacity(flash2.program_for(problem), Attention(64, 8))
    dense = iosim.optimal_tiles(flash2.program, Attention(64, 8), 1000).total_words
    assert iosim.optimal_tiles(flash2.program_for(problem), problem, 1000).total_words < dense
