"""Record what hardware counters say of the corpus of kernels, for the test that replays it.

    python -m experiments.record_kernels OUT

runs every case under ``ncu`` on the GPU of this machine.  It writes ``OUT/measured.json``, and the
PTX that ran into ``OUT/ptx.json.xz``.  It needs PyTorch, Triton and Nsight Compute.  Bytes cross
SM↔L2, as the crossbar counts them.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import lzma
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

CORPUS = Path("tests/kernel/corpus")
SOFTMAX = Path("docs/examples/softmax.py")
COUNTERS = {
    "read_bytes": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "write_bytes": "l1tex__m_l1tex2xbar_write_bytes.sum",
    # Sectors of loads that instructions ask L1 for, warp by warp, and those that it has.
    "asked_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "hit_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
}
SEEDS = 2
DESCRIBED_SEEDS = 6
Case = tuple[str, Any, tuple[int, ...], dict[str, Any]]


def load_module(file: Path) -> ModuleType:
    """A file of kernels, imported."""
    sys.path.append(str(CORPUS.parent))  # the corpus imports from there
    try:
        importlib.import_module("interpreted")
    except ImportError:  # where packages are missing, its kernels of tensors by address are, too
        stub = ModuleType("interpreted")
        stub.Addresses = lambda *_: None  # type: ignore[attr-defined]
        vars(stub)["Described"] = namedtuple("Described", ("array", "block"))
        sys.modules["interpreted"] = stub
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def list_cases() -> Iterator[Case]:
    """Name, kernel, grid and arguments: large launches, then the corpus at small ragged sizes."""
    yield from _products()
    yield from _attentions()
    softmax = load_module(SOFTMAX).softmax
    for rows, columns in ((4096, 1024), (1000, 1000), (333, 777)):
        x = np.ones((rows, columns), "f4")
        sizes = {"y": np.zeros_like(x), "x": x, "columns": columns, "BLOCK": 256}
        yield f"softmax {rows} x {columns}", softmax, (rows,), sizes
    for file in sorted(CORPUS.glob("*.py")):
        if file.stem != "descriptors":
            yield from _corpus(file, SEEDS)


def list_described() -> Iterator[Case]:
    """Kernels with tensor descriptors, whose bulk copies (TMA) move boxes."""
    yield from _corpus(CORPUS / "descriptors.py", DESCRIBED_SEEDS)


def _corpus(file: Path, seeds: int) -> Iterator[Case]:
    module = load_module(file)
    for name in [n.removeprefix("launch_") for n in vars(module) if n.startswith("launch_")]:
        for seed in range(seeds):
            random = np.random.default_rng([seed, len(name)])
            grid, arguments = getattr(module, f"launch_{name}")(random)
            yield f"{file.stem} {name} {seed}", getattr(module, name), grid, arguments


def _products() -> Iterator[Case]:
    kernel = load_module(CORPUS / "matmul.py").matmul
    for m, n, k in ((1024, 1024, 1024), (2048, 512, 1024)):
        sizes = {"M": m, "N": n, "K": k, "am": k, "ak": 1, "bk": n, "bn": 1, "cm": n, "cn": 1}
        tensors = {"a": np.ones((m, k), "f2"), "b": np.ones((k, n), "f2")}
        tiles = {"BM": 128, "BN": 128, "BK": 64}
        given = tensors | {"c": np.zeros((m, n), "f4")} | sizes | tiles
        yield f"product {m} x {n} x {k}", kernel, (-(-m // 128), -(-n // 128)), given


def _attentions() -> Iterator[Case]:
    kernel = load_module(CORPUS / "attention.py").attention
    for n, d in ((1024, 64), (1000, 64), (1024, 128)):
        for causal in (False, True):
            q, k, v = np.ones((3, 4, n, d), "f2")
            out = {"o": np.zeros_like(q), "lse": np.zeros((4, n), "f4")}
            sizes = {"N": n, "M": n, "scale": 0.1, "CAUSAL": causal, "D": d, "BM": 64, "BN": 32}
            given = {"q": q, "k": k, "v": v} | out | sizes
            mask = "causal" if causal else "dense"
            yield f"attention {n} x {d} {mask}", kernel, (-(-n // 64), 4), given


def run_cases(cases: Iterable[Case]) -> dict[str, str]:
    """Launch every case; its name is a range that the profiler reads.  Name → its PTX."""
    import torch
    import triton

    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8, device="cuda"))
    ptx = {}
    for name, kernel, grid, arguments in cases:
        try:
            given = {k: _to_device(x) for k, x in arguments.items()}
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_push(name)
            made = kernel[grid](**given)
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            ptx[name] = _strip_ptx(made.asm["ptx"])
        except Exception as error:  # whatever a kernel's project or Triton raises
            print(f"{name} is left out: {error}".splitlines()[0], file=sys.stderr)
    return ptx


def _to_device(value: Any) -> Any:
    """An argument as a GPU takes it."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(value)).cuda()
    if hasattr(value, "block"):
        return TensorDescriptor.from_tensor(_to_device(value.array), list(value.block))
    return value


def _strip_ptx(text: str) -> str:
    """PTX without comments, and without what a debugger reads."""
    lines = (line.split("//")[0].strip() for line in text.split("\t.section")[0].splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(".file"))


def read_ptx(file: Path) -> dict[str, str]:
    """Launch → its PTX, of a record."""
    found: dict[str, str] = json.loads(lzma.decompress(file.read_bytes()))
    return found


def read_counters(text: str, counters: Mapping[str, str] = COUNTERS) -> dict[str, dict[str, int]]:
    """Range → counters, from the profiler's CSV; of several launches in a range the last one."""
    rows = list(csv.DictReader(line for line in text.splitlines() if line.startswith('"')))
    found = {}
    for row in rows[1:]:
        name, _, kernel = row["Kernel Name"].rpartition("/")
        if name and not kernel.startswith("void"):
            found[name] = {
                key: int(row[metric].replace(",", "")) for key, metric in counters.items()
            }
    return found


def record_counters(run: list[str], out: Path, counters: Mapping[str, str] = COUNTERS) -> None:
    """Run a module that runs cases under the profiler, and write the record."""
    import torch
    import triton

    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw"]
    command += ["--nvtx", "--print-nvtx-rename", "kernel"]
    metrics = ["--metrics", ",".join(counters.values()), "--log-file", str(out / "ncu.csv")]
    subprocess.run([*command, *metrics, sys.executable, "-m", *run], check=True)
    record = {
        "gpu": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "launches": read_counters((out / "ncu.csv").read_text(), counters),
    }
    (out / "measured.json").write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        text = json.dumps(run_cases([*list_cases(), *list_described()]))
        packed = lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)
        (Path(sys.argv[2]) / "ptx.json.xz").write_bytes(packed)
    else:
        record_counters(["experiments.record_kernels", "--run", sys.argv[1]], Path(sys.argv[1]))
