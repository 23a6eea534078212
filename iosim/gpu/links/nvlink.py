"""Bytes on a GPU's NVLinks, from NVML's counters: of data, and with the protocol's own.

`rank` reads them, for ``iosim gpu devices``.  A counter is a line of `FIELDS`, a field of
`LinkBytes` in the same order, and one with a default in `MeasuredLinks`
(`iosim.gpu.reports.devices`), which refuses unknown keys.  ``tests/gpu/test_gpu_links.py`` compares
names and layout; only a run on several GPUs tests values.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

# Fields of nvml.h; scope all ones means all links of the device; values in KiB.
FIELDS = {"data_sent": 138, "data_received": 139, "raw_sent": 140, "raw_received": 141}
_EVERY_LINK = 0xFFFFFFFF


class _Field(ctypes.Structure):
    """``nvmlFieldValue_t``."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    )


@dataclass(frozen=True)
class LinkBytes:
    """Bytes that a GPU sent and received since some time, over all its NVLinks.

    >>> LinkBytes(2048, 1024, 2300, 1200) - LinkBytes(1024, 1024, 1100, 1100)
    LinkBytes(data_sent=1024, data_received=0, raw_sent=1200, raw_received=100)
    """

    data_sent: int
    data_received: int
    raw_sent: int
    raw_received: int

    def __sub__(self, other: LinkBytes) -> LinkBytes:
        return LinkBytes(*(getattr(self, x) - getattr(other, x) for x in FIELDS))


class LinkCounters:
    """The counters of one GPU; `why` says what is missing where there are none."""

    def __init__(self, uuid: str, index: int) -> None:
        self.why, self._device, self._nvml = "", ctypes.c_void_p(), None
        try:
            nvml: Any = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self.why = "libnvidia-ml.so.1 is not there"
            return
        nvml.nvmlInit_v2()
        names = [f"GPU-{uuid}".encode(), uuid.encode()]
        found = any(
            nvml.nvmlDeviceGetHandleByUUID(name, ctypes.byref(self._device)) == 0 for name in names
        )
        if not found and nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(self._device)):
            self.why = f"NVML knows no GPU {index}"
            return
        self._nvml = nvml
        if self.read() is None:
            self.why = self.why or "the GPU has no NVLink counters"

    def read(self) -> LinkBytes | None:
        """Bytes until now, or None where there is no counter."""
        if self._nvml is None:
            return None
        fields = (_Field * len(FIELDS))()
        for one, number in zip(fields, FIELDS.values(), strict=True):
            one.field, one.scope = number, _EVERY_LINK
        status = self._nvml.nvmlDeviceGetFieldValues(self._device, len(FIELDS), fields)
        if status or any(one.status for one in fields):
            self.why = f"NVML answers {status} {[one.status for one in fields]}"
            return None
        return LinkBytes(*(one.value * 1024 for one in fields))
