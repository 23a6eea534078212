"""Faults that the tests find: each is planted in a copy of the code, and its tests have to fail.

    python tests/mutants.py                        plant every fault of mutants.csv
    python tests/mutants.py --wing iosim/cache     those of one wing
    python tests/mutants.py --draw 30 --seed 2     draw faults in each folder, keep those that die

A fault is one operator, comparison, number or condition of a line that is changed.  The list holds
faults that tests found when they were drawn; one that lives means that tests have lost power.  A
line that is not in its file any more is named, and counts as a fault that lives: draw others.
The same tests have to pass without a fault first.  Exit code 0 where every fault is found, 1 where
one lives, 2 where there is nothing to plant or tests fail without a fault.
"""

from __future__ import annotations

import argparse
import ast
import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from queue import Queue
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[1]
LIST = Path(__file__).with_name("mutants.csv")
LIMIT_S = 300

# Which tests answer for a folder; the first that fails ends a run, so quick ones come first.
TESTS = {
    "iosim/base": "reading tables renamed printed targets",
    "iosim/bounds": "bounds parts unified_bound backward_bounds option_bounds stationary",
    "iosim/cache": "cache_streams cache_replay cache_closed cache_curves cache_tiles cache_parts",
    "iosim/cli": "cli compare numbers cache_cli gpu_cli",
    "iosim/core/counting": "sums columns agreement",
    "iosim/core/machine": "machine iterations agreement",
    "iosim/core/problem": "problem within attention_options paged",
    "iosim/core/program": "program check iterations stacks dependent agreement",
    "iosim/core/tiling": "tiling small_tiles tiling_spans masked_tiles",
    "iosim/devices": "devices_by_hand devices",
    "iosim/gpu": "gpu_emit gpu_blocks gpu_l2 gpu_boxes profile_reading profile gpu_records",
    "iosim/kernel": "findings distance stream reductions refused kernel_formulas corpus",
    "iosim/lab": "lab_watch lab_slope lab_pebbles lab_exercises lab_wall",
    "iosim/models/fusion": "fusion_words fusion_best fusion_attention",
    "iosim/models/layers": "layers own_models graph_files",
    "iosim/models/operators": "operators gradients",
    "iosim/models/roofline": "roofline roofline_words",
    "iosim/pebbling": "pebbling pebbling_bounds pebbling_search pebbling_variants pebbling_weights",
    "iosim/report": "exponents verify tightness step",
    "iosim/sweep": "sweep sweep_query",
}
SWAPPED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "+",
    ast.FloorDiv: "*",
    ast.And: "or",
    ast.Or: "and",
}


@dataclass(frozen=True)
class Fault:
    """A line of a file, what becomes of it, the tests that find it, and what the last run said.

    Attributes:
        tests: files, as ``cli`` for ``test_cli.py``.
        found_by: the test that failed, as its file and name; ``time`` where tests didn't end.
    """

    file: str
    before: str
    after: str
    tests: str
    found_by: str = ""

    @property
    def wing(self) -> str:
        """The wing of the package that it is in."""
        return "/".join(self.file.split("/")[:2])


def draw_faults(folder: str, seed: int) -> Iterator[Fault]:
    """Faults of a folder, in a random order."""
    found = [
        Fault(str(path.relative_to(ROOT)), before, after, TESTS[folder])
        for path in sorted((ROOT / folder).rglob("*.py"))
        for before, after in change_lines(path.read_text(encoding="utf-8"))
    ]
    random.Random(f"{seed} {folder}").shuffle(found)
    return iter(found)


def change_lines(text: str) -> Iterator[tuple[str, str]]:
    """Lines that are once in a text, each with what a fault makes of it."""
    lines = text.split("\n")
    once = {x for x in lines if lines.count(x) == 1}
    for node in ast.walk(ast.parse(text)):
        for first, last, new in edits(node):
            if first[0] == last[0] and lines[first[0] - 1] in once:
                line = lines[first[0] - 1].encode()
                after = (line[: first[1]] + new.encode() + line[last[1] :]).decode()
                yield line.decode(), after


def edits(node: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """Where a node's text is changed, and what it becomes."""
    pairs: list[tuple[ast.expr, ast.AST, ast.expr]] = []
    if isinstance(node, ast.Compare):
        left = [node.left, *node.comparators]
        pairs = list(zip(left, node.ops, node.comparators, strict=False))
    elif isinstance(node, ast.BinOp):
        pairs = [(node.left, node.op, node.right)]
    elif isinstance(node, ast.BoolOp):
        pairs = [(a, node.op, b) for a, b in zip(node.values, node.values[1:], strict=False)]
    for a, op, b in pairs:
        if type(op) in SWAPPED and not any(
            isinstance(x, ast.BinOp | ast.JoinedStr) for x in (a, b)
        ):
            space = (a.end_lineno or 0, a.end_col_offset or 0)
            yield space, (b.lineno, b.col_offset), f" {SWAPPED[type(op)]} "
    if isinstance(node, ast.Constant) and type(node.value) is int:
        end = (node.end_lineno or 0, node.end_col_offset or 0)
        yield (node.lineno, node.col_offset), end, str(node.value + 1)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name | ast.Call | ast.Attribute):
        test = node.test
        end = (test.end_lineno or 0, test.end_col_offset or 0)
        yield (test.lineno, test.col_offset), end, f"not {ast.unparse(test)}"


def copy_tree(to: Path) -> Path:
    """A copy of what git tracks."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in names.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, to / name)
    return to


def plant(fault: Fault, copy: Path) -> Fault:
    """The fault with what found it: a test, ``time``, or nothing."""
    path = copy / fault.file
    text = (ROOT / fault.file).read_text(encoding="utf-8") if (ROOT / fault.file).exists() else ""
    if text.split("\n").count(fault.before) != 1:
        return replace(fault, found_by="")
    path.write_text(text.replace(fault.before, fault.after), encoding="utf-8")
    stamp = time.time_ns()
    os.utime(path, ns=(stamp, stamp - random.randrange(10**9) * 10**9))  # no stale bytecode
    try:
        return replace(fault, found_by=failing_test(fault, copy))
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(stamp, stamp - random.randrange(10**9) * 10**9))


def failing_test(fault: Fault, copy: Path) -> str:
    """The first test of a fault that fails in a copy; ``time`` where tests don't end."""
    command = [sys.executable, "-m", "pytest", "-xq", "-n0", "-p", "no:cacheprovider", "--tb=no"]
    environment = os.environ | {"PYTHONPATH": f"{copy}:{copy / 'tests'}", "ROCQ": "later"}
    command.append(f"--basetemp={copy.parent / (copy.name + '-tmp')}")  # runs clean up each other's
    files = [f"test_{x}.py" for x in fault.tests.split()]
    known = [fault.found_by] if fault.found_by.startswith("test_") else []
    for names in (known, files):
        paths = [find_test(copy, x) for x in names]
        if not paths:
            continue
        try:
            done = subprocess.run(
                [*command, *paths],
                cwd=copy,
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return "time"
        failed = [x for x in done.stdout.splitlines() if x.startswith(("FAILED ", "ERROR "))]
        if failed:
            path, colons, test = failed[0].split(" ", 1)[1].partition(" - ")[0].partition("::")
            return f"{Path(path).name}{colons}{test}"
        if done.returncode not in (0, 4, 5):
            return files[0]
    return ""


def find_test(copy: Path, name: str) -> str:
    """The path of a test from its file's name, with the test's own name behind it."""
    file, colons, test = name.partition("::")
    path = next(iter(sorted((copy / "tests").rglob(file))), copy / "tests" / file)
    return f"{path.relative_to(copy)}{colons}{test}"


def read_faults() -> list[Fault]:
    """The list, where there is one."""
    if not LIST.exists():
        return []
    with LIST.open(newline="", encoding="utf-8") as file:
        return [Fault(**row) for row in csv.DictReader(file)]


def write_faults(faults: list[Fault]) -> None:
    """Write the list, sorted."""
    with LIST.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [x.name for x in fields(Fault)], lineterminator="\n")
        table.writeheader()
        table.writerows(map(asdict, sorted(faults, key=lambda x: (x.file, x.before))))


def choose_faults(wing: str, draw: int, seed: int, known: list[Fault]) -> list[Fault]:
    """Faults of the list, or new ones where some are to be drawn in each folder."""
    if not draw:
        return [x for x in known if x.file.startswith(wing)]
    drawn = [
        fault
        for folder in TESTS
        if folder.startswith(wing)
        for fault in islice(draw_faults(folder, seed), draw)
    ]
    there = {(x.file, x.before) for x in known}
    return [x for x in drawn if (x.file, x.before) not in there]


def main() -> int:
    """Plant the faults that are asked for; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wing", default="", help="faults in files whose path begins so")
    parser.add_argument("--draw", type=int, default=0, help="faults to draw in each folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    known = read_faults()
    faults = choose_faults(asked.wing, asked.draw, asked.seed, known)
    if not faults:
        print(f"no faults in {LIST.name} for {asked.wing or 'any wing'}: draw some, --draw 10")
        return 2
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.workers) as pool:
        copies: Queue[Path] = Queue()
        for k in range(asked.workers):
            copies.put(copy_tree(Path(folder, str(k))))

        def in_a_copy(task: Callable[[Fault, Path], T], fault: Fault) -> T:
            copy = copies.get()
            try:
                return task(fault, copy)
            finally:
                copies.put(copy)

        # Without a fault tests pass, or what fails would be taken for a finding.
        clean = [Fault("", "", "", x) for x in dict.fromkeys(x.tests for x in faults)]
        for failed in pool.map(partial(in_a_copy, failing_test), clean):
            if failed:
                print(f"{failed} fails without a fault: fix it first")
                return 2
        done: list[Fault] = []
        for number, fault in enumerate(pool.map(partial(in_a_copy, plant), faults), 1):
            done.append(fault)
            says = fault.found_by or "LIVES"
            print(f"{number}/{len(faults)} {says}: {fault.file}: {fault.after.strip()}", flush=True)
            if asked.draw:
                write_faults([*known, *(x for x in done if x.found_by)])
    lives = [x for x in done if not x.found_by]
    print(f"{len(done) - len(lives)} of {len(done)} faults found")
    return 0 if asked.draw or not lives else 1


if __name__ == "__main__":
    sys.exit(main())
