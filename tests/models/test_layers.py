"""Layers as graphs, run in NumPy: against layers by hand, finite differences, and each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import layers_by_hand as by_hand
import numpy as np
import pytest
from hypothesis import given as given_any
from hypothesis import strategies as st
from layer_runs import (
    BERT,
    DECODERS,
    GPT2,
    LLAMA,
    MIXTURE,
    SIZES,
    SMALL,
    WAYS,
    Arrays,
    Model,
    angles,
    draw_inputs,
    masks,
)
from sizes import examples

from iosim.base.errors import InputError
from iosim.core.algorithms import algorithm
from iosim.core.problem import MODELS, AttentionBackward
from iosim.core.tiling import optimal_tiles
from iosim.models.layers.architectures import ARCHITECTURES, check_request, layer
from iosim.models.layers.blocks import PHASES
from iosim.models.layers.files import parsed
from iosim.models.layers.graph import Graph
from iosim.models.layers.models import CONFIGS, FAMILIES, Config, config
from iosim.models.layers.routing import Routing
from iosim.models.layers.traffic import moved
from iosim.models.layers.workload import step, workload
from iosim.models.layers.writing import to_json
from iosim.models.operators import operand, operator

each = pytest.mark.parametrize("config", SMALL, ids=lambda c: c.family)
decoder = pytest.mark.parametrize("config", DECODERS, ids=lambda c: c.family)
fused_or_not = pytest.mark.parametrize("attention", WAYS)


@pytest.mark.parametrize("phase", ["training", "prefill"])
@each
def test_a_layer_is_the_one_by_hand(config: Config, phase: str) -> None:
    graph = layer(config, phase, batch=3, N=5)
    arrays = draw_inputs(graph)
    run = graph.run(arrays)
    dropped = masks(graph, run)
    if config.dropout:
        assert (phase == "training") == any((m == 0).any() for m in dropped.values())
    want = [by_hand.LAYERS[config.family](arrays, dropped, b) for b in range(3)]
    np.testing.assert_allclose(run["Y"], want, atol=1e-12)


@st.composite
def configs(draw: Any) -> tuple[Config, int, int, int]:
    """A small model, a batch, a context and new tokens."""
    small = st.integers(1, 5)
    kv, group, experts, N = (
        draw(st.integers(1, 2)),
        draw(st.integers(1, 3)),
        draw(small),
        draw(small),
    )
    family = draw(st.sampled_from(FAMILIES))
    found = Config(
        name="any",
        family=family,
        layers=1,
        hidden=draw(small),
        heads=kv * group,
        kv_heads=kv if family in ("llama", "mixture") else 0,
        head_size=2 * draw(st.integers(1, 2)),
        feed_forward=draw(small),
        vocabulary=3,
        positions=8,
        activation="relu",
        experts=experts,
        active=draw(st.integers(1, experts)),
    )
    return found, draw(st.integers(1, 3)), N, draw(st.integers(1, N))


@given_any(configs(), st.sampled_from(WAYS))
@examples(3 / 5)
def test_layers_of_any_size(ask: tuple[Config, int, int, int], attention: str) -> None:
    """Prefill is the layer by hand, and decoding gives its last rows."""
    config, batch, N, tokens = ask
    graph = layer(config, "prefill", batch=batch, N=N, attention=attention)
    arrays = draw_inputs(graph)
    run = graph.run(arrays)
    ones = dict.fromkeys("POAF", np.ones((batch, 1, 1)))
    ones["P"] = np.ones((batch, config.heads, N, N))
    more: Any = {"active": config.active} if config.family == "mixture" else {}
    want = [by_hand.LAYERS[config.family](arrays, ones, b, **more) for b in range(batch)]
    np.testing.assert_allclose(run["Y"], want, atol=1e-10)
    assert graph.flop > 0
    if config.family == "bert":
        return
    decode = layer(config, "decode", batch=batch, N=N, tokens=tokens, attention=attention)
    arrays |= {"X": arrays["X"][:, -tokens:], "K cache": run["K"], "V cache": run["V"]}
    if "cos" in arrays:
        arrays |= angles(tokens, config.head_size, N - tokens)
    got = decode.run({t.name: arrays[t.name] for t in decode.inputs})
    np.testing.assert_allclose(got["Y"], run["Y"][:, -tokens:], atol=1e-10)


def test_bert_with_gelu() -> None:
    graph = layer(replace(BERT, activation="gelu"), "training", batch=3, N=5)
    arrays = draw_inputs(graph)
    run = graph.run(arrays)
    want = [by_hand.bert(arrays, masks(graph, run), b, by_hand.gelu) for b in range(3)]
    np.testing.assert_allclose(run["Y"], want, atol=1e-12)


def slope(graph: Graph, arrays: Arrays, y: str, dy: Any, x: str, seed: int) -> tuple[float, float]:
    """Along a random direction of one input: the graph's own gradient, and a finite difference."""
    way = np.random.default_rng(seed).standard_normal(arrays[x].shape)
    h = 1e-5

    def at(step: float) -> float:
        return float(np.sum(graph.run({**arrays, x: arrays[x] + step * way})[y] * dy))

    return float(np.sum(graph.run(arrays)[f"d{x}"] * way)), (at(h) - at(-h)) / (2 * h)


@fused_or_not
@pytest.mark.parametrize("part", ["embedding", "layer", "head"])
@each
def test_backward_by_finite_differences(config: Config, part: str, attention: str) -> None:
    ask = check_request(config, "training", 2, 4, attention=attention)
    graph = getattr(ARCHITECTURES[config.family], part)(ask)
    arrays = draw_inputs(graph)
    wanted = [t.name for t in graph.inputs if f"d{t.name}" in graph.tensors]
    also = set() if part == "embedding" else {"X"}
    assert {t.name for t in graph.inputs if t.role == "weight"} | also == set(wanted)
    (y,) = (x for x in graph.tensors if x == "loss" or f"d{x}" in arrays)
    dy = arrays.get(f"d{y}", 1 / 8)  # the loss that is differentiated is the mean of 2 × 4
    for k, x in enumerate(wanted):
        got, want = slope(graph, arrays, y, dy, x, k)
        assert got == pytest.approx(want, rel=1e-5, abs=1e-6), x


@pytest.mark.parametrize("phase", ["training", "prefill"])
@each
def test_fused_attention_is_the_same_layer(config: Config, phase: str) -> None:
    plain, fused = (layer(config, phase, batch=3, N=5, attention=way) for way in WAYS)
    arrays = draw_inputs(plain)
    want, got = plain.run(arrays), fused.run(arrays)
    for t in fused.outputs:
        np.testing.assert_allclose(got[t.name], want[t.name], atol=1e-12, err_msg=t.name)
    assert {t.name for t in fused.outputs} == {t.name for t in plain.outputs}
    assert not any("k" in t.names and "j" in t.names for t in fused.tensors.values())


@pytest.mark.parametrize("tokens", [1, 3])
@fused_or_not
@decoder
def test_decoding_gives_the_rows_of_prefill(config: Config, attention: str, tokens: int) -> None:
    N = 7
    prefill = layer(config, "prefill", batch=2, N=N)
    arrays = draw_inputs(prefill)
    want = prefill.run(arrays)
    decode = layer(config, "decode", batch=2, N=N, tokens=tokens, attention=attention)
    more = {**arrays, "X": arrays["X"][:, -tokens:]}
    for y in "KV":
        old = want[y].copy()
        old[:, :, -tokens:] = np.nan  # what is there before is not read
        more[f"{y} cache"] = old
    if "cos" in arrays:
        more |= angles(tokens, config.head_size, N - tokens)
    got = decode.run({t.name: more[t.name] for t in decode.inputs})
    np.testing.assert_allclose(got["Y"], want["Y"][:, -tokens:], atol=1e-12)
    for y in "KV":
        np.testing.assert_allclose(got[y], want[y], atol=1e-12)


def test_a_cache_that_is_appended_to_inside_a_kernel_is_read() -> None:
    graph = layer(LLAMA, "decode", batch=3, N=8, tokens=2)
    reads, writes = graph.part(["append key", "scores"])
    assert reads["K"] == 3 * 2 * (8 - 2) * 2  # its other rows; the new ones are at hand
    assert writes["K"] == reads["new K"] == 3 * 2 * 2 * 2
    assert "K cache" not in reads


# ---- whole models --------------------------------------------------------------------------------


@each
def test_a_whole_model_by_finite_differences(config: Config) -> None:
    model = Model(config)
    got = model.gradients()
    rng = np.random.default_rng(1)
    ways = {key: rng.standard_normal(dw.shape) for key, dw in got.items()}
    start = {(k, name): model.arrays[k][name].copy() for k, name in got}

    def at(step: float, keys: list[tuple[int, str]]) -> float:
        for k, name in keys:
            moved = start[k, name] + step * ways[k, name]
            model.arrays[k][name] = moved
            if name in model.tied:
                model.arrays[-1][name] = moved
        return model.loss()

    h = 1e-5
    for keys in (list(got), [(0, "WT")], [(len(model.graphs) - 1, "γ_N")], [(1, "WV")]):
        slope = (at(h, keys) - at(-h, keys)) / (2 * h)
        at(0, keys)
        assert slope == pytest.approx(sum(np.sum(got[key] * ways[key]) for key in keys), rel=1e-5)


# What transformers' num_parameters() says of the published models: Llama and Mixtral by their
# model cards, BERT as BertForMaskedLM.
PARAMETERS = {
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-xl": 1_557_611_200,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mixtral-8x7b": 46_702_792_704,
}


def test_parameters_are_the_published_ones() -> None:
    assert {
        name: workload(name, "prefill", batch=1, N=8).parameters for name in CONFIGS
    } == PARAMETERS


def test_configurations_have_the_attention_of_the_models() -> None:
    assert set(CONFIGS) == set(MODELS)
    for name, c in CONFIGS.items():
        a, _ = MODELS[name]
        assert (c.positions, c.head_size, c.heads, c.kv_heads) == (a.N, a.d, a.heads, a.groups)
        assert a.causal == ARCHITECTURES[c.family].decodes
        ask: Any = {"batch": 1, "N": a.N, "attention": "fused"}
        (op,) = (o for o in layer(name, "prefill", **ask).operators if o.name == "attention")
        ((times, problem),) = op.kind.problem(op)  # type: ignore[misc]
        assert times == 1
        grouped = {"kv_heads": c.kv_heads} if c.kv_heads != c.heads else {"kv_heads": None}
        assert problem == replace(a, **grouped)
    assert set(ARCHITECTURES) == set(FAMILIES)


# ---- flop, by formulas that share no code with the operators -------------------------------------


def matrices(c: Config) -> int:
    """Words of the weights that a token is multiplied by in one layer."""
    attention = c.hidden * c.head_size * (2 * c.heads + 2 * c.kv_heads)
    each = {"bert": 2, "gpt2": 2, "llama": 3, "mixture": 3 * c.active}[c.family]
    router = c.experts * c.hidden if c.family == "mixture" else 0
    return attention + each * c.hidden * c.feed_forward + router


def contractions(work: Any) -> int:
    return sum(
        p.times * sum(op.flop for op in p.graph.operators if op.klass == "contraction")
        for p in work.parts
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_products_of_a_whole_model(name: str) -> None:
    """2 flop a weight and token forward, twice that backward, and 4 N heads d for the scores."""
    c, B, N = config(name), 4, 96
    head = c.vocabulary * c.hidden + (c.hidden**2 if c.family == "bert" else 0)
    scores = 4 * c.heads * c.head_size

    def want(rows: int, keys: int, heads: int, times: int) -> int:
        of_layers = c.layers * rows * (2 * matrices(c) + keys * scores)
        return times * (of_layers + heads * 2 * head)

    training = workload(name, "training", batch=B, N=N)
    assert contractions(training) == want(B * N, N, B * N, 3)
    prefill = workload(name, "prefill", batch=B, N=N)
    predicted = B * N if c.family == "bert" else B
    assert contractions(prefill) == want(B * N, N, predicted, 1)
    if ARCHITECTURES[c.family].decodes:
        decode = workload(name, "decode", batch=B, N=N, tokens=3)
        assert contractions(decode) == want(B * 3, N, B * 3, 1)
    rest = training.flop - contractions(training)
    assert 0 < rest / training.flop < 0.03


@pytest.mark.parametrize("name", ["bert-large", "llama3-8b"])
def test_fused_attention_counts_what_is_seen(name: str) -> None:
    c, B, N = config(name), 2, 64
    pairs = N * N if name == "bert-large" else N * (N + 1) // 2
    ask: Any = {"batch": B, "N": N, "attention": "fused"}
    (op,) = (o for o in layer(name, "prefill", **ask).operators if o.name == "attention")
    assert op.flop == B * c.heads * pairs * (4 * c.head_size + 5)


# ---- words ---------------------------------------------------------------------------------------


def role_words(work: Any, role: str) -> int:
    """Words read of tensors of one role, each once in each run of a part."""
    found = 0
    for part in work.parts:
        words = {
            t.name: op.words[t.name][0]
            for op in part.graph.operators
            for t in op.reads
            if t.role == role
        }
        found += part.times * sum(words.values())
    return found


@pytest.mark.parametrize("name", ["gpt2", "llama3-8b", "llama3-70b"])
def test_decoding_reads_every_weight_and_the_cache(name: str) -> None:
    c, B, N = config(name), 8, 512
    work = workload(name, "decode", batch=B, N=N, attention="fused")
    rows = B * c.hidden + (c.hidden if name == "gpt2" else 0)  # of tables, those looked up
    tables = c.vocabulary * c.hidden + (c.positions * c.hidden if name == "gpt2" else 0)
    tied = c.vocabulary * c.hidden if name == "gpt2" else 0  # the head reads all of it
    assert role_words(work, "weight") == work.parameters - tables + tied + rows
    assert role_words(work, "cache") == 2 * c.layers * B * N * c.kv_heads * c.head_size


def test_a_mixture_reads_its_active_experts() -> None:
    c = config("mixtral-8x7b")
    expert = 3 * c.hidden * c.feed_forward
    for batch, experts, active in (
        (1, "least", 2),
        (3, "least", 2),
        (64, "least", 2),
        (3, 5, 5),
        (3, 8, 6),
        (64, 8, 8),
        (1, "expected", 2),
        (3, "expected", 4.625),
    ):
        graph = layer(c, "decode", batch=batch, N=512, experts=experts)
        read = sum(
            op.words[t.name][0]
            for op in graph.operators
            for t in op.reads
            if t.role == "weight" and t.words == 8 * c.hidden * c.feed_forward
        )
        assert read == active * expert


@pytest.mark.parametrize(("n", "k"), [(4, 2), (5, 1), (3, 3), (4, 3)])
@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_experts_that_are_read_against_every_routing(n: int, k: int, tokens: int) -> None:
    each = list(itertools.combinations(range(n), k))
    read = [len(set().union(*one)) for one in itertools.product(each, repeat=tokens)]
    assert Routing(n, k, tokens).read == min(read)
    assert Routing(n, k, tokens, n).read == max(read)
    assert Routing(n, k, tokens, "expected").read == pytest.approx(sum(read) / len(read), rel=1e-14)


def test_expected_words_are_the_mean_over_routings() -> None:
    """Where a tensor crosses once, the words are linear in the experts that are read."""
    c = replace(MIXTURE, experts=5, active=2)
    graphs = {
        experts: {
            op.name: op for op in layer(c, "training", batch=1, N=3, experts=experts).operators
        }
        for experts in ("expected", 2, 3, 4, 5)
    }
    each = list(itertools.combinations(range(5), 2))
    read = [len(set().union(*one)) for one in itertools.product(each, repeat=3)]
    names = [name for name, op in graphs[2].items() if op.kind.name.startswith("expert_")]
    assert len(names) == 9
    for name in names:
        words = [moved(graphs[r][name], 10**6) for r in read]
        found = moved(graphs["expected"][name], 10**6)
        for sums in ("loads", "stores"):
            for t, n in getattr(found, sums).items():
                mean = sum(getattr(w, sums)[t] for w in words) / len(words)
                assert abs(n - mean) <= 0.5 + 1e-6, (name, t)
    assert {op.flop for op in (g["gate"] for g in graphs.values())} == {graphs[2]["gate"].flop}


def test_gradients_of_experts_without_rows_are_stored() -> None:
    s = {"m": 6, "e": 4, "i": 6, "u": 3}
    dy, x, experts, dw = (
        operand(t, axes, s)
        for t, axes in (("dY", "m u"), ("X", "m i"), ("experts", "m"), ("dW", "e u i"))
    )
    for active in (1, 2, 2.5, 4):
        op = operator("sums", "expert_weights", [dy, x, experts], [dw], active=active)
        assert moved(op, 10**6).stores == {"dW": 4 * 3 * 6}


@pytest.mark.parametrize(
    ("model", "experts", "says"),
    [
        ("mixtral-8x7b", "fewest", "experts 'fewest': did you mean"),
        ("mixtral-8x7b", "most", "experts 'most': "),
        ("mixtral-8x7b", 1, "1 experts can't be all that is read: each token goes to 2 of 8; "),
        ("mixtral-8x7b", 9, "9 experts can't be all that is read: each token goes to 2 of 8; "),
        ("gpt2", "expected", "gpt2 has no experts to choose from: leave them out"),
    ],
)
def test_experts_that_no_routing_reads(model: str, experts: Any, says: str) -> None:
    with pytest.raises(InputError) as error:
        layer(model, "decode", batch=3, N=8, experts=experts)
    assert str(error.value).startswith(says.partition("did you")[0])


def test_rows_of_experts_are_split_evenly() -> None:
    """Five rows of four experts are two for one and one for each other."""
    s = {"m": 5, "e": 4, "i": 6, "u": 3}
    x, dy, y = operand("X", "m i", s), operand("dY", "m u", s), operand("Y", "m u", s)
    w, dw, experts = (
        operand(t, axes, s) for t, axes in (("W", "e u i"), ("dW", "e u i"), ("experts", "m"))
    )
    up = moved(operator("up", "expert_product", [x, w, experts], [y], active=4), 10**6)
    assert up.loads == {"experts": 5, "X": 5 * 6, "W": 4 * 3 * 6}
    assert up.stores == {"Y": 5 * 3}
    sums = moved(operator("sums", "expert_weights", [dy, x, experts], [dw], active=4), 10**6)
    assert sums.loads == {"experts": 5, "dY": 5 * 3, "X": 5 * 6}
    assert sums.stores == {"dW": 4 * 3 * 6}


def test_any_number_of_rows_of_an_expert() -> None:
    """Routing is data: one expert may get every row, and others none."""
    graph = layer(MIXTURE, "training", batch=3, N=5)
    arrays = draw_inputs(graph)
    arrays["WR"] = np.zeros(arrays["WR"].shape)
    arrays["WR"][3] = 1e-9 * arrays["WR"][3]  # ties: the first two experts get all rows
    run = graph.run(arrays)
    assert set(run["experts"]) == {0, 1}
    assert not run["dWG"][2:].any()
    want = [by_hand.mixture(arrays, {}, b) for b in range(3)]
    np.testing.assert_allclose(run["Y"], want, atol=1e-12)


# ---- the optimizer's step ------------------------------------------------------------------------


def parts_of(c: Config, **more: Any) -> Iterator[Graph]:
    for part in workload(c, "training", batch=2, N=4, **more).parts:
        yield part.graph


def test_a_step_of_adamw() -> None:
    *_, ends = parts_of(GPT2)
    arrays = draw_inputs(ends)
    for x in arrays:
        if x.endswith(" v"):
            arrays[x] = arrays[x] ** 2
    run = ends.run(arrays)
    for w in ("WT", "WP", "γ_N", "β_N"):
        g = run[f"d{w}"]
        m = 0.9 * arrays[f"{w} m"] + 0.1 * g
        v = 0.999 * arrays[f"{w} v"] + 0.001 * g**2
        old = arrays[f"{w} master"]
        new = old - 1e-4 * 0.01 * old - 1e-4 * (m / 0.1) / (np.sqrt(v / 0.001) + 1e-8)
        np.testing.assert_allclose(run[f"next {w}"], new, rtol=1e-12)
        np.testing.assert_allclose(run[f"next {w} m"], m)
        np.testing.assert_allclose(run[f"next {w} v"], v)
    np.testing.assert_allclose(run["dWT"], arrays["dWT 1"] + arrays["dWT 2"])  # tied


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@each
def test_every_weight_has_one_step(config: Config, dtype: str) -> None:
    """Names of weights are one tensor's: parts share those that are tied, and no others."""
    work = workload(config, "training", batch=2, N=4, dtype=dtype)
    assert work.parameters == workload(config, "prefill", batch=2, N=4).parameters
    names = [{t.name for t in part.graph.inputs if t.role == "weight"} for part in work.parts[:3]]
    for k in range(3):
        for other in range(k):
            assert names[k] & names[other] == (set(work.tied) if (other, k) == (0, 2) else set())
    stepped = sum(
        part.times * op.reads[0].words
        for part in work.parts
        for op in part.graph.operators
        if op.kind.name == "adam"
    )
    assert stepped == work.parameters


def test_what_a_step_reads_and_writes() -> None:
    """14 bytes in and 14 out a parameter: gradient 2, master and moments 4 each; and the weight."""
    for dtype, size, read, written in (
        ("fp16", 2, 2 + 12, 12 + 2),
        ("fp8", 1, 1 + 12, 12 + 1),
        ("fp32", 4, 16, 12),
        ("fp64", 8, 32, 24),
    ):
        _, _, _, graph, _ = parts_of(LLAMA, dtype=dtype)
        weights = sum(
            t.words for t in layer(LLAMA, "training", batch=2, N=4).inputs if t.role == "weight"
        )
        reads, writes = graph.part([op.name for op in graph.operators])

        def total(words: Any, graph: Graph = graph, size: int = size) -> int:
            return sum(
                n * (4 if graph.tensors[x].dtype == "fp32" else size) for x, n in words.items()
            )

        assert total(reads) == weights * read
        assert total(writes) == weights * written


@fused_or_not
@pytest.mark.parametrize("phase", PHASES)
@each
def test_operators_pass_their_checks_and_a_file(config: Config, phase: str, attention: str) -> None:
    """Those of the backward pass, too, which no text was written for."""
    if phase == "decode" and config is BERT:
        return
    ask: Any = {"batch": 2, "N": 4, "attention": attention, "devices": 3}
    for part in workload(config, phase, **ask).parts:
        for op in part.graph.operators:
            over, told = " ".join(op.over), dict(op.settings)
            assert operator(op.name, op.kind.name, op.reads, op.writes, over, **told) == op
        assert parsed(to_json(part.graph)).graph == part.graph


def test_devices_sum_every_gradient() -> None:
    *_, alone, _ = parts_of(LLAMA)
    *_, graph, ends = parts_of(LLAMA, devices=4)
    sums = [op for op in graph.operators if op.kind.name == "all_reduce"]
    assert not any(op.kind.name == "all_reduce" for op in alone.operators)
    assert {op.reads[0].name for op in sums} == {
        f"d{t.name}" for t in layer(LLAMA, "training", batch=2, N=4).inputs if t.role == "weight"
    }
    arrays = {x: abs(a) for x, a in draw_inputs(graph).items()}
    np.testing.assert_allclose(graph.run(arrays)["dWQ of all"], 4 * arrays["dWQ"])
    for phase in ("prefill", "decode"):
        many = workload(LLAMA, phase, batch=2, N=4, devices=4)
        assert many == workload(LLAMA, phase, batch=2, N=4)
    assert step("none", [ends]).operators == ()


# ---- bad input -----------------------------------------------------------------------------------

TOLD = [
    (
        {"model": "lama3-8b"},
        "unknown model 'lama3-8b': did you mean 'llama3-8b'?; or name a file, .toml or config.json",
    ),
    ({"phase": "decoding"}, "unknown phase 'decoding': did you mean 'decode'?"),
    ({"attention": "fuse"}, "unknown attention 'fuse': did you mean 'fused'?"),
    ({"dtype": "fp61"}, "unknown dtype 'fp61': did you mean 'fp64'?"),
    ({"batch": 0}, "batch = 0: give an integer ≥ 1"),
    ({"batch": True}, "batch = True: give an integer ≥ 1"),
    ({"N": 2.0}, "N = 2.0: give an integer ≥ 1"),
    ({"N": 1025}, "N = 1025 is more than the 1024 rows of the table of positions: give less"),
    ({"tokens": 9}, "tokens = 9 don't fit into a context of N = 8: give less"),
    ({"phase": "prefill", "tokens": 2}, "tokens = 2 is of decoding, not of prefill: leave it out"),
    ({"devices": 0}, "devices = 0: give an integer ≥ 1"),
    (
        {"model": "bert-base"},
        "bert-base encodes whole sequences: it has no decoding; ask for training or prefill",
    ),
]


@pytest.mark.parametrize(("change", "message"), TOLD, ids=lambda x: str(x)[:30])
def test_bad_input_of_a_workload(change: Any, message: str) -> None:
    ask = {"model": "gpt2", "phase": "decode", "batch": 2, "N": 8, **change}
    with pytest.raises(InputError) as told:
        workload(**ask)
    assert str(told.value) == message


def test_a_context_beyond_the_published_one() -> None:
    """RoPE has no table, and a layer alone has none either."""
    assert workload("llama3-8b", "decode", batch=1, N=131072).parts
    assert layer("bert-large", "prefill", batch=1, N=1024).flop


CONFIGURED = [
    ({"family": "gtp2"}, "x: unknown family 'gtp2': did you mean 'gpt2'?"),
    ({"layers": 0}, "x: layers = 0: give an integer ≥ 1"),
    ({"heads": "4"}, "x: heads = '4': give an integer ≥ 1"),
    ({"heads": 3}, "x: 3 heads don't divide hidden = 8: give head_size"),
    ({"kv_heads": 3}, "x: kv_heads = 3 does not divide heads = 2: give a divisor"),
    ({"active": 2}, "x: a token goes to 2 of 1 experts: give active ≤ experts"),
    ({"activation": "gelo"}, "x: unknown activation 'gelo': did you mean 'gelu'?"),
    ({"dropout": 1}, "x: dropout = 1 is not a probability below 1"),
    ({"family": "llama", "dropout": 0.1}, "x: llama has no dropout: leave it out"),
]


@pytest.mark.parametrize(("change", "message"), CONFIGURED, ids=lambda x: str(x)[:30])
def test_bad_input_of_a_configuration(change: Any, message: str) -> None:
    with pytest.raises(InputError) as told:
        Config(**{"name": "x", "family": "gpt2", **SIZES, **change})
    assert str(told.value) == message


def test_gradients_that_are_written_out_are_the_passes_of_standard_attention() -> None:
    """The schedule also makes P again, from L, and row sums of dO ∘ O."""
    M, problem = 20_000, AttentionBackward(128, 64, 32)
    graph = layer("bert-large", "training", batch=2, N=128)
    words = {op.name: moved(op, M).words for op in graph.operators}
    passes = ("weighted sum dP dropped", "weighted sum dV", "softmax dX", "scores dQ", "scores dK")
    written_out = sum(words[x] for x in passes)
    program = algorithm("naive_backward").program_for(problem)
    best = optimal_tiles(program, problem, M)
    rows, sums = 32 * 128, 2 * graph.tensors["C"].words
    assert best.total_words == written_out + words["scores"] + 3 * rows + sums


def test_what_crosses_a_boundary_has_a_schedule_where_there_is_one() -> None:
    graph = layer(MIXTURE, "training", batch=2, N=4, attention="fused")
    for op in graph.operators:
        how = moved(op, 200).how
        assert how.startswith("stream") == (op.kind.problem is None), op.name
    (attention,) = (op for op in graph.operators if op.name == "attention")
    assert moved(attention, 10**6).words == attention.words_in + attention.words_out
    (back,) = (op for op in graph.operators if op.name == "attention dX")
    assert moved(back, 10**6).words == back.words_in + back.words_out + 2 * back.writes[0].words
    experts = next(op for op in graph.operators if op.name == "up")
    assert moved(experts, 10**6).words == experts.words_in + experts.words_out
    assert moved(experts, 20).words > experts.words_in + experts.words_out
    for schedule in ("flash2", "fnord"):
        with pytest.raises(InputError, match=r"^up: "):
            moved(experts, 200, schedule)
    norm = next(op for op in graph.operators if op.name == "norm 1")
    with pytest.raises(InputError, match=r"^norm 1 is a stream: it has no schedule to choose$"):
        moved(norm, 200, "flash2")
