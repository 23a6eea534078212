"""What a machine is: its peaks, its memories, the speeds between them, and each number's source.

Two boundaries have words.  SM↔L2 is between a core's own memory (`sram_bytes`) and the caches
that cores share (`l2_bytes_per_s`); L2↔DRAM is between the last cache of the chip (`cache_bytes`)
and its DRAM (`dram_bytes_per_s`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from iosim.base.dtypes import WORD_BYTES, word_bytes
from iosim.base.errors import InputError, closest
from iosim.base.rows import Row

# No number of a machine is as large: what is, is a typing error.
MOST = 1e30
# The dtypes that a peak may be of.  TF32 has words of 4 bytes in memory.
DTYPES = (*WORD_BYTES, "tf32")
# No vendor prints it; where no source is given, a model takes what an A100 needs.
LAUNCH_S = 2.6e-6
ASSUMED = (
    "assumption: as measured on an A100 (github.com/te42kyfo/gpu-benches at 1c36d50, "
    "gpu-small-kernels); no vendor prints it, and a host that can't keep the queue filled takes "
    "longer"
)
NO_SOURCE = "no source"
# What one byte, and so on, is called; of the units that tell a size exactly, the shortest is taken.
_UNITS = {"GB": 10**9, "GiB": 2**30, "MB": 10**6, "MiB": 2**20, "kB": 10**3, "KiB": 2**10, "B": 1}


def _number(
    unit: str, says: str, whole: bool = False, needed: bool = False, default: Any = None
) -> Any:
    """A field that is a number, and what is known of it."""
    known = {"unit": unit, "says": says, "whole": whole, "needed": needed}
    return field(default=default, metadata=known)


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """One device.

    A number is None where no source gives it.  Peaks are dense (without sparsity), and the best
    that the device has for inputs of that dtype, on matrix units where it has them.

    Attributes:
        name: the registry's key, or the stem of a file.
        title: as the vendor calls it.
        core: what the vendor calls one core: SM, CU, TensorCore, core.
        cache: what the last cache before DRAM is called.
        cores: cores that are enabled.
        peaks: FLOP per second by dtype of the inputs.
        dram_bytes_per_s: peak bandwidth between the last cache and DRAM (L2↔DRAM).
        capacity_bytes: of DRAM, as printed, with GB = 10⁹ bytes.
        sram_bytes: what one block can hold of one core's own memory: the M of SM↔L2.  On a GPU
            the largest part of L1 that can be shared memory (CUDA keeps 1 KiB of it for each thread
            block, from the A100 on; that is not taken off), on a CPU the core's own L2.
        register_bytes: the register file of a core.
        cache_bytes: the last cache of the chip before DRAM: the M of L2↔DRAM.
        l2_bytes_per_s: between all cores and the first cache that they share (SM↔L2).
        link_bytes_per_s: to other devices, all links and both directions together, as vendors
            print it: one direction has half.
        launch_s: from one kernel to the next, in addition to their own time; may be 0.
        price_usd: list price of one device when it was new; where the vendor listed systems only,
            its share of one, as the source says.
        year: of its first shipment.
        caches: other caches by name, in bytes.
        drivers: names that a driver gives to it.
        sources: where each number is from, by field; of a peak ``peak fp16``.

    Raises InputError for a number that is none, is not positive, or is not a whole number of bytes,
    for a dtype that doesn't exist, and for a source of what has no number.

    >>> from iosim.models.hardware import machine
    >>> h100 = machine("h100")
    >>> h100.title, h100.cores, h100.dram_bytes_per_s
    ('H100 SXM5 80 GB', 132, 3350000000000)
    """

    name: str
    title: str
    core: str
    cache: str
    cores: int = _number("", "cores", True, True, MISSING)
    peaks: Mapping[str, float] = field(hash=False)
    dram_bytes_per_s: float = _number("B/s", "bandwidth, L2↔DRAM", False, True, MISSING)
    capacity_bytes: int = _number("B", "capacity of DRAM", True, True, MISSING)
    sram_bytes: int | None = _number("B", "memory of one core", True, True)
    register_bytes: int | None = _number("B", "registers of one core", True)
    cache_bytes: int | None = _number("B", "last cache of the chip", True, True)
    l2_bytes_per_s: float | None = _number("B/s", "bandwidth, SM↔L2")
    link_bytes_per_s: float | None = _number("B/s", "links to other devices, both directions")
    launch_s: float = _number("s", "launch of a kernel", default=LAUNCH_S)
    price_usd: float | None = _number("US$", "price when new")
    year: int | None = _number("", "first shipment", True)
    caches: Mapping[str, int] = field(default_factory=dict, hash=False)
    drivers: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for what, told in self._numbers().items():
            if told is not None:
                whole = what in _integer_fields() or what.startswith("cache ")
                _check(f"{what} of {self.name}", told, whole, may_be_0=what == "launch_s")
        if not self.peaks:
            raise InputError(f"{self.name} has no peak: give one, of {', '.join(DTYPES)}")
        for dtype in self.peaks:
            if dtype not in DTYPES:
                raise InputError(f"unknown dtype {dtype!r} in peaks: {closest(dtype, DTYPES)}")
        known = self._numbers()
        for what in self.sources:
            if what not in known:
                raise InputError(f"unknown number {what!r} in sources: {closest(what, known)}")
            if known[what] is None:
                raise InputError(f"sources has {what}, of which there is no number: give both")

    def _numbers(self) -> Row:
        """All numbers by the name that `sources` knows them by."""
        told: Row = {}
        for one in fields(self):
            if one.name == "peaks":
                told |= {f"peak {dtype}": x for dtype, x in self.peaks.items()}
            elif one.metadata:
                told[one.name] = getattr(self, one.name)
        return told | {f"cache {name}": x for name, x in self.caches.items()}

    def numbers(self) -> list[tuple[str, float | None, str, str]]:
        """Name, value, unit and source of every number; None and ``no source`` go together.

        >>> from iosim.models.hardware import machine
        >>> name, value, unit, source = machine("h100").numbers()[1]
        >>> name, value, unit
        ('peak fp16', 989400000000000.0, 'FLOP/s')
        """
        units = {one.name: one.metadata.get("unit", "") for one in fields(self)}

        def unit(what: str) -> str:
            return "FLOP/s" if what.startswith("peak ") else units.get(what, "B")

        return [
            (what, value, unit(what), self.source(what)) for what, value in self._numbers().items()
        ]

    def source(self, what: str) -> str:
        """Where a number is from; ``no source`` where none gives it."""
        if what == "launch_s" and what not in self.sources:
            return ASSUMED
        return self.sources.get(what, NO_SOURCE)

    def with_source(self, source: str) -> Hardware:
        """The same; numbers without a source of their own, but a launch's, are from this one."""
        known = {
            what: source
            for what, value in self._numbers().items()
            if value is not None and what != "launch_s"
        }
        return replace(self, sources={**known, **self.sources})

    def peak(self, dtype: str) -> float:
        """FLOP per second on inputs of `dtype`; InputError names the dtypes that have a peak."""
        if dtype not in self.peaks:
            has = ", ".join(self.peaks)
            raise InputError(f"{self.name} has no peak for {dtype!r}: choose one of {has} as dtype")
        return self.peaks[dtype]

    def ridge_for(self, dtype: str) -> float:
        """FLOP per byte at L2↔DRAM above which arithmetic is the limit: peak over bandwidth."""
        return self.peak(dtype) / self.dram_bytes_per_s

    def sm_words(self, dtype: str) -> int:
        """Words of `dtype` in one core's own memory: the M of one block at SM↔L2.

        InputError where its size has no source.
        """
        return self._words("sram_bytes", dtype)

    def chip_words(self, dtype: str) -> int:
        """Words of `dtype` in the last cache of the chip: the M of L2↔DRAM.

        InputError where its size has no source.
        """
        return self._words("cache_bytes", dtype)

    def lacks(self, what: str) -> str:
        """What to say where a number is needed that the machine doesn't have."""
        from iosim.models.hardware import MACHINES

        if self not in MACHINES.values():
            return f"{self.name} has no {what}: add {what} to its file"
        return (
            f"{what} of {self.name} has no source: choose another machine, or describe it in a "
            "file of your own"
        )

    def _words(self, what: str, dtype: str) -> int:
        held = getattr(self, what)
        if held is None:
            raise InputError(self.lacks(what))
        return int(held) // word_bytes(dtype)


def format_number(value: float | None, unit: str) -> str:
    """A number with its unit, exactly.

    >>> format_number(80e9, "B"), format_number(233472, "B")
    ('80 GB', '228 KiB')
    >>> format_number(3.35e12, "B/s"), format_number(None, "B")
    ('3350 GB/s', 'no source')
    """
    if value is None:
        return NO_SOURCE
    if unit == "B":
        said = {f"{value / size:.10g} {name}": size for name, size in _UNITS.items()}
        exact = [x for x, size in said.items() if float(x.split()[0]) * size == value]
        return min(exact, key=len)
    scaled = {"B/s": (1e9, "GB/s"), "FLOP/s": (1e12, "TFLOP/s"), "s": (1e-6, "µs")}
    size, name = scaled.get(unit, (1, unit))
    return f"{value / size:.10g} {name}".rstrip()


def required_fields() -> list[str]:
    """The fields without which a user's machine says too little, and `peaks`.

    >>> required_fields()
    ['cores', 'dram_bytes_per_s', 'capacity_bytes', 'sram_bytes', 'cache_bytes']
    """
    return [x.name for x in fields(Hardware) if x.metadata.get("needed")]


def _integer_fields() -> set[str]:
    return {x.name for x in fields(Hardware) if x.metadata.get("whole")}


def _check(what: str, value: Any, whole: bool, may_be_0: bool) -> None:
    """InputError unless a value is a positive number, and whole where it has to be."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < MOST:
        raise InputError(f"{what} must be a number, got {value!r}: give one, like 3.35e12")
    if value < 0 or (value == 0 and not may_be_0):
        raise InputError(f"{what} must be positive, got {value!r}: leave out what is not known")
    if whole and not float(value).is_integer():
        raise InputError(f"{what} must be whole, got {value!r}: give whole bytes or pieces")
