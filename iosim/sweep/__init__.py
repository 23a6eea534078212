"""Sweeps: a grid declared in a few lines, counted on all cores, kept through anything.

`Sweep` declares a grid; `Store` is the directory that it fills, shard by shard; `collect` fills it
with any executor; `combine`, `export_csv` and `query` read it.  Parquet, DuckDB and Dask come with
the extra: ``pip install 'iosim[sweep]'``.

>>> sweep = Sweep.of(algo="flash2", N="1024", d="64,128", M="4Ki:64Ki:x2")
>>> sweep.points
10
>>> sweep.task(0).hash[:8] == sweep.task(0).hash[:8] != sweep.task(1).hash[:8]
True
"""

from __future__ import annotations

from iosim.sweep.collector import Report, collect
from iosim.sweep.executors import Pool, dask, processes, serial
from iosim.sweep.grid import Sweep
from iosim.sweep.store import Store
from iosim.sweep.table import combine, export_csv, query
from iosim.sweep.task import Task

__all__ = [
    "Pool",
    "Report",
    "Store",
    "Sweep",
    "Task",
    "collect",
    "combine",
    "dask",
    "export_csv",
    "processes",
    "query",
    "serial",
]
