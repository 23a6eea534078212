"""The pebble game in the page, played by pointer, by keyboard and by touch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from test_lab_pebbles import BOARDS, best_of, cleaned, dag_of, moves_of

from iosim.base.errors import IosimError
from iosim.lab.page import page as written
from iosim.pebbling import Game, Move, from_edges, optimum, segments

KEYS = {"load": "l", "store": "s", "compute": "c", "delete": "d"}


def vertex(page: Page, name: str) -> Any:
    return page.locator(f'[data-vertex="{name}"]')


def letters(page: Page, name: str) -> str | None:
    """The moves that are shown under a vertex."""
    return page.locator(f'.vertex:has([data-vertex="{name}"]) .letters').text_content()


def button(page: Page, name: str) -> Any:
    return page.get_by_role("button", name=name, exact=True)


def count(page: Page, name: str) -> int:
    return int(page.locator(f'[data-count="{name}"]').inner_text())


def says(page: Page) -> Any:
    return page.locator(".message")


def play(page: Page, moves: list[Move]) -> None:
    """By keyboard, at the vertex; a term is chosen by its number."""
    for move in moves:
        vertex(page, move.vertex).focus()
        if move.kind == "add":
            button(page, f"add {move.term}").click()
        else:
            page.keyboard.press(KEYS[move.kind])


@pytest.mark.parametrize(
    ("graph", "game", "M"),
    [
        ("matmul", "chain", 4),
        ("matmul", "partial", 3),
        ("attention", "words", 4),
        ("attention", "recompute", 5),
        ("pyramid", "recompute", 3),
        ("diamond", "recompute", 4),
    ],
)
def test_an_optimal_game_played_move_by_move(
    graph: str, game: str, M: int, open_view: Callable[..., Page], shot: Callable[..., None]
) -> None:
    best = best_of(graph, game, M)
    page = open_view("pebbles", hash=f"?graph={graph}&game={game}&M={M}")
    assert count(page, "optimum") == best["words"]
    moves = moves_of(best["moves"])
    play(page, moves)
    expect(says(page)).to_contain_text(f"Finished with {best['words']} transfers")
    expect(says(page)).to_contain_text("That is the optimum: no game has fewer.")
    assert count(page, "transfers") == best["words"]
    assert page.locator(".log li").count() == len(moves)
    shot(page, f"pebbles-{graph}-{game}-played")


def test_what_is_forbidden_is_explained_as_python_does(open_view: Callable[..., Page]) -> None:
    row = BOARDS["matmul", "chain"]
    page = open_view("pebbles", hash="?graph=matmul&M=3")
    game = Game(dag_of(row), 3)
    script = [
        "store A[0,0]",
        "delete A[0,0]",
        "compute A[0,0]",
        "load P[0,0,0]",
        "load A[0,0]",
        "load A[0,0]",
        "store A[0,0]",
        "compute P[0,0,0]",
        "load B[0,0]",
        "compute P[0,0,0]",
        "compute P[0,0,0]",
        "load A[0,1]",
        "delete P[0,0,0]",
        "compute P[0,0,0]",
    ]
    forbidden = 0
    for text in script:
        kind, name = text.split()
        vertex(page, name).focus()
        (
            page.keyboard.press(KEYS[kind])
            if forbidden % 2
            else button_of(page, kind).click(force=True)
        )
        if wrong := refused(game, Move(kind, name)):
            forbidden += 1
            assert page.locator(".message p").first.inner_text() == wrong
            assert page.locator(".message .rule").inner_text().lower().startswith(f"{kind}:")
            assert page.locator(".vertex.culprit").count() >= 1
        else:
            assert page.locator(".message.no .rule").count() == 0
        assert count(page, "transfers") == game.loads + game.stores
    assert forbidden == 10


def refused(game: Game, move: Move) -> str:
    """What Python says against a move; nothing where it is played."""
    try:
        game.play(move)
    except IosimError as error:
        return str(error)
    return ""


def button_of(page: Page, kind: str) -> Any:
    return page.locator(".moves .button", has_text=kind)


def test_only_legal_moves_are_shown_as_legal(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=attention&game=words&M=4")
    play(page, moves_of(["load Q[0,0]", "load K[0,0]", "load V[0,0]"]))
    assert letters(page, "E[0,0]") == "C"
    assert letters(page, "E[0,1]") == ""
    assert letters(page, "K[0,0]") == "D"
    assert letters(page, "Q[1,0]") == "L"
    play(page, moves_of(["compute E[0,0]"]))
    assert letters(page, "Q[1,0]") == ""
    vertex(page, "O[0,0]").focus()
    legal = page.locator(".moves .button.legal")
    assert legal.count() == 0
    play(page, moves_of(["delete Q[0,0]"]))
    vertex(page, "O[0,0]").focus()
    assert [x.strip() for x in legal.all_inner_texts()] == ["A add W[0,0,0]"]
    page.keyboard.press("a")
    assert "1 of 2 terms in it" in str(vertex(page, "O[0,0]").get_attribute("aria-label"))


def test_undo_redo_and_reset(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=pyramid&M=3")
    moves = moves_of(best_of("pyramid", "chain", 3)["moves"])
    play(page, moves[:6])
    paid = count(page, "transfers")
    button(page, "Undo").click()
    vertex(page, "p0,0").focus()
    page.keyboard.press("u")
    for _ in range(4):
        page.keyboard.press("u")
    assert count(page, "transfers") == 0
    expect(button(page, "Undo")).to_be_disabled()
    vertex(page, "p0,0").focus()
    for _ in range(9):
        page.keyboard.press("r")
    assert count(page, "transfers") == paid
    # A move of the log is gone to; another move then replaces what came after.
    page.locator(".log button").first.click()
    assert count(page, "transfers") == 1
    play(page, moves_of(["load p0,3"]))
    assert page.locator(".log li").count() == 2
    button(page, "Reset").click()
    assert page.locator(".log li").count() == 0
    assert count(page, "transfers") == 0


@pytest.mark.parametrize(
    ("graph", "game", "M"), [("butterfly", "chain", 3), ("matmul", "partial", 4)]
)
def test_hints_alone_play_an_optimal_game(
    graph: str, game: str, M: int, open_view: Callable[..., Page]
) -> None:
    page = open_view("pebbles", hash=f"?graph={graph}&game={game}&M={M}")
    best = best_of(graph, game, M)
    # A first move that no solver would make: hints are from where one is.
    play(page, moves_of(["load " + list(BOARDS[graph, game]["vertices"])[1]]))
    for _ in range(120):
        button(page, "Hint").click()
        button(page, "Play it").click()
        if page.locator(".message.good").count():
            break
    assert count(page, "transfers") == best["words"]


def test_a_hint_tells_what_a_detour_costs(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=pyramid&M=3")
    play(page, moves_of(["load p0,0", "delete p0,0"]))
    button(page, "Hint").click()
    expect(says(page)).to_contain_text("12 in all, 1 more than the optimum")


def test_a_value_that_is_lost_is_told_at_once(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=pyramid&M=3")
    play(page, moves_of(["load p0,0", "load p0,1", "compute p1,0", "delete p1,0"]))
    expect(says(page)).to_contain_text("This game can't be finished: undo, and store p1,0")
    button(page, "Hint").click()
    expect(says(page)).to_contain_text("may not be computed again")
    page = open_view("pebbles", hash="?graph=pyramid&game=recompute&M=3")
    play(page, moves_of(["load p0,0", "load p0,1", "compute p1,0", "delete p1,0"]))
    expect(says(page)).not_to_contain_text("can't be finished")


def test_replay_of_an_optimal_game(open_view: Callable[..., Page]) -> None:
    best = best_of("tree", "chain", 3)
    page = open_view("pebbles", hash="?graph=tree&M=3", reduced_motion="reduce")
    play(page, moves_of(["load t3,7", "load t3,6"]))
    button(page, "Replay an optimal game").click()
    assert page.locator(".log li").count() == len(best["moves"])
    button(page, "Step forward").click()
    button(page, "Step forward").click()
    said = [x.split("\n")[0] for x in page.locator(".log li:not(.undone)").all_inner_texts()]
    assert said == best["moves"][:2]
    button(page, "Play").click()
    button(page, "Pause").click()
    button(page, "To the end").click()
    assert count(page, "transfers") == best["words"]
    expect(says(page)).to_contain_text("That is the optimum")
    # A move of one's own, and a new start, lose nothing of the game before.
    button(page, "To the start").click()
    play(page, moves_of(["load t3,0"]))
    button(page, "Reset").click()
    button(page, "Back to my game").click()
    assert [x.split("\n")[0] for x in page.locator(".log li").all_inner_texts()] == [
        "load t3,7",
        "load t3,6",
    ]
    assert count(page, "transfers") == 2


@pytest.mark.parametrize(
    ("graph", "game", "M"), [("matmul", "chain", 3), ("diamond", "recompute", 3)]
)
def test_the_segments_numbers_are_pythons(
    graph: str, game: str, M: int, open_view: Callable[..., Page], shot: Callable[..., None]
) -> None:
    best, dag = best_of(graph, game, M), dag_of(BOARDS[graph, game])
    _, _, moves = cleaned(dag, moves_of(best["moves"]))
    page = open_view("pebbles", hash=f"?graph={graph}&game={game}&M={M}")
    button(page, "Replay an optimal game").click()
    button(page, "To the end").click()
    button(page, "Segments").click()
    field = page.get_by_label("Transfers in a segment, s")
    assert field.input_value() == str(M)
    for s in (M, 2, 2 * M):
        field.fill(str(s))
        want = segments(dag, moves, s)
        rows = page.locator(".pebble-proof tbody tr")
        expect(rows).to_have_count(len(want))
        told = [[int(x) for x in row.split()] for row in rows.all_inner_texts()]
        assert told == [
            [k, x.loads, x.stores, len(x.part), len(x.dominator), len(x.minimum)]
            for k, x in enumerate(want, 1)
        ]
        (line,) = (x for x in best["theorem"] if x["s"] == s)
        proof = page.locator(".pebble-proof").inner_text()
        h, q = len(want), best["words"]
        assert f"{q} ≥ {s}·({h} − 1) = {s * (h - 1)}" in proof
        assert f"P({M + s}) = {line['parts']}" in proof
        assert f"Q ≥ {s}·({line['parts']} − 1) = {line['words']}" in proof
        # On the board: the sets of each segment.
        for k, x in enumerate(want, 1):
            button(page, f"Show segment {k}").click()
            for names, words in (
                (x.part, "in the part"),
                (x.dominator, "in the dominator"),
                (x.minimum, "in the minimum"),
            ):
                shown = page.locator(f'[data-vertex][aria-label*="{words}"]')
                assert {v.get_attribute("data-vertex") for v in shown.all()} == names
    shot(page, f"pebbles-{graph}-segments")


@pytest.mark.parametrize(
    ("graph", "game", "M"), [("matmul", "chain", 3), ("diamond", "recompute", 3)]
)
def test_segments_open_at_one_that_has_a_part(
    graph: str, game: str, M: int, open_view: Callable[..., Page]
) -> None:
    best, dag = best_of(graph, game, M), dag_of(BOARDS[graph, game])
    page = open_view("pebbles", hash=f"?graph={graph}&game={game}&M={M}")
    button(page, "Replay an optimal game").click()
    button(page, "To the end").click()
    button(page, "Segments").click()
    _, _, moves = cleaned(dag, moves_of(best["moves"]))
    empty = 0
    for s in range(1, 2 * M + 1):
        page.get_by_label("Transfers in a segment, s").fill(str(s))
        want = segments(dag, moves, s)
        last = max(k for k, x in enumerate(want, 1) if x.part)
        empty += last < len(want)
        expect(page.locator(".steps span")).to_have_text(f"segment {last} of {len(want)}")
    assert empty


def test_a_game_of_sums_has_cuts_and_no_claim(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=matmul&game=partial&M=3")
    play(page, moves_of(best_of("matmul", "partial", 3)["moves"])[:20])
    button(page, "Segments").click()
    assert page.locator(".strip li").count() > 1
    assert page.locator(".pebble-proof").count() == 0
    assert "The theorem is about games that compute whole vertices" in page.inner_text(".pebbles")


# --- drawn by hand -------------------------------------------------------------------------------


def test_a_graph_drawn_with_the_pointer(
    open_view: Callable[..., Page], shot: Callable[..., None]
) -> None:
    page = open_view("pebbles", hash="?graph=own")
    button(page, "Clear").click()
    ground = page.locator(".ground svg")
    for x, y in ((100, 60), (300, 60), (200, 200), (500, 60), (400, 300)):
        ground.click(position={"x": x, "y": y})
    assert page.locator(".ground [data-vertex]").count() == 5
    edges = [("a", "c"), ("b", "c"), ("c", "e"), ("d", "e")]
    for a, b in edges:
        vertex(page, a).click()
        vertex(page, b).click()
    assert page.get_by_role("textbox", name="As text").input_value().splitlines() == [
        f"{a} {b}" for a, b in edges
    ]
    # A cycle is refused with the way round; nothing is lost.
    vertex(page, "e").click()
    vertex(page, "a").click()
    expect(page.locator(".pebble-draw .wrong").first).to_contain_text(
        "the edge e → a would close a cycle, a → c → e → a"
    )
    assert page.locator(".ground .arrow").count() == 4
    box = vertex(page, "d").bounding_box()
    assert box
    page.mouse.move(box["x"] + 30, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 130, box["y"] + 90, steps=4)
    page.mouse.up()
    moved = vertex(page, "d").bounding_box()
    assert moved
    assert moved["x"] - box["x"] == pytest.approx(100, abs=30)
    shot(page, "pebbles-drawing")
    button(page, "Play on it").click()
    want = optimum(from_edges("drawn", edges), 3).cost
    expect(page.locator('[data-count="optimum"]')).to_have_text(str(want))
    button(page, "Replay an optimal game").click()
    button(page, "To the end").click()
    assert count(page, "transfers") == want
    assert "edges=" in page.url or page.wait_for_url("**edges=**") is None


def test_a_graph_drawn_with_the_keyboard(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=own")
    button(page, "Clear").focus()
    page.keyboard.press("Enter")
    button(page, "Add a vertex").focus()
    for _ in range(3):
        page.keyboard.press("Enter")
    vertex(page, "a").focus()
    page.keyboard.press("Enter")
    vertex(page, "c").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Edge from c to").select_option("b")
    vertex(page, "b").focus()
    page.keyboard.press("n")
    assert page.locator(".ground [data-vertex]").count() == 4
    vertex(page, "d").focus()
    page.keyboard.press("Delete")
    assert page.get_by_role("textbox", name="As text").input_value() == "a c\nc b"
    vertex(page, "c").focus()
    button(page, "Remove the edge from a to c").click()
    assert page.get_by_role("textbox", name="As text").input_value() == "a\nc b"


def test_a_graph_as_text_and_what_is_wrong_with_it(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=own")
    text = page.get_by_role("textbox", name="As text")
    text.fill("x z\ny z\nz x")
    expect(page.locator("#pebble-lines-says")).to_contain_text("line 3: the edge z → x would close")
    assert page.locator(".ground [data-vertex]").count() == 6  # the last good one
    text.fill("x z\ny z\nz w")
    expect(page.locator("#pebble-lines-says")).to_be_empty()
    assert page.locator(".ground [data-vertex]").count() == 4
    text.fill("")
    expect(button(page, "Play on it")).to_be_disabled()


def test_beyond_a_dozen_vertices_the_optimum_is_not_known_unless_it_is_searched(
    open_view: Callable[..., Page],
) -> None:
    edges = [(f"v{k}", f"v{k + 2}") for k in range(12)] + [
        (f"v{k}", f"v{k + 3}") for k in range(11)
    ]
    text = ";".join(f"{a} {b}" for a, b in edges)
    page = open_view("pebbles", hash=f"?graph=own&edges={quote(text)}")
    assert "The optimum isn't known: the graph has 14 vertices" in page.inner_text(".pebbles")
    dag = from_edges("drawn", edges)
    trivial = len(dag.inputs) + len(dag.outputs)
    assert f"no game moves fewer than {trivial}" in page.inner_text(".score")
    button(page, "Search for it").click()
    expect(page.locator('[data-count="optimum"]')).to_have_text(str(optimum(dag, 3).cost))


def test_a_search_can_be_stopped(open_view: Callable[..., Page]) -> None:
    edges = [
        (f"g{i}{j}", f"g{i + a}{j + b}")
        for i in range(5)
        for j in range(5)
        for a, b in ((1, 0), (0, 1))
        if i + a < 5 and j + b < 5
    ]
    text = ";".join(f"{a} {b}" for a, b in edges)
    page = open_view("pebbles", hash=f"?graph=own&game=recompute&edges={quote(text)}")
    button(page, "Search for it").click()
    button(page, "Stop").click()
    expect(page.locator(".pebbles")).to_contain_text("The optimum isn't known: it was stopped")
    play(page, moves_of(["load g00"]))
    assert count(page, "transfers") == 1


# --- bad input, keyboard, screen readers, touch --------------------------------------------------


def test_an_M_that_is_too_small_says_what_does_not_fit(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=matmul&M=4")
    field = page.get_by_label("Red pebbles, M")
    for text, wrong in (
        ("2", "M = 2 is too small: a vertex with its operands needs M ≥ 3"),
        ("x", "whole number"),
        ("", "whole number"),
        ("999", "at most 64"),
        ("1", "at least 2"),
    ):
        field.fill(text)
        expect(page.get_by_role("alert")).to_contain_text(wrong)
        assert count(page, "optimum") == 17
    field.fill("40")
    assert page.get_by_role("alert").count() == 0
    assert count(page, "optimum") == 12
    button(page, "M 5: 14, the optimum").click()
    assert field.input_value() == "5"
    assert count(page, "optimum") == 14


@pytest.mark.parametrize(
    "link",
    [
        "?graph=none&game=none&M=none&s=none",
        "?graph=own&edges=a%20a",
        "?graph=matmul&M=-3&s=1e99",
        "?graph=own&edges=",
        "?graph=pyramid&game=words",
        "?edges=%E0%A4",
    ],
)
def test_a_link_that_says_nonsense_opens_the_game(
    link: str, open_view: Callable[..., Page]
) -> None:
    page = open_view("pebbles", hash=link)
    assert page.locator(".broken").count() == 0
    assert page.locator("[data-vertex]").count() > 0 or "no edge" in page.inner_text(".pebbles")


def test_data_without_boards_is_told(
    data: dict[str, Any], open_file: Callable[..., Page], tmp_path: Path
) -> None:
    path = tmp_path / "lab.html"
    views = data["views"] | {"pebbles": {}}
    path.write_text(written(json.loads(json.dumps(data)) | {"views": views}), encoding="utf-8")
    page = open_file(path, "#pebbles")
    expect(page.get_by_role("alert")).to_contain_text("The data of the pebble game has no boards")


def test_by_keyboard_alone_with_names_for_screen_readers(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", hash="?graph=pyramid&M=3")
    page.get_by_label("Red pebbles, M").focus()
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.vertex"):
            break
    focused = page.locator("*:focus")
    assert focused.get_attribute("aria-label") == "p0,0, input; blue pebble; legal: load"
    page.keyboard.press("Enter")
    assert focused.get_attribute("aria-label") == (
        "p0,0, input; red pebble and blue pebble; legal: delete"
    )
    page.keyboard.press("ArrowRight")
    page.keyboard.press("l")
    page.keyboard.press("ArrowDown")
    assert str(focused.get_attribute("aria-label")).startswith("p1,")
    while not str(focused.get_attribute("aria-label")).startswith("p1,0"):
        page.keyboard.press("ArrowLeft")
    assert focused.get_attribute("aria-label") == (
        "p1,0; no pebble; operands p0,0 p0,1; legal: compute"
    )
    page.keyboard.press("Enter")
    assert str(focused.get_attribute("aria-label")).startswith("p1,0; red pebble; operands")
    expect(page.get_by_role("status")).to_contain_text("3 of 3 red pebbles")
    # What is likely is never a deletion.
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("p1,0 is red: D deletes it, S stores it")


def test_by_touch_on_a_phone(open_view: Callable[..., Page]) -> None:
    page = open_view("pebbles", 390, 844, hash="?graph=matmul&M=3", has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for name in ("A[0,0]", "B[0,0]"):
        vertex(page, name).tap()
        button_of(page, "load").tap()
    vertex(page, "P[0,0,0]").tap()
    vertex(page, "P[0,0,0]").tap()  # once more: what is likely
    assert str(vertex(page, "P[0,0,0]").get_attribute("aria-label")).startswith(
        "P0,0,0; red pebble"
    )
    small = page.evaluate(
        "[...document.querySelectorAll('.vertex .touch')]"
        ".filter(x => x.getBoundingClientRect().width < 40).length"
    )
    assert small == 0
