"""What is measured between GPUs: transfers of known size, and whole schedules."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError, closest
from iosim.base.rows import Row
from iosim.base.validate import check_size
from iosim.devices import DeviceSchedule, OnDevices, count_links, on_devices, schedule
from iosim.devices.problems import SumOver

# What NCCL does in one call → the schedule whose sizes it has; a send is of all its words.
CALLS = {
    "all-gather": "all-gather",
    "reduce-scatter": "reduce-scatter",
    "all-reduce": "all-reduce",
    "send": "all-gather",
}


@dataclass(frozen=True)
class LinkCase:
    """One thing that is measured.

    Attributes:
        schedule: a name of `iosim.devices`, or of `CALLS` with `call`.
        sizes: of its problem; of a call ``n``, the words of the whole vector.
        P: devices.
        call: whether NCCL does all of it in one call.
        causal, deal: of attention.
        pieces: into how many equal problems it is cut, so that the transfers of one overlap the
            products of another; 1 for a schedule that has its own overlap.
        cut: the size that is cut.
        protocol: of NCCL's, that it is limited to; "" for its own choice.
        graph: launched as a whole, as one CUDA graph, so that the host's time doesn't count.
        dtype: of words.
    """

    schedule: str
    sizes: dict[str, int] = field(hash=False)
    P: int = 2
    call: bool = False
    causal: bool = False
    deal: str = "contiguous"
    pieces: int = 1
    cut: str = ""
    protocol: str = ""
    graph: bool = False
    dtype: str = "fp16"

    def __post_init__(self) -> None:
        problem = self._schedule.problem
        known = [axis.name for axis in problem.axes() if axis.name != "devices"]
        known += [one.name for one in problem.options()]
        if unknown := sorted(set(self.sizes) - set(known)):
            raise InputError(f"{self.schedule} has no size {unknown[0]}: give {', '.join(known)}")
        check_size("P", self.P, 2)
        check_size("pieces", self.pieces)
        if self.pieces > 1 and self.sizes.get(self.cut, 0) % self.pieces:
            raise InputError(
                f"{self.cut} = {self.sizes[self.cut]} is not cut into {self.pieces} equal pieces: "
                "give a divisor"
            )
        if self.pieces > 1 and self.cut not in self.sizes:
            raise InputError(f"{self.cut!r} can't be cut: give one of {', '.join(self.sizes)}")
        if self.causal and "causal" not in known:
            raise InputError(f"{self.schedule} has no option causal: leave it out")
        word_bytes(self.dtype)

    @property
    def _schedule(self) -> DeviceSchedule:
        """That says how many words cross; of a call, the one that does the same."""
        if self.call and self.schedule not in CALLS:
            raise InputError(f"unknown call {self.schedule!r}: {closest(self.schedule, CALLS)}")
        return schedule(CALLS[self.schedule] if self.call else self.schedule)

    @cached_property
    def instances(self) -> tuple[OnDevices, ...]:
        """The schedule on P devices: a piece for each of `pieces`."""
        entry = self._schedule
        sizes: Row = dict(self.sizes)
        if entry.problem is SumOver:
            sizes["devices"] = self.P
        if self.causal:
            sizes["causal"] = True
        if self.pieces > 1:
            sizes[self.cut] //= self.pieces
        one = on_devices(entry.name, entry.problem(**sizes), self.P, self.deal)
        return (one,) * self.pieces

    @cached_property
    def sent_bytes(self) -> tuple[int, ...]:
        """What each device has to send, by the model."""
        if self.call and self.schedule == "send":
            words = [self.sizes["n"]] * self.P
        else:
            counts = [count_links(one) for one in self.instances]
            words = [sum(x) for x in zip(*(one.sent for one in counts), strict=True)]
        return tuple(n * word_bytes(self.dtype) for n in words)

    @property
    def text(self) -> str:
        """Its sizes and options, as text."""
        parts = [f"{x}={n}" for x, n in self.sizes.items()]
        parts += ["causal"] * self.causal
        parts += [self.deal] * (self.deal != "contiguous")
        return " ".join(parts)

    def as_dict(self) -> Row:
        """JSON data."""
        return asdict(self)


def calls(mib: tuple[int, ...], P: int, protocol: str = "") -> list[LinkCase]:
    """NCCL's calls on vectors of this many MiB in all, in fp16."""
    return [
        LinkCase(name, {"n": size * 2**19}, P, call=True, protocol=protocol)
        for name in CALLS
        for size in mib
    ]


def schedules(N: tuple[int, ...], P: int, graph: bool = False) -> list[LinkCase]:
    """Attention forward at d = 128, feed-forward layers, and gradients."""
    found = []
    for n in N:
        heads = 32 if n < 16384 else 8
        sizes = {"N": n, "d": 128, "heads": heads}
        found += [
            LinkCase("ring-attention", sizes, P),
            LinkCase("all-gather-attention", sizes, P, pieces=4, cut="heads"),
        ]
    for n in N[-2:]:
        sizes = {"N": n, "d": 128, "heads": 8}
        found += [
            LinkCase("ring-attention", sizes, P, causal=True, deal=deal)
            for deal in ("contiguous", "zigzag")
        ]
    for inner in (2048, 8192, 28672):
        sizes = {"rows": 8192, "width": 8192, "inner": inner}
        found += [
            LinkCase(name, sizes, P, pieces=4, cut="rows")
            for name in ("tensor-parallel", "tensor-sequence-parallel")
        ]
    for rows in (4096, 16384):
        sizes = {"rows": rows, "width": 8192, "out": 8192}
        found += [
            LinkCase(name, sizes, P, pieces=4, cut="out")
            for name in ("data-parallel", "data-parallel-sharded")
        ]
    return [replace(case, graph=graph) for case in found]
