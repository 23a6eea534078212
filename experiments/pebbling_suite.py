"""Optima of the pebble game on a public suite: OneStopParallel's 16 tiny computational DAGs.

``git clone https://github.com/Algebraic-Programming/OneStopParallel`` gives the graphs, and
``python -m experiments.pebbling_suite --graphs OneStopParallel/data/spaa/tiny`` writes, in
`data/pebbling/`, suite.csv (a row for each graph, game and M), suite_schedules.csv (the games, move
by move) and suite.json (the graphs with their checksums, and what it ran on); ``--docs PAGE``
writes its tables into a page.

An instance is a graph with M in {r0, r0 + 1, r0 + 2, 2·r0, 3·r0}, where r0 is the least M that
allows a pebbling, the largest in-degree plus one; weights are ignored.  Each is solved in a process
of its own, and its schedule is replayed on `Game` by another.  Rows are written as they are found,
and a later run takes up only what is still open and had less time: it keeps the better of both
bounds and both schedules, and adds the seconds.

It is no ``eNN`` experiment: it takes half an hour or more, and tests hold the committed rows
against the solver.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosim.base import provenance
from iosim.base.errors import InputError
from iosim.base.writing import out_dir
from iosim.pebbling import Dag, from_file, optimum, replay
from iosim.pebbling.bounds import root_bound
from iosim.pebbling.bounds.checking import proved
from iosim.report.table import write_csv

from . import DATA, run_main
from ._pebbling_rows import (
    GAMES,
    KEY,
    markdown,
    merged,
    packed,
    read,
    replace_tables,
    shared,
    unpacked,
)

SOURCE = "https://github.com/Algebraic-Programming/OneStopParallel, data/spaa/tiny"
PREFIX = "instance_"  # of every file; a graph is called by the rest
GRACE = 120  # seconds beyond twice the limit, after which a process is killed


@dataclass(frozen=True)
class Instance:
    """A graph, a game and M."""

    graph: str
    game: str
    M: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What a row is found by."""
        return self.graph, self.game, self.M


def graphs(folder: Path) -> dict[str, tuple[Dag, str]]:
    """The graphs of the suite and the checksums of their files, by name.

    Raises InputError where the folder has none.
    """
    found = {}
    for path in sorted(folder.glob("*.hdag")):
        dag = from_file(path, unit=True)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found[path.stem.removeprefix(PREFIX)] = dag, digest
    if not found:
        raise InputError(f"{str(folder)!r} has no .hdag: give --graphs a clone of {SOURCE}")
    return found


def instances(name: str, dag: Dag, game: str) -> Iterator[Instance]:
    """The five instances of a graph and a game."""
    r0 = dag.least_memory()
    for M in sorted({r0, r0 + 1, r0 + 2, 2 * r0, 3 * r0}):
        yield Instance(name, game, M)


def compulsory(dag: Dag) -> int:
    """Loads of the inputs that are used and stores of the outputs: no schedule moves less."""
    loads = sum(1 for v in dag.inputs if any(w in dag.output_ancestors for w in dag.succs[v]))
    return loads + sum(1 for v in dag.outputs if dag.preds[v])


def solved(path: Path, game: str, M: int, seconds: float, memory: float) -> dict[str, Any]:
    """What is found on one instance, in this process."""
    dag = from_file(path, unit=True)
    best = optimum(dag, M, GAMES[game], seconds=seconds, memory=memory)
    return {
        "lower": best.lower_bound,
        "cost": best.cost,
        "seconds": round(best.seconds, 2),
        "states": best.states,
        "peak_MiB": peak(),
        "stopped": best.stopped,
        "schedule": packed(best.schedule),
    }


def certified(path: Path, game: str, M: int, seconds: float, _: float) -> dict[str, Any]:
    """The best lower bound with a certificate, which other code has checked."""
    dag, recompute = from_file(path, unit=True), GAMES[game]
    best = root_bound(dag, M, recompute, seconds=seconds)
    words = proved(dag, M, best.name, best.certificate, recompute)
    return {"certified": words, "by": best.name}


TASKS = {"solve": solved, "certify": certified}


def peak() -> int:
    """The most memory that this process has had, in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count the process that started this one, too
        high = re.search(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="utf-8"))
        if high:
            return int(high[1]) // 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // (2**20 if sys.platform == "darwin" else 2**10)


class Table:
    """The rows so far, in files, whole after each of them."""

    def __init__(self, folder: Path, found: Mapping[str, tuple[Dag, str]], about: dict[str, str]):
        self.folder, self.found, self.about = folder, found, about
        self.rows: dict[tuple[str, str, int], dict[str, Any]] = {}
        self.before: list[dict[str, str]] = []  # what earlier runs were
        self.added = False
        if (folder / "suite.csv").exists():
            self._check_graphs()
            self.rows = {tuple(row[k] for k in KEY): row for row in read(folder)}

    def _check_graphs(self) -> None:
        """Raise InputError if a graph is not the one that the rows are of."""
        record = json.loads((self.folder / "suite.json").read_text(encoding="utf-8"))
        self.before = record["runs"]
        for graph in record["graphs"]:
            digest = self.found.get(graph["graph"], (None, graph["sha256"]))[1]
            if digest != graph["sha256"]:
                raise InputError(
                    f"{graph['graph']} is another file than the rows in {str(self.folder)!r} are "
                    "of: give the same one, or another --out"
                )

    def add(self, instance: Instance, new: Mapping[str, Any], limit: float) -> dict[str, Any]:
        """Check a result's schedule, keep it, and write everything."""
        dag, _ = self.found[instance.graph]
        row = {**dict(zip(KEY, instance.key, strict=True)), **new, "limit_s": limit}
        row |= {"vertices": len(dag.vertices), "edges": sum(map(len, dag.preds.values()))}
        row |= {"r0": dag.least_memory(), "compulsory": compulsory(dag)}
        self.rows[instance.key] = merged(self.rows.get(instance.key), self.checked(row))
        self.added = True
        self.write()
        return self.rows[instance.key]

    def uncertified(self, instance: Instance) -> bool:
        """Whether a row has no bound with a certificate yet."""
        return instance.key in self.rows and self.rows[instance.key].get("certified") is None

    def certify(self, instance: Instance, new: Mapping[str, Any]) -> dict[str, Any]:
        """Keep a bound with a certificate, and write everything."""
        row = {**self.rows[instance.key], **new}
        row["lower"] = max(row["lower"], row["certified"])
        row["optimal"] = row["lower"] == row["cost"]
        self.rows[instance.key], self.added = row, True
        self.write()
        return row

    def checked(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row with what its schedule moves when it is replayed."""
        dag, _ = self.found[row["graph"]]
        game = replay(dag, row["M"], unpacked(row["schedule"]), GAMES[row["game"]])
        if game.loads + game.stores != row["cost"]:
            raise AssertionError(f"{row['graph']}: {game.loads + game.stores}, not {row['cost']}")
        return row | {"replayed": game.loads + game.stores}

    def share(self) -> None:
        """Let the rows say what they know of each other, and write everything."""
        for row in tuple(shared(list(self.rows.values()))):
            key = tuple(row[k] for k in KEY)
            self.rows[key] = row if row["replayed"] is not None else self.checked(row)
        self.write()

    def write(self) -> None:
        """Write the three files."""
        for row in self.rows.values():
            if row["cost"] == row["compulsory"]:  # which counting certifies
                row |= {"certified": row["compulsory"], "by": "compulsory"}
        order = sorted(
            self.rows.values(),
            key=lambda row: (list(GAMES).index(row["game"]), row["graph"], row["M"]),
        )
        columns = (
            "graph",
            "vertices",
            "edges",
            "game",
            "r0",
            "M",
            "compulsory",
            "certified",
            "by",
            "lower",
            "cost",
            "optimal",
            "replayed",
            "seconds",
            "states",
            "peak_MiB",
            "limit_s",
            "stopped",
        )
        games = [{k: row[k] for k in (*KEY, "cost", "schedule")} for row in order]
        # Games first: a row that is there has its game, wherever an interrupt comes.
        write_csv(self.folder / "suite_schedules.csv", games)
        write_csv(self.folder / "suite.csv", [{k: row.get(k) for k in columns} for row in order])
        graphs = [
            {
                "graph": name,
                "vertices": len(dag.vertices),
                "inputs": len(dag.inputs),
                "outputs": len(dag.outputs),
                "r0": dag.least_memory(),
                "sha256": digest,
            }
            for name, (dag, digest) in self.found.items()
        ]
        record = {
            "source": SOURCE,
            "graphs": graphs,
            "runs": self.before + [self.about] * self.added,
        }
        text = json.dumps(record, indent=1) + "\n"
        (self.folder / "suite.json").write_text(text, encoding="utf-8")


def open_ones(table: Table, wanted: Iterable[Instance], seconds: float) -> list[Instance]:
    """What is left: not there yet, or neither proved nor tried for so long; small gaps first."""
    found = []
    for instance in wanted:
        row = table.rows.get(instance.key)
        if row is None or (not row["optimal"] and row["limit_s"] < seconds):
            found.append((0 if row is None else row["cost"] - row["lower"], instance))
    return [instance for _, instance in sorted(found, key=lambda pair: pair[0])]


class Workers:
    """Solves instances, each in a process of its own, some at once; ends them when it ends."""

    def __init__(self, folder: Path, seconds: float, memory: float):
        self.folder, self.seconds, self.memory = folder, seconds, memory
        self.running: set[subprocess.Popen[str]] = set()

    def __call__(self, instance: Instance, task: str) -> dict[str, Any] | str:
        """What one of the tasks found, or why nothing was."""
        path = self.folder / f"{PREFIX}{instance.graph}.hdag"
        given = json.dumps([task, str(path), instance.game, instance.M, self.seconds, self.memory])
        code = "import sys; from experiments import pebbling_suite as s; s.work(sys.argv[1])"
        paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        # In a session of its own, so that Ctrl-C reaches this process alone.
        with subprocess.Popen(
            [sys.executable, "-c", code, given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": paths},
        ) as process:
            self.running.add(process)
            try:
                out, err = process.communicate(timeout=GRACE + 2 * self.seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"killed after {GRACE + 2 * self.seconds:g} s"
            finally:
                self.running.discard(process)
        if process.returncode:
            return (err.strip().splitlines() or [f"exit {process.returncode}"])[-1]
        found: dict[str, Any] = json.loads(out)
        return found

    def end(self) -> None:
        """Kill what is running."""
        for process in tuple(self.running):
            process.kill()


def work(given: str) -> None:
    """What a worker does: print what a task finds."""
    task, path, *others = json.loads(given)
    print(json.dumps(TASKS[task](Path(path), *others)))


def run(
    task: str, todo: Sequence[Instance], workers: Workers, jobs: int
) -> Iterator[tuple[Instance, dict[str, Any]]]:
    """What is found on instances, as it is found, `jobs` at a time."""
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        waiting = {pool.submit(workers, instance, task): instance for instance in todo}
        for done in concurrent.futures.as_completed(waiting):
            instance, new = waiting[done], done.result()
            if isinstance(new, str):
                print_instance(instance, new)
            else:
                yield instance, new
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        workers.end()
        pool.shutdown()


def print_instance(instance: Instance, what: str) -> None:
    """A line on how an instance went."""
    says = f"{instance.graph}, {instance.game}, M = {instance.M}: {what.strip()}"
    print(says, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> None:
    """Make the table, or carry it on."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.pebbling_suite", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--graphs",
        default=DATA / "pebbling" / "suite",
        type=Path,
        help="the folder of the .hdag files",
    )
    parser.add_argument("--out", default=DATA / "pebbling", type=Path)
    parser.add_argument("--docs", type=Path, help="a page whose marked tables are replaced")
    parser.add_argument("--seconds", default=60.0, type=float, help="time for each instance")
    parser.add_argument("--memory", default=4.0, type=float, help="GiB for each instance")
    parser.add_argument(
        "--certify",
        default=0.0,
        type=float,
        metavar="SECONDS",
        help="time for each kind of lower bound with a certificate",
    )
    parser.add_argument("--jobs", default=1, type=int, help="instances at once")
    parser.add_argument("--recompute", action="store_true", help="the game with recomputation")
    parser.add_argument("--only", default="", help="graphs whose name has this")
    args = parser.parse_args(argv)
    if args.jobs < 1 or not args.seconds > 0 or not args.memory > 0:
        raise InputError("--jobs, --seconds and --memory must be above 0: choose others")
    typed = sys.argv[1:] if argv is None else argv
    about = provenance.of(" ".join(["python -m experiments.pebbling_suite", *typed]))
    found = graphs(args.graphs)
    table = Table(out_dir(args.out), found, about)
    game = "recompute" if args.recompute else "once"
    wanted = [
        i
        for name, (dag, _) in found.items()
        if args.only in name
        for i in instances(name, dag, game)
    ]
    try:
        workers = Workers(args.graphs, args.seconds, args.memory * 2**30)
        todo = open_ones(table, wanted, args.seconds)
        for instance, new in run("solve", todo, workers, args.jobs):
            row = table.add(instance, new, args.seconds)
            print_instance(
                instance,
                f"{row['lower']}..{row['cost']}, {new['seconds']} s, "
                f"{new['peak_MiB']} MiB {new['stopped']}",
            )
        workers = Workers(args.graphs, args.certify, args.memory * 2**30)
        todo = [i for i in wanted if table.uncertified(i)] if args.certify else []
        for instance, new in run("certify", todo, workers, args.jobs):
            row = table.certify(instance, new)
            print_instance(
                instance, f"{row['certified']} by {row['by']} of {row['lower']}..{row['cost']}"
            )
    except KeyboardInterrupt:
        print(f"experiments: interrupted, {len(table.rows)} rows are kept", file=sys.stderr)
        sys.exit(130)
    if table.rows:
        table.share()
        print(markdown(read(args.out), game))
    if args.docs:
        replace_tables(args.docs, read(args.out))
    closed = sum(row["optimal"] for row in table.rows.values())
    print(f"{closed} of {len(table.rows)} rows are proved", file=sys.stderr)


if __name__ == "__main__":
    run_main(main)
