"""What the worker does for `iosim gpu devices`: a process for each GPU, for each of NCCL's ways."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from itertools import groupby
from pathlib import Path
from typing import Any

from iosim.base.rows import Row, Rows
from iosim.gpu.links.cases import LinkCase

# Multicast over NVLink is not used: it would move words once where the model moves P − 1 copies.
ENVIRONMENT = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
# For all processes; what is not measured by then is a failed row.
LIMIT_S = 205.0


def measure(asked: Row, out: Path) -> Row:
    """Measure the cases; neighbors of one protocol share processes."""
    cases = [LinkCase(**case) for case in asked["cases"]]
    gpu = asked["backend"] == "nccl"
    rows: Rows = []
    why = ""
    end = time.monotonic() + asked["limit_s"]
    for protocol, some in groupby(cases, key=lambda case: case.protocol):
        found = _processes(list(some), protocol, asked["backend"], end)
        rows += found["rows"]
        why = why or found["counters"]
    return {"environment": _environment(gpu), "rows": rows, "counters": why}


def _processes(cases: list[LinkCase], protocol: str, backend: str, end: float) -> Row:
    """The rows of cases that share processes."""
    environment = {**os.environ, **ENVIRONMENT}
    if protocol:
        environment["NCCL_PROTO"] = protocol
    with tempfile.TemporaryDirectory() as folder:
        spec, out = Path(folder) / "spec.json", Path(folder) / "out.json"
        spec.write_text(json.dumps({"cases": [case.as_dict() for case in cases]}))
        port = str(_free_port())
        logs = [open(Path(folder) / f"{rank}.log", "w+") for rank in range(cases[0].P)]  # noqa: SIM115
        running = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "iosim.gpu.links.rank",
                    str(spec),
                    str(out),
                    str(rank),
                    port,
                    backend,
                ],
                env=environment,
                stdout=log,
                stderr=log,
            )
            for rank, log in enumerate(logs)
        ]
        try:
            for one in running:
                one.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
        finally:
            for one in running:
                if one.poll() is None:
                    one.kill()
        said = [_last_line(log) for log in logs]
        found: Row = {"rows": [], "counters": ""}
        if out.exists():
            found = json.loads(out.read_text())
    lost = next((text for text in said if text), "there was no time left")
    found["rows"] += [{"failed": lost}] * (len(cases) - len(found["rows"]))
    return found


def _last_line(log: Any) -> str:
    log.seek(0)
    lines = [line for line in log.read().splitlines() if line.strip()]
    log.close()
    return lines[-1][:300] if lines else ""


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _environment(gpu: bool) -> dict[str, str]:
    """The machine and the versions, NCCL's among them."""
    if not gpu:
        return {"device": "CPU"}
    from iosim.gpu.run.cuda import torch_module
    from iosim.gpu.run.tasks import environment

    torch = torch_module()
    told = environment()
    return told | {
        "devices": str(torch.cuda.device_count()),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        **{name.lower(): value for name, value in ENVIRONMENT.items()},
    }
