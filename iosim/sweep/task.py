"""Tasks: everything that determines a result, and its hash.

A task is hashed as text, so that a hash can be computed again anywhere: a JSON head that all
tasks of one schedule share, then the sizes, M and the tiles as requested.  The head names the
schedule by the hash of its canonical form, and the revision of what counts and searches.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iosim.core.algorithms import algorithm
from iosim.core.problem import Form
from iosim.core.program.canonical import digest

# 128 bits of SHA-256 as hexadecimal digits: a billion rows collide with odds of 10⁻²¹.
DIGITS = 32


@dataclass(frozen=True)
class Task:
    """One point of a sweep.

    Attributes:
        algorithm: the registry's name; not hashed, since the program says what is run.
        program: SHA-256 of the schedule's canonical form (`iosim.core.program.canonical`).
        sizes: ``((name, extent), …)``, options that are sizes among them; the other options are the
            program's.
        M: words of fast memory.
        tiles: as requested: ``auto``, a published rule, or values (``B_r=64,B_c=32``).
        engine: what counts (`iosim.core.engines.ENGINES`).
        policy: who decides what stays in fast memory: ``explicit`` is the schedule itself.
        version: of iosim.
        revision: of what counts, searches and bounds (`iosim.base.revision`).

    >>> from iosim.sweep import Sweep
    >>> task = Sweep.of(schedule="flash2", N=1024, d=64, M=4096).task(0)
    >>> task.algorithm, task.M, len(task.hash)
    ('flash2', 4096, 32)
    """

    algorithm: str
    program: str
    sizes: tuple[tuple[str, int], ...]
    M: int
    tiles: str
    engine: str
    policy: str
    version: str
    revision: int

    @property
    def text(self) -> str:
        """What is hashed."""
        sizes = "".join(f"|{name}={value}" for name, value in self.sizes)
        head = head_text(self.program, self.engine, self.policy, self.version, self.revision)
        return f"{head}{sizes}|M={self.M}|tiles={self.tiles}"

    @property
    def hash(self) -> str:
        """The first 128 bits of the text's SHA-256, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:DIGITS]


def head_text(program: str, engine: str, policy: str, version: str, revision: int) -> str:
    """The part of a task's text that doesn't change from point to point."""
    head: Mapping[str, str | int] = {
        "engine": engine,
        "policy": policy,
        "program": program,
        "revision": revision,
        "version": version,
    }
    return json.dumps(head, separators=(",", ":"))


def hashes(head: str, axes: Iterable[str], rows: Iterable[tuple[object, ...]]) -> list[str]:
    """The hashes of many tasks that share a head.

    Args:
        axes: names of the sizes.
        rows: ``(*extents, M, tiles)`` of each task.
    """
    text = head.replace("%", "%%") + "".join(f"|{x}=%d" for x in axes) + "|M=%d|tiles=%s"
    return [hashlib.sha256((text % row).encode()).hexdigest()[:DIGITS] for row in rows]


@functools.lru_cache(maxsize=64)
def program_hash(name: str, form: Form | None = None) -> str:
    """SHA-256 of a registered schedule's canonical form; without a form, for plain problems."""
    entry = algorithm(name)
    return digest(entry.program if form is None else entry.program_for(form))
