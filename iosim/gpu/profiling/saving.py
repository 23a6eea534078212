"""A record of what was read: kernels and counters, nothing that names a host or a user.

``iosim profile`` calls it.  ``tests/gpu/test_profile_reading.py`` and ``tests/gpu/test_profile.py``
read back what is saved.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path

from iosim.base.errors import InputError
from iosim.base.writing import publish, write_text
from iosim.gpu.profiling.launch import DEVICE, Dim, KernelLaunch
from iosim.gpu.profiling.metrics import QUANTITIES
from iosim.gpu.profiling.reading import PROVENANCE, REPORT, ROUNDED
from iosim.gpu.profiling.tables import BLOCK, GRID, KERNEL
from iosim.gpu.records.checksums import write_checksums

# Folders in a name, as compilers write them of a lambda: (lambda at /home/me/x.cu:3:1).
_FOLDERS = re.compile(r"(?<![\w)])(/[\w.+~-]+)+/|\b[A-Za-z]:(\\[\w .+~-]+)+\\")


def save(launches: Sequence[KernelLaunch], folder: Path, provenance: dict[str, str]) -> Path:
    """Write launches as a record, which `iosim.gpu.profiling.reading.read` reads.

    Which counters the report had rounded (1.2 Gbyte) stays known, of all launches together.

    Args:
        provenance: versions (of ncu and the driver, too), date, commit; the device is added.

    Raises InputError where the folder can't be written, or holds a record.
    """
    check_free(folder)
    devices = {x.device for x in launches if x.device}
    told: dict[str, object] = {"device": " and ".join(sorted(devices)), **provenance}
    if rounded := sorted({name for x in launches for name in x.rounded}):
        told[ROUNDED] = rounded
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    texts = {PROVENANCE: text, REPORT: as_csv(launches)}

    def write_record(part: Path) -> list[Path]:
        files = [write_text(part / name, content) for name, content in texts.items()]
        return [*files, write_checksums(part)]

    publish(folder, write_record)
    return folder


def check_free(folder: Path) -> None:
    """Raise InputError for a folder that holds a record already, which would be lost.

    >>> check_free(Path("nowhere"))
    """
    if any((folder / name).exists() for name in (REPORT, PROVENANCE)):
        raise InputError(f"--out {folder} holds a record already: give another folder")


def as_csv(launches: Sequence[KernelLaunch]) -> str:
    """Launches in the layout of ``ncu --csv --page raw --print-units base``.

    Kept are the counters that quantities come from, and other sums; of a path in a kernel's name
    only the file.
    """
    own = {x for one in QUANTITIES.values() for form in one.forms for x in form}
    names = dict.fromkeys(x for launch in launches for x in launch.metrics)
    kept = [x for x in names if x in own or (x.endswith(".sum") and not x.startswith("profiler"))]
    units = {x: launch.units.get(x, "") for launch in launches for x in launch.metrics}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([KERNEL, BLOCK, GRID, DEVICE, *kept])
    writer.writerow(["", "", "", "", *(units[x] for x in kept)])
    for x in launches:
        cells = [_number(x.metrics.get(name)) for name in kept]
        writer.writerow([_FOLDERS.sub("", x.name), _dim(x.block), _dim(x.grid), x.device, *cells])
    return out.getvalue()


def _number(value: float | None) -> str:
    if value is None:
        return "n/a"
    return str(int(value)) if value == int(value) else repr(value)


def _dim(sizes: Dim | None) -> str:
    return "n/a" if sizes is None else str(sizes)
