"""Sweeps: a grid declared in a few lines, counted on all cores, and kept when processes are killed.

``iosim sweep``, ``collect``, ``combine`` and ``query`` call it.  `Sweep` (`grid`) declares a grid;
`Folder` is the directory that it fills, shard by shard; `collect` fills it with any executor;
`combine`, `export_csv` and `query` read it.  Parquet, DuckDB and Dask come with the extra:
``pip install 'iosim[sweep]'``.  An executor is a function that returns a `Pool`, and needs no
registration.

Changing files here: a row's hash covers everything that determines it, with the version and
`iosim.base.revision.REVISION`; a new field of `task` must be in it and have a default that leaves
old hashes alone.  Columns and their types are in users' folders and stay readable.  Shards are
written whole and sealed: ``tests/sweep`` kills processes, flips bits and cuts files.  `work` calls
`iosim.core.engines` and `iosim.bounds`, and has no formula.

>>> sweep = Sweep.of(schedule="flash2", N="1024", d="64,128", M="4Ki:64Ki:x2")
>>> sweep.points
10
>>> sweep.task(0).hash[:8] == sweep.task(0).hash[:8] != sweep.task(1).hash[:8]
True
"""

from __future__ import annotations

from iosim.sweep.clusters import dask
from iosim.sweep.collecting import Collected, collect
from iosim.sweep.database import answered, query
from iosim.sweep.executors import Pool, processes, serial
from iosim.sweep.folder import Folder
from iosim.sweep.grid import Sweep
from iosim.sweep.table import combine, export_csv
from iosim.sweep.task import Task

__all__ = [
    "Collected",
    "Folder",
    "Pool",
    "Sweep",
    "Task",
    "answered",
    "collect",
    "combine",
    "dask",
    "export_csv",
    "processes",
    "query",
    "serial",
]
