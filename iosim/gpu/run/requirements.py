"""What a machine must have before anything runs on its GPU; looked for without importing PyTorch.

Each function returns what is missing and how to get it, in one line, or "".
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from iosim.gpu.targets import Installation

SETUP = "run on a machine with an NVIDIA GPU and PyTorch, or replay saved reports"
REPLAY = f"{SETUP} (iosim gpu replay)"
NO_TORCH = f"PyTorch is not installed (pip install torch): {REPLAY}"
NO_TRITON = f"Triton is not installed (pip install triton): {REPLAY}"
NO_DEVICE = f"no CUDA device: {REPLAY}"
FORBIDDEN = (
    "the driver lets only administrators read hardware counters (ERR_NVGPUCTRPERM): run as root, "
    "or load the nvidia module with NVreg_RestrictProfilingToAdminUsers=0; in-kernel counts and "
    "timings need no permission, and saved reports replay anywhere"
)
NO_NCU = (
    "ncu (Nsight Compute) is not on the PATH, so there are no hardware counters: install "
    "nsight-compute, or add its folder to PATH; in-kernel counts and timings come without it"
)

# What the driver says of itself, and the capabilities of Linux that let a process read counters.
PARAMETERS = Path("/proc/driver/nvidia/params")
STATUS = Path("/proc/self/status")
_ADMIN, _PERFMON = 21, 38
# The compute capability's two numbers, among the attributes that cuda.h numbers.
_MAJOR, _MINOR = 75, 76


def no_gpu() -> str:
    """Why no kernel can run here.

    >>> no_gpu() == "" or "iosim gpu replay" in no_gpu()
    True
    """
    if importlib.util.find_spec("torch") is None:
        return NO_TORCH
    if importlib.util.find_spec("triton") is None:
        return NO_TRITON
    return "" if devices() else NO_DEVICE


def no_counters() -> str:
    """Why no hardware counters can be read here.

    What the driver forbids is known from its own parameters, where the system shows them; elsewhere
    `ncu` says it when it runs.

    >>> "ERR_NVGPUCTRPERM" in FORBIDDEN
    True
    """
    if shutil.which("ncu") is None:
        return NO_NCU
    return FORBIDDEN if forbidden() else ""


def devices() -> int:
    """GPUs that the driver shows this process, by its own library."""
    cuda = _library()
    found = ctypes.c_int(0)
    if cuda is None or cuda.cuDeviceGetCount(ctypes.byref(found)):
        return 0
    return found.value


def machine() -> Installation:
    """The first GPU and Triton's version, as far as the driver and the installation tell them.

    >>> machine().capability is None or machine().device != ""
    True
    """
    triton = ""
    for package in ("triton", "pytorch-triton"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            triton = triton or importlib.metadata.version(package)
    cuda = _library()
    device, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
    major, minor = ctypes.c_int(0), ctypes.c_int(0)
    if (
        cuda is None
        or cuda.cuDeviceGet(ctypes.byref(device), 0)
        or cuda.cuDeviceGetName(name, len(name), device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
        or cuda.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    ):
        return Installation(triton=triton)
    return Installation(name.value.decode(errors="replace"), (major.value, minor.value), triton)


def driver_version() -> str:
    """The driver's version; ``unknown`` where nothing says it."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    lines = done.stdout.split() if done.returncode == 0 else []
    return next(iter(lines), "unknown")  # a line for each GPU


def _library() -> Any:
    """The driver's library, ready for questions; None if there is none."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        cuda = ctypes.CDLL(name)
    except OSError:
        return None
    return None if cuda.cuInit(0) else cuda


def forbidden() -> bool:
    """Whether the driver keeps counters for administrators, and this process is none."""
    try:
        told = dict(
            line.split(": ", 1) for line in PARAMETERS.read_text().splitlines() if ": " in line
        )
        held = next(x for x in STATUS.read_text().splitlines() if x.startswith("CapEff:"))
        able = int(held.split()[1], 16)
    except (OSError, ValueError, StopIteration, IndexError):
        return False
    if told.get("RmProfilingAdminOnly") != "1" or os.name != "posix":
        return False
    return not able & (1 << _ADMIN | 1 << _PERFMON)
