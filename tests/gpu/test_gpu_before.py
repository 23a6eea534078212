"""What DRAM reads behind an L2 that many programs share: streams, records, and before a run."""

from __future__ import annotations

import functools
import json
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from test_cli import iosim_
from test_gpu_records import GPUS

from iosim.cache import Cache, replay
from iosim.cache.of_program import items
from iosim.cache.partitioned import replay_parts
from iosim.cache.shared import by_clock, interleaved, lockstep, sweeps
from iosim.cli.sharing import sentence
from iosim.core.problem import Attention
from iosim.gpu import l2
from iosim.gpu.dram_prediction import reads, resident
from iosim.gpu.records.record import read_record
from iosim.gpu.reports.dram import dram_rows
from iosim.gpu.run.job import Job
from iosim.models.hardware import Hardware, machine

MACHINES = ("h200", "h100")


@functools.cache
def _record(gpu):
    record = read_record(GPUS / gpu / "dram", ("sram", "dram"))
    return record, dram_rows(record)


def _old_reads(ticks, job, capacities, pieces=256):
    """An LRU of its own, as the model was before there was a package of caches."""
    middle = (np.arange(pieces) + 0.5) / pieces
    when = ticks[:, :1].astype(float) + np.diff(ticks, axis=1).astype(float) * middle
    swept = l2.swept_bytes(job)
    own = l2.footprint_bytes(job.instance, job.dtype)["load"] - swept
    sequence = np.argsort(when, axis=None, kind="stable") % pieces
    changed = sequence[np.flatnonzero(np.diff(sequence, prepend=-1))].tolist()
    found = []
    for capacity in capacities:
        room, cache, misses = max(1, round(capacity / (swept / pieces))), OrderedDict(), 0
        for piece in changed:
            if piece in cache:
                cache.move_to_end(piece)
                continue
            misses += 1
            cache[piece] = None
            if len(cache) > room:
                cache.popitem(last=False)
        found.append(misses * swept // pieces + own)
    return found


@pytest.mark.numbers
@pytest.mark.parametrize("gpu", MACHINES)
def test_recorded_sweeps_read_what_the_private_cache_said(gpu):
    record, rows = _record(gpu)
    seen = 0
    for at, row in enumerate(rows, start=1):
        ticks = record.ticks(at)
        # Those that take long to walk in plain Python are left to the committed tables.
        if ticks is None or row.in_step or row.spread > 0.3:
            continue
        size = record.device("l2_bytes")
        job, both = record.jobs[at], (size, size * l2.L2_SHARE)
        assert l2.drift_bytes(ticks, job, both) == _old_reads(ticks, job, both)
        seen += 1
    assert seen >= 5


@pytest.mark.numbers
@pytest.mark.parametrize("gpu", MACHINES)
def test_two_halves_lie_in_the_bracket_of_every_recorded_run(gpu):
    """One number without a choice: each half keeps what its side reads, items in turn."""
    record, rows = _record(gpu)
    size, off = record.device("l2_bytes"), []
    for at, row in enumerate(rows, start=1):
        ticks, job = record.ticks(at), record.jobs[at]
        if ticks is None or row.in_step:
            continue
        swept = l2.swept_bytes(job)
        own = l2.footprint_bytes(job.instance, job.dtype)["load"] - swept
        both = interleaved(sweeps(len(ticks), 256), by_clock(ticks))
        half = Cache(capacity=max(1, round(size / 2 / (swept / 256))))
        found = replay_parts(both, half).misses * swept // 256 + own
        assert row.drift_least <= found <= row.drift_most
        off.append(abs(row.measured / found - 1))
    assert len(off) == 9
    assert sum(x <= 0.02 for x in off) == 7
    assert max(off) < 0.25


@pytest.mark.parametrize("gpu", MACHINES)
def test_every_recorded_run_is_within_what_was_said_before_it(gpu, capsys):
    record, rows = _record(gpu)
    chip = machine(gpu)
    assert chip.cache_bytes == record.device("l2_bytes")
    for at, row in enumerate(rows, start=1):
        job = record.jobs[at]
        found = reads(job, chip, programs=row.programs)
        print(
            gpu, row.N, row.B_r, row.stages, row.programs, found.lockstep, found.most, row.measured
        )
        if row.in_step or row.spread <= 0.0003:
            assert abs(row.measured / found.lockstep - 1) <= 0.02
        assert 0.98 * found.least <= row.measured <= 1.02 * found.most
        assert found.sm_l2 == row.sram_load
        assert found.lockstep == row.predicted
        if not row.in_step:  # what the compiler and the driver made of it
            assert resident(job, chip) == row.programs
    assert len(capsys.readouterr().out.splitlines()) == 22


def _flash2(N, B_r, heads=1, d=64, B_c=64):
    return Job("flash2", {"N": N, "d": d, "heads": heads}, {"B_r": B_r, "B_c": B_c})


def test_what_is_read_at_least_has_all_of_l2_for_one_cache():
    """K and V of 45 MiB: more than half of an L2 of 60 MiB, and less than all of it."""
    job, size = _flash2(184_320, 128), 2 * 184_320 * 64
    found = reads(job, machine("h200"), programs=132)
    assert found.half < 2 * size < found.l2
    assert found.least == 3 * size
    assert found.lockstep == (1 + 2 * found.waves) * size > found.least
    one_more = _flash2(2 * 184_320, 128)  # more than all of it
    twice = reads(one_more, machine("h200"), programs=132)
    assert twice.least == twice.lockstep


def test_a_drift_is_safe_up_to_one_sweep_of_those_that_are_resident():
    """Of eight heads with 64 items each, 66 programs sweep two at a time."""
    found = reads(_flash2(4096, 64, heads=8), machine("h200"), programs=66, drift=1)
    assert found.together < found.swept
    most = found.lockstep + found.together
    assert replace(found, most=most).safe
    assert not replace(found, most=most + 1).safe


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("programs", [3, 4, 7, 16])
def test_the_models_cases_come_out_of_interleaved_streams(heads, programs):
    """Rows of Q, K and V in lockstep through an LRU: the footprint where they fit, else waves."""
    job = _flash2(64, 4, heads, d=8, B_c=4)
    (launch,) = items(job.instance, unit="lines", line_words=8)
    both = interleaved(launch, lockstep(programs)).stream

    def read(rows):
        return 2 * replay(both, Cache(capacity=rows * 8, line_words=8)).loads

    # Stores fetch their rows here, since a cache doesn't know that whole rows are written.
    stored = l2.footprint_bytes(job.instance, "fp16")["store"]
    assert read(4 * 64 * heads) - stored == l2.footprint_bytes(job.instance, "fp16")["load"]
    # 128 rows of a head are swept.
    assert read(16) - stored == read(100) - stored == l2.wave_bytes(job, programs)


@pytest.mark.parametrize(("heads", "programs"), [(4, 3), (5, 12), (6, 20), (7, 24), (3, 11)])
def test_heads_that_share_waves_against_every_access_in_step(heads, programs):
    job, pieces = _flash2(1024, 64, heads), l2.PIECES
    swept = 2 * 2 * 1024 * 64
    which = np.repeat(np.arange(heads), 16)
    both = interleaved(sweeps(len(which), pieces, which), lockstep(programs)).stream
    own = heads * swept // 2
    for share in (0.4, 1, 1.3, 1.7, 2, 2.2, 3, 9):
        room = int(share * pieces)
        size = round(room * swept / pieces / l2.L2_SHARE)
        want = replay(both, Cache(capacity=room)).misses * swept // pieces + own
        assert l2.predicted_bytes(job, programs, size) == want


def test_a_known_drift_and_the_rows_from_which_it_is_harmless():
    job, chip = (
        _flash2(65536, 64),
        Hardware(
            name="small",
            title="small",
            core="SM",
            cache="L2",
            cores=8,
            peaks={"fp16": 1e12},
            dram_bytes_per_s=1e12,
            capacity_bytes=10**10,
            sram_bytes=228 * 1024,
            cache_bytes=2 * 2**22,
        ),
    )
    asked = reads(job, chip, programs=16, drift=40, seed=1)
    assert asked.swept == 4 * asked.half
    assert not asked.safe
    assert asked.lockstep < asked.halves < asked.most <= asked.sm_l2
    least = asked.safe_programs
    assert least == -(-2 * 4 * asked.items * 40 // 1000)
    for seed in range(5):
        there = reads(job, chip, programs=least, drift=40, seed=seed)
        assert there.safe
        assert there.most <= there.lockstep + there.swept
        assert there.safe_programs == least
        assert there.safe_drift >= 40
    # With no bound on the drift, only an L2 that holds it all.
    never = reads(job, chip, programs=16)
    assert (never.safe_programs, never.safe, never.most) == (None, False, never.sm_l2)
    assert reads(job, chip, programs=16, drift=1000).safe_programs is None
    assert never.safe_l2 == 2 * never.swept


def test_where_all_fits_or_nothing_is_shared_any_drift_is_harmless():
    fits = reads(_flash2(4096, 64, 8), machine("h200"), drift=1000)
    assert fits.safe
    assert fits.safe_programs == 1
    assert fits.least == fits.halves == fits.most == fits.lockstep == fits.footprint
    alone = reads(
        Job.of("decode", Attention(N=1, N_k=2**16, d=64, heads=16), {"B_c": 64}),
        machine("h200"),
        drift=1000,
    )
    assert (alone.swept, alone.most, alone.halves) == (0, alone.sm_l2, None)


SIZES = ("flash2", "--N", "524288", "--d", "64", "--tiles", "B_r=64,B_c=64")


def test_the_command():
    done = iosim_("l2", *SIZES, "--machine", "h200", "--drift", "5", "--json")
    found = json.loads(done.stdout)
    assert found["dram_read_bytes"] == 2_214_592_512
    assert found["sm_l2_load_bytes"] == 1_099_578_736_640
    assert (found["programs"], found["rows"], found["waves"]) == (528, 33792, 16)
    assert (found["safe"], found["safe_programs"], found["safe_rows"]) == (True, 350, 22400)
    text = iosim_("l2", *SIZES, "--machine", "h200").stdout
    for said in (
        "SM↔L2     loads",
        "1,099,578,736,640",
        "L2↔DRAM   reads in lockstep",
        "differ in speed by up to 7 ‰",
        "with L2 of 268,435,456 bytes or more no drift does harm",
    ):
        assert said in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*SIZES, "--machine", "h20"),
            "unknown machine 'h20', and no FILE.toml: did you mean 'h200'?",
        ),
        (SIZES, "l2 needs a machine: give --machine, like --machine h200"),
        (
            (*SIZES, "--machine", "h200", "--causal"),
            "more than 8,388,608 tiles, too many to follow",
        ),
        (
            (*SIZES, "--machine", "h200", "--drift", "1001"),
            "drift = 1001 is out of range: give 0 to",
        ),
        (
            (*SIZES, "--machine", "h200", "--drift", "1", "--seed", "-1"),
            "seed = -1 is out of range",
        ),
        ((*SIZES, "--machine", "h200", "--programs", "0"), "programs = 0"),
        ((*SIZES, "--machine", "h200", "--dtype", "fp17"), "fp17"),
        (
            (
                "paged",
                "--N",
                "1",
                "--N-k",
                "64",
                "--heads",
                "2",
                "--kv-heads",
                "1",
                "--page",
                "16",
                "--d",
                "8",
                "--machine",
                "h200",
            ),
            "paged reads where t says, which is data",
        ),
        (
            ("block_sparse", "--N", "64", "--N-k", "64", "--d", "8", "--machine", "h200"),
            "block_sparse runs where the block mask blocks marks",
        ),
    ],
)
def test_bad_input_is_a_line(words, said):
    done = iosim_("l2", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_programs_that_drift_may_be_at_more_heads_than_a_wave():
    """Waves that begin and end with a head: in lockstep two heads are never swept at once."""
    job = Job("flash2", {"N": 98304, "d": 64, "heads": 4}, {"B_r": 256, "B_c": 64})
    unknown, drifted = (reads(job, machine("h200"), programs=128, drift=x) for x in (None, 1000))
    assert unknown.together < unknown.half < unknown.swept == 4 * unknown.together
    assert drifted.most > unknown.lockstep
    assert unknown.most >= drifted.most
    assert not unknown.safe
    assert unknown.safe_programs is None
    assert "may do harm" in sentence(unknown, "L2")
    large = replace(machine("h200"), cache_bytes=unknown.safe_l2)
    fits = reads(job, large, programs=128, drift=1000)
    assert (fits.most, fits.halves) == (fits.lockstep, fits.lockstep)
    assert "no harm, however large" in sentence(fits, "L2")
