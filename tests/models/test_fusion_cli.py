"""iosim fuse: what scripts rely on, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli import iosim_, ok

from iosim.models.fusion import FUSIONS, PAPER, Illegal, fused, kernel, partition
from iosim.models.fusion.members import fusable
from iosim.models.fusion.named_fusions import RECORDED
from iosim.models.layers.architectures import layer
from iosim.models.layers.graph import Graph
from iosim.models.operators import OPERATORS, Operator
from iosim.models.operators.base import operand

BERT = ("--model", "bert-large", "--phase", "training", "--batch", "8", "--N", "512")
ROOT = Path(__file__).parents[2]
M = 26_214_400


@pytest.fixture(scope="module")
def bert() -> Graph:
    return layer("bert-large", "training", batch=8, N=512)


def run_json(*words: str) -> Any:
    return json.loads(ok("fuse", *words, "--json"))


def test_a_chain_moves_2n_words_instead_of_2kn() -> None:
    answer = run_json("chain", "--length", "1:16", "--words", "4Mi")
    assert [r["k"] for r in answer["chains"]] == list(range(1, 17))
    for r in answer["chains"]:
        assert r["words_none"] == 2 * r["k"] * 2**22
        assert r["words_best"] == 2 * 2**22
        assert r["ratio"] == r["k"]
    assert answer["boundary"] == "L2↔DRAM of h200"


def test_a_model_as_json_adds_up(bert: Graph) -> None:
    answer = run_json(*BERT, "--M", str(M))
    groups = answer["groups"]
    assert sorted(x for g in groups for x in g["operators"]) == sorted(
        op.name for op in bert.operators
    )
    totals = {r["fusion"]: r for r in answer["totals"]}
    assert set(totals) == set(FUSIONS)
    assert sum(g["words_in"] + g["words_out"] for g in groups) == totals["best"]["words"]
    saved = sum(g["words_saved"] for g in groups)
    assert totals["none"]["words"] - saved == totals["best"]["words"]
    for g in groups:
        assert sum(g["loads"].values()) == g["words_in"]
        assert sum(g["stores"].values()) == g["words_out"]
    order = ("best", "inductor-cuda", "paper", "inductor-cpu", "none")
    words = [totals[x]["words"] for x in order]
    assert words == sorted(words)
    assert len(set(words)) == 5


def test_none_is_what_each_operator_moves_alone(bert: Graph) -> None:
    none = fused(bert, "none", M)
    assert none.words == sum(kernel(bert, [op.name], M).words for op in bert.operators)
    assert none.words == sum(op.words_in + op.words_out for op in bert.operators)


def test_attention_that_does_not_fit_is_left_apart() -> None:
    # FlashAttention needs 3d + 3 = 195 words; products and streams need 3.
    graph = layer("gpt2", "prefill", batch=1, N=8)
    for M, one in ((3, False), (194, False), (1200, True)):
        with_, without = (fused(graph, "best", M, online_softmax=x) for x in (True, False))
        assert any({"scores", "weighted sum"} <= set(k.names) for k in with_.groups) == one
        assert (with_.words < without.words) == one


def test_an_online_softmax_makes_attention_one_kernel_where_nothing_reads_between() -> None:
    prefill = layer("gpt2", "prefill", batch=8, N=512)
    without, with_ = (fused(prefill, "best", M, online_softmax=x) for x in (False, True))
    (group,) = (g for g in with_.groups if "softmax" in g.names)
    assert group.names == ("scores", "scale", "mask", "softmax", "weighted sum")
    assert group.crossing.how.startswith("online softmax: flash2")
    assert all("scores" not in g.names or "weighted sum" not in g.names for g in without.groups)
    assert with_.words < without.words
    one = layer("gpt2", "prefill", batch=8, N=512, attention="fused")
    assert with_.words == fused(one, "best", M).words


def test_in_training_attention_is_one_kernel_only_if_its_weights_are_computed_again(
    bert: Graph,
) -> None:
    forward = ["scores", "scale", "softmax", "attention dropout", "weighted sum"]
    assert tuple(forward) in [k.names for k in fused(bert, "best", M).groups]
    with pytest.raises(Illegal, match="P, P dropped, P mask is read elsewhere, or kept"):
        kernel(bert, forward, M)


def test_the_paper_s_kernels_are_legal_and_save_words(bert: Graph) -> None:
    alone = {k.names[0]: k.words for k in fused(bert, "none", M).groups}
    names = {x for group in PAPER.values() for x in group}
    assert names <= alone.keys()
    for group in PAPER.values():
        if len(group) > 1 and group[0] not in ("query bias", "query bias dBQ"):
            assert kernel(bert, group, M).words < sum(alone[x] for x in group), group
    everything = set(alone) - names
    assert all(
        bert_op.klass == "contraction" for bert_op in bert.operators if bert_op.name in everything
    )


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json")), ids=lambda p: p.stem)
def test_a_recorded_fusion_says_what_it_is_of_and_is_legal(path: Path, bert: Graph) -> None:
    found = json.loads(path.read_text())
    assert {"says", "torch", "device", "graph", "groups"} <= found.keys()
    assert sorted(x for g in found["groups"] for x in g) == sorted(op.name for op in bert.operators)
    assert fused(bert, path.stem, M).words < fused(bert, "none", M).words


def test_what_compiled_on_a_gpu_is_the_record_of_the_runs_there() -> None:
    folder = ROOT / "experiments" / "data" / "gpu" / "h200" / "layers"
    ran = json.loads((folder / "groups-bert-large-training-compiled.json").read_text())
    told = json.loads((RECORDED / "inductor-cuda.json").read_text())
    assert told["groups"] == ran["groups"]
    provenance = json.loads((folder / "provenance.json").read_text())
    assert (told["torch"], told["device"]) == (provenance["torch"], provenance["device"])


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # of PyTorch's own imports
def test_inductor_s_record_comes_out_again(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from experiments.inductor_groups import main

    main(["--out", str(tmp_path / "again.json")])
    again = json.loads((tmp_path / "again.json").read_text())
    before = json.loads((RECORDED / "inductor-cpu.json").read_text())
    if torch.__version__ == before["torch"]:
        assert again == before


def test_which_kinds_may_be_beside_others() -> None:
    """A new kind is one or the other on purpose."""
    alone = {
        "all_reduce",
        "append",
        "attention",
        "attention_back",
        "by_expert",
        "combine",
        "combine_back",
        "embedding",
        "embedding_back",
        "expert_product",
        "expert_weights",
        "gather",
        "gather_back",
        "top_k",
        "top_k_back",
        "repeat",
        "concatenate",
        "view",
        "opaque",
    }
    maps = set(OPERATORS) - alone
    s = {"j": 4, "i": 8}
    x = operand("X", "j i", s)
    for name in maps:
        kind = OPERATORS[name]
        op = Operator("op", kind, (x,) * (kind.reads or 2), (x.renamed("Y"),), ("i",)[: kind.over])
        assert fusable(op), name
    graphs = [layer(m, "training", batch=2, N=8) for m in ("mixtral-8x7b", "gpt2", "llama3-8b")]
    graphs.append(layer("llama3-8b", "decode", batch=2, N=8))
    for op in (op for graph in graphs for op in graph.operators):
        assert fusable(op) == (op.kind.name not in alone), op.name


def write(path: Path, value: Any) -> str:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


def test_groups_of_a_file_are_counted(tmp_path: Path) -> None:
    prefill = layer("bert-base", "prefill", batch=1, N=16)
    groups = [[op.name] for op in prefill.operators]
    file = write(tmp_path / "one.json", {"groups": groups})
    words = ("--model", "bert-base", "--phase", "prefill", "--N", "16", "--M", "100000")
    answer = run_json(*words, "--fusion", file)
    totals = {r["fusion"]: r["words"] for r in answer["totals"]}
    assert totals[file] == totals["none"]


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ([["query"], ["query", "key"]], "'query' is in groups 1 and 2"),
        ([["query"]], "is in no group: add a group for it"),
        ([["qury"]], "has no operator 'qury': did you mean 'query'"),
        ([["query"], []], "group 2 is empty"),
        ("no JSON", "is not JSON"),
        ({"groups": "query"}, "has no groups: give"),
        ({"groups": [[1]]}, "has no groups: give"),
        ("rest", r"scores \+ weighted sum: softmax is between them, and not among them"),
    ],
)
def test_bad_groups_are_one_line(groups: Any, says: str, tmp_path: Path) -> None:
    names = [op.name for op in layer("bert-base", "prefill", batch=1, N=16).operators]
    if groups == "rest":
        inside = ["scores", "weighted sum"]
        groups = [inside, *([x] for x in names if x not in inside)]
    file = write(tmp_path / "bad.json", groups)
    done = iosim_(
        "fuse",
        "--model",
        "bert-base",
        "--phase",
        "prefill",
        "--N",
        "16",
        "--M",
        "100000",
        "--fusion",
        file,
    )
    bad(done, says)


def bad(done: Any, says: str) -> None:
    import re

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert re.search(says, done.stderr), done.stderr


MLP = ("--graph", "docs/examples/mlp.toml")


def test_a_graph_of_one_s_own_with_its_groups() -> None:
    answer = run_json(*MLP)
    totals = {r["fusion"]: r["words"] for r in answer["totals"]}
    assert list(totals) == ["none", "best", "file"]
    assert totals["best"] < totals["file"] < totals["none"]
    mine = run_json(*MLP, "--fusion", "file")
    assert sum(g["words_in"] + g["words_out"] for g in mine["groups"]) == totals["file"]


def test_kernels_that_fit_within_less_move_no_less() -> None:
    words = ("--model", "gpt2", "--phase", "prefill", "--N", "64")
    every, some = (
        next(r["words"] for r in run_json(*words, *more)["totals"] if r["fusion"] == "best")
        for more in ((), ("--within", "1000"))
    )
    assert every < some


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "needs --model"),
        ("--graph docs/examples/mlp.toml --N 4", "--N does not apply to a graph of one's own"),
        ("--graph docs/examples/mlp.toml --dtype fp16", "--dtype is what the graph's file says"),
        ("--graph docs/examples/mlp.toml --fusion paper", "MLP, forward has no 'attention norm'"),
        ("--model gpt2 --N 8 --phase prefill --fusion file", "give --graph FILE"),
        ("--model gpt2 --N 8 --phase prefill --fusion none --within 9", "--within is what best"),
        ("chain --length 2 --words 8 --graph docs/examples/mlp.toml", "--graph does not apply to"),
        ("chian", "unknown graph 'chian': did you mean 'chain'"),
        ("chain", "needs --length"),
        ("chain --length 1:4", "needs --words"),
        ("chain --length 4:1 --words 8", "is empty"),
        ("chain --length 0 --words 8", "length"),
        ("chain --length 100000 --words 8", "at most 65,536"),
        ("chain --length 2 --words 8 --model gpt2", "--model does not apply to a chain"),
        ("--model gpt2 --N 8", "needs --phase"),
        ("--model gpt2 --N 8 --phase prefill --length 3", "--length does not apply to a model"),
        ("--model gtp2 --N 8 --phase prefill", "did you mean 'gpt2'"),
        ("--model gpt2 --N 8 --phase prefil", "did you mean 'prefill'"),
        ("--model gpt2 --N 8 --phase prefill --fusion bset", "unknown fusion 'bset': did you mean"),
        ("--model gpt2 --N 8 --phase prefill --M 1", "capacity|needs|fits"),
        ("--model gpt2 --N 8 --phase prefill --M 9 --machine h100", "give one"),
        ("--model gpt2 --N 8 --phase prefill --boundary hbm", "unknown boundary 'hbm'"),
        ("--model gpt2 --N 8 --phase prefill --part heads", "did you mean 'head'"),
        ("--model gpt2 --N 8 --phase prefill --fusion no.json", "no.json"),
        (
            "--model llama3-8b --N 8 --phase decode --fusion paper --M 9000",
            "paper has kernels of BERT's layer: llama3-8b layer has no 'attention norm'",
        ),
        ("--model bert-large --N 8 --phase prefill --fusion inductor-cpu", "is recorded of"),
    ],
)
def test_bad_input_is_one_line(words: str, says: str) -> None:
    bad(iosim_("fuse", *words.split()), says)


def test_kernels_that_wait_for_each_other_are_refused() -> None:
    x = [operand(f"X{n}", "i", {"i": 4}) for n in range(5)]
    add, relu = OPERATORS["add"], OPERATORS["relu"]
    ops = (
        Operator("a", relu, (x[0],), (x[1],)),
        Operator("b", relu, (x[1],), (x[2],)),
        Operator("c", relu, (x[0],), (x[3],)),
    )
    y = operand("Y", "i", {"i": 4})
    crossed = Graph(
        "crossed",
        (*ops, Operator("d", add, (x[3], x[0]), (x[4],)), Operator("e", add, (x[2], x[4]), (y,))),
    )
    with pytest.raises(Illegal, match="is between them"):
        partition(crossed, [["a", "e"], ["b"], ["c"], ["d"]], 100, "")
    waits = Graph(
        "waits",
        (
            Operator("a", relu, (x[0],), (x[1],)),
            Operator("b", relu, (x[2],), (x[3],)),
            Operator("c", relu, (x[1],), (x[4],)),
            Operator("d", relu, (x[3],), (y,)),
        ),
    )
    with pytest.raises(Illegal, match=r"a \+ d and b \+ c wait for each other"):
        partition(waits, [["a", "d"], ["b", "c"]], 100, "")
