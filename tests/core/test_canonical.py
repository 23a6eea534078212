"""The canonical form of programs: all of the tree, and nothing that differs between runs."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import iosim
from iosim.base.errors import ProgramError
from iosim.core.counting.show import show
from iosim.core.program.canonical import canonical, digest


def test_a_hold_and_a_tile_size_differ() -> None:
    """They print alike."""
    hold = iosim.algorithm("flash2_keep").program
    params = tuple(dataclasses.replace(p, least=1) for p in hold.params)
    tile = dataclasses.replace(hold, params=params)
    assert hold != tile
    assert show(hold) == show(tile)
    assert digest(hold) != digest(tile)


def changed(value: Any) -> Iterator[Any]:
    """A value with one thing in it changed, for each thing in it."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            for other in changed(getattr(value, field.name)):
                with contextlib.suppress(ProgramError, ValueError):  # not every bound is one
                    yield dataclasses.replace(value, **{field.name: other})  # type: ignore[type-var]
    elif isinstance(value, tuple):
        for k, x in enumerate(value):
            yield (*value[:k], *value[k + 1 :])
            for other in changed(x):
                yield (*value[:k], other, *value[k + 1 :])
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    else:
        yield f"{value}_"


def test_whatever_changes_changes_the_hash() -> None:
    for name in ("copy", "flash2"):
        program = iosim.algorithm(name).program
        seen = {canonical(program)}
        many = 0
        for other in changed(program):
            if other != program:
                seen.add(canonical(other))
                many += 1
        assert len(seen) > 0.9 * many > 20  # two changes may give one program
        assert all(json.loads(text) for text in seen)


def test_hashes_are_the_same_in_every_process() -> None:
    code = (
        "import iosim; from iosim.core.program.canonical import digest; "
        "print([digest(a.program) for a in iosim.all_algorithms()])"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {f"{[digest(a.program) for a in iosim.all_algorithms()]}\n"}


def test_a_program_from_another_process_is_the_same_key() -> None:
    """Hashes of strings differ there, and a program keeps its own once it is taken."""
    code = (
        "import sys, pickle, iosim; program = iosim.algorithm('flash2').program; "
        "sys.stdout.buffer.write(pickle.dumps((hash(program), program)))"
    )
    program = iosim.algorithm("flash2").program
    elsewhere = set()
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        )
        value, other = pickle.loads(done.stdout)
        elsewhere.add(value)
        assert other == program
        assert hash(other) == hash(program)
        assert {program: 1}[other] == 1
    assert len(elsewhere) == 2
    renamed = dataclasses.replace(program, name="other")
    assert hash(renamed) != hash(program)
    assert copy.deepcopy(program) == program
    assert repr(copy.copy(program)) == repr(program)
