"""The page's engine in node: it is built from its sources, and asked over JSON lines.

As a command it prints how fast the engine answers: ``python tests/browser/engine.py``.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import iosim
from iosim.core.program.canonical import digest
from iosim.core.program.ir import Program
from iosim.lab.programs import program_data

FRONT = Path(__file__).parents[2] / "iosim/lab/front"
Ask = Callable[[list[dict[str, Any]]], list[Any]]
_BUILD = """
import { build } from "esbuild";
await build({ entryPoints: [process.argv[2]], bundle: true, platform: "node", format: "esm",
              target: "es2022", outfile: process.argv[1], logLevel: "warning" });
"""


def build(path: Path, entry: str = "src/engine/cli.ts") -> Path:
    """Bundle a command, by default the engine's, into a file.  `npm ci` in `FRONT` comes before."""
    subprocess.run(
        ["node", "--input-type=module", "-e", _BUILD, str(path), entry],
        cwd=FRONT,
        check=True,
        timeout=60,
    )
    return path


def asker(path: Path, entry: str) -> Ask:
    """Bundles a command, and asks it questions, all at once: the answers."""
    script = build(path, entry)

    def ask(questions: list[dict[str, Any]]) -> list[Any]:
        done = subprocess.run(
            ["node", script], input=json.dumps(questions), capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        found: list[Any] = json.loads(done.stdout)
        assert len(found) == len(questions)
        return found

    return ask


class Node:
    """A process of node that answers lines of JSON."""

    def __init__(self, bundle: Path) -> None:
        self._process = subprocess.Popen(
            ["node", str(bundle)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, *lines: Any, answers: int | None = None) -> list[dict[str, Any]]:
        """The answers to some lines; one for each by default."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("".join(json.dumps(x) + "\n" for x in lines))
        self._process.stdin.flush()
        wanted = len(lines) if answers is None else answers
        found = [json.loads(self._process.stdout.readline()) for _ in range(wanted)]
        assert not any("bug" in x for x in found), found
        return found

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


class Engine(Node):
    """The engine, which is told of every program once."""

    def __init__(self, bundle: Path) -> None:
        super().__init__(bundle)
        self._known: set[str] = set()

    def ask(
        self,
        program: Program,
        *questions: str,
        sizes: Mapping[str, Any],
        tiles: Mapping[str, Any] | None = None,
        masks: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> list[dict[str, Any]]:
        """The answers to some questions about one program at one point."""
        told = {"sizes": dict(sizes), "tiles": dict(tiles or {})}
        told["masks"] = {k: v.tolist() for k, v in (masks or {}).items()}
        return self.ask_all(program, [told | {"do": question} | more for question in questions])

    def ask_all(self, program: Program, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to questions about one program, each at a point of its own.

        All are written before an answer is read: some hundreds, which the pipes hold.
        """
        name = digest(program)
        asks: list[dict[str, Any]] = []
        if name not in self._known:
            self._known.add(name)
            asks.append({"program": name, "data": program_data(program)})
        asks += [{"program": name} | question for question in questions]
        return self.send(*asks, answers=len(questions))


def speed(engine: Engine, N: int, d: int, M: int, **seen: Any) -> Iterator[dict[str, Any]]:
    """Milliseconds of each question about every schedule of attention, at its best tiles.

    Args:
        seen: a mask, as options of the problem.
    """
    for algorithm in iosim.all_algorithms("attention"):
        options = {"N_k": {"N_k": N}, "kv_heads": {"kv_heads": 1}}
        given = {k: v for x in algorithm.needs for k, v in options[x].items()}
        problem = iosim.Attention(N, d, **given, **seen)
        if not algorithm.supports(problem):
            continue
        program = algorithm.program_for(problem)
        (best,) = engine.ask(program, "best", sizes=problem.sizes, M=M)
        if "tiles" not in best["is"]:
            continue
        (times,) = engine.ask(
            program, "time", sizes=problem.sizes, tiles=best["is"]["tiles"], M=M, most=10**6
        )
        yield {"schedule": algorithm.name, **times["is"]}


def _main() -> None:
    """Print what every question takes."""
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(build(Path(folder) / "cli.mjs"))
        sizes = itertools.product((4096, 65536), (64, 128), (300, 2**14, 2**18))
        for (N, d, M), causal in itertools.product(sizes, (False, True)):
            mask = ", causal" if causal else ""
            print(f"N = {N}, d = {d}, M = {M}{mask}: ms; events of a walk by the million in a s")
            for row in speed(engine, N, d, M, causal=causal):
                told = "  ".join(f"{k} {row[k]:8.3f}" for k in ("bind", "count", "peak", "best"))
                rate = row["events"] / row["walk"] / 1000
                print(f"  {row['schedule']:<15} {told}  walk {rate:6.2f}")
        engine.close()


if __name__ == "__main__":
    _main()
