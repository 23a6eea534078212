"""What was checked for the paper: steps of proofs, optima, runs, records, and the formal proof."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import iosim
from iosim.base.errors import IosimError
from iosim.core.problem import Attention
from iosim.report import proof
from iosim.report.table import read_csv
from iosim.report.verify import verify

from . import DATA
from ._latex import name, rows, tex
from ._paper_parts import Made, part

RUN = Attention(1024, 64)
FORMAL = Path(__file__).parent.parent / "proofs" / "rocq"
# What would leave a statement of the formal proof unproved.
UNPROVED = re.compile(r"\b(?:Admitted|admit|Axiom|Conjecture|Parameter)\b")

HOWS = ("proved", "exhaustive", "sampled")
_STEPS = ("All", *(h.title() for h in HOWS))


@part(*(f"Steps{s}" for s in _STEPS), "TheoremsAll", files=("checks.tex",))
def checks() -> Made:
    """Each step of each proof that a machine runs: it runs here, and must pass."""
    results = [r for theorem in proof.theorems() for r in proof.run(theorem)]
    # Coq is no part of iosim: without it those steps are said not to have run, and not counted.
    away = [r for r in results if (r.theorem, r.status) == ("rocq", "not run")]
    results = [r for r in results if r not in away]
    bad = [f"{r.theorem}: {r.step}: {r.detail}" for r in results if r.status != "passed"]
    if bad:
        raise IosimError(f"{len(bad)} steps did not pass, first {bad[0]}")
    lines, last = [], ""
    for r in results:
        if r.theorem != last:
            head = rf"\midrule \multicolumn{{4}}{{l}}{{{name(r.theorem)}}}"
            lines.append(head + r"\\*[2pt]")
            last = r.theorem
        cells = [name(r.step), tex(r.says), r.how, tex(r.scope or "")]
        lines.append(rows([cells]).rstrip("\n"))
    lines += [rows([[name(r.step), tex(r.says), "not run", ""]]).rstrip("\n") for r in away]
    many = Counter(r.how for r in results)
    numbers = {"StepsAll": str(len(results)), "TheoremsAll": str(len(proof.theorems()))}
    numbers |= {f"Steps{h.title()}": str(many[h]) for h in HOWS}  # type: ignore[index]
    return Made(numbers, {"checks.tex": "\n".join(lines) + "\n"})


@part("OptimaRows", "OptimaGames", "OptimaVertices", "OptimaEqual", files=("optima.tex",))
def optima() -> Made:
    """Recorded optima of the pebble game; none is below a bound, and all are proved."""
    table = read_csv(DATA / "pebbling" / "optima.csv")
    for r in table:
        if not r["optimal"] or r["lower_bound_words"] > r["optimum_words"]:
            raise IosimError(f"optima.csv: {r['instance']} at M = {r['M_words']} is not as claimed")
    mine = [r for r in table if r["instance"].startswith("attention N=") and r["game"] == "words"]
    Ms = range(min(r["M_words"] for r in mine), max(r["M_words"] for r in mine) + 1)
    lines = []
    for instance in dict.fromkeys(r["instance"] for r in mine):
        here = {r["M_words"]: r for r in mine if r["instance"] == instance}
        says = tex(instance.removeprefix("attention ").replace(" ", ", "))
        for first, what in ((says, "optimum_words"), ("", "best_words"), ("", "lower_bound_words")):
            said = what.removesuffix("_words").replace("_", " ").replace("best", "best schedule")
            cells = [f"{int(here[M][what])}" if M in here else "" for M in Ms]
            lines.append([first, said, *cells])
    numbers = {
        "OptimaRows": str(len(table)),
        "OptimaGames": str(len({r["game"] for r in table})),
        "OptimaVertices": str(max(r["vertices"] for r in table)),
        "OptimaEqual": str(sum(r["optimum_words"] == r["lower_bound_words"] for r in mine)),
    }
    return Made(numbers, {"optima.tex": rows(lines)})


@part("RunsAll", "RunsN", "RunsD", "RunsSchedules", "RunsSlopes")
def runs() -> Made:
    """Schedules run on real numbers, output, count, peak and bounds compared: all must agree."""
    report = verify(RUN)
    if not report.ok:
        raise IosimError(f"{len(report.failures)} runs failed, first {report.failures[0]}")
    numbers = {
        "RunsAll": str(len(report.points)),
        "RunsN": str(RUN.N),
        "RunsD": str(RUN.d),
        "RunsSchedules": str(len({p.algorithm for p in report.points})),
        "RunsSlopes": str(sum(s.fitted is not None for s in report.slopes)),
    }
    return Made(numbers, {})


@part("GpuAll", "GpuDense", "GpuBackward", "GpuOff", "GpuLockstep", files=("gpu.tex",))
def gpu() -> Made:
    """Recorded runs on GPUs: programs, and bytes between SM and L2 that nothing explains."""
    lines, every, dense, backward_ = [], 0, 0, 0
    for machine in ("h200", "h100"):
        for folder in sorted((DATA / "gpu" / machine).glob("validate*")):
            good = [r for r in read_csv(folder / "table.csv") if not r["failed"]]
            off = sum(abs(r["unexplained"]) for r in good)
            if off:
                raise IosimError(f"{folder.name}: {off} bytes that nothing explains")
            every += len(good)
            if folder.name in ("validate", "validate-dtypes"):
                dense += sum(iosim.algorithm(r["algorithm"]).problem is Attention for r in good)
            backward_ += len(good) * folder.name.startswith("validate-backward")
            lines.append([machine.upper(), name(folder.name), f"{len(good)}", str(off)])
    dram = [r for m in ("h200", "h100") for r in read_csv(DATA / "gpu" / m / "dram" / "table.csv")]
    step = [r for r in dram if not r["failed"] and r["in_step"]]
    most = max(abs(r["measured"] / r["predicted"] - 1) for r in step)
    numbers = {
        "GpuAll": f"{every:,}",
        "GpuDense": f"{dense:,}",
        "GpuBackward": str(backward_),
        "GpuOff": rf"{100 * most:.2f}\%",
        "GpuLockstep": str(len(step)),
    }
    return Made(numbers, {"gpu.tex": rows(lines)})


@part("FormalFiles", "FormalLines", "FormalStatements", "FormalAxioms")
def formal() -> Made:
    """The formal proof: its files, what it states at the end, and the axioms that this rests on."""
    files = [FORMAL / x for x in (FORMAL / "_CoqProject").read_text().split() if x.endswith(".v")]
    texts = {path.name: re.sub(r"\(\*.*?\*\)", "", path.read_text(), flags=re.S) for path in files}
    for file, text in texts.items():
        if found := UNPROVED.search(text):
            raise IosimError(f"proofs/rocq/{file} has {found[0]}: not all of it is proved")
    last = texts["theorems.v"] + texts["theorems_classes.v"]
    stated = re.findall(r"^(?:Theorem|Corollary) \w+", last, re.M)
    printed = (FORMAL / "assumptions.txt").read_text()
    axioms = set(re.findall(r"^(\w[\w.]*)\s*(?=:|$)", printed, re.M)) - {"Axioms"}
    numbers = {
        "FormalFiles": str(len(files)),
        "FormalStatements": str(len(stated)),
        "FormalLines": f"{sum(len(p.read_text().splitlines()) for p in files):,}",
        "FormalAxioms": str(len(axioms)),
    }
    return Made(numbers, {})
