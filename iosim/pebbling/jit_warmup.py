"""Brings the compiled loops of the search into this process while its limits are looked at.

LLVM holds the interpreter's lock for seconds on end, so what is not in numba's cache yet is
compiled by a child process that fills the cache; then it is loaded, which is soon done.  A child
whose search runs out of time goes on to its end, so that the next search finds the cache full.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iosim.base.compiled import available, compiled
from iosim.pebbling.annealing import Annealing
from iosim.pebbling.annealing_loops import anneal
from iosim.pebbling.graphs import tree
from iosim.pebbling.layered_search import Layers, Tables, loops_for
from iosim.pebbling.packed import Packed
from iosim.pebbling.rules import compile_rules
from iosim.pebbling.steps import path

# Bytes by which a process grows while the loops are loaded, and while they are compiled.
NUMBA, COMPILING = 130 << 20, 250 << 20

_child: list[subprocess.Popen[bytes]] = []
_loading: list[threading.Thread] = []


def loaded() -> bool:
    """Whether the compiled loops are in this process."""
    return bool(_loading) and not _loading[0].is_alive()


def fits(room: float) -> bool:
    """Whether numba is there, and the process may grow by what it takes to load the loops.

    A child process that compiles them may take no more than this process.
    """
    if not available() or loaded():
        return available()
    return room > NUMBA and (_is_cached() or room > COMPILING)


def waiting() -> Iterator[float]:
    """Yields until the loops are compiled; each time, seconds that the caller may spend."""
    if loaded():
        return
    if not _loading and not _is_cached():
        if not _child:
            _child.append(_fill())
        while _child[0].poll() is None:
            yield 0.3
    if not _loading:
        _loading.append(threading.Thread(target=load, daemon=True))
        _loading[0].start()
    while _loading[0].is_alive():
        _loading[0].join(0.05)
        yield 0.0


def _fill() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(p for p in (*sys.path, os.environ.get("PYTHONPATH", "")) if p)
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import load; load(True)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": paths},
        start_new_session=True,
    )


def _is_cached() -> bool:
    """Whether numba's cache holds every loop; where nothing can be kept, as if it did."""
    if not available():
        return True
    for loop in (*loops_for(True).values(), compiled(anneal)):
        done: Any = loop
        folder = done.stats.cache_path
        name = done.py_func.__qualname__
        if folder and not any(Path(folder).glob(f"*{name}*.nbi")):
            return False
    return True


def load(annealed: bool = False) -> None:
    """Compile the loops, or load what was compiled before: each is called once."""
    if annealed:  # these too, where a child fills the cache
        Annealing(tree(3), 4).run(seconds=600, steps=20_000)
    rules = compile_rules(tree(3), 4, False, False)
    layers = Layers(Packed(rules), Tables(1e6, True), lambda growth: None)
    layers.sweep(9, 2)
    layers.sweep(9)
    path(layers)
    layers.bounds((0,), [layers.start()])
    layers.grow()
