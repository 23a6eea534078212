"""Random programs for ``iosim gpu validate``: the same from a seed, and right when interpreted."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from test_cli import ok
from test_gpu_records import RECORDED
from unpacked import recorded

import iosim
from iosim.base.dtypes import word_bytes
from iosim.base.errors import InputError
from iosim.core.algorithms import ALGORITHMS
from iosim.core.counting.numbers import count, peak
from iosim.core.problem import Attention, AttentionBackward
from iosim.gpu.emitter import layout
from iosim.gpu.reports import _draw, gpu_report, validate
from iosim.gpu.reports._draw import Draw, drawn_jobs
from iosim.gpu.run.interpreter import HostArray, interpret, interpreted_triton
from iosim.gpu.run.job import Job

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
NAMES = tuple(ALGORITHMS)


def test_numbers_are_those_of_the_generator_that_python_keeps():
    """`random.random` is the same in every version; so is what is made of it here, by hand."""
    same = random.Random(5).random
    draw = Draw(5)
    assert draw.between(3, 9) == 3 + int(same() * 7)
    assert draw.among("abc") == "abc"[int(same() * 3)]
    assert draw.length(10, 1000) == int(10 * 100 ** same())
    assert draw.happens(0.5) == (same() < 0.5)
    assert Draw(0).between(1, 1000) == 845


def test_a_seed_says_all_and_a_longer_draw_begins_alike():
    some, more = drawn_jobs(NAMES, 11, 12), drawn_jobs(NAMES, 11, 20)
    assert more[:12] == some
    assert drawn_jobs(NAMES, 12, 12) != some
    # The first ones, told: on any machine they are the same.
    told = [(job.algorithm, job.sizes.get("N"), job.dtype, job.M) for job in some[:3]]
    assert told == FIRST


FIRST = [
    ("grouped_rows", 329, "bf16", 35584),
    ("grouped_rows", 74, "fp16", 63613),
    ("flash2", 23, "fp32", 18832),
]


@pytest.mark.numbers
def test_what_is_drawn_fits_and_covers_all_kinds():
    jobs = drawn_jobs(NAMES, 1, 60)
    for job in jobs:
        least, most = _draw.CAPACITY
        assert least <= job.M <= most
        assert peak(job.instance) <= job.M
        assert job.M * word_bytes(job.dtype) <= _draw.FAST_BYTES
        assert all(x & (x - 1) == 0 or x in job.problem.sizes.values() for x in job.tiles.values())
    assert {job.dtype for job in jobs} == {"fp16", "bf16", "fp32"}
    assert any(job.variant for job in jobs)
    assert any(not job.variant for job in jobs)
    backward = {x for x in NAMES if iosim.algorithm(x).problem is AttentionBackward}
    assert {job.algorithm for job in jobs} & backward
    assert any(job.sizes.get("d", 0) % 2 and job.sizes["N"] % 2 for job in jobs)


@pytest.mark.numbers
@pytest.mark.parametrize("seed", [3, 4])
def test_drawn_kernels_count_what_the_model_does(seed):
    """The quickest of some, in Triton's interpreter: right outputs, and the model's words."""
    jobs = [j for j in drawn_jobs(NAMES, seed, 40) if j.sizes.get("N", 999) * 1 < 300]
    jobs.sort(key=lambda j: count(j.instance).total_words)
    for job in jobs[:5]:
        problem = job.problem
        inputs = problem.random(seed)
        found = interpret(job.emitted(), inputs, job.dtype)
        got = {t.name: found.outputs[t.name] for t in problem.form.outputs}
        error = iosim.max_error(got, problem.reference(inputs))
        assert error <= 3 * validate.TOLERANCE[job.dtype], job
        assert found.counts == count(job.instance), job


def test_the_command_prints_a_plan_without_a_gpu():
    text = ok("gpu", "validate", "--seed", "1", "--case", "2", "--dry-run")
    jobs = drawn_jobs(NAMES, 1, 2)
    lines = text.splitlines()
    assert lines[0].split() == ["algorithm", "sizes", "dtype", "M_words", "tiles"]
    assert [line.split()[0] for line in lines[2:] if line[0] != " "] == [j.algorithm for j in jobs]
    text = ok(
        "gpu",
        "validate",
        "--schedule",
        "keys_twice",
        "--d",
        "64",
        "--N",
        "100",
        "--M",
        "8192",
        "--dry-run",
    )
    assert "keys_twice" in text


def test_what_a_draw_chooses_is_not_typed_beside_it():
    report = gpu_report("validate")
    given = {o.name: o.parse(o.default) for o in report.options}
    assert given["case"] == ("dense",)
    cases = next(o for o in report.options if o.name == "case")
    assert cases.parse("200") == 200
    assert cases.parse("causal,decode") == ("causal", "decode")
    with pytest.raises(InputError, match="chooses d: leave out --d"):
        report.plan(given | {"case": 3, "d": (48,)})
    with pytest.raises(InputError, match="chooses target: leave out --target"):
        report.plan(given | {"case": 3, "target": "hopper"})
    with pytest.raises(InputError, match="need a block mask"):
        report.plan(given | {"case": 3, "schedule": ("block_sparse",)})


def test_the_record_says_the_seed_and_what_the_chip_cannot_hold_is_apart(tmp_path):
    report = gpu_report("validate")
    given = {o.name: o.parse(o.default) for o in report.options}
    (run, _) = report.plan(given | {"case": 1, "seed": 9, "schedule": ("copy",)})
    assert run.asked["drawn"] == {"seed": 9, "number": 1}
    folder = tmp_path / "validate"
    folder.mkdir()
    (folder / "spec.json").write_text(json.dumps(run.asked))
    gate = json.loads(recorded(RECORDED / "validate" / "measured.json"))["rows"][0]
    large = {"failed": "copy is too large for the chip (registers): choose a smaller M"}
    (folder / "measured.json").write_text(json.dumps({"rows": [gate, large]}))
    told = (RECORDED / "validate" / "provenance.json").read_text()
    (folder / "provenance.json").write_text(told)
    table = report.table(folder)
    assert table.good
    assert table.summary.startswith("seed 9, 1 drawn: 2 configurations")
    assert "1 too large for the chip; all good" in table.summary
    # Where tiles were chosen and not drawn, it is a failure.
    (folder / "spec.json").write_text(json.dumps({"jobs": run.asked["jobs"]}))
    assert not report.table(folder).good


def _touched(job, monkeypatch):
    """Bytes of the sectors that the loads of an interpreted kernel address, each load by itself."""
    with interpreted_triton():
        return _watch_loads(job, monkeypatch)


def _watch_loads(job, monkeypatch):
    from triton.runtime.interpreter import InterpreterBuilder

    sectors, bases = [], []
    load, where = InterpreterBuilder.create_masked_load, HostArray.data_ptr

    def watched(self, pointers, mask, *others):
        at = pointers.data[np.broadcast_to(mask.data, pointers.data.shape)].astype(np.int64)
        starts = np.unique(bases)  # a tensor begins with a sector
        at -= starts[np.searchsorted(starts, at, "right") - 1] if at.size else 0
        sectors.append(np.unique(at // 32).size)
        return load(self, pointers, mask, *others)

    def noted(self):
        bases.append(where(self))
        return where(self)

    with monkeypatch.context() as patch:
        patch.setattr(InterpreterBuilder, "create_masked_load", watched)
        patch.setattr(HostArray, "data_ptr", noted)
        found = interpret(job.emitted(), job.problem.random(1), job.dtype, count=False)
    return 32 * sum(sectors), found


@pytest.mark.parametrize(
    ("name", "problem", "tiles"),
    [
        (
            "flash2_chunked",
            Attention(19, 104, 1, window=(None, 44), sinks=11),
            {"B_c": 32, "B_d": 128, "B_r": 32},
        ),
        (
            "spill_rows",
            Attention(21, 61, 1, causal=True, sinks=4),
            {"B_c1": 32, "B_c2": 32, "B_d1": 61, "B_d2": 64, "B_r1": 32, "B_r2": 32, "W1": 61},
        ),
        (
            "spill_rows",
            Attention(41, 56, 1, N_k=24, window=(None, 43)),
            {"B_c1": 32, "B_c2": 32, "B_d1": 56, "B_d2": 64, "B_r1": 64, "B_r2": 64, "W1": 56},
        ),
        (
            "small_cache",
            Attention(20, 192, 1),
            {"B_c1": 16, "B_c2": 32, "B_d1": 16, "B_d2": 32, "B_r1": 16, "B_r2": 32, "W1": 0},
        ),
    ],
)
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_loads_end_with_the_sector_of_their_type(name, problem, tiles, dtype, monkeypatch):
    """Found by a draw: loads went on to a multiple of 16 words, which are two sectors of fp32."""
    job = Job.of(name, problem, tiles, dtype=dtype)
    touched, _ = _touched(job, monkeypatch)
    model = layout.sector_bytes(job.instance, dtype)
    assert touched == sum(n for (way, _), n in model.items() if way == "load")
