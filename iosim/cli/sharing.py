"""The command ``iosim l2``: what DRAM delivers behind an L2 that programs share."""

from __future__ import annotations

import click

from iosim.base.errors import InputError
from iosim.base.rows import Row
from iosim.cli import options as opt
from iosim.core.algorithms import algorithm
from iosim.core.tiling.rules import choose_tiles
from iosim.core.units import parse_words
from iosim.gpu.dram_prediction import Reads, reads
from iosim.gpu.run.job import Job
from iosim.models.hardware import Hardware

# What tiles are chosen for where nothing is said, as by `iosim gpu emit`.
M_WORDS = 2**16


@click.command()
@opt.schedule_argument
@opt.sizes()
@opt.model
@opt.mask
@opt.machine()
@opt.memory(
    "of one program, what tiles are chosen for: words, or bytes like 96KiB; by default "
    "64Ki words, or an SM's memory where that is less"
)
@opt.tile_sizes("gpu (powers of two), auto, or B_r=64,B_c=64", default="gpu")
@opt.dtype_option("fp16 (if not given), bf16, fp32, …", default="fp16")
@click.option(
    "--programs",
    type=opt.Integer(),
    help="programs that are resident at once on the whole chip; by default what fits in the "
    "SMs, an estimate",
)
@opt.drift
@opt.as_json
def l2(
    schedule: str,
    sizes: opt.Sizes,
    model: str | None,
    mask: str | None,
    machine: Hardware | None,
    M: str | None,
    tiles: str,
    dtype: str,
    programs: int | None,
    drift: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Predict what DRAM delivers behind an L2 that many programs share.

    In lockstep, and the range if programs drift apart, with the least rows or L2 at which a drift
    does no harm.  Bytes at L2↔DRAM, and also at SM↔L2.  For all schedules but those that
    read where to read.  What a kernel reads of a block mask itself is not counted.
    """
    if machine is None:
        raise InputError("l2 needs a machine: give --machine, like --machine h200")
    found = algorithm(schedule)
    problem = opt.problem_from(found.problem.kind, sizes, model)
    marked = opt.masks(mask)
    most = machine.sm_words(dtype)
    if M is not None:
        words = parse_words("M", M, dtype)
    else:
        words = most if "=" in tiles else min(M_WORDS, most)
    choice = choose_tiles(found, problem, words, tiles, marked)
    opt.remark(choice.remark)
    job = Job.of(schedule, problem, choice.tiles, dtype=dtype, blocks=marked)
    answer = reads(job, machine, programs=programs, drift=drift, seed=seed)
    if as_json:
        opt.print_json(
            {
                "algorithm": schedule,
                "problem": problem.as_dict,
                "tiles": choice.tiles,
                "gpu": machine.name,
                "dtype": dtype,
                "seed": None if drift is None else seed,
                **_to_dict(answer),
                "sentence": sentence(answer, machine.cache),
            }
        )
        return
    held = ", ".join(f"{name} = {value:,}" for name, value in choice.tiles.items())
    click.echo(f"{found.title}: {opt.format_problem(problem)}")
    click.echo(f"tiles  {held}, {dtype}")
    about = "" if programs else ", an estimate: --programs overrides it"
    click.echo(
        f"{machine.title}: {machine.cache} of {answer.l2:,} bytes; {_programs(answer.items)}, "
        f"{answer.programs:,} resident at once"
        f"{_rows(answer, answer.programs, ' ({} rows)')}{about}; "
        f"{answer.waves:,} wave{'s' * (answer.waves > 1)}"
    )
    told = opt.format_drift(answer.drift, seed)
    rows: list[tuple[str, str, int]] = [
        ("SM↔L2", "loads", answer.sm_l2),
        ("L2↔DRAM", "reads in lockstep", answer.lockstep),
        ("L2↔DRAM", f"reads {told}, at least", answer.least),
        ("L2↔DRAM", f"reads {told}, at most", answer.most),
    ]
    if answer.halves is not None:
        rows.insert(
            3, ("L2↔DRAM", f"reads {told}, with two halves of {machine.cache}", answer.halves)
        )
    rows.append(("L2↔DRAM", "writes", answer.stores))
    opt.print_table(["boundary", "what", "bytes"], rows)
    click.echo(sentence(answer, machine.cache))


def _to_dict(answer: Reads) -> Row:
    """For scripts: bytes have their boundary in their names."""
    rows = answer.rows
    safe = answer.safe_programs
    return {
        "items": answer.items,
        "programs": answer.programs,
        "waves": answer.waves,
        "sweeps": answer.sweeps,
        "rows": answer.programs * rows or None,
        "l2_bytes": answer.l2,
        "swept_bytes": answer.swept,
        "drift_per_mille": answer.drift,
        "sm_l2_load_bytes": answer.sm_l2,
        "dram_footprint_bytes": answer.footprint,
        "dram_read_bytes": answer.lockstep,
        "dram_read_least_bytes": answer.least,
        "dram_read_halves_bytes": answer.halves,
        "dram_read_most_bytes": answer.most,
        "dram_write_bytes": answer.stores,
        "safe": answer.safe,
        "safe_programs": safe,
        "safe_rows": safe * rows if safe and rows else None,
        "safe_l2_bytes": answer.safe_l2,
        "safe_drift_per_mille": answer.safe_drift,
    }


def _rows(answer: Reads, programs: int, text: str) -> str:
    return text.format(f"{programs * answer.rows:,}") if answer.rows else ""


def _programs(count: int) -> str:
    return f"{count:,} program{'s' * (count > 1)}"


def sentence(answer: Reads, cache: str) -> str:
    """Whether a drift does harm, and from where on it does none."""
    half = f"half of {cache}, {answer.half:,} bytes,"
    swept = f"the {answer.swept:,} bytes that " + (
        "programs sweep" if answer.sweeps else "a launch touches"
    )
    if not answer.swept or answer.sm_l2 == answer.footprint:
        return "Drift does no harm, however large: nothing is read that was read before"
    if answer.swept <= answer.half:
        rows = ", at any number of rows" if answer.rows else ""
        return f"Drift does no harm, however large{rows}: {half} holds {swept}"
    never = f"with {cache} of {answer.safe_l2:,} bytes or more no drift does harm"
    if answer.drift is None:
        with_as_many = (
            f"with as many resident, programs may differ in speed by up to {answer.safe_drift} ‰, "
            "and "
            if answer.sweeps
            else ""
        )
        return f"Drift may do harm: {half} doesn't hold {swept}; {with_as_many}{never}"
    drift = f"{answer.drift} ‰ of drift"
    did = "did no harm with this seed, but may" if answer.safe else "does harm"
    if not answer.sweeps:
        return f"{drift} {did}: {half} doesn't hold {swept}; {never}"
    least = answer.safe_programs
    if least is None:
        from_ = f"{half} holds twice the distance that it makes with no number of programs"
    else:
        many = f"{least:,} resident programs{_rows(answer, least, ' ({} rows)')}"
        from_ = f"{half} holds twice the distance that it makes from {many} on"
    if least is not None and least <= answer.programs:
        return f"{drift} does no harm: {from_}, and {never}"
    return f"{drift} {did}: {from_}, and {never}"
