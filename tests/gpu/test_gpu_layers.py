"""Layers on a GPU: a record made up by a test goes through table, figure and replay."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from layers_record import SAID, write_record
from same_figure import figure_texts
from test_cli import ok

from iosim.base.errors import InputError
from iosim.gpu.errors import GpuError
from iosim.gpu.layers import cases, launch_counters
from iosim.gpu.layers import groups as g
from iosim.gpu.layers.cases import CASES, QUICK, VARIANTS, LayerCase
from iosim.gpu.layers.trace import GRADIENT_SUM, Launch, launches, typical
from iosim.gpu.reports import gpu_report
from iosim.gpu.run import profiler
from iosim.models.fusion import partition
from iosim.report.table import read_csv

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_record(tmp_path_factory.mktemp("made-up") / "layers")


@pytest.fixture(scope="module")
def table(folder):
    return gpu_report("layers").table(folder)


def test_each_run_has_a_row_whose_shares_are_whole(table):
    assert table.good
    assert "8 runs, 8 measured, 8 with counters; counters right to 1%" in table.summary
    assert "of the time of kernels (V100: 61.0 / 25.5 / 13.5)" in table.summary
    assert len(table.rows) == 2 * len(VARIANTS)
    for row in table.rows:
        assert sum(row[f"time_{c}"] for c in g.CLASSES) == pytest.approx(1, abs=1e-3)
        assert sum(row[f"flop_{c}"] for c in g.CLASSES[:3]) == pytest.approx(1, abs=1e-5)
        assert row["overhead_share"] == pytest.approx(1 - 1 / 1.3, abs=1e-4)
        assert row["counted"] == row["launches"]
        assert row["dram_load_bytes"] == 4096 * row["launches"]
        assert row["tensor_flop"] == 1000 * row["launches"]
        assert row["time_unknown"] == 0
        assert row["wall_us"] == pytest.approx(1.3 * row["busy_us"])


def test_fusion_saves_words_of_the_model(table):
    rows = {(r["model"], r["variant"]): r for r in table.rows}
    for model in ("bert-large", "gpt2-medium"):
        eager, fused = rows[model, "eager"], rows[model, "fused"]
        assert fused["dram_model_bytes"] < eager["dram_model_bytes"]
        assert fused["speedup"] == pytest.approx(eager["wall_us"] / fused["wall_us"], abs=1e-3)
        assert fused["model_speedup"] > 1


def test_the_paper_is_beside_its_case_alone(table):
    rows = table.files["classes.csv"]
    for row in rows:
        known = row["class"] in ("contraction", "normalisation", "elementwise")
        paper = row["model"] == "bert-large" and known
        assert math.isnan(row["published_time_share"]) != paper


def test_every_launch_is_in_the_table_of_kernels(table):
    for row in table.rows:
        mine = [
            r
            for r in table.files["kernels.csv"]
            if (r["model"], r["variant"]) == (row["model"], row["variant"])
        ]
        assert sum(r["launches"] for r in mine) == row["launches"]
        assert sum(r["time_us"] for r in mine) == pytest.approx(row["busy_us"])


def test_what_was_fused_is_a_partition_of_the_operators(table):
    names = [name for name in table.files if name.startswith("groups-")]
    assert len(names) == 4
    for name in names:
        told = table.files[name]
        model, phase = ("bert-large", "training") if "bert" in name else ("gpt2-medium", "prefill")
        case = next(c for c in QUICK if (c.model, c.phase) == (model, phase))
        variant = VARIANTS["compiled_fused" if "fused" in name else "compiled"]
        known = [op.name for op in case.graph(variant).operators]
        assert sorted(x for group in told["groups"] for x in group) == sorted(known)


def bars(path):
    """The labels of a figure's bars."""
    return [x for x in figure_texts(path.read_text()) if re.search(", (eager|compiled|fused)$", x)]


@pytest.mark.numbers
def test_replay_and_figure_need_no_gpu_and_no_torch(folder, tmp_path):
    here = write_record(tmp_path / "records" / "layers").parent
    assert ok("gpu", "replay", str(here), "--rewrite").startswith("layers: 8 runs, 8 measured")
    written = {path.name for path in (here / "layers").iterdir()}
    assert {
        "table.csv",
        "classes.csv",
        "kernels.csv",
        "groups-bert-large-training-compiled.json",
    } <= written
    printed = ok("gpu", "figure", str(here), str(tmp_path / "figure"))
    assert printed.split() == [str(tmp_path / f"figure-layers.{x}") for x in ("png", "svg")]
    assert (tmp_path / "figure-layers.svg").stat().st_size > 10_000
    write_record(here / "layers-more")
    first = bars(tmp_path / "figure-layers.svg")
    assert len(first) > 8
    again = ok("gpu", "figure", str(here), str(tmp_path / "figure"))
    assert again == printed, "one figure for all records"
    assert bars(tmp_path / "figure-layers.svg") == first, "a run is drawn once"
    assert ok("gpu", "replay", str(here)).startswith("layers: 8 runs")  # its tables don't matter


def test_a_made_up_record_says_so_and_the_committed_ones_do_not(folder):
    assert json.loads((folder / "provenance.json").read_text())["command"] == SAID
    data = Path(__file__).parents[2] / "experiments" / "data"
    committed = list(data.glob("gpu/*/layers*/provenance.json"))
    assert len(committed) == 10
    for path in committed:
        assert json.loads(path.read_text())["command"].startswith("iosim gpu layers")


@pytest.mark.parametrize("machine", ["h200", "h100"])
def test_every_run_has_times_and_bytes_in_some_record(machine):
    data = Path(__file__).parents[2] / "experiments" / "data" / "gpu" / machine
    rows = [row for path in data.glob("layers*/table.csv") for row in read_csv(path)]
    what = ("dram_load_bytes", "sm_l2_load_bytes", "tensor_flop", "other_flop", "wall_us")
    told = [r for r in rows if all(r[x] > 0 for x in what)]
    wanted = {(c.model, c.phase, variant) for c in CASES for variant in VARIANTS}
    assert {(r["model"], r["phase"], r["variant"]) for r in told} == wanted


def test_without_counters_times_still_come(tmp_path):
    table = gpu_report("layers").table(write_record(tmp_path / "layers", counters=False))
    assert table.good
    assert "no counters" in table.summary
    assert all(math.isnan(row["dram_load_bytes"]) for row in table.rows)
    assert all(row["wall_us"] > 0 for row in table.rows)


def test_a_run_that_failed_is_a_row_and_the_others_stand(tmp_path):
    folder = write_record(tmp_path / "layers")
    found = json.loads((folder / "measured.json").read_text())
    found["rows"][0] = {"failed": "out of device memory: choose a smaller N or fewer heads"}
    (folder / "measured.json").write_text(json.dumps(found))
    table = gpu_report("layers").table(folder)
    assert "8 runs, 7 measured" in table.summary
    assert table.rows[0]["failed"].startswith("out of device memory")
    assert math.isnan(table.rows[1]["speedup"])  # there is no eager run to compare with


def test_kernels_that_one_run_alone_saw_are_listed(tmp_path):
    folder = write_record(tmp_path / "layers")
    path = folder / "report.csv"
    lines = path.read_text().splitlines(True)
    # The first run's second kernel is another one.
    at = next(k for k, x in enumerate(lines) if "mul_1" in x)
    lines[at] = lines[at].replace("mul_1", "something_else")
    path.write_text("".join(lines))
    table = gpu_report("layers").table(folder)
    first = table.rows[0]
    assert (first["counted"], first["uncounted"]) == (first["launches"] - 1, 1)
    assert math.isnan(first["dram_load_bytes"])  # no sum of a part
    (odd,) = [r for r in table.files["kernels.csv"] if r["pass"] == "only counted"]
    assert (odd["kernel"], odd["class"]) == ("something_else", g.UNKNOWN)


@pytest.mark.parametrize(("gate", "said"), [(2, "SM↔L2 loads 1"), (4, "flop on matrix units 2")])
def test_counters_that_are_wrong_at_what_is_known_are_said(tmp_path, gate, said):
    folder = write_record(tmp_path / "layers")
    path = folder / "report.csv"
    lines = path.read_text().splitlines(True)
    name = lines[gate + 1].split(",")[0]
    lines[gate + 1] = ",".join([name, *["1"] * (lines[0].count(","))]) + "\n"
    path.write_text("".join(lines))
    table = gpu_report("layers").table(folder)
    assert not table.good
    assert said in table.summary


def test_a_copy_without_a_place_in_the_graph_is_no_product():
    def of(op, **more):
        return g.klass(Launch("k", 1e-6, op=op, outer=op, **more), OPS)

    OPS = [
        op
        for op in QUICK[0].graph(VARIANTS["eager"]).operators
        if op.name in ("query", "query bias")
    ]
    assert of("aten::addmm") == "contraction"
    assert of("aten::copy_") == g.COPY
    assert of("aten::add") == "elementwise"
    assert of("Memcpy", kind="copy") == g.COPY
    assert of("aten::_scaled_dot_product_cudnn_attention") == g.ATTENTION
    assert g.klass(Launch("k", 1e-6), []) == g.UNKNOWN


def _real(name):
    told = json.loads((GOLDEN / f"inductor-{name}.json").read_text())
    made = [
        g.CompiledGroup(
            tuple(x["kernels"]), x["generated"], x["backward"], tuple(map(tuple, x["nodes"]))
        )
        for x in told["groups"]
    ]
    return told, made


def test_groups_of_a_compiler_become_operators_of_the_graph():
    """What PyTorch's compiler fused of a small BERT layer, on a CPU: who wrote the test read it."""
    from dataclasses import replace

    from test_layers import BERT

    from iosim.models.layers.architectures import layer

    config = replace(BERT, hidden=64, head_size=32, feed_forward=96, positions=64)
    graph = layer(config, "training", batch=3, N=32)
    told, made = _real("bert-training")
    found = g.fused(graph, told["covers"], made)
    assert sorted(x for names in found.names for x in names) == sorted(
        op.name for op in graph.operators
    )
    together = set(found.groups and map(tuple, found.groups))
    assert {
        ("query", "query bias"),
        ("scale", "softmax", "attention dropout"),
        ("output dropout", "attention residual", "attention norm"),
        ("activation", "activation dropout"),
        ("activation dropout dX", "activation dX"),
        ("attention dropout dX", "softmax dX", "scale dX"),
        ("query dX",),
        ("query dWQ",),
        ("scores dQ",),
        ("scores dK",),
        ("weighted sum dV",),
        ("value bias dBV",),
    } <= together
    assert set(found.absorbed) <= {"scale"}
    assert ("dY1", "attention norm dX", "output dropout dX") in together
    # What it fused are kernels of iosim's, too, and move fewer words.
    alone = partition(graph, [(op.name,) for op in graph.operators], 2**20, "none")
    assert partition(graph, found.groups, 2**20, "recorded").words < alone.words


def test_sums_of_gradients_are_in_no_call_of_a_library():
    from dataclasses import replace

    from test_layers import LLAMA

    from iosim.models.layers.architectures import layer

    config = replace(LLAMA, hidden=64, head_size=16, feed_forward=96, positions=64)
    graph = layer(config, "training", batch=3, N=32)
    told, made = _real("llama-training")
    found = g.fused(graph, told["covers"], made)
    where = {name: at for at, names in enumerate(found.names) for name in names}
    assert set(where) == {op.name for op in graph.operators}
    assert all(made[where[name]].generated for name in found.absorbed)
    assert where["dX1"] == where["norm 2 dX"]
    assert where["dX"] == where["norm 1 dX"]
    for one in ("weighted sum dV", "weighted sum dP", "scores dK", "query dWQ", "query dN1"):
        assert found.names[where[one]] == (one,)
        assert not made[where[one]].generated


def test_launches_of_a_compiled_run_find_their_groups():
    def group(name, generated, backward=False):
        return g.CompiledGroup((name,), generated, backward, ())

    made = [
        group("extern_kernels.mm", False),
        group("triton_a", True),
        group("extern_kernels.bmm", False),
        group("triton_a", True),
        group("triton_a", True, True),
    ]

    def launch(kernel, call, backward=False, outer="aten::mm"):
        return Launch(kernel, 1e-6, call=call, backward=backward, outer=outer)

    run = [
        launch("gemm", 1),
        launch("splitk", 1),
        launch("triton_a", 2, outer="triton_a"),
        launch("gemm", 3),
        launch("triton_a", 4, outer="triton_a"),
        launch("triton_a", 5, True, "triton_a"),
        launch("odd", 6, True),
    ]
    assert g.groups_of(run, made) == [0, 0, 1, 2, 3, 4, None]
    # One call too many: none of a library is placed by its order.
    assert g.groups_of([*run, launch("more", 7)], made) == [None, None, 1, None, 3, 4, None, None]


def test_the_usual_run_of_several_is_taken():
    def run(*times):
        return [Launch(name, t) for name, t in zip("ab", times, strict=True)]

    odd = [Launch("a", 9.0)]
    found = typical([run(1, 5), odd, run(3, 4), run(2, 6)])
    assert [(x.kernel, x.time_s) for x in found] == [("a", 2), ("b", 5)]
    assert typical([]) == ()


PRODUCTS = ("mm", "addmm", "bmm")


@pytest.mark.torch
def test_a_trace_of_a_real_layer_maps_every_kernel_to_its_step():
    """A CPU has no kernels: each innermost operator of PyTorch is given one."""
    torch = pytest.importorskip("torch")
    from iosim.gpu.layers import modules, tasks
    from iosim.gpu.layers.record import LayerRun

    run = LayerRun(LayerCase("gpt2-medium", "training", 1, 16, "fp32"), "eager")
    one = tasks.build(torch, run, "cpu")
    one.go()
    seen: list[list[dict]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "launches", lambda events: seen.append(events) or [])
        tasks.traced(torch, one.go, passes=1)
    events = seen[0]
    ops = [e for e in events if e.get("cat") == "cpu_op" and e["name"].startswith("aten::")]
    for k, e in enumerate(ops):
        # A product's own work is at its end; a part of it may be stopped in the middle of its time.
        share = 0.99 if e["name"].split("::")[-1] in PRODUCTS else 0.5
        at = {"pid": e["pid"], "tid": e["tid"], "ts": e["ts"] + e["dur"] * share}
        inner = any(
            o is not e
            and o["tid"] == e["tid"]
            and e["ts"] <= o["ts"] <= at["ts"]
            and o["ts"] + o["dur"] >= at["ts"]
            for o in ops
        )
        if not inner:
            args = {"correlation": k}
            events += [
                {"ph": "X", "cat": "cuda_runtime", "name": "launch", "dur": 0, "args": args, **at},
                {"ph": "X", "cat": "kernel", "name": e["name"], "dur": 1, "args": args, **at},
            ]
    ((*found,),) = launches(events)
    covers = modules.covers(one.layer)
    assert {x.step for x in found if not x.backward} >= set(covers)
    products = [x for x in found if x.op.split("::")[-1] in PRODUCTS]
    linear = ["query", "key", "value", "output", "linear 1", "linear 2"]
    both = ["scores", "weighted sum"]
    assert [x.step for x in products if not x.backward] == [
        "query",
        "key",
        "value",
        "scores",
        "weighted sum",
        "output",
        "linear 1",
        "linear 2",
    ]
    backward = [x.step for x in products if x.backward]
    assert sorted(backward) == sorted(2 * (linear + both))
    assert {x.step for x in found if x.backward} <= {*covers, GRADIENT_SUM, ""}
    assert sum(x.step == GRADIENT_SUM for x in found) >= 4  # X, X1 and N1 have several readers
    lost = {x.op for x in found if not x.step}
    assert lost <= {
        "aten::empty",
        "aten::to",
        "aten::detach",
        "aten::view",
        "aten::transpose",
        "aten::as_strided",
        "aten::expand",
        "aten::empty_like",
        "aten::unbind",
        "aten::reshape",
        "aten::clone",
        "aten::copy_",
        "aten::_unsafe_view",
        "aten::_reshape_alias",
        "aten::empty_strided",
        "aten::t",
    }, lost


@pytest.mark.torch
def test_the_worker_runs_on_a_cpu_as_far_as_it_goes(monkeypatch, tmp_path):
    """Built, taken in turn, compared and traced, for all but what a GPU alone can do."""
    torch = pytest.importorskip("torch")
    from dataclasses import asdict

    from iosim.gpu.layers import tasks
    from iosim.gpu.layers.record import LayerRun, MeasuredRun, Spec
    from iosim.gpu.records.plain import checked

    case = LayerCase("gpt2-medium", "decode", 1, 16, "fp32")
    runs = (LayerRun(case, "eager"), LayerRun(case, "fused"))
    asked = json.loads(json.dumps(asdict(Spec(runs, 100.0, 100.0, "none"))))
    monkeypatch.setattr(tasks, "DEVICE", "cpu")
    monkeypatch.setattr(tasks, "torch_module", lambda: torch)
    monkeypatch.setattr(tasks, "environment", lambda: {"device": SAID})
    monkeypatch.setattr(
        tasks, "time_between_events", lambda torch, go, n: [go() for _ in range(n)] and 0.01
    )
    monkeypatch.setattr(tasks, "_gates", lambda torch: None)
    seen = []
    monkeypatch.setattr(tasks, "watch", lambda torch, passes: seen.extend(passes))
    found = json.loads(json.dumps(tasks.measure(asked, tmp_path / "measured.json")))
    rows = [checked(MeasuredRun, row, "row") for row in found["rows"]]
    assert [row.failed for row in rows] == ["", ""]
    assert all(len(row.walls) == tasks.ROUNDS and row.passes == tasks.TRACED for row in rows)
    assert rows[0].beside_eager == 0
    assert 0 < rows[1].beside_eager < 1e-5
    assert rows[0].covers["query"] == ("query", "query bias")
    told = tasks.watched(asked, tmp_path / "profiled.json")
    assert [row["failed"] for row in told["rows"]] == ["", ""]
    assert len(seen) == 2
    # What measuring left of its time is the counters'.
    for took, failed in ((0.0, ["", ""]), (asked["measure_s"], [tasks.LATE] * 2)):
        (tmp_path / "measured.json").write_text(json.dumps({**found, "took_s": took}))
        told = tasks.watched({**asked, "profile_s": -1.0}, tmp_path / "profiled.json")
        assert [row["failed"] for row in told["rows"]] == failed
    # No time: each run says so, and none is lost.
    late = tasks.measure({**asked, "measure_s": -1.0}, tmp_path / "measured.json")
    assert [row["failed"] for row in late["rows"]] == [tasks.LATE] * 2
    (tmp_path / "measured.json").write_text(json.dumps(late))
    told = tasks.watched(asked, tmp_path / "profiled.json")
    assert [row["failed"] for row in told["rows"]] == [tasks.LATE] * 2


def test_names_are_read():
    assert cases.models("all") == ("bert-large", "llama3-8b", "gpt2-medium")
    assert cases.chosen(("bert-large",), cases.PHASES, True) == QUICK[:1]
    assert cases.chosen(("bert-large",), ("decode",), False) == ()
    assert [x.name for x in cases.chosen(cases.MODELS, ("decode",), False)] == [
        "llama3-8b decode",
        "gpt2-medium decode",
    ]
    with pytest.raises(InputError, match=r"unknown phase 'prefil'.*did you mean 'prefill'"):
        cases.phases("prefil")
    for text, said in (("bert", "did you mean 'bert-large'"), ("gpt-2", "gpt2-medium")):
        with pytest.raises(InputError, match=said):
            cases.models(text)
    with pytest.raises(InputError, match="unknown variant 'compile'"):
        cases.variants("compile")


def test_every_case_has_a_graph_in_each_variant():
    for case in (*CASES, *QUICK):
        for variant in VARIANTS.values():
            assert case.graph(variant).flop > 0


def test_the_plan_shares_its_seconds_and_reads_few_counters():
    given = {
        "model": cases.MODELS,
        "phase": cases.PHASES,
        "variant": tuple(VARIANTS),
        "seconds": 380,
        "quick": False,
        "counters": True,
        "vector_flop": True,
    }
    measure, profile = gpu_report("layers").plan(given)
    assert measure.asked["measure_s"] + measure.asked["profile_s"] == pytest.approx(380)
    assert len(measure.asked["runs"]) == len(CASES) * len(VARIANTS)
    assert gpu_report("layers").counters(given) == "wanted"
    assert gpu_report("layers").counters({**given, "counters": False}) == ""
    assert len(profile.others) == len(launch_counters.COUNTERS) == 16
    _, fewer = gpu_report("layers").plan({**given, "vector_flop": False})
    assert len(fewer.others) == 10
    (only,) = gpu_report("layers").plan({**given, "counters": False})
    assert not only.counters


def test_counters_are_asked_for_by_the_names_that_this_machine_has(monkeypatch):
    listed = "dram__bytes_read  read\nsm__b  b\nsm__c  c\n"
    asked = []

    def run(command, **how):
        asked.append(command)
        return SimpleNamespace(stdout=listed)

    monkeypatch.setattr(profiler.subprocess, "run", run)
    others = [("dram__bytes_read.sum",), ("sm__a.sum", "sm__b.sum"), ("sm__gone.sum",)]
    assert profiler._there("ncu", others) == ["dram__bytes_read.sum", "sm__b.sum"]
    assert asked == [["ncu", "--query-metrics"]]
    listed = ""
    assert profiler._there("ncu", others) == [names[0] for names in others]


def test_bytes_in_other_units_are_refused(tmp_path):
    folder = write_record(tmp_path / "layers")
    path = folder / "report.csv"
    path.write_text(path.read_text().replace(",byte", ",Mbyte", 1))
    with pytest.raises(GpuError, match="print-units base"):
        gpu_report("layers").table(folder)
