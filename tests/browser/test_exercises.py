"""Exercises in the page: formulas are read, predictions judged, answers revealed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from engine import Node, build
from hypothesis import given
from hypothesis import strategies as st
from sizes import examples

import iosim
from iosim.base.errors import InputError
from iosim.lab.exercises import exercises
from iosim.lab.exercises.expression import evaluate
from iosim.lab.programs import algorithm_data

BUILT_IN = exercises()
NAMES = {"N": 10, "d": 3, "B_r": 4, "M": 100}


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """The reader of formulas and the judge, freshly built."""
    found = Node(build(tmp_path_factory.mktemp("judge") / "cli.mjs", "src/exercises/cli.ts"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def programs() -> dict[str, Any]:
    """The programs that exercises ask about."""
    names = ("flash1", "flash2", "small_cache", "naive")
    return {name: algorithm_data(iosim.algorithm(name)) for name in names}


def read(node: Node, text: str, values: Any = NAMES) -> dict[str, Any]:
    (found,) = node.send({"formula": text, "values": {k: str(v) for k, v in values.items()}})
    return found


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("2Nd", 60, "2·N·d"),
        ("M/4d", Fraction(25, 3), "M/(4·d)"),
        ("N²d", 300, "N²·d"),
        ("Nd⌈N/B_r⌉", 90, "N·d·⌈N/B_r⌉"),
        ("N d ceil(N / Br)", 90, "N·d·⌈N/B_r⌉"),
        ("(N+d)(N−d)", 91, "(N + d)·(N − d)"),
        ("-N^2", -100, "−N²"),
        ("2^-1", Fraction(1, 2), "2^(−1)"),
        ("min(1,234)", 1, "min(1, 234)"),
        ("1,234 + 64Ki", 66770, "1,234 + 65,536"),
        ("N/d/B_r", Fraction(5, 6), "N/d/B_r"),
        ("N - (d - 1)", 8, "N − (d − 1)"),
        ("N/(d·2)", Fraction(5, 3), "N/(d·2)"),
        ("⌊1.5 N⌋ × 2", 30, "⌊1.5·N⌋·2"),
        ("max(N, d, M)", 100, "max(N, d, M)"),
        ("B_{r}[d]", 12, "B_r·d"),
        ("2**3**2", 512, "2^(3²)"),
        ("(2^3)²", 64, "(2^3)²"),
        ("2^-1^2", Fraction(1, 2), "2^(−1²)"),
        ("= N d", 30, "N·d"),
        ("ceiling(N/B_r)", 3, "⌈N/B_r⌉"),
        ("1e3 + 1.5e-1", Fraction(20003, 20), "1,000 + 0.15"),
        ("N ∗ d • 2", 60, "N·d·2"),
    ],
)
def test_formulas_as_people_type_them(node: Node, text: str, value: Any, shown: str) -> None:
    found = read(node, text)["is"]
    assert (Fraction(found["value"]), found["written"]) == (value, shown)
    # What is shown is read as the same.
    assert read(node, shown)["is"] == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "type a formula"),
        ("Q = N", "is not a name"),
        ("N = d", "type only the part after “=”"),
        ("ceil N", "put the argument of “ceil” in parentheses"),
        ("🙂", "“🙂” is not a sign here"),
        ("N²^3", "put parentheses around a power"),
        ("N²³", "put parentheses around a power"),
        ("2^16^2", "powers are whole numbers up to 16"),
        ("((((((2^16)^16)^16)^16)^16)^16)^16", "too large a number"),
        ("(" * 200 + "N" + ")" * 200, "that is 401 characters long: write at most 300"),
        ("N +", "something is missing at the end"),
        ("(N", "“)” is missing"),
        ("⌈N)", "“⌉” is missing before “)”"),
        ("Q", "“Q” is not a name here: use N, d, B_r, M, ceil()"),
        ("N 2", "put a sign before “2”"),
        ("N)", "“)” is not understood there"),
        ("N/0", "divides by 0"),
        ("N^M", "powers are whole numbers up to 16"),
        ("ceil(N, d)", "ceil() takes one number"),
        ("* N", "“*” is where a number"),
        ("N & d", "“&” is not a sign here"),
        ("min()", "is where"),
    ],
)
def test_what_is_no_formula(node: Node, text: str, why: str) -> None:
    assert why in read(node, text)["error"]


def expressions() -> st.SearchStrategy[str]:
    """Formulas in the language that both read."""
    atoms = st.sampled_from([*NAMES, "1", "2", "7", "1.5"])

    def wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        pairs = st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda x: f"({' '.join(x)})")
        flat = st.tuples(inner, st.sampled_from("+-*/·−"), inner).map(" ".join)
        ways = st.sampled_from(
            [
                "ceil({})",
                "floor({})",
                "⌈{}⌉",
                "⌊{}⌋",
                "({})^2",
                "({})²",
                "2^({})",
                "({})^1^3",
                "2^-1^{}",
            ]
        )
        calls = st.tuples(ways, inner).map(lambda x: x[0].format(x[1]))
        two = st.tuples(st.sampled_from(["min", "max"]), inner, inner)
        return pairs | flat | calls | two.map(lambda x: f"{x[0]}({x[1]}, {x[2]})")

    return st.recursive(atoms, wider, max_leaves=8)


@examples(2)
@given(expressions(), st.lists(st.integers(1, 50), min_size=4, max_size=4))
def test_formulas_are_read_as_python_reads_them(node: Node, text: str, at: list[int]) -> None:
    values = dict(zip(NAMES, at, strict=True))
    found = read(node, text, values)
    if "error" in found:
        assert any(x in found["error"] for x in ("divides by 0", "powers are", "too large"))
        with pytest.raises(InputError, match=r"divides by 0|power"):
            evaluate(text, values)
        return
    expected = evaluate(text, values)
    assert Fraction(found["is"]["value"]) == expected
    again = read(node, found["is"]["written"], values)["is"]
    assert Fraction(again["value"]) == expected


def of(view: str, k: int) -> dict[str, Any]:
    return BUILT_IN[view][k]


def verdict(node: Node, programs: Any, one: dict[str, Any], typed: Any) -> dict[str, Any]:
    ask = {"exercise": one, "programs": programs}
    ask |= {"tiles": typed} if isinstance(typed, dict) else {"typed": typed}
    (found,) = node.send(ask)
    if "error" in found:
        return {"right": None, "says": found["error"]}
    return found["is"]["verdict"]


def test_every_answer_is_right_when_it_is_typed(node: Node, programs: Any) -> None:
    for found in BUILT_IN.values():
        for one in found:
            typed: Any = one["answer"]
            if one["ask"] == "number":
                values = {k: Fraction(v) for k, v in one["values"].items()}
                right = evaluate(one["answer"], values)
                typed = f"({right.numerator})/({right.denominator})"
                off = 1 + 2 * Fraction(str(one["tolerance"]))
                for wrong in (right * off + 1, right * 2, -right):
                    text = f"({wrong.numerator})/({wrong.denominator})"
                    assert verdict(node, programs, one, text)["right"] is False
            if one["ask"] == "tiles":
                typed = one["fit"]["tiles"]
            told = verdict(node, programs, one, typed)
            assert told["right"], (one["question"], told)
            if one["ask"] == "formula":
                assert verdict(node, programs, one, f"({typed}) + 1")["right"] is False


@pytest.mark.parametrize(
    ("k", "typed", "right", "says"),
    [
        (0, "dN", True, ""),
        (0, "N·d·B_r/B_r", True, ""),
        (0, "Nd⌈N/B_r⌉⌈N/B_r⌉/⌈N/B_r⌉²", True, ""),
        (0, "2Nd", False, "It is 2 times as much everywhere"),
        (0, "Nd⌈N/B_c⌉", False, "Read as N·d·⌈N/B_c⌉. At "),
        (1, "Nd*ceil(N/B_r)", True, ""),
        (1, "N²d/B_r", False, "think of the last, short tile"),
        (1, "N d floor((N + B_r - 1) / B_r)", True, ""),
        (1, "Nd(N/B_r + 1)", False, "and it should be"),
        (2, "2(d+1)B_r + (d + B_r)B_c", True, ""),
        (2, "2dB_r + dB_c + B_rB_c", False, "it should be"),
        # What is rounded is told apart from what it should be; long numbers are not written out.
        (0, "Nd(1 + 1/10^9)", False, "that is 1000000001/1000000000, and it should be 1."),
        (0, "Nd + 9^16^1 * 9^16 * 9^16", False, "·10^45"),
        (0, "K", None, "“K” is not a name here"),
        (0, "N/(N-N)", None, "divides by 0"),
    ],
)
def test_formulas_of_counts(
    node: Node, programs: Any, k: int, typed: str, right: bool | None, says: str
) -> None:
    told = verdict(node, programs, of("watch", k), typed)
    assert told["right"] is right, told
    assert says in told["says"]


def test_tiles_that_fit_and_tiles_that_are_best(node: Node, programs: Any) -> None:
    flash2, sizes = iosim.algorithm("flash2").program, iosim.Attention(1024, 64).sizes
    best = iosim.optimal_tiles(flash2, iosim.Attention(1024, 64), 8192)
    for B_r in (1, 8, 40, 57, 60, 61, 62, 100, 2000):
        for B_c in (1, 2, 30, 5000):
            tiles = {"B_r": B_r, "B_c": B_c}
            instance = iosim.bind(flash2, sizes, tiles)
            fits = iosim.peak(instance) <= 8192
            assert verdict(node, programs, of("tiles", 0), tiles)["right"] is fits
            least = iosim.count(instance).total_words == best.total_words
            assert verdict(node, programs, of("tiles", 1), tiles)["right"] is (fits and least)


def test_tiles_fit_to_the_word(node: Node, programs: Any) -> None:
    one, tiles = of("tiles", 0), {"B_r": 20, "B_c": 30}
    sizes = iosim.Attention(1024, 64).sizes
    held = iosim.peak(iosim.bind(iosim.algorithm("flash2").program, sizes, tiles))
    for M in (held - 1, held):
        room = one | {"fit": one["fit"] | {"M": M}}
        assert verdict(node, programs, room, tiles)["right"] is (held == M)


def test_which_schedule_wins(node: Node, programs: Any) -> None:
    one = of("slope", 0)
    (found,) = node.send({"exercise": one, "programs": programs, "typed": one["choices"][0]})
    problem = iosim.Attention(4096, 128)
    words = {}
    for name in one["choices"]:
        program = iosim.algorithm(name).program
        fits = iosim.smallest_capacity(program, problem) <= 4096
        words[name] = fits and str(iosim.optimal_tiles(program, problem, 4096).total_words)
    assert dict(found["is"]["verdict"]["words"]) == {k: v or None for k, v in words.items()}


def test_predict_then_reveal_in_the_page(
    open_view: Callable[..., Any], shot: Callable[..., None]
) -> None:
    page = open_view("watch")
    panel = page.locator(".exercises")
    panel.locator("summary").click()
    assert panel.get_by_role("button", name="Reveal").is_disabled()
    # The counters would tell, and are hidden until the prediction is right.
    page.locator(".counters").wait_for(state="hidden")
    field = panel.get_by_label("Your formula")
    field.fill("Nd⌈N/")
    field.press("Enter")
    assert "missing" in panel.get_by_role("alert").inner_text()
    field.fill("2Nd")
    field.press("Enter")
    assert "✗" in panel.get_by_role("status").inner_text()
    panel.get_by_role("button", name="Hint (0 of 2)").click()
    assert panel.locator(".hints li").count() == 1
    field.fill("Nd")
    field.press("Enter")
    assert "✓ Right: N·d." in panel.get_by_role("status").inner_text()
    page.locator(".counters").wait_for(state="visible")
    panel.get_by_role("button", name="Reveal").click()
    assert "N·d words" in panel.get_by_role("region", name="Answer").inner_text()
    shot(page, "exercise-revealed")
    panel.get_by_role("button", name="Show it in the view").click()
    page.wait_for_function(
        "location.hash.includes('tiles=B_r%3D4') || location.hash.includes('B_r=4')"
    )
    # What was typed is still there, and the next exercise is another one.
    assert panel.get_by_label("Your formula").input_value() == "Nd"
    panel.get_by_role("button", name="Next exercise").click()
    assert panel.get_by_label("Your formula").input_value() == ""
    assert "1 solved" in panel.locator("summary").inner_text()


@pytest.mark.parametrize("view", BUILT_IN)
def test_every_view_asks(
    view: str, open_view: Callable[..., Any], shot: Callable[..., None]
) -> None:
    page = open_view(view, 390, 844)
    panel = page.locator(".exercises")
    panel.locator("summary").click()
    for k, one in enumerate(BUILT_IN[view]):
        assert panel.get_by_role("heading", name=f"Exercise {k + 1} of").count() == 1
        assert " ".join(one["question"].split())[:40] in " ".join(panel.inner_text().split())
        page.wait_for_selector(f'[data-hides="{one["hides"]}"]', state="attached")
        if one["ask"] == "choice":
            panel.get_by_label(one["answer"], exact=True).check()
        elif one["ask"] == "tiles":
            for name, value in one["fit"]["tiles"].items():
                panel.get_by_label(name, exact=True).fill(str(value))
        else:
            values = {x: Fraction(v) for x, v in one["values"].items()}
            right = None if one["ask"] == "formula" else evaluate(one["answer"], values)
            text = one["answer"] if right is None else f"{right.numerator}/{right.denominator}"
            panel.locator("input").fill(text)
        panel.get_by_role("button", name="Check").click()
        assert "✓" in panel.get_by_role("status").inner_text()
        page.wait_for_selector('[data-hides="nothing"]', state="attached")
        panel.get_by_role("button", name="Reveal").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        if k == 0:
            shot(page, f"exercises-{view}-phone")
        if k + 1 < len(BUILT_IN[view]):
            panel.get_by_role("button", name="Next exercise").click()
