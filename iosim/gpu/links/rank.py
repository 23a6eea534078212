"""The process of one device: ``python -m iosim.gpu.links.rank SPEC OUT RANK PORT BACKEND``.

It measures the cases of SPEC one after the other with the other processes; that of rank 0 writes
OUT.  Of each case: what NVLink's counters say, times of products alone, transfers alone, and both
without and with overlap, and the largest difference from one device's result.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iosim.base.errors import IosimError
from iosim.base.rows import Row
from iosim.base.writing import write_text
from iosim.devices import OnDevices
from iosim.gpu.links.cases import LinkCase
from iosim.gpu.links.execute import Rank
from iosim.gpu.links.nvlink import LinkBytes, LinkCounters
from iosim.gpu.run.cuda import time_between_events
from iosim.gpu.run.memory import TORCH_NAMES

# Counters are read so long after the last transfer: NVML updates them from time to time.
SETTLE_S = 0.12
# A timing repeats what it times until it takes so long.
LEAST_S = 0.02
MOST_RUNS = 200
TIMES = 3
# Transfers whose bytes are counted move at least this many bytes in all.
COUNTED_BYTES = 2**28


class Process:
    """This process among the others."""

    def __init__(self, rank: int, P: int, port: int, backend: str) -> None:
        import torch
        import torch.distributed as dist

        self.torch, self.dist, self.rank, self.P = torch, dist, rank, P
        self.gpu = backend == "nccl"
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        if self.gpu:
            torch.cuda.set_device(rank)
        self.device = f"cuda:{rank}" if self.gpu else "cpu"
        dist.init_process_group(
            backend,
            rank=rank,
            world_size=P,
            timeout=datetime.timedelta(seconds=60),
            device_id=torch.device(self.device) if self.gpu else None,
        )
        properties = torch.cuda.get_device_properties(rank) if self.gpu else None
        uuid = str(getattr(properties, "uuid", ""))
        self.counters = LinkCounters(uuid, rank) if self.gpu else None
        self.streams = [torch.cuda.Stream() for _ in range(2)] if self.gpu else []

    def synchronize(self) -> None:
        """Wait for this device and for the others."""
        if self.gpu:
            self.torch.cuda.synchronize()
        self.dist.barrier()
        if self.gpu:
            self.torch.cuda.synchronize()

    def gathered(self, value: Any) -> list[Any]:
        """One value of each process, in all of them."""
        found: list[Any] = [None] * self.P
        self.dist.all_gather_object(found, value)
        return found

    def measure_seconds(self, go: Callable[[], None], runs: int) -> float:
        """Seconds of one of `runs`, of the slowest device."""
        self.synchronize()
        if self.gpu:
            took = time_between_events(self.torch, go, runs)
        else:
            start = time.perf_counter()
            for _ in range(runs):
                go()
            took = (time.perf_counter() - start) / runs
        slowest: float = max(self.gathered(took))
        return slowest

    def timed(self, ways: dict[str, Callable[[], None]]) -> tuple[dict[str, float], int]:
        """Medians of the times of several things, in turn, and how often each ran for one."""
        for go in ways.values():
            go()
        first = {name: self.measure_seconds(go, 1) for name, go in ways.items()}
        runs = {
            name: min(MOST_RUNS, max(1, int(LEAST_S / max(took, 1e-6))))
            for name, took in first.items()
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(TIMES):
            for name, go in ways.items():
                found[name].append(self.measure_seconds(go, runs[name]))
        middle = {name: sorted(times)[TIMES // 2] for name, times in found.items()}
        return middle, min(runs.values())

    def captured(self, go: Callable[[], None]) -> Callable[[], None]:
        """The same as one CUDA graph."""
        torch: Any = self.torch
        graph = torch.cuda.CUDAGraph()
        self.synchronize()
        # other threads of the process group ask for events meanwhile
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            go()
        self.synchronize()
        replay: Callable[[], None] = graph.replay
        return replay

    def bytes_of(self, go: Callable[[], None], payload: int) -> tuple[list[LinkBytes | None], int]:
        """What the counters of each device say of one run, times the runs that were made."""
        runs = max(1, -(-COUNTED_BYTES // max(payload, 1)))
        runs = min(runs, 1000)
        if self.counters is None or self.counters.why:
            return [None] * self.P, 0
        self.synchronize()
        time.sleep(SETTLE_S)
        before = self.counters.read()
        for _ in range(runs):
            go()
        self.synchronize()
        time.sleep(SETTLE_S)
        after = self.counters.read()
        moved = after - before if after is not None and before is not None else None
        return self.gathered(moved), runs


def _inputs(process: Process, instance: OnDevices, dtype: Any, seed: int) -> Row:
    """The problem's inputs, the same on every device; products keep a size of about 1."""
    torch: Any = process.torch
    generator = torch.Generator(process.device).manual_seed(seed)
    found = {}
    for tensor in instance.problem.form.inputs:
        shape = [instance.sizes[a] for a in tensor.axes]
        x = torch.randn(shape, generator=generator, device=process.device, dtype=torch.float32)
        scale = _SCALES[tensor.name](shape) if tensor.name in _SCALES else 1.0
        found[tensor.name] = x.mul_(scale).to(dtype)
    return found


_SCALES: dict[str, Callable[[list[int]], float]] = {
    "Q": lambda shape: shape[-1] ** -0.5,
    "W1": lambda shape: shape[0] ** -0.5,
    "W2": lambda shape: shape[0] ** -0.5,
    "dY": lambda shape: shape[0] ** -0.5,
}


def _reference(process: Process, instance: OnDevices, x: Row) -> Row:
    """The outputs by one device."""
    torch, kind = process.torch, instance.problem.kind
    if kind == "attention":
        q = x["Q"].flatten(0, 1)
        heads = q.shape[0] // x["K"].shape[0]
        k, v = (x[name].repeat_interleave(heads, 0) for name in "KV")
        attend = torch.nn.functional.scaled_dot_product_attention
        o = attend(q[None], k[None], v[None], scale=1.0, is_causal=instance.causal)[0]
        return {"O": o.reshape(x["Q"].shape)}
    if kind == "feed-forward":
        return {"Y": (x["X"] @ x["W1"]).relu_() @ x["W2"]}
    if kind == "weight-gradient":
        return {"dW": x["X"].T @ x["dY"]}
    if kind == "gather":
        return {"Y": x["X"]}
    return {"Y": x["X"].sum(0)}


def _difference(process: Process, one: Rank, inputs: Row) -> float:
    """The largest difference from one device's result, relative to its largest entry."""
    torch, worst = process.torch, 0.0
    want = _reference(process, one.instance, inputs)
    for name, slab in one.instance.schedule.program.outputs:
        whole = want[name]
        for k, dim in enumerate(slab.dims):
            at = torch.from_numpy(one.positions(dim, 0)).to(whole.device)
            whole = whole.index_select(k, at)
        if whole.numel():
            apart = (one.results[name].float() - whole.float()).abs().max()
            worst = max(worst, float(apart) / max(1.0, float(want[name].abs().max())))
    largest: float = max(process.gathered(worst))
    return largest


def _of_call(process: Process, case: LinkCase, dtype: Any) -> Row:
    """One call of NCCL, on vectors of n words."""
    torch, dist, P = process.torch, process.dist, process.P
    n = case.sizes["n"]
    if n % P:
        raise IosimError(f"n = {n} is not a multiple of P = {P}: give one")
    whole = torch.full((n,), float(process.rank + 1), dtype=dtype, device=process.device)
    part = torch.full((n // P,), float(process.rank + 1), dtype=dtype, device=process.device)
    other = torch.empty_like(whole)
    to, source = (process.rank + 1) % P, (process.rank - 1) % P

    def send() -> None:
        pair = [dist.P2POp(dist.isend, whole, to), dist.P2POp(dist.irecv, other, source)]
        for one in dist.batch_isend_irecv(pair):
            one.wait()

    ways: dict[str, Callable[[], None]] = {
        "all-gather": lambda: dist.all_gather_into_tensor(other, part),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(part, other),
        # sums of zeros stay finite however often they are summed
        "all-reduce": lambda: dist.all_reduce(other),
        "send": send,
    }
    go = ways[case.schedule]
    other.zero_()
    go()
    want = {"all-gather": float(P * (P + 1) // 2) * (n // P), "send": float(source + 1) * n}
    got = float(other.double().sum()) if case.schedule in want else 0.0
    found = _count_bytes(process, case, go)
    times, runs = process.timed({"communication": go})
    wrong = float(got != want.get(case.schedule, 0.0))
    return found | {
        "communication_s": times["communication"],
        "runs": runs,
        "difference": max(process.gathered(wrong)),
    }


def _count_bytes(process: Process, case: LinkCase, go: Callable[[], None]) -> Row:
    moved, runs = process.bytes_of(go, max(case.sent_bytes))
    if not all(moved):
        return {"counted_runs": 0}
    told = {name: [getattr(x, name) for x in moved] for name in LinkBytes.__dataclass_fields__}
    return {"counted_runs": runs, **told}


def _of_schedule(process: Process, case: LinkCase, dtype: Any) -> Row:
    """A schedule as the program says it; in pieces, on two streams in turn, for the overlap."""
    torch = process.torch
    whole = LinkCase(**{**case.as_dict(), "pieces": 1, "cut": ""}).instances[0]
    inputs = _inputs(process, whole, dtype, seed=1)
    one = Rank(whole, process.rank, torch, process.device, dtype)
    one.load(inputs)
    one.go()
    pieces, given = [], []
    if case.pieces > 1:
        for k, piece in enumerate(case.instances):
            own = _inputs(process, piece, dtype, seed=2 + k)
            pieces.append(Rank(piece, process.rank, torch, process.device, dtype))
            pieces[-1].load(own)
            pieces[-1].go()
            given.append(own)

    def in_pieces() -> None:
        if not process.gpu:
            for piece in pieces:
                piece.go()
            return
        here = torch.cuda.current_stream()
        for k, piece in enumerate(pieces):
            stream = process.streams[k % len(process.streams)]
            if k < len(process.streams):
                stream.wait_stream(here)
            with torch.cuda.stream(stream):
                piece.go()
        for stream in process.streams:
            here.wait_stream(stream)

    ways: dict[str, Callable[[], None]] = {
        "compute": lambda: one.go(send=False),
        "communication": lambda: one.go(compute=False),
        "apart": lambda: one.go(overlap=False),
        "overlapped": in_pieces if pieces else lambda: one.go(overlap=True),
    }
    if case.graph:
        for go in ways.values():
            go()
        ways = {name: process.captured(go) for name, go in ways.items()}
    found = _count_bytes(process, case, ways["overlapped"])
    times, runs = process.timed(ways)
    # what each left behind is of the last way
    ways["overlapped"]()
    process.synchronize()
    checked = zip(pieces, given, strict=True) if pieces else [(one, inputs)]
    difference = max(_difference(process, part, own) for part, own in checked)
    return (
        found
        | {f"{name}_s": t for name, t in times.items()}
        | {"runs": runs, "difference": difference}
    )


def main(spec: str, out: str, rank: str, port: str, backend: str) -> None:
    """Measure all cases of a spec."""
    cases = [LinkCase(**case) for case in json.loads(Path(spec).read_text())["cases"]]
    process = Process(int(rank), cases[0].P, int(port), backend)
    rows = []
    for case in cases:
        try:
            measure = _of_call if case.call else _of_schedule
            row = measure(process, case, getattr(process.torch, TORCH_NAMES[case.dtype]))
        except Exception as error:  # one case's failure is its own row, not the others'
            row = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        rows.append(row)
        if process.gpu:
            process.torch.cuda.empty_cache()
        if process.rank == 0:  # after each, so that what hangs loses only what comes after it
            why = process.counters.why if process.counters else "no GPU"
            write_text(out, json.dumps({"rows": rows, "counters": why}))
    process.synchronize()
    process.dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
