"""PyTorch's trace of a run → which operator launched each kernel, and how long it took.

Kineto writes a trace of events (`torch.profiler.profile.export_chrome_trace`).  A kernel and the
call that launched it share a correlation id, and that call lies within the ranges of its thread:
those that the layer's steps open (`LayerStep` in `gpu/layers/modules.py`), and PyTorch's own, one
for each of its operators.  In the backward pass there are no steps; there autograd's range of a
node has the sequence number of the operator that made the node in the forward pass, and that
operator is within a step's range.  So every kernel is mapped by who launched it, and none by its
name.

`tasks` calls `launches` and `typical` where a layer was run; `record`, `groups`, `rows` and
`launch_counters` read what they give.

Changing this file: `RANGE` must be what ``gpu/layers/modules.py`` has, and the fields of `Launch`
are columns of records, so both stay.  Records keep no trace, only what was found in one, so
``tests/gpu/test_gpu_layers.py`` has events by hand, and reads the committed records.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iosim.base.rows import Values

RANGE = "iosim: "  # what names of ranges begin with
ITERATION = "iteration"  # the range of one run
AUTOGRAD = "autograd::engine::evaluate_function: "
GRADIENT_SUM = "gradient sum"  # what autograd adds where a tensor has several readers
_ON_GPU = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "set"}


@dataclass(frozen=True)
class Launch:
    """Something that ran on the GPU.

    Attributes:
        kernel: its name, or its place in a record's names.
        time_s: its duration.
        kind: ``kernel``, or ``copy`` or ``set`` for the driver's own.
        step: the range of the layer's step that launched it, or whose backward pass it is; empty
            where there is none.
        backward: whether autograd's backward pass launched it.
        op: the innermost operator of PyTorch that it is in.
        outer: the outermost operator of PyTorch that it is in.
        call: a number for each call of such a one, in order from 1.
    """

    kernel: int | str
    time_s: float
    kind: str = "kernel"
    step: str = ""
    backward: bool = False
    op: str = ""
    call: int = 0
    outer: str = ""


@dataclass(frozen=True)
class _Span:
    """A range of one thread, in the trace's own microseconds."""

    name: str
    start: float
    end: float
    thread: Any
    sequence: int | None
    said: bool  # by record_function


def launches(events: Iterable[Values]) -> list[tuple[Launch, ...]]:
    """What ran on the GPU, one tuple for each range of an iteration, in the order of launches.

    >>> def event(cat, name, ts, dur, thread=1, **args):
    ...     return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 1,
    ...             "tid": thread, "args": args}
    >>> found = launches([
    ...     event("user_annotation", "iosim: iteration", 0, 100),
    ...     event("user_annotation", "iosim: scores", 10, 20),
    ...     event("cpu_op", "aten::bmm", 11, 10, **{"Sequence number": 7}),
    ...     event("cuda_runtime", "cudaLaunchKernel", 12, 2, correlation=5),
    ...     event("cpu_op", AUTOGRAD + "BmmBackward0", 50, 20, 2, **{"Sequence number": 7}),
    ...     event("cpu_op", "BmmBackward0", 51, 15, 2, **{"Sequence number": 7}),
    ...     event("cpu_op", "aten::bmm", 52, 10, 2),
    ...     event("cuda_runtime", "cudaLaunchKernel", 53, 2, 2, correlation=6),
    ...     event("kernel", "gemm", 30, 4, 7, correlation=5),
    ...     event("kernel", "gemm", 60, 8, 7, correlation=6)])
    >>> [(x.step, x.backward, x.op, round(x.time_s * 1e6)) for x in found[0]]
    [('scores', False, 'aten::bmm', 4), ('scores', True, 'aten::bmm', 8)]
    """
    whole = [e for e in events if e.get("ph") == "X"]
    spans = [_span(e) for e in whole if e.get("cat") in ("cpu_op", "user_annotation")]
    iterations = sorted(
        (s for s in spans if s.said and s.name == RANGE + ITERATION), key=lambda s: s.start
    )
    calls = {
        e["args"]["correlation"]: e
        for e in whole
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e.get("args", {})
    }
    gpu = [e for e in whole if e.get("cat") in _ON_GPU]
    of = {id(e): calls.get(e.get("args", {}).get("correlation")) for e in gpu}
    called = sorted((e for e in gpu if of[id(e)] is not None), key=lambda e: (of[id(e)] or e)["ts"])
    around = _around([(of[id(e)] or e) for e in called], spans)
    makers = _makers(spans)
    found: list[list[Launch]] = [[] for _ in iterations]
    for event, inside in zip(called, around, strict=True):
        at = (of[id(event)] or event)["ts"]
        for k, iteration in enumerate(iterations):
            if iteration.start <= at < iteration.end:
                found[k].append(_launch(event, inside, makers))
    return [_number_calls(one) for one in found]


def typical(runs: Sequence[Sequence[Launch]]) -> tuple[Launch, ...]:
    """The launches of most runs, with the median of their times.

    Runs that launched something else are left out; of several ways to run, the most frequent.
    """
    if not runs:
        return ()
    usual = Counter(tuple(x.kernel for x in run) for run in runs).most_common(1)[0][0]
    same = [run for run in runs if tuple(x.kernel for x in run) == usual]
    return tuple(
        replace(each[0], time_s=statistics.median(x.time_s for x in each))
        for each in zip(*same, strict=True)
    )


def _span(event: Values) -> _Span:
    args = event.get("args", {})
    sequence = args.get("Sequence number")
    return _Span(
        str(event["name"]),
        float(event["ts"]),
        float(event["ts"]) + float(event.get("dur", 0)),
        (event.get("pid"), event.get("tid")),
        sequence if isinstance(sequence, int) else None,
        event["cat"] == "user_annotation",
    )


def _around(calls: Sequence[Values], spans: Sequence[_Span]) -> list[list[_Span]]:
    """The spans that each call is in, the outermost first."""
    by_thread: dict[Any, list[_Span]] = {}
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        by_thread.setdefault(span.thread, []).append(span)
    found: list[list[_Span]] = [[] for _ in calls]
    for thread, own in by_thread.items():
        mine = [
            (float(c["ts"]), k)
            for k, c in enumerate(calls)
            if (c.get("pid"), c.get("tid")) == thread
        ]
        stack: list[_Span] = []
        at = 0
        for ts, k in sorted(mine):
            while at < len(own) and own[at].start <= ts:
                stack = [s for s in stack if s.end > own[at].start]
                stack.append(own[at])
                at += 1
            stack = [s for s in stack if s.end > ts]
            found[k] = list(stack)
    return found


def _makers(spans: Sequence[_Span]) -> dict[int, str]:
    """Sequence number → the step in which the operator that took it was called.

    Operators that make no node carry the number, too, and come before the one that takes it.
    """
    steps = [s for s in spans if s.said and s.name.startswith(RANGE)]
    steps = [s for s in steps if s.name != RANGE + ITERATION]
    backward = [s for s in spans if s.name.startswith(AUTOGRAD)]
    found: dict[int, tuple[float, str]] = {}
    numbered = [s for s in spans if s.sequence is not None and not s.said and s not in backward]
    inside = _around(
        [{"ts": s.start, "pid": s.thread[0], "tid": s.thread[1]} for s in numbered],
        [*steps, *backward],
    )
    for span, around in zip(numbered, inside, strict=True):
        if any(s.name.startswith(AUTOGRAD) for s in around):
            continue
        step = around[-1].name.removeprefix(RANGE) if around else ""
        number = span.sequence or 0
        if number not in found or found[number][0] <= span.start:
            found[number] = (span.start, step)
    return {number: step for number, (_, step) in found.items()}


def _launch(event: Values, inside: list[_Span], makers: Mapping[int, str]) -> Launch:
    said = [s for s in inside if s.said and s.name.startswith(RANGE)]
    node = next((s for s in inside if s.name.startswith(AUTOGRAD)), None)
    ops = [s for s in inside if not s.said]
    step = said[-1].name.removeprefix(RANGE) if said else ""
    if step == ITERATION:
        step = ""
    if node is not None:
        named = node.name.removeprefix(AUTOGRAD)
        within = [s for s in ops if s.start >= node.start and s is not node]
        step = makers.get(node.sequence, "") if node.sequence is not None else ""
        if within and not any(s.name == named for s in within):
            step = GRADIENT_SUM
        ops = [s for s in within if s.name != named]
    # Around those of a compiled run are ranges of the compiler's own.
    outer = next((s for s in ops if s.name.startswith("aten::")), ops[-1] if ops else None)
    return Launch(
        str(event["name"]),
        float(event.get("dur", 0)) / 1e6,
        _ON_GPU[event["cat"]],
        step,
        node is not None,
        ops[-1].name if ops else "",
        0 if outer is None else hash((outer.thread, outer.start, outer.name)),
        outer.name if outer else "",
    )


def _number_calls(found: Sequence[Launch]) -> tuple[Launch, ...]:
    """Calls numbered from 1 in their order; 0 is not a call."""
    order = {0: 0}
    for x in found:
        order.setdefault(x.call, len(order))
    return tuple(replace(x, call=order[x.call]) for x in found)
