"""The registry of commands: where each is, and its line of help.

So neither ``iosim --help`` nor one command imports what the others need.
"""

from __future__ import annotations

from iosim.gpu.reports import REPORTS

# How the help lists the commands: section → their names.
SECTIONS = {
    "Ask about a schedule": (
        "count",
        "tiles",
        "step",
        "tightness",
        "bounds",
        "show",
        "schedules",
    ),
    "Show": ("lab", "plot", "export"),
    "Sweep": ("sweep", "collect", "combine", "query"),
    "Check": ("verify", "prove", "optimal", "reproduce"),
    "Models and machines": ("roofline", "fuse", "graph", "machines", "devices", "l2", "cache"),
    "GPU": ("kernel", "gpu", "profile"),
}
# Commands that were renamed: the old name works for one version.
OLD = {"algorithms": "schedules"}
_KERNEL = "docs/examples/softmax.py::softmax --grid 8 --arg columns=99"
# What a newcomer can paste after a command's name, where it needs arguments.
EXAMPLES = {
    "count": "naive,flash2 --N 1024 --d 64 --M 96KiB --dtype fp16",
    "tiles": "flash2 --N 1024 --d 64 --M 96KiB --dtype fp16",
    "step": "--N 1024 --d 64 --M 96KiB --dtype fp16",
    "tightness": "--N 262144 --d 64 --M 65536",
    "bounds": "--N 262144 --d 64 --M 65536",
    "show": "flash2",
    "export": "flash2 --N 1024 --d 64 --M 24576 --save flash2.html",
    "sweep": "--schedule naive,flash2 --N 1024 --d 64 --M 512:65536:x2 --out rows",
    "collect": "rows",
    "combine": "rows more --out all",
    "query": "'SELECT algorithm, min(gap) FROM rows GROUP BY 1' rows",
    "plot": "rows",
    "optimal": "matmul --m 2 --n 2 --k 2 --M 4",
    "roofline": "matmul --m 1024 --n 1024 --k 4096 --machine h100",
    "fuse": "--model bert-large --phase training --batch 8 --N 512",
    "l2": "flash2 --N 8192 --d 64 --machine h100",
    "cache": "flash2 --N 1024 --d 64 --M 24Ki",
    "kernel count": f"{_KERNEL} --const BLOCK=64",
    "kernel tiles": f"{_KERNEL} --vary BLOCK=32,64,128",
    "kernel sweep": f"{_KERNEL} --const BLOCK=64 --vary columns=1024:65536:x2",
    "kernel cache": f"{_KERNEL} --const BLOCK=64 --bytes 1KiB,4KiB",
    "gpu emit": "flash2 --N 4096 --d 64 --M 64Ki",
    "gpu replay": "experiments/data/gpu/h200",
    "gpu figure": "experiments/data/gpu/h200 figure",
}
# Name → (where the command is, the first line of its help).  After a group come its commands.
Entry = tuple[str, str]
COMMANDS: dict[str, Entry | tuple[str, dict[str, Entry]]] = {
    "schedules": (
        "iosim.cli.counting:schedules",
        "List the schedules, with the options of their problem that they lack or need.",
    ),
    "show": (
        "iosim.cli.counting:show",
        "Print a schedule as pseudo-code with the words that each load and store moves.",
    ),
    "count": (
        "iosim.cli.counting:count",
        "Count the words that a schedule moves, or compare several: naive,flash2.",
    ),
    "step": (
        "iosim.cli.counting:step",
        "Count the words of a training step: a forward pass that stores L, then the backward pass.",
    ),
    "tiles": (
        "iosim.cli.counting:tiles",
        "Find the tile sizes that move the fewest words in M.",
    ),
    "cache": (
        "iosim.cli.caching:cache",
        "Replay one schedule's accesses through a cache that manages itself.",
    ),
    "l2": (
        "iosim.cli.sharing:l2",
        "Predict what DRAM delivers behind an L2 that many programs share.",
    ),
    "bounds": (
        "iosim.cli.bounding:bounds",
        "List upper and lower bounds on the words that any schedule moves.",
    ),
    "tightness": (
        "iosim.cli.bounding:tightness",
        "Compare a class's best schedule with its largest lower bound: how far from optimal?",
    ),
    "prove": (
        "iosim.cli.bounding:prove",
        "Run the machine-checked steps of the proofs, and say how far each was checked.",
    ),
    "verify": (
        "iosim.cli.verifying:verify",
        "Run every attention schedule over a sweep of M, and check every number against every "
        "other.",
    ),
    "plot": ("iosim.cli.verifying:plot", "Draw the figure of a table, or of a sweep."),
    "sweep": (
        "iosim.cli.sweeping:sweep",
        "Count a grid of points into a directory of Parquet shards.",
    ),
    "collect": (
        "iosim.cli.sweeping:collect",
        "Resume the sweep in a directory: check its shards, redo broken ones, add missing ones.",
    ),
    "combine": (
        "iosim.cli.sweeping:combine",
        "Merge the rows of several sweeps into one directory, each task once.",
    ),
    "query": (
        "iosim.cli.sweeping:query",
        "Query the rows of one or more directories in SQL (DuckDB); the table is called rows.",
    ),
    "reproduce": (
        "iosim.cli.sweeping:reproduce",
        "Run experiments from scratch and compare their numbers with the committed ones.",
    ),
    "graph": (
        "iosim.cli.graphs:graph",
        "Print the operators of a graph: class, flop, words read and written, and sums by class.",
    ),
    "machines": (
        "iosim.cli.machines:machines",
        "List the machines and their numbers, or one machine's with the source of each.",
    ),
    "roofline": (
        "iosim.cli.roofline:roofline",
        "Find the least time of operators on a machine, and what sets it, by both boundaries.",
    ),
    "fuse": (
        "iosim.cli.fusing:fuse",
        "Choose which operators to fuse into kernels, and count the words that this saves.",
    ),
    "devices": (
        "iosim.cli.devices:devices",
        "Count words between P devices, by link, with bounds and times; or list the schedules.",
    ),
    "export": (
        "iosim.cli.export:export",
        "Write one schedule's animation, for a slide or a blog: a page, an MP4 or a GIF.",
    ),
    "lab": (
        "iosim.cli.lab:lab",
        "Write the lab as one HTML page that needs no server and no network, and open it.",
    ),
    "optimal": (
        "iosim.cli.pebbling:optimal",
        "Solve the red-blue pebble game: the fewest I/Os of any schedule, proved.",
    ),
    "profile": (
        "iosim.cli.profiling:profile",
        "Say what bounds each kernel of a program or of an ncu report, and by which counters.",
    ),
    "kernel": (
        "Count Triton kernels of your own, without a GPU.",
        {
            "count": (
                "iosim.cli.kernel:count",
                "Count the words that a Triton kernel moves, argument by argument.",
            ),
            "cache": (
                "iosim.cli.kernel:cache",
                "Replay a Triton kernel's references through a cache that its programs share.",
            ),
            "sweep": (
                "iosim.cli.kernel:sweep",
                "Count the words of a Triton kernel at many sizes and with many constants.",
            ),
            "tiles": (
                "iosim.cli.kernel:tiles",
                "Compare the constants of a Triton kernel: the fewest bytes first.",
            ),
        },
    ),
    "gpu": (
        "Run the same programs on a GPU, as Triton, and compare counts with hardware counters.",
        {
            "emit": ("iosim.cli.gpu:emit", "Print the Triton source of a program."),
            **{name: (f"iosim.cli.gpu:{name}", line) for name, (_, line) in REPORTS.items()},
            "replay": (
                "iosim.cli.gpu:replay",
                "Recompute tables from saved reports with the current model; no GPU is needed.",
            ),
            "figure": (
                "iosim.cli.gpu:figure",
                "Plot predicted against measured words at both boundaries, from saved reports.",
            ),
        },
    ),
}
