"""What the worker does with layers: time them, trace them, and run them where a profiler watches.

`measure` builds each case, compiles what is to be compiled, times its variants in turn and traces
each.  `profile` runs each once after a mark, for `ncu` to watch; what was compiled before comes
from the cache.  Both stop starting runs when their time is over, and say so in the rows left.

The worker of `iosim.gpu.reports.layers` calls it, and that of the report on backward passes.  It
takes PyTorch as an argument: import none here.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from iosim.base.rows import Row
from iosim.gpu.layers.cases import LayerCase
from iosim.gpu.layers.launch_counters import PRODUCT_N, STREAM_WORDS
from iosim.gpu.layers.record import LayerRun, MeasuredRun, ProfiledRun
from iosim.gpu.layers.trace import ITERATION, RANGE, Launch, launches, typical
from iosim.gpu.records.record import MEASURED
from iosim.gpu.run.cuda import time_between_events, torch_module
from iosim.gpu.run.memory import TORCH_NAMES
from iosim.gpu.run.tasks import environment, failure, watch

LATE = "not run: the time that was given for it was over; ask for more --seconds"
ROUNDS, TRACED = 7, 5
DEVICE = "cuda"


@dataclass
class Built:
    """A run that is ready: `go` makes one pass, `layer` is the module behind it."""

    go: Callable[[], Any]
    layer: Any


def measure(asked: Row, out: Path) -> Row:
    """Time and trace the runs that are requested, one row each."""
    torch = torch_module()
    start = time.monotonic()
    end = start + asked["measure_s"]
    rows: list[MeasuredRun] = []
    with _cache(asked["cache"]):
        for case, runs in groupby(map(_run, asked["runs"]), key=lambda run: run.case):
            late = time.monotonic() > end
            mine = list(runs)
            rows += [MeasuredRun(failed=LATE)] * len(mine) if late else _case(torch, case, mine)
            forget(torch)
    took = round(time.monotonic() - start, 1)
    return {"environment": environment(), "took_s": took, **packed(rows)}


def packed(rows: list[MeasuredRun]) -> Row:
    """Rows as JSON data, each kernel's name written once."""
    names: dict[str, int] = {}
    plain = []
    for row in rows:
        own = [replace(x, kernel=names.setdefault(str(x.kernel), len(names))) for x in row.launches]
        found = asdict(replace(row, launches=tuple(own)))
        if math.isnan(row.beside_eager):
            del found["beside_eager"]
        blank = asdict(Launch(0, 1.0))
        found["launches"] = [
            {k: v for k, v in x.items() if k in ("kernel", "time_s") or v != blank[k]}
            for x in found["launches"]
        ]
        plain.append(found)
    return {"rows": plain, "names": list(names)}


def _run(told: Row) -> LayerRun:
    return LayerRun(LayerCase(**told["case"]), told["variant"])


def _case(torch: Any, case: LayerCase, runs: list[LayerRun]) -> list[MeasuredRun]:
    """All variants of a case, timed in turn."""
    built: list[Built | None] = []
    rows: list[MeasuredRun] = []
    for run in runs:
        try:
            ready_one, row = _prepare(torch, run, DEVICE)
            built.append(ready_one)
        except Exception as error:  # one run's failure is its own row, not the others'
            row = MeasuredRun(failed=failure(error))
            built.append(None)
            forget(torch)
        rows.append(row)
    ready = [k for k, one in enumerate(built) if one is not None]
    try:
        walls = _in_turn(torch, [built[k].go for k in ready])  # type: ignore[union-attr]
        eager = [k for k in ready if runs[k].variant == "eager"]
        first = built[eager[0]].go() if eager else None  # type: ignore[union-attr]
    except Exception as error:
        return [row if row.failed else MeasuredRun(failed=failure(error)) for row in rows]
    for k, own in zip(ready, walls, strict=True):
        one = built[k]
        assert one is not None
        try:
            runs_seen = traced(torch, one.go)
            same = math.nan if case.ask(runs[k].how).dropout else _relative_error(one.go(), first)
            rows[k] = replace(
                rows[k],
                walls=tuple(own),
                launches=typical(runs_seen),
                passes=len(runs_seen),
                beside_eager=same,
            )
        except Exception as error:
            rows[k] = MeasuredRun(failed=failure(error))
    return rows


def _prepare(torch: Any, run: LayerRun, device: str) -> tuple[Built, MeasuredRun]:
    """A run that has been made once, and a row with what its compiler fused."""
    from iosim.gpu.layers import modules
    from iosim.gpu.layers.inductor import watching

    one = build(torch, run, device)
    with watching(lambda path: modules.step_of(path, one.layer)) as groups:
        one.go()
        one.go()
    row = MeasuredRun(covers=modules.covers(one.layer), groups=tuple(groups))  # type: ignore[arg-type]
    return one, row


def build(torch: Any, run: LayerRun, device: str) -> Built:
    """The layer with random parameters, the same in all variants, and a pass of its phase."""
    from iosim.gpu.layers import modules

    ask, case = run.case.ask(run.how), run.case
    dtype = getattr(torch, TORCH_NAMES[case.dtype])
    random = torch.Generator(device).manual_seed(0)

    def normal(*shape: int, scale: float = 1.0) -> Any:
        return (torch.randn(*shape, generator=random, device=device) * scale).to(dtype)

    with torch.device(device):
        layer = modules.module(ask).to(dtype)
    # Names in order: the variants have other modules, and the same parameters.
    for name, (parameter, _) in sorted(layer.weights().items()):
        parameter.data = normal(*parameter.shape, scale=0.02) + name.startswith("γ")
    c, rows = ask.config, ask.tokens if ask.cached else ask.N
    x = normal(case.batch, rows, c.hidden).requires_grad_(ask.training)
    angles = torch.rand(rows, c.head_size, generator=random, device=device) * 6
    given = {"cos": angles.cos().to(dtype), "sin": angles.sin().to(dtype)}
    if ask.cached:
        given |= {f"{y} cache": normal(case.batch, c.kv_heads, case.N, c.head_size) for y in "KV"}
    keeps = c.family != "bert" and not ask.training  # K and V are results, too

    def forward(x: Any) -> Any:
        found = layer(x, given)
        return found if keeps else found[0]

    made = torch.compile(forward, dynamic=False) if run.how.compiled else forward
    if not ask.training:

        def infer() -> Any:
            with torch.no_grad():
                found = made(x)
            return found[0] if keeps else found

        return Built(infer, layer)
    dy = normal(*x.shape)
    wanted = [x, *layer.parameters()]

    def train() -> Any:
        y = made(x)
        torch.autograd.grad(y, wanted, dy)
        return y

    return Built(train, layer)


def _relative_error(got: Any, want: Any) -> float:
    if want is None:
        return math.nan
    largest = max(1.0, float(want.abs().max()))
    return float((got.double() - want.double()).abs().max()) / largest


def _in_turn(torch: Any, passes: list[Callable[[], Any]]) -> list[list[float]]:
    """Seconds of a pass, back to back with others of its kind; one mean for each round."""
    found: list[list[float]] = [[] for _ in passes]
    often = [max(3, min(50, int(0.02 / time_between_events(torch, go, 2)))) for go in passes]
    for _ in range(ROUNDS):
        for go, n, own in zip(passes, often, found, strict=True):
            go()  # what the variant before left in caches is gone
            own.append(time_between_events(torch, go, n))
    return found


def traced(torch: Any, go: Callable[[], Any], passes: int = TRACED) -> list[tuple[Launch, ...]]:
    """What some passes run on the GPU, by PyTorch's profiler."""
    from torch.profiler import ProfilerActivity, profile, record_function

    cuda = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with profile(activities=activities, acc_events=True) as seen:
        go()
        for _ in range(passes):
            with record_function(RANGE + ITERATION):
                go()
                _wait(torch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    return launches(events)


def watched(asked: Row, out: Path) -> Row:
    """Run everything once where the profiler sees it: mark, gate, mark, gate, mark, run, …"""
    torch = torch_module()
    before = out.with_name(MEASURED)
    seen = json.loads(before.read_text()) if before.exists() else {"rows": []}
    # What measuring did not need is given to the counters.
    left = max(0.0, asked["measure_s"] - seen["took_s"]) if "took_s" in seen else 0.0
    end = time.monotonic() + asked["profile_s"] + left
    _gates(torch)
    missing = {at: row["failed"] for at, row in enumerate(seen["rows"]) if row["failed"]}
    rows: list[ProfiledRun] = []
    with _cache(asked["cache"]):
        for at, run in enumerate(map(_run, asked["runs"])):
            if time.monotonic() > end or at in missing:
                rows.append(ProfiledRun(at, missing.get(at, LATE)))
                continue
            try:
                one = build(torch, run, DEVICE)
                one.go()
                one.go()
                _wait(torch)
                watch(torch, [one.go])
                rows.append(ProfiledRun(at))
            except Exception as error:  # one run's failure is its own row, not the others'
                rows.append(ProfiledRun(at, failure(error)))
            finally:
                one = None  # type: ignore[assignment]
                forget(torch)
    return {"rows": [asdict(row) for row in rows]}


def stream(torch: Any) -> Callable[[], Any]:
    """x + 1, whose bytes are known: a gate for counters."""
    source = torch.randn(STREAM_WORDS, device="cuda").half()
    target = torch.empty_like(source)
    return lambda: torch.add(source, 1, out=target)


def _gates(torch: Any) -> None:
    a, b = (torch.randn(PRODUCT_N, PRODUCT_N, device="cuda").half() for _ in range(2))
    passes: list[Callable[[], Any]] = [stream(torch), lambda: a @ b]
    for go in passes:
        go()
        torch.cuda.synchronize()
        watch(torch, [go])


def _wait(torch: Any) -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def forget(torch: Any) -> None:
    """Give back memory, and what the compiler holds of modules."""
    import gc

    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def _cache(name: str) -> Iterator[None]:
    """Compiled kernels go to a folder of their own: the compiler must see each once."""
    folder = Path(tempfile.gettempdir()) / Path(name).name
    before = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TORCHINDUCTOR_CACHE_DIR"]
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = before
