"""The revision: no answer of a fixed battery changes without it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from strategies import plain_algorithms

import iosim
from iosim.base.revision import REVISION
from iosim.sweep import Sweep
from iosim.sweep.work import compute

GOLDEN = Path(__file__).parents[1] / "golden" / "revision.json"

# Sizes with and without ragged tiles; memory from too small to everything.
GRIDS: dict[str, dict[str, Any]] = {
    "attention": {"N": "1,7,64,100,1000", "d": "1,8,13,64", "heads": "1,3"},
    "attention-backward": {"N": "1,7,64,100", "d": "1,8,13,64", "heads": "1,3"},
    "matmul": {"m": "1,7,64,100", "n": "1,8,13", "k": "2,5,64"},
    "copy": {"n": "1,7,64,1000"},
}
MEMORY = "1:64Ki:x1.6"
LARGE: dict[str, dict[str, Any]] = {
    "attention": {"N": "65537,1Mi", "d": "64,200", "heads": "16", "M": "64Ki:16Mi:x9"},
    "attention-backward": {"N": "65537,1Mi", "d": "64,200", "heads": "16", "M": "64Ki:16Mi:x9"},
    "matmul": {"m": "65537", "n": "1Mi", "k": "4099", "M": "64Ki:16Mi:x9"},
    "copy": {"n": "65537,1Mi", "M": "64Ki:16Mi:x9"},
}
# What says who made a row, or how long it took.
LEFT_OUT = ("hash", "program", "version", "revision", "time_s")


def digest(name: str, grids: dict[str, dict[str, Any]] = GRIDS) -> str:
    """Of every row of a schedule's battery: tiles, counts, peaks, bounds; floats to 9 digits."""
    entry = iosim.algorithm(name)
    seen = hashlib.sha256()
    for tiles in ("auto", *entry.rules):
        sweep = Sweep.of(
            schedule=name,
            tiles=tiles,
            shard_rows=10_000,
            **{"M": MEMORY} | grids[entry.problem.kind],
        )
        for number in range(sweep.shards):
            for row in compute(sweep, number).table.drop_columns(list(LEFT_OUT)).to_pylist():
                told = {k: f"{v:.9g}" if isinstance(v, float) else v for k, v in row.items()}
                seen.update(json.dumps(told, sort_keys=True).encode())
    return seen.hexdigest()


def verdict(found: dict[str, str], golden: dict[str, Any]) -> str:
    """What is wrong, in words; "" where nothing is."""
    changed = [x for x in golden["answers"] if found.get(x) != golden["answers"][x]]
    if changed and golden["revision"] == REVISION:
        return (
            f"the answers for {', '.join(changed)} changed: raise REVISION in "
            "iosim/base/revision.py, "
            "and run pytest --update-golden tests/sweep/test_revision.py"
        )
    if golden != {"revision": REVISION, "answers": found}:
        return "run pytest --update-golden tests/sweep/test_revision.py"
    return ""


def test_answers_change_with_the_revision_only(request: pytest.FixtureRequest) -> None:
    assert {a.problem.kind for a in plain_algorithms()} == set(GRIDS)
    names = [a.name for a in plain_algorithms()]
    found = {name: digest(name) for name in names}
    found |= {f"{name}, large": digest(name, LARGE) for name in names}
    golden = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"revision": 0, "answers": {}}
    said = verdict(found, golden)
    if request.config.getoption("--update-golden") and "raise REVISION" not in said:
        GOLDEN.write_text(json.dumps({"revision": REVISION, "answers": found}, indent=1) + "\n")
        return
    assert not said, said


def test_a_change_is_seen() -> None:
    """Another answer under the same revision is not accepted, with another it is once updated."""
    answers = {"flash2": "0", "copy": "1"}
    told = {"revision": REVISION, "answers": answers}
    assert verdict(answers, told) == ""
    assert "flash2 changed: raise" in verdict(answers | {"flash2": "9"}, told)
    assert verdict(answers | {"flash2": "9"}, told | {"revision": 0}).startswith("run pytest")
    assert verdict(answers | {"new": "9"}, told).startswith("run pytest")


@pytest.mark.parametrize("name", ["flash2", "small_cache"])
def test_a_changed_tie_break_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that move as many words, but others: one more or less in a hundredth of the rows."""
    from iosim.core.tiling import rules

    before = digest(name)
    search = rules.optimal_tiles_many

    def search_otherwise(program: Any, columns: Any, M: Any) -> Any:
        tiles, found = search(program, columns, M)
        last = program.params[-1].name
        tiles[last][::101] = tiles[last][::101] + 1
        return tiles, found

    monkeypatch.setattr(rules, "optimal_tiles_many", search_otherwise)
    assert digest(name) != before


@pytest.mark.parametrize("name", ["flash2", "spill_rows"])
def test_a_change_at_large_sizes_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from iosim.core.tiling import rules

    before = digest(name, LARGE)
    search = rules.optimal_tiles_many

    def search_otherwise(program: Any, columns: Any, M: Any) -> Any:
        tiles, found = search(program, columns, M)
        tiles[program.params[0].name][(columns["N"] > 1000) & (M > 2**20)] -= 1
        return tiles, found

    monkeypatch.setattr(rules, "optimal_tiles_many", search_otherwise)
    assert digest(name, LARGE) != before
