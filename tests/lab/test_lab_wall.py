"""Data of the wall: rows of ``iosim roofline`` and ``iosim fuse``, on every machine."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from test_cli import ok

from iosim.lab.data import fusing, wall
from iosim.models.fusion import Illegal, kernel
from iosim.models.hardware import MACHINES
from iosim.models.layers.architectures import layer
from iosim.models.layers.graph import Graph
from iosim.models.operators import operand, operator
from iosim.models.roofline.roof import Roof
from iosim.models.roofline.work import BOUNDARIES, L2_DRAM, work_of, works

pytestmark = pytest.mark.numbers


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the page gets: after a way through JSON."""
    made: dict[str, Any] = json.loads(json.dumps(wall.build_data(), allow_nan=False))
    return made


def test_what_is_committed_is_what_the_layers_give_today(told: dict[str, Any]) -> None:
    assert wall.data() == told, "make it again: python -m iosim.lab.data.wall"


def named(told: dict[str, Any], machine: str) -> dict[str, Any]:
    return next(m for m in told["machines"] if m["name"] == machine)


def find_layer(told: dict[str, Any], model: str, phase: str, batch: int) -> dict[str, Any]:
    """A layer, with its graph."""
    return next(
        x | {"graph": g}
        for x in told["layers"]
        if (g := told["graphs"][x["graph"]])["model"] == model
        and g["phase"] == phase
        and x["batch"] == batch
    )


def of_memory(values: list[Any], place: int) -> Any:
    return values[min(place, len(values) - 1)]


def timed(
    one: dict[str, Any], machine: dict[str, Any], place: int
) -> tuple[dict[str, int], str, float]:
    """Bytes by boundary, the limit and the seconds of a legal kernel, from the tables alone."""
    ops = one["graph"]["legal"][place]
    moved = {at: of_memory(one["bytes"][at][place], k) for at, k in machine["memory"].items()}
    amounts = {x: sum(one[x][k] for k in ops) for x in ("products", "others")} | moved
    limits = {
        x["name"]: x["s"] if "s" in x else amounts[x["of"]] / x["per_s"] for x in machine["limits"]
    }
    limit = max(limits, key=limits.__getitem__)
    return moved, limit, limits[limit]


COMMANDS = [
    ("bert-large", "training", 8, "h100"),
    ("gpt2", "prefill", 1, "p100"),
    ("llama3-8b", "decode", 64, "a100"),
    ("mixtral-8x7b", "decode", 512, "b200"),
]


@pytest.mark.parametrize(("model", "phase", "batch", "gpu"), COMMANDS)
def test_operators_are_rows_of_the_roofline(
    told: dict[str, Any], model: str, phase: str, batch: int, gpu: str
) -> None:
    one, machine = find_layer(told, model, phase, batch), named(told, gpu)
    (about,) = (m for m in told["models"] if m["name"] == model)
    out = json.loads(
        ok(
            "roofline",
            "--model",
            model,
            "--phase",
            phase,
            "--batch",
            str(batch),
            "--N",
            str(about["N"]),
            "--machine",
            gpu,
            "--dtype",
            machine["dtype"],
            "--json",
        )
    )
    rows = [r for r in out["operators"] if r["part"] == f"{model} layer"]
    times = {r["times"] for r in rows}
    assert times == {about["layers"]}
    assert [r["name"] for r in rows] == [op["name"] for op in one["graph"]["operators"]]
    for k, row in enumerate(rows):
        moved, limit, seconds = timed(one, machine, k)
        flop = one["products"][k] + one["others"][k]
        assert one["graph"]["legal"][k] == [k]
        assert row["class"] == one["graph"]["operators"][k]["class"]
        assert (row["flop"], row["products_flop"]) == (
            flop * about["layers"],
            one["products"][k] * about["layers"],
        )
        assert row["dram_bytes"] == moved[L2_DRAM] * about["layers"]
        assert row["intensity"] == flop / moved[L2_DRAM]
        assert (row["limit"], row["time_s"]) == (limit, seconds * about["layers"])
        if "SM↔L2" in moved:
            assert row["sm_l2_bytes"] == moved["SM↔L2"] * about["layers"]
    (ridge,) = (b["ridge_flop_per_byte"] for b in out["boundaries"] if b["boundary"] == L2_DRAM)
    assert ridge == machine["ridge"]


def test_every_layer_on_some_machine_is_of_the_roofline(told: dict[str, Any]) -> None:
    machines = list(MACHINES.values())
    for k, found in enumerate(told["layers"]):
        graph = told["graphs"][found["graph"]]
        one, machine = found | {"graph": graph}, machines[k % len(machines)]
        N = wall.MODELS[graph["model"]][1]
        whole = layer(graph["model"], graph["phase"], batch=found["batch"], N=N)
        for place, work in enumerate(works(whole, machine)):
            expected = Roof.of(machine).timed(
                work if "fp16" in machine.peaks else work_in(work, "bf16")
            )
            moved, limit, seconds = timed(one, told["machines"][k % len(machines)], place)
            assert moved == {at: work.bytes[at] for at in moved}
            assert (limit, seconds) == (expected.limit, expected.time_s)


def work_in(work: Any, dtype: str) -> Any:
    from dataclasses import replace

    return replace(work, dtype=dtype)


@pytest.mark.parametrize(("model", "phase", "batch", "gpu"), COMMANDS)
def test_partitions_are_those_of_fuse(
    told: dict[str, Any], model: str, phase: str, batch: int, gpu: str
) -> None:
    one, machine = find_layer(told, model, phase, batch), named(told, gpu)
    graph, place = one["graph"], machine["memory"][L2_DRAM]
    ops = [op["name"] for op in graph["operators"]]
    words = {
        tuple(x): of_memory(w, place) for x, w in zip(graph["legal"], one["words"], strict=True)
    }
    mine = graph["fusions"] | {"best": of_memory(one["best"], place)}
    for how, kernels in mine.items():
        out = json.loads(
            ok(
                "fuse",
                "--model",
                model,
                "--phase",
                phase,
                "--batch",
                str(batch),
                "--N",
                str(wall.MODELS[model][1]),
                "--machine",
                gpu,
                "--fusion",
                how,
                "--no-online-softmax",
                "--json",
            )
        )
        assert out["M"] == told["memories"][L2_DRAM][place]
        assert [g["operators"] for g in out["groups"]] == [[ops[k] for k in x] for x in kernels]
        assert list(mine) == [row["fusion"] for row in out["totals"]]
        for group, kernel_ in zip(out["groups"], kernels, strict=True):
            # Kernels of the paper that share nothing are several of the table.
            if tuple(kernel_) in words:
                assert words[tuple(kernel_)] == group["words_in"] + group["words_out"]


def test_a_memory_that_is_left_out_moves_as_much(told: dict[str, Any]) -> None:
    """Tables stop where larger memories move as much: each memory is counted by itself here."""
    random.seed(5)
    for _ in range(250):
        found = random.choice(told["layers"])
        graph = told["graphs"][found["graph"]]
        whole = layer(
            graph["model"], graph["phase"], batch=found["batch"], N=wall.MODELS[graph["model"]][1]
        )
        place = random.randrange(len(graph["legal"]))
        ops = [whole.operators[k] for k in graph["legal"][place]]
        for at in BOUNDARIES:
            k = random.randrange(len(told["memories"][at]))
            shown = of_memory(found["bytes"][at][place], k)
            try:
                crossing = kernel(whole, [op.name for op in ops], told["memories"][at][k]).crossing
            except Illegal:
                assert shown is None
                continue
            assert shown == work_of(ops, {at: crossing}, whole).bytes[at]
            if at == L2_DRAM:
                assert of_memory(found["words"][place], k) == crossing.words


def test_every_kernel_fits_in_the_last_cache_of_every_machine(told: dict[str, Any]) -> None:
    assert all(None not in x for found in told["layers"] for x in found["bytes"][L2_DRAM])


def test_numbers_of_machines_are_the_registrys(told: dict[str, Any]) -> None:
    assert [m["name"] for m in told["machines"]] == list(MACHINES)
    for shown, machine in zip(told["machines"], MACHINES.values(), strict=True):
        out = json.loads(ok("machines", machine.name, "--json"))
        assert shown["ridge"] == out["ridge_flop_per_byte"][shown["dtype"]]
        speeds = {x["name"]: x.get("per_s") for x in shown["limits"]}
        assert speeds["matrix units"] == out["peaks"][shown["dtype"]]
        assert speeds[L2_DRAM] == out["dram_bytes_per_s"]
        assert speeds.get("SM↔L2") == out["l2_bytes_per_s"]
        assert {x["name"]: x["source"] for x in shown["numbers"]} == out["sources"]


def test_which_sets_are_kernels_does_not_follow_from_sizes() -> None:
    small, large = (layer("gpt2", "training", batch=b, N=n) for b, n in ((1, 64), (16, 1024)))
    M = 10**9
    assert fusing.structure(small, M) == fusing.structure(large, M)


def test_a_set_of_which_nothing_larger_is_legal_says_why() -> None:
    # b makes whole rows of what a makes, before c may start.
    s = {"t": 4, "i": 8, "u": 16}
    x, w, y = operand("X", "t i", s), operand("W", "i u", s), operand("Y", "t u", s)
    a, b = operand("A", "t i", s), operand("B", "t i", s)
    graph = Graph(
        "three",
        (
            operator("a", "relu", [x], [a]),
            operator("b", "softmax", [a], [b], over="i"),
            operator("c", "contraction", [b, w], [y]),
        ),
    )
    found = fusing.structure(graph, 1000)
    assert found["legal"] == [[0], [1], [2], [0, 1]]
    assert found["refused"] == []
    assert found["stops"] == [[[1, 2], 0]]
    assert found["reasons"] == ["b needs whole rows before c starts"]


def test_the_views_part_is_small(told: dict[str, Any]) -> None:
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    assert len(text.encode()) < 700_000
