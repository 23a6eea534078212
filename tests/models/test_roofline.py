"""The roofline against a hand-written one; its sums, verdicts, sentence and figure."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import roofline_oracle as oracle
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from sizes import examples
from test_cli import iosim_, ok
from test_malformed_input import NASTY, drawn_once

import iosim
from iosim.base.errors import InputError
from iosim.core.problem import Attention, AttentionBackward
from iosim.models.fusion import Illegal, fused, kernel
from iosim.models.hardware import Hardware, machine
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import CONFIGS, Config
from iosim.models.layers.traffic import moved
from iosim.models.layers.workload import workload
from iosim.models.operators import OPERATORS, operand, operator
from iosim.models.roofline import single
from iosim.models.roofline.capacity import resident_bytes
from iosim.models.roofline.report import Roofline
from iosim.models.roofline.ridge import reached
from iosim.models.roofline.roof import LIMITS, Roof, Timed
from iosim.models.roofline.sentence import does_not_fit, sentence
from iosim.models.roofline.work import BOUNDARIES, L2_DRAM, SM_L2, works, works_of
from iosim.report.table import read_csv

SIZES = oracle.Sizes(b=7, N=20, i=24, g=2, r=3, p=4, u=30, v=50, layers=5)
# Slow enough everywhere that each limit is met by one of the small kernels.
SPEEDS = oracle.Speeds(products=1.8e9, others=4e8, dram=8e8, l2=8e8, launch=5e-7, chip=300, sm=60)


def tiny() -> Config:
    z = SIZES
    return Config(
        name="tiny",
        family="llama",
        layers=z.layers,
        hidden=z.i,
        heads=z.g * z.r,
        kv_heads=z.g,
        head_size=z.p,
        feed_forward=z.u,
        vocabulary=z.v,
        positions=64,
    )


def build_machine(s: oracle.Speeds = SPEEDS) -> Hardware:
    return Hardware(
        name="own",
        title="own",
        core="SM",
        cache="L2",
        cores=4,
        peaks={"fp16": s.products, "fp32": s.others},
        dram_bytes_per_s=s.dram,
        capacity_bytes=10**6,
        sram_bytes=2 * s.sm,
        cache_bytes=2 * s.chip,
        l2_bytes_per_s=s.l2,
        launch_s=s.launch,
    )


def timed(*, on: Hardware) -> list[Timed]:
    step = workload(tiny(), "decode", batch=SIZES.b, N=SIZES.N)
    return Roof.of(on).timed_all(works_of(step, on))


def test_a_small_model_is_as_by_hand() -> None:
    got, want = timed(on=build_machine()), oracle.decode(SIZES, SPEEDS)
    assert [x.work.name for x in got] == [row.name for row in want]
    for x, row in zip(got, want, strict=True):
        w = x.work
        told = (w.times, w.products, w.others, w.bytes[L2_DRAM], w.bytes[SM_L2])
        assert told == (row.times, row.products, row.others, row.dram, row.sm), row.name
        seconds, limit = row.time(SPEEDS)
        assert (x.limit, math.isclose(x.time_s, seconds)) == (limit, True), row.name
    # The example has every limit but links, and tiles matter at both boundaries.
    assert {x.limit for x in got} == LIMITS.keys() - {"link"}
    assert any(
        x.work.bytes[SM_L2] > x.work.bytes[L2_DRAM] > 2 * (x.work.words_in + x.work.words_out)
        for x in got
    )


@pytest.mark.parametrize(
    ("model", "phase"),
    [
        (model, phase)
        for model, one in CONFIGS.items()
        for phase in ("training", "prefill", *["decode"] * (one.family != "bert"))
    ],
)
def test_sums_are_those_of_the_rows(model: str, phase: str) -> None:
    h100 = machine("h100")
    step = workload(model, phase, batch=2, N=64)
    found = Roofline(Roof.of(h100), "fp16", Roof.of(h100).timed_all(works_of(step, h100)))
    rows, whole = found.rows(), found.totals()
    for name in ("flop", "words_in", "words_out", "dram_bytes", "sm_l2_bytes", "time_s"):
        assert math.isclose(whole[name], sum(r[name] for r in rows)), name
        assert math.isclose(whole[name], sum(c[name] for c in found.classes())), name
    assert whole["flop"] == step.flop
    assert math.isclose(sum(found.by_limit().values()), whole["time_s"])
    for share in ("flop_share", "dram_bytes_share", "time_share"):
        assert math.isclose(sum(c[share] for c in found.classes()), 1)
    for r in rows:
        assert r["dram_bytes"] <= r["sm_l2_bytes"], r["name"]


def of_one(name: str, on: Hardware, sizes: dict[str, int], **more: Any) -> Timed:
    (work,) = works(single.single(name, sizes, **more), on)
    return Roof.of(on).timed(work)


def test_every_verdict() -> None:
    a100 = machine("a100")
    big = {"m": 4096, "n": 4096}
    assert of_one("matmul", a100, big | {"k": 4096}).limit == "matrix units"
    assert of_one("add", a100, big).limit == "L2↔DRAM"
    assert of_one("add", a100, {"n": 16}).bound == "overhead"
    assert of_one("all_reduce", a100, big, devices=8).bound == "link"
    slow_l2 = replace(a100, l2_bytes_per_s=a100.dram_bytes_per_s / 2)
    on_l2 = of_one("add", slow_l2, big)
    assert (on_l2.bound, on_l2.boundary) == ("memory", "SM↔L2")
    assert (
        of_one(
            "softmax", replace(build_machine(), peaks={"fp16": 1e9, "fp32": 1e7}), {"n": 64}
        ).limit
        == "vector units"
    )
    assert {"compute", "memory", "overhead", "link"} == set(LIMITS.values())


def test_an_all_reduce_takes_one_direction_of_the_links() -> None:
    found = of_one("all_reduce", machine("h100"), {"n": 10**9}, devices=8)
    # 2 · 7/8 of the words, 2 bytes each, at 450 of 900 GB/s
    assert math.isclose(found.limits["link"], 2 * 7 / 8 * 2e9 / 450e9)


SPEED_FIELDS = {
    "dram_bytes_per_s": "L2↔DRAM",
    "l2_bytes_per_s": "SM↔L2",
    "link_bytes_per_s": "link",
}


@pytest.mark.parametrize("field", SPEED_FIELDS)
def test_a_speed_belongs_to_one_boundary(field: str) -> None:
    a100 = machine("a100")
    faster = replace(a100, **{field: 2 * getattr(a100, field)})
    graph = single.single("all_reduce", {"n": 10**6}, devices=4)
    (before,), (after,) = (Roof.of(m).timed_all(works(graph, m)) for m in (a100, faster))
    changed = {x for x in LIMITS if before.limits.get(x) != after.limits.get(x)}
    assert changed == {SPEED_FIELDS[field]}
    assert math.isclose(after.limits[SPEED_FIELDS[field]], before.limits[SPEED_FIELDS[field]] / 2)


@examples(1 / 2)
@given(
    field=st.sampled_from(["dram_bytes_per_s", "l2_bytes_per_s", "sram_bytes", "cache_bytes"]),
    by=st.integers(2, 9),
)
def test_more_speed_or_memory_is_never_slower(field: str, by: int) -> None:
    slow = build_machine()
    fast = replace(slow, **{field: by * getattr(slow, field)})
    for a, b in zip(timed(on=slow), timed(on=fast), strict=True):
        assert b.time_s <= a.time_s
        if field.endswith("_bytes"):
            assert all(b.work.bytes[at] <= a.work.bytes[at] for at in BOUNDARIES)


# -- fused kernels ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("fusion", "online"), [("paper", True), ("best", False)])
def test_fusion_keeps_flop_and_moves_less(fusion: str, online: bool) -> None:
    """But for an online softmax, whose weights are computed again."""
    h100 = machine("h100")
    step = workload("bert-large", "training", batch=1, N=64)
    none, some = (works_of(step, h100, fusion=x, online_softmax=online) for x in ("none", fusion))
    assert sum(w.flop * w.times for w in some) == sum(w.flop * w.times for w in none) == step.flop
    for at in BOUNDARIES:
        assert sum(w.bytes[at] * w.times for w in some) < sum(w.bytes[at] * w.times for w in none)
    assert {x for w in some for x in w.name.split(" + ")} == {w.name for w in none}
    assert sum(" + " in w.name for w in some) > 5
    # Whatever a kernel is of, a contraction in it makes it one.
    products = {w.name for w in none if w.klass == "contraction"}
    for w in some:
        assert (w.klass == "contraction") == bool(products & set(w.name.split(" + ")))


def test_the_best_kernels_fit_in_an_sm() -> None:
    """Sums over all rows, and whole rows, would fit on the chip."""
    step = workload(tiny(), "training", batch=2, N=8)
    graph, chip, sm = step.parts[1].graph, 20_000, 150
    free, held = (fused(graph, "best", chip, within=x, online_softmax=False) for x in (None, sm))
    assert free.words < held.words

    def fits(names: tuple[str, ...]) -> bool:
        try:
            return kernel(graph, names, sm).words > 0
        except Illegal:
            return False

    assert all(fits(one.names) for one in held.groups)
    # Nor does one that fits move more there than its operators alone.
    by_name = {op.name: moved(op, sm).words for op in graph.operators}
    for one in held.groups:
        assert kernel(graph, one.names, sm).words <= sum(by_name[x] for x in one.names)
    assert not all(fits(one.names) for one in free.groups)


# -- schedules that store something for themselves -------------------------------------------------


def test_what_a_schedule_stores_for_itself_is_counted() -> None:
    graph = single.attention(Attention(1024, 64, 16))
    (op,) = graph.operators
    crossing = moved(op, 49152, "naive")
    # Scores are stored and loaded twice: after QKᵀ, and as weights.
    for moves in (crossing.loads, crossing.stores):
        assert {x: n for x, n in moves.items() if ":" in x} == {
            "attention: S": 16 * 1024**2,
            "attention: P": 16 * 1024**2,
        }
    h100 = machine("h100")
    (naive,), (flash1,) = (works(graph, h100, schedule=x) for x in ("naive", "flash1"))
    assert naive.roles[SM_L2]["scratch"] == 2 * 4 * 16 * 1024**2
    wide = moved(op, h100.sm_words("fp16"), "flash1")
    statistics = sum(n for moves in (wide.loads, wide.stores) for x, n in moves.items() if ":" in x)
    assert wide.wide == {"attention: m", "attention: l"}
    assert flash1.roles[SM_L2]["scratch"] == 4 * statistics > 0


ATTENTION = Attention(512, 64, 8, causal=True)
BACKWARD = AttentionBackward(96, 8, 6, kv_heads=2, N_k=40, d_v=16, causal=True)


@pytest.mark.parametrize("name", [x.name for x in iosim.all_algorithms(BACKWARD.form)])
def test_the_gradients_of_attention_move_what_their_schedule_does(name: str) -> None:
    M = 700
    (op,) = single.attention(BACKWARD).operators
    crossing = moved(op, M, name)
    program = iosim.algorithm(name).program_for(BACKWARD)
    tiles = iosim.optimal_tiles(program, BACKWARD, M).tiles
    counts = iosim.count(iosim.bind(program, BACKWARD.sizes, tiles))
    own = {t.name for t in program.tensors} - {"Q", "K", "V", "O", "dO", "L", "dQ", "dK", "dV"}
    for direction, moves in (("load", crossing.loads), ("store", crossing.stores)):
        assert moves == {
            f"attention-backward: {x}" if x in own else x: n
            for x, n in counts.by_tensor(direction).items()
        }


def test_without_a_choice_gradients_are_the_best_of_the_fused_schedules() -> None:
    (op,) = single.attention(BACKWARD).operators
    fused = ("two_kernels", "flash2_backward", "flash1_backward")
    for M in (200, 700, 10**4):
        assert moved(op, M).words == min(moved(op, M, x).words for x in fused)
    # Where all fits, dQ is cleared and then added to: each of its words moves three times.
    (op,) = single.attention(replace(BACKWARD, causal=False)).operators
    assert moved(op, 10**5).words == op.words_in + op.words_out + 2 * 6 * 96 * 8
    with pytest.raises(InputError, match="flash2 solves attention, not attention-backward"):
        moved(op, 700, "flash2")


def test_attention_that_keeps_its_statistics_moves_them() -> None:
    (op,) = single.attention(replace(ATTENTION, statistics=True)).operators
    (plain,) = single.attention(ATTENTION).operators
    for schedule, more in (("flash2", 8 * 512), ("flash1", 3 * 8 * 512)):
        kept, without = moved(op, 3000, schedule), moved(plain, 3000, schedule)
        assert kept.words - without.words == more


def test_attention_has_products_and_other_flop() -> None:
    (work,) = works(single.attention(ATTENTION), machine("h100"))
    pairs = 8 * 512 * 513 // 2
    assert (work.products, work.others) == (4 * 64 * pairs, 5 * pairs)


def test_every_kind_that_stands_alone_can_be_asked_for() -> None:
    sizes = {"m": 64, "n": 32, "k": 16}
    for name, (kind, told) in single.SINGLE.items():
        axes = set(re.findall(r"\b[bmnk]\b", told))
        more = {"devices": 4} if name == "all_reduce" else {}
        graph = single.single(name, {x: n for x, n in sizes.items() if x in axes}, **more)
        (work,) = works(graph, machine("a100"))
        assert graph.operators[0].kind is OPERATORS[kind]
        assert work.bytes[L2_DRAM] > 0
    forward = {
        name
        for name, kind in OPERATORS.items()
        if not re.search("_(back|dx|dw)$", name) and kind.gradient is not None
    }
    known = {kind for kind, _ in single.SINGLE.values()} | {"attention"}
    # What is left out has axes of its own: caches, and experts.
    assert not {x for x in forward - known if OPERATORS[x].kept == 0 and x in ("softmax", "gelu")}


# -- the command -----------------------------------------------------------------------------------

LLAMA = ("roofline", "--model", "llama3-8b", "--phase", "decode", "--N", "512", "--machine", "h200")
KEYS = {
    "name",
    "class",
    "flop",
    "words_in",
    "words_out",
    "dram_bytes",
    "intensity",
    "bound",
    "time_s",
    "sm_l2_bytes",
    "boundary",
    "times",
}


def run_json(*words: str) -> Any:
    return json.loads(ok(*words, "--json"))


def test_json_has_operators_and_totals() -> None:
    found = run_json(*LLAMA, "--batch", "8")
    assert {"operators", "totals", "classes", "sentence"} <= found.keys()
    for row in found["operators"]:
        assert row.keys() >= KEYS
        assert row["class"] in ("contraction", "normalisation", "elementwise")
        assert row["bound"] in ("compute", "memory", "overhead")
        assert (row["boundary"] is not None) == (row["bound"] == "memory")
    assert [c["class"] for c in found["classes"]] == ["contraction", "normalisation", "elementwise"]
    for name in ("flop", "words_in", "words_out", "dram_bytes", "sm_l2_bytes", "time_s"):
        assert math.isclose(found["totals"][name], sum(r[name] for r in found["operators"]))
    assert found["fits"] is True


WEIGHED = ("query", "key", "value", "output", "gate", "up", "down", "logits")


def test_the_sentence_names_the_batch_that_reaches_the_ridge() -> None:
    said = run_json(*LLAMA, "--batch", "8")["sentence"]
    assert said.startswith("decoding at batch 8 is bound by DRAM (L2↔DRAM)")
    match = re.search(r"at batch ([\d,]+) they would reach the ridge", said)
    assert match is not None
    batch = int(match[1].replace(",", ""))
    ridge = 989.4e12 / 4.8e12

    def intensity(batch: int) -> float:
        rows = [
            r for r in run_json(*LLAMA, "--batch", str(batch))["operators"] if r["name"] in WEIGHED
        ]
        assert len(rows) == len(WEIGHED)
        return float(sum(r["flop"] for r in rows) / sum(r["dram_bytes"] for r in rows))

    assert intensity(batch - 1) < ridge <= intensity(batch)
    # Compulsory words alone would need less.
    assert 206 < batch < 240


def test_the_sentence_is_true_where_a_larger_batch_does_less() -> None:
    # The rows of 43 sequences need one tile more than those of 42: 190 FLOP a byte after 229.
    v100 = machine("v100")
    small = replace(v100, cache_bytes=2**20, peaks={**v100.peaks, "fp16": 210 * 900e9})

    def at(batch: int) -> Roofline:
        step = workload("gpt2", "prefill", batch=batch, N=16)
        return Roofline(Roof.of(small), "fp16", Roof.of(small).timed_all(works_of(step, small)))

    ridge = reached(lambda b: (x.work for x in at(b).kernels), small.ridge_for("fp16"))
    assert ridge.batch is not None
    assert at(ridge.batch - 1).of_weights() < 210 <= at(ridge.batch).of_weights()
    seen = set()
    for batch in (31, 42, 43, ridge.batch, 86):
        found = at(batch)
        said = sentence("prefill", batch, found, ridge)
        above, behind = found.of_weights() >= 210, ridge.batch <= batch
        seen.add((above, behind))
        assert ("above the ridge of 210" in said) == above
        assert ("they would reach the ridge" in said) == (not above and not behind)
        assert ("below the ridge" in said) == (not above and behind)
        assert (f"which they reach at batch {ridge.batch}" in said) == behind
    assert len(seen) >= 3


def test_the_shares_of_the_sentence_are_those_of_the_rows() -> None:
    found = run_json(*LLAMA, "--batch", "8", "--launch-us", "0")
    whole = found["totals"]["time_s"]
    memory = sum(r["time_s"] for r in found["operators"] if r["boundary"] == "L2↔DRAM")
    weights = found["kept_bytes"]["weight"] - 128256 * 4096 * 2  # the table's rows are few
    assert f"{memory / whole:.0%} of the least time" in found["sentence"]
    match = re.search(r"weights alone (\d+)%", found["sentence"])
    assert match is not None
    assert abs(int(match[1]) / 100 - weights / 4.8e12 / whole) < 0.011


def test_launches_are_named_where_they_take_half_a_percent() -> None:
    shares = []
    for launch in ("0.02", "0.05", "0.1", "0.3", "4"):
        found = run_json(*LLAMA, "--batch", "8", "--launch-us", launch)
        whole = found["totals"]["time_s"]
        mine = sum(r["time_s"] for r in found["operators"] if r["limit"] == "launch")
        shares.append(mine / whole)
        assert ("launches of kernels take" in found["sentence"]) == (shares[-1] >= 0.005)
    assert any(0.005 <= x < 0.05 for x in shares)
    assert any(0 < x < 0.005 for x in shares)


@pytest.mark.parametrize("dtypes", [("fp16", "fp32"), ("fp32", "fp16")])
def test_products_are_held_against_the_peak_of_their_wider_factor(dtypes: tuple[str, str]) -> None:
    s = {"m": 64, "k": 32, "n": 16}
    x, w = (
        operand(t, axes, s, dtype=dtype)
        for t, axes, dtype in zip("XW", ("m k", "k n"), dtypes, strict=True)
    )
    product = operator("linear", "contraction", [x, w], [operand("Y", "m n", s)])
    (one,) = works(Graph("linear", (product,)), machine("h100"))
    assert one.dtype == "fp32"


def test_what_does_not_fit_is_said() -> None:
    words = ("roofline", "--model", "llama3-70b", "--N", "512", "--machine", "h100", "--phase")
    done = iosim_(*words, "decode", "--batch", "8")
    here, there = done.stderr.splitlines()
    assert here.startswith("iosim: note: 142.4 GB (weights 141.1 GB, ")
    assert here.endswith("don't fit in the 80 GB of h100")
    assert "at batch" in there
    h100 = machine("h100")
    assert does_not_fit({"weight": 79 * 10**9, "cache": 10**9}, h100) == ""
    assert "80 GB of h100" in does_not_fit({"weight": 79 * 10**9, "cache": 10**9 + 1}, h100)
    # Weights and gradients of 2 bytes; a master copy and two moments of 4.
    # The table that embedding and head share has a gradient from each.
    n, table = 124439808, 50257 * 768
    train = resident_bytes(workload("gpt2", "training", batch=1, N=64))
    assert train == {"weight": 2 * n, "state": 12 * n, "gradient": 2 * (n + table)}
    # In fp32 the weights are their own master copy, and counted once.
    # What encodes whole sequences keeps no keys and values for later.
    assert list(resident_bytes(workload("bert-base", "prefill", batch=8, N=64))) == ["weight"]
    assert list(resident_bytes(workload("gpt2", "prefill", batch=8, N=64))) == ["weight", "cache"]
    assert resident_bytes(workload("gpt2", "training", batch=1, N=64, dtype="fp32")) == {
        "weight": 4 * n,
        "state": 8 * n,
        "gradient": 4 * (n + table),
    }


def test_a_feed_forward_product_is_bound_by_compute_at_dram() -> None:
    for gpu in ("v100", "a100", "h100", "h200", "b200"):
        found = run_json(
            "roofline", "matmul", "--m", "1024", "--n", "1024", "--k", "4096", "--machine", gpu
        )
        (row,) = found["operators"]
        assert row["dram_bytes"] == 2 * (1024 * 4096 * 2 + 1024 * 1024)
        assert row["intensity"] > found["boundaries"][0]["ridge_flop_per_byte"]
        assert row["bound"] in ("compute", "overhead")


def test_a_machine_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    text = (
        "cores = 4\nsram_bytes = 100000\ncache_bytes = 1000000\ncapacity_bytes = 1000000000\n"
        "dram_bytes_per_s = 1e9\n[peaks]\nfp16 = 1e12\n"
    )
    file.write_text(text)
    words = ("roofline", "matmul", "--m", "64", "--n", "64", "--k", "64", "--machine", str(file))
    done = iosim_(*words)
    assert done.returncode == 0
    assert "own has no bandwidth with a source at SM↔L2" in done.stderr
    assert "own has no fp32 peak with a source" in done.stderr
    file.write_text(text.replace("cache_bytes = 1000000\n", ""))
    done = iosim_(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "iosim: own.toml: cache_bytes is missing: every machine needs it\n"


@pytest.mark.numbers
def test_out_has_tables_and_a_figure(tmp_path: Path) -> None:
    text = ok(*LLAMA, "--batch", "8", "--out", str(tmp_path / "new"))
    names = ("operators.csv", "machine.csv", "roofline.png", "roofline.svg")
    assert text.rstrip().endswith(", ".join(str(tmp_path / "new" / x) for x in names).split()[-1])
    assert sorted(x.name for x in (tmp_path / "new").iterdir()) == sorted(names)
    rows = read_csv(tmp_path / "new/operators.csv")
    assert [r["name"] for r in rows] == [
        r["name"] for r in run_json(*LLAMA, "--batch", "8")["operators"]
    ]
    before = (tmp_path / "new/roofline.svg").read_bytes()
    ok(*LLAMA, "--batch", "8", "--out", str(tmp_path / "new"))
    assert (tmp_path / "new/roofline.svg").read_bytes() == before
    (tmp_path / "file").write_text("")
    done = iosim_(*LLAMA, "--out", str(tmp_path / "file"))
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (2, 1, "")


GRAPH = """
iosim_graph = 1
name = "two"
dtype = "bf16"
[sizes]
t = 4096
i = 1024
[tensors]
X = "t i"
W = { axes = "i u=512", role = "weight" }
H = "t u=512"
Y = "t u=512"
[[operators]]
name = "linear"
kind = "contraction"
reads = ["X", "W"]
writes = ["H"]
[[operators]]
name = "gelu"
kind = "gelu"
reads = ["H"]
writes = ["Y"]
"""


def test_a_graph_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(GRAPH)
    words = ("roofline", "--graph", str(file), "--machine", "h100")
    found = run_json(*words)
    assert [r["name"] for r in found["operators"]] == ["linear", "gelu"]
    assert found["dtype"] == "bf16"
    product = 2 * 4096 * 1024 * 512
    assert found["totals"]["products_flop"] == product
    assert found["totals"]["dram_bytes"] == 2 * (4096 * 1024 + 1024 * 512 + 3 * 4096 * 512)
    (one,) = run_json(*words, "--fusion", "best")["operators"]
    assert (one["name"], one["class"]) == ("linear + gelu", "contraction")
    assert one["dram_bytes"] == 2 * (4096 * 1024 + 1024 * 512 + 4096 * 512)
    file.write_text(f'{GRAPH}\n[groups]\nboth = ["linear", "gelu"]\n')
    grouped = run_json(*words, "--fusion", "file")
    assert grouped["operators"] == [one]
    assert grouped["title"].endswith(", fusion file")
    file.write_text(GRAPH)
    for more, said in (
        (("--batch", "2"), "--batch does not apply to a graph"),
        (("--dtype", "fp16"), "its own: bf16"),
        (("--fusion", "paper"), "paper has kernels of BERT's layer"),
        (("--fusion", "file"), "fusion file is the groups of a graph's file"),
        (("--schedule", "flash2"), "flash2 solves attention, not matmul"),
    ):
        done = iosim_(*words, *more)
        assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (2, 1, "")
        assert said in done.stderr
    file.write_text(GRAPH.replace('writes = ["H"]', 'writes = ["Z"]'))
    done = iosim_(*words)
    assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (2, 1, "")


BAD = {
    "--model lama3-8b --phase decode --N 9 --machine h200": (
        "unknown model 'lama3-8b': did you mean 'llama3-8b'?"
    ),
    "--model llama3-8b --phase decode --N 9 --machine h20": "unknown machine 'h20'",
    "--model bert-large --phase decode --N 9 --machine h200": "bert-large encodes whole sequences",
    "--model llama3-8b --phase decoding --N 9 --machine h200": (
        "unknown phase 'decoding': did you mean 'decode'?"
    ),
    "--model llama3-8b --N 9 --machine h200": "llama3-8b needs --phase: give it",
    "--model llama3-8b --machine h200": "llama3-8b needs --phase, --N: give them",
    "--model llama3-8b --phase decode --N 9 --m 4 --machine h200": "--m does not apply to a model",
    "--model llama3-8b --phase decode --N 9 --dtype int8 --machine h200": "no peak for 'int8'",
    "--model llama3-8b --phase decode --N 9 --machine tpu-v5p": "no peak for 'fp16'",
    "--model llama3-8b --phase decode --N 9": "give --machine, like --machine h200",
    "--model llama3-8b matmul --machine h200": "one of them",
    "--machine h200": "name an operator",
    "mathmul --machine h200": "unknown operator 'mathmul': did you mean 'matmul'?",
    "matmul --m 4 --machine h200": "matmul needs --k, --n: give them",
    "softmax --n 4 --k 3 --machine h200": "softmax has no size k: it has m, n",
    "softmax --n 4 --schedule flash2 --machine h200": "softmax is a stream",
    "softmax --n 4 --phase decode --machine h200": "--phase applies to a model, not one operator",
    "attention --N 4 --d 4 --schedule matmul --machine h200": "matmul",
    "attention --N 4 --machine h200": "needs --d",
    "attention --N 9 --d 4 --window 1,1 --sinks 2 --machine h200": "no option --sinks",
    "matmul --m 4 --n 4 --k 4 --launch-us fast --machine h200": "--launch-us must be a finite",
    "all_reduce --n 4 --P 4 --machine epyc-9654 --dtype bf16": "choose another machine",
    "all_reduce --n 4 --machine h200": "--P",
    "--graph missing.toml --machine h200": "missing.toml",
    "--model llama3-8b --phase decode --N 9 --fusion bets --machine h200": (
        "unknown fusion 'bets': did you mean 'best'?"
    ),
    "--model llama3-8b --phase decode --N 9 --fusion best --schedule matmul --machine h200": (
        "--schedule does not apply to a model: leave it out"
    ),
    "softmax --n 4 --P 4 --machine h200": "--P does not apply to softmax: leave it out",
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_one_line(words: str) -> None:
    done = iosim_("roofline", *words.split())
    assert (done.returncode, done.stdout) == (2, ""), done
    assert len(done.stderr.splitlines()) == 1
    assert BAD[words] in done.stderr


@pytest.mark.parametrize(
    "option", ["m", "batch", "launch-us", "dtype", "schedule", "machine", "out"]
)
def test_any_text_of_an_option(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Figure, "savefig", drawn_once())
    given = {"m": "4", "n": "4", "k": "4", "machine": "h200"}
    for text in NASTY[::3]:
        typed = [
            x for name, value in (given | {option: text}).items() for x in (f"--{name}", value)
        ]
        done = iosim_("roofline", "matmul", *typed, cwd=tmp_path)
        assert done.returncode in (0, 2), done
        assert done.returncode == 0 or (len(done.stderr.splitlines()), done.stdout) == (1, "")


MIXTRAL = (
    "--model",
    "mixtral-8x7b",
    "--phase",
    "decode",
    "--batch",
    "3",
    "--N",
    "512",
    "--machine",
    "h200",
)


@pytest.mark.parametrize(
    ("experts", "read", "says"),
    [
        ((), 2, "it reads 2 of 8 experts a layer (the least that routing allows; uniform"),
        (("--experts", "expected"), 4.625, "it reads 4.625 of 8 experts a layer (as uniform"),
        (("--experts", "5"), 5, "it reads 5 of 8 experts a layer (uniform routing expects 4.625)"),
    ],
)
def test_the_output_says_how_many_experts_are_read(
    experts: tuple[str, ...], read: float, says: str
) -> None:
    text, told = (
        ok("roofline", *MIXTRAL, *experts),
        json.loads(ok("roofline", *MIXTRAL, *experts, "--json")),
    )
    assert says in text.splitlines()[0]
    assert told["experts"]["read"] == pytest.approx(read)
    up = next(r for r in told["operators"] if r["name"] == "up")
    one, rows = 4096 * 14336, 3 * 2
    assert up["words_in"] == 32 * (read * one + rows * 4096 + rows)
    fused_ = ("fuse", *MIXTRAL, *experts, "--no-online-softmax", "--fusion", "none")
    assert says.removeprefix("it ") in ok(*fused_).splitlines()[0]
    assert json.loads(ok(*fused_, "--json"))["experts"] == told["experts"]


# A layer of 256 experts, of which each of 64 tokens goes to 8, on an H200 of 4.8 TB/s. All experts
# take 4.7 ms; a layer of these sizes was measured at 3.77 ms, which a least time may not exceed.
MANY_EXPERTS = {
    "family": "mixture",
    "layers": 1,
    "hidden": 7168,
    "heads": 128,
    "head_size": 56,
    "kv_heads": 128,
    "feed_forward": 2048,
    "vocabulary": 129280,
    "positions": 4096,
    "experts": 256,
    "active": 8,
}


def test_the_least_time_of_many_experts_is_that_of_the_fewest(tmp_path: Path) -> None:
    file = tmp_path / "many.toml"
    file.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in MANY_EXPERTS.items()))
    words = ("--model", str(file), "--phase", "decode", "--batch", "64", "--N", "512")
    seconds = {}
    for experts in ((), ("--experts", "expected"), ("--experts", "256")):
        told = run_json("roofline", *words, "--machine", "h200", *experts)
        parts = [r for r in told["operators"] if r["name"] in ("gate", "up", "down")]
        assert len(parts) == 3
        assert told["experts"]["expected"] == pytest.approx(256 * (1 - (1 - 8 / 256) ** 64))
        seconds[experts] = sum(r["time_s"] for r in parts)
    least, expected, every = seconds.values()
    assert least < 3.77e-3 < expected < every
    # 256 experts' three matrices in fp16, and little else.
    assert every == pytest.approx(3 * 256 * 7168 * 2048 * 2 / 4.8e12, rel=0.01)
    assert least == pytest.approx(every * 8 / 256, rel=0.05)


def test_a_model_begins_with_its_sentence() -> None:
    text, whole = ok(*LLAMA), ok(*LLAMA, "--operators")
    told = json.loads(ok(*LLAMA, "--json"))
    assert text.splitlines()[0] == whole.splitlines()[0] == told["sentence"]
    for name in ("query rope", "weighted sum", "logits"):
        assert name not in text
        assert name in whole
    assert set(text.splitlines()) <= set(whole.splitlines())
