"""Labels of the details page, and the counters that they stand for.

``ncu --csv`` prints labels (``Duration``) unless names are requested.  ``labels.toml`` has them as
Nsight Compute 2025.3 printed the same report both ways.

`reading` calls it.  A new label is a line in ``labels.toml``.
``tests/gpu/test_profile_reading.py`` reads one report by labels and by names.
"""

from __future__ import annotations

import re
from pathlib import Path

from iosim.base.reading import read_toml

LABELS: dict[str, str] = read_toml(Path(__file__).with_name("labels.toml"))
# One label for two counters, which differ in their unit.
_BY_UNIT = {
    ("Memory Throughput", True): "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    ("Memory Throughput", False): "dram__bytes.sum.per_second",
}
_BOTH = re.compile(r".* \((\w+__[\w.]+)\)")


def counter_of(label: str, unit: str) -> str:
    """The counter behind what the details page calls a metric; "" where it is none that is known.

    >>> counter_of("Duration", "us"), counter_of("Duration (gpu__time_duration.sum)", "us")
    ('gpu__time_duration.sum', 'gpu__time_duration.sum')
    >>> counter_of("Memory Throughput", "Tbyte/s"), counter_of("dram__bytes_read.sum", "byte")
    ('dram__bytes.sum.per_second', 'dram__bytes_read.sum')
    """
    if found := _BOTH.fullmatch(label):
        return found[1]
    if "__" in label:
        return label
    return _BY_UNIT.get((label, unit == "%")) or LABELS.get(label, "")
