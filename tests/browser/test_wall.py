"""The wall in a browser: what is shown is what iosim says, by pointer and by keys."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from commands import run_json
from playwright.sync_api import expect
from rules import judged
from screens import texts
from speed import EACH, answers_in

from iosim.base.errors import InputError
from iosim.lab.data.wall import MODELS
from iosim.models.fusion import FUSIONS, Illegal, kernel, partition
from iosim.models.hardware import MACHINES
from iosim.models.layers.architectures import layer as layer_of
from iosim.models.layers.graph import Graph
from iosim.models.roofline.roof import Roof
from iosim.models.roofline.work import L2_DRAM, work_of

Open = Callable[..., Any]


def words(text: str) -> int:
    return int(text.replace(",", ""))


def rows(page: Any, caption: str) -> list[list[str]]:
    table = page.locator("table", has=page.locator("caption", has_text=caption))
    return [[cell.strip() for cell in row] for row in texts(table.locator("tbody tr"))]


def operators(model: str, phase: str, batch: int, gpu: str) -> list[dict[str, Any]]:
    dtype = next(x for x in ("fp16", "bf16") if x in MACHINES[gpu].peaks)
    out = run_json(
        "roofline",
        "--model",
        model,
        "--phase",
        phase,
        "--batch",
        batch,
        "--N",
        MODELS[model][1],
        "--machine",
        gpu,
        "--dtype",
        dtype,
    )
    return [r for r in out["operators"] if r["part"] == f"{model} layer"]


def test_an_operator_s_sign_is_beside_its_name(open_view: Open) -> None:
    page = open_view("wall", width=1920, height=1080)
    gaps = page.locator(".wall-box").evaluate_all(
        """(all) => all.map((box) => {
          const [sign, ...lines] = [...box.querySelectorAll(":scope > text")]
            .map((x) => x.getBoundingClientRect());
          return Math.min(...lines.map((x) => x.left)) - sign.right;
        })"""
    )
    assert len(gaps) > 50
    assert min(gaps) >= 0


# Points that the label of the bandwidth touches: in its own coordinates it is an upright rectangle.
COVERED = """() => {
    const label = document.querySelector("#wall-bandwidth");
    const box = label.getBBox(), own = label.getCTM().inverse();
    const covers = (shape) => {
        const { x, y, width, height } = shape.getBBox();
        const at = new DOMPoint(x + width / 2, y + height / 2)
            .matrixTransform(shape.getCTM()).matrixTransform(own);
        const dx = Math.max(box.x - at.x, 0, at.x - box.x - box.width);
        const dy = Math.max(box.y - at.y, 0, at.y - box.y - box.height);
        return Math.hypot(dx, dy) < width / 2 - 1;
    };
    const shapes = document.querySelectorAll(".wall-point > :first-child");
    return [shapes.length, [...shapes].filter(covers).length];
}"""


@pytest.mark.parametrize("size", [(390, 844), (1280, 720)], ids=["phone", "projector"])
def test_no_point_is_on_the_label_of_the_bandwidth(
    open_view: Open, size: tuple[int, int], shot: Callable[..., None]
) -> None:
    for gpu, model, phase in (
        ("h100", "bert-large", "training"),
        ("p100", "gpt2", "decode"),
        ("b200", "llama3-8b", "prefill"),
    ):
        page = open_view("wall", *size, hash=f"?model={model}&phase={phase}&gpu={gpu}")
        points, covered = page.evaluate(COVERED)
        assert points > 3
        assert not covered, gpu
        inside = page.evaluate(
            """() => {
              const label = document.querySelector("#wall-bandwidth").getBoundingClientRect();
              const plot = document.querySelector("#wall-bandwidth").ownerSVGElement
                .getBoundingClientRect();
              return label.top >= plot.top && label.left >= plot.left;
            }"""
        )
        assert inside, gpu
    shot(page, f"wall-{size[0]}")


def test_the_slider_moves_the_ridge_and_the_list(open_view: Open) -> None:
    page = open_view("wall", hash="?gpu=p100")
    slider = page.get_by_role("slider", name="Machine")
    seen = []
    for k, gpu in enumerate(MACHINES):
        if k:
            slider.press("ArrowRight")
        machine = MACHINES[gpu]
        dtype = next(x for x in ("fp16", "bf16") if x in machine.peaks)
        ridge = page.locator("#wall-ridge")
        expect(ridge).to_have_attribute(
            "data-ridge", repr(machine.ridge_for(dtype)).removesuffix(".0")
        )
        seen.append(ridge.bounding_box()["x"])
        if gpu in ("p100", "a100", "epyc-9654"):
            found = operators("bert-large", "training", 8, gpu)
            under = {r["name"] for r in found if r["intensity"] < machine.ridge_for(dtype)}
            shown = {r[0].split(" ", 1)[1] for r in rows(page, "Under the ridge")}
            assert shown == under
            assert f"{len(under)} of {len(found)} operators" in page.inner_text("#wall-sentence")
            at = {r["name"]: r for r in found}
            for row in rows(page, "Under the ridge") + rows(page, "At or over the ridge"):
                one = at[row[0].split(" ", 1)[1]]
                assert words(row[1]) * one["times"] == one["flop"]
                assert words(row[2]) * one["times"] == one["dram_bytes"]
                assert row[6] == f"{one['bound']}: {one['limit']}"
    assert len({round(x) for x in seen}) > 5


@pytest.mark.parametrize("how", ["click", "keys"])
@pytest.mark.parametrize("fusion", ["paper", "best"])
def test_edges_fuse_to_known_partitions(open_view: Open, how: str, fusion: str) -> None:
    page = open_view("wall", hash="?model=bert-large&phase=prefill&gpu=h100")
    out = run_json(
        "fuse",
        "--model",
        "bert-large",
        "--phase",
        "prefill",
        "--batch",
        8,
        "--N",
        512,
        "--machine",
        "h100",
        "--fusion",
        fusion,
        "--no-online-softmax",
    )
    for group in out["groups"]:
        inside(page, group["operators"], how)
        select_operators(page, group["operators"])
    expected = {x["fusion"]: x for x in out["totals"]}
    for name, of in (("yours", expected[fusion]), ("none", expected["none"])):
        assert int(page.locator(f"[data-sum={name}]").get_attribute("data-words")) == of["words"]
    mine = rows(page, "Kernels, in an order")
    kernels = {tuple(sorted(g["operators"])): g["words_in"] + g["words_out"] for g in out["groups"]}
    assert len(mine) == len(kernels)
    for row in mine:
        names = row[1].split("\n")[-1].lstrip("0123456789 ")
        # Every tensor of BERT's prefill has words of 2 bytes.
        assert words(row[2]) == 2 * kernels[tuple(sorted(names.split(" + ")))]
    page.get_by_role("button", name=f"Start from {fusion}").click()
    assert (
        page.locator("[data-sum=yours]").inner_text()
        == page.locator(f"[data-sum={fusion}]").inner_text()
    )


def inside(page: Any, names: list[str], how: str) -> None:
    """Fuse along every edge between some operators, until none is left that is legal."""
    for _ in names:
        left = False
        for edge in edges(page, names):
            if edge.get_attribute("aria-pressed") == "false":
                before = kernels_of(page)
                act(page, edge, how)
                left = left or kernels_of(page) < before
        if not left:
            return


def kernels_of(page: Any) -> int:
    return int(page.locator(".wall-now strong").inner_text().split()[0])


def edges(page: Any, names: list[str]) -> Iterator[Any]:
    for edge in page.locator(".wall-edge").all():
        said = edge.get_attribute("aria-label")
        first = said.split(":")[0] if " → " in said.split(":")[0] else said.split(" both read")[0]
        ends = first.split(" → ") if " → " in first else first.split(" and ")
        if all(x in names for x in ends):
            yield edge


def act(page: Any, edge: Any, how: str) -> None:
    if how == "click":
        edge.locator(".hit").dispatch_event("click")
        return
    # One tab stop, then arrows until the edge has the focus.
    page.locator('.wall-edge[tabindex="0"]').focus()
    wanted = edge.get_attribute("data-edge")
    page.keyboard.press("Home")
    for _ in range(page.locator(".wall-edge").count()):
        if page.evaluate("document.activeElement.dataset.edge") == wanted:
            break
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.edge") == wanted
    page.keyboard.press("Enter")


def select_operators(page: Any, names: list[str]) -> None:
    """Operators of a kernel that no edge joins are chosen in the table."""
    parts = [
        row
        for row in page.get_by_role("checkbox").all()
        if set(label(row).split(" + ")) <= set(names)
    ]
    if len(parts) > 1:
        for part in parts:
            part.check()
        page.get_by_role("button", name="chosen kernels").click()


def label(box: Any) -> str:
    return str(box.get_attribute("aria-label")).removeprefix("Choose ")


@pytest.mark.parametrize(("model", "phase"), [("bert-large", "training"), ("gpt2", "decode")])
def test_each_fusion_is_explained_where_it_is_chosen(
    open_view: Open, model: str, phase: str
) -> None:
    page = open_view("wall", hash=f"?model={model}&phase={phase}")
    names = [
        x.removeprefix("Start from ")
        for x in page.get_by_role("button", name="Start from").evaluate_all(
            "x => x.map((b) => b.ariaLabel)"
        )
    ]
    known = page.locator("[aria-label='What the fusions are']")
    assert known.locator("dt").all_inner_texts() == names
    says = {name: one.says for name, one in FUSIONS.items()}
    says["best"] += ", without an online softmax"  # the page takes none
    assert known.locator("dd").all_inner_texts() == [says[x] for x in names]
    assert {"none", "best"} <= set(names)


def test_on_paper_badges_are_those_of_light(open_view: Open) -> None:
    page = open_view("wall", scheme="dark")
    page.get_by_role("button", name="Start from best").click()
    styles = """() => ["fill", "color", "opacity"].flatMap((what) =>
        [".badge text", ".wall-number", ".wall-kernel"].map((x) =>
            getComputedStyle(document.querySelector(x))[what]))"""
    dark = page.evaluate(styles)
    page.emulate_media(media="print")
    printed = page.evaluate(styles)
    page.emulate_media(media="screen")
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate(styles) == printed != dark


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("attention norm", "linear 1"), "attention norm needs whole rows before linear 1 starts"),
        (("weighted sum", "output"), "weighted sum is before another contraction"),
    ],
)
def test_an_illegal_edge_says_why_and_changes_nothing(
    open_view: Open, names: tuple[str, str], why: str
) -> None:
    page = open_view("wall", hash="?model=bert-large&phase=prefill&gpu=h100")
    before = kernels_of(page)
    (edge,) = edges(page, list(names))
    edge.locator(".hit").dispatch_event("click")
    said = page.locator("#wall-said")
    expect(said).to_contain_text("No kernel")
    assert why in said.inner_text()
    graph = layer_of("bert-large", "prefill", batch=8, N=512)
    with pytest.raises(Illegal) as error:
        kernel(graph, names, MACHINES["h100"].chip_words("fp16"), online_softmax=False)
    assert str(error.value) in said.inner_text()
    assert kernels_of(page) == before


def test_a_fused_edge_is_cut_again_and_undone(open_view: Open) -> None:
    page = open_view("wall", hash="?model=gpt2&phase=decode&gpu=b200")
    alone = kernels_of(page)
    (edge,) = edges(page, ["query", "query bias"])
    for pressed, kernels in (("true", alone - 1), ("false", alone)):
        edge.locator(".hit").dispatch_event("click")
        expect(edge).to_have_attribute("aria-pressed", pressed)
        assert kernels_of(page) == kernels
    page.get_by_role("button", name="Undo").click()
    assert kernels_of(page) == alone - 1
    # The link has the kernels, soon: a sign for each operator, the same for those of one kernel.
    signs = "new URLSearchParams(location.hash.split('?')[1]).get('kernels')"
    page.wait_for_function(f"(n) => new Set({signs}).size === n", arg=alone - 1)
    page.reload()
    page.wait_for_selector(".wall-now")
    assert kernels_of(page) == alone - 1


def test_the_table_does_what_the_graph_does(open_view: Open) -> None:
    page = open_view("wall", hash="?model=gpt2&phase=decode&gpu=b200")
    page.get_by_text("The graph as a table").click()
    alone = kernels_of(page)
    page.get_by_role("button", name="Fuse query + query bias").press("Enter")
    assert kernels_of(page) == alone - 1
    page.get_by_role("button", name="Cut query + query bias").press("Enter")
    assert kernels_of(page) == alone


@pytest.mark.parametrize(
    ("hash", "says"),
    [
        ("?gpu=h300", 'machine "h300" is not one of p100'),
        ("?model=gpt5", 'model "gpt5" is not one of bert-large'),
        ("?phase=decode", 'phase "decode" is not one of training, prefill'),
        ("?batch=7", 'batch "7" is not one of 1, 8, 32'),
        ("?kernels=abc", "kernels are not kernels of this layer"),
        ("?kernels=" + "0" * 60, "kernels are not kernels of this layer"),
    ],
)
def test_a_link_that_is_wrong_says_so(open_view: Open, hash: str, says: str) -> None:
    page = open_view("wall", hash=hash)
    assert says in page.get_by_role("alert").inner_text()
    assert page.locator("#wall-ridge").count() == 1


def test_sources_are_shown_on_demand(open_view: Open) -> None:
    page = open_view("wall", hash="?gpu=v100")
    source = MACHINES["v100"].source("dram_bytes_per_s")
    assert not page.get_by_text(source, exact=True).first.is_visible()
    page.locator(".wall-sources summary").click()
    assert page.get_by_text(source, exact=True).first.is_visible()


@pytest.mark.timed
def test_a_slider_and_a_click_are_answered_in_time(open_view: Open) -> None:
    page = open_view("wall", hash="?model=bert-large&phase=training")
    slider = page.get_by_role("slider", name="Machine")
    assert answers_in(slider, EACH, often=8) < 100


# -- the page's rules against Python's -----------------------------------------------------------

GRAPHS = [(model, phase) for model, (_, _, phases) in MODELS.items() for phase in phases]


def random_sets(graph: Graph, legal: list[list[int]], many: int) -> list[list[int]]:
    """Unions of legal kernels, sets with a neighbor more, and any operators."""
    n, found = len(graph.operators), []
    for _ in range(many):
        some = set(random.choice(legal)) | set(random.choice(legal))
        match random.randrange(4):
            case 0:
                some = set(random.sample(range(n), random.randint(1, 5)))
            case 1:
                start = random.choice(legal)
                some = set(start) | {
                    min(n - 1, max(0, random.choice(start) + random.choice((-1, 1))))
                }
            case 2:
                some = set(random.choice(legal))
        found.append(sorted(some))
    return found


@pytest.mark.parametrize(("model", "phase"), GRAPHS)
def test_any_set_is_judged_as_python_does(model: str, phase: str, data: dict[str, Any]) -> None:
    random.seed(f"{model} {phase}")
    wall = data["views"]["wall"]
    graph = next(g for g in wall["graphs"] if (g["model"], g["phase"]) == (model, phase))
    layer = random.choice([x for x in wall["layers"] if wall["graphs"][x["graph"]] is graph])
    machines = random.sample(wall["machines"], 3)
    whole = layer_of(model, phase, batch=layer["batch"], N=MODELS[model][1])
    ops = [op.name for op in whole.operators]
    sets = random_sets(whole, graph["legal"], 400)
    answers = judged(graph, layer, machines, sets, [])["answers"]
    reached = {True: 0, False: 0}
    for some, answer in zip(sets, answers, strict=True):
        names = [ops[k] for k in some]
        for machine, at in zip(machines, range(3), strict=True):
            real = MACHINES[machine["name"]]
            M = real.chip_words(machine["dtype"])
            try:
                found = kernel(whole, names, M, online_softmax=False)
            except Illegal as error:
                assert "why" in answer, names
                same_reason(whole, names, M, answer["why"], str(error))
                reached[False] += 1
                break
            reached[True] += 1
            cost = answer["costs"][at]
            crossings = {L2_DRAM: found.crossing}
            if "SM↔L2" in machine["memory"]:
                core = real.sm_words(machine["dtype"])
                try:
                    crossings["SM↔L2"] = kernel(whole, names, core, online_softmax=False).crossing
                except Illegal:
                    assert cost["missing"] == ["SM↔L2"]
                    continue
            work = work_of([whole.operators[k] for k in some], crossings, whole)
            assert cost["words"] == found.words
            assert cost["bytes"] == {at: work.bytes[at] for at in crossings}
            assert (cost["products"], cost["others"]) == (work.products, work.others)
            limits = times(Roof.of(real), machine, work)
            assert cost["limit"] == max(limits, key=limits.__getitem__)
            assert cost["seconds"] == max(limits.values())
    assert min(reached.values()) > 20


def times(roof: Roof, machine: dict[str, Any], work: Any) -> dict[str, float]:
    """As `Roof.timed`, which needs bytes at both boundaries, wherever there is a speed."""
    from dataclasses import replace

    roles = {at: work.roles.get(at, {}) for at in ("L2↔DRAM", "SM↔L2")}
    return dict(roof.timed(replace(work, dtype=machine["dtype"], roles=roles)).limits)


def same_reason(whole: Graph, names: list[str], M: int, shown: str, said: str) -> None:
    """The page says what Python says of the set, or of some of its operators."""
    if shown == said:
        return
    some = shown.split(": ")[0].split(" + ")
    assert set(some) <= set(names)
    with pytest.raises(Illegal) as error:
        kernel(whole, some, M, online_softmax=False)
    assert str(error.value) == shown


@pytest.mark.parametrize(("model", "phase"), [("bert-large", "training"), ("gpt2", "decode")])
def test_partitions_run_in_pythons_order(model: str, phase: str, data: dict[str, Any]) -> None:
    random.seed(3)
    wall = data["views"]["wall"]
    graph = next(g for g in wall["graphs"] if (g["model"], g["phase"]) == (model, phase))
    layer = next(x for x in wall["layers"] if wall["graphs"][x["graph"]] is graph)
    whole = layer_of(model, phase, batch=layer["batch"], N=MODELS[model][1])
    ops = [op.name for op in whole.operators]
    partitions = []
    for _ in range(60):
        rest, kernels = set(range(len(ops))), []
        for some in random.sample(graph["legal"], 40):
            if set(some) <= rest and len(some) > 1:
                rest -= set(some)
                kernels.append(some)
        partitions.append(kernels + [[k] for k in sorted(rest)])
    orders = judged(graph, layer, [], [], partitions)["orders"]
    M, seen = MACHINES["h100"].chip_words("fp16"), 0
    for kernels, found in zip(partitions, orders, strict=True):
        named = [[ops[k] for k in some] for some in kernels]
        if found["waiting"]:
            with pytest.raises(InputError, match="wait for each other"):
                partition(whole, named, M, "x")
            continue
        expected = partition(whole, named, M, "x").groups
        seen += 1
        assert [[ops[k] for k in some] for some in found["order"]] == [
            list(one.names) for one in expected
        ]
    assert seen
