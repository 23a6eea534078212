"""The process that runs on the GPU: ``python -m iosim.gpu.run.worker REPORT TASK SPEC OUT``.

SPEC and OUT are JSON files.  TASK is one of the report's `tasks`.  The worker needs NumPy, torch
and Triton, and nothing else.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from iosim.base.writing import write_text
from iosim.gpu.reports import gpu_report


def main(report: str, task: str, spec: str, out: str) -> None:
    """Run one task of a report on what `spec` asks, and write what it found to `out`."""
    asked = json.loads(Path(spec).read_text())
    found = gpu_report(report).tasks[task](asked, Path(out))
    write_text(out, json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
