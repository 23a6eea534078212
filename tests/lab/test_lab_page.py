"""The lab's page as a file: whole, small, offline, and the same data that went in."""

from __future__ import annotations

import json
import os
import re
import sys
import webbrowser
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_cli import iosim_, ok
from test_targets import bad_targets

from iosim import Attention, algorithm, bind, optimal_tiles, watch
from iosim.base.errors import InputError
from iosim.lab import page as pages
from iosim.lab import widget
from iosim.lab.data import DATA
from iosim.lab.exercises import exercises
from iosim.lab.packed import unpack
from iosim.lab.page import as_json, envelope, page, payload

MOST_BYTES = 3_000_000
# What names a vocabulary of XML, and is never loaded.
NAMESPACES = {
    "http://www.w3.org/1999/xhtml",
    "http://www.w3.org/2000/svg",
    "http://www.w3.org/1998/Math/MathML",
    "http://www.w3.org/1999/xlink",
}


class Parts(HTMLParser):
    """Scripts by id or type, styles, and every tag with its attributes, as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = dict(attrs).get("id") or dict(attrs).get("type") or tag

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        self.texts[self.inside] = self.texts.get(self.inside, "") + data


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return payload()


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [x for one in value.values() for x in numbers(one)]
    if isinstance(value, list | tuple):
        return [x for one in value for x in numbers(one)]
    return [value] if isinstance(value, int | float) else []


@pytest.mark.numbers
def test_the_page_is_small_and_has_its_data(data: dict[str, Any]) -> None:
    text = page(data)
    assert len(text.encode()) < MOST_BYTES
    found = unpack(json.loads(Parts(text).texts["iosim-lab-data"]))
    assert found == json.loads(json.dumps(data))
    assert list(data["views"]) == list(DATA)


def test_numbers_that_travel_are_exact_in_a_browser(data: dict[str, Any]) -> None:
    """JSON's numbers are floats there: words that may pass 2^53 go as text."""
    assert len(numbers(data)) > 1000
    assert not [x for x in numbers(data) if isinstance(x, int) and abs(x) > 2**53]


def test_the_page_loads_nothing(data: dict[str, Any]) -> None:
    parts = Parts(page(data))
    loads = [(tag, x) for tag, x in parts.tags if {"src", "href", "srcset", "data"} & x.keys()]
    assert loads == []
    (policy,) = (x["content"] for _, x in parts.tags if "http-equiv" in x)
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "http" not in policy
    style, script = parts.texts["style"], parts.texts["module"]
    assert len(style) > 1000
    assert not re.findall(r"@import|url\(", style)
    assert len(script) > 10_000
    named = {x.rstrip("/") for x in re.findall(r"https?://[\w./-]+", script)}
    assert named <= NAMESPACES
    assert not re.findall(r"\b(?:import\s*\(|XMLHttpRequest|WebSocket|sendBeacon)", script)


def test_the_bundle_ends_no_script() -> None:
    assert not re.findall(r"</script|<!--", pages.static("lab.js"), re.IGNORECASE)
    assert "</style" not in pages.static("lab.css").lower()


ODD = [
    "</script>",
    "</SCRIPT >",
    "<!--<script>",
    "]]>",
    "<\\/script>",
    "\u2028\u2029",
    "\0\x1f\x7f",
    "\ud800",
    "a\udc00b",
    "é 漢 😀 \u202e",
    "{title}",
    "%s",
    '"\\',
    "&lt;&amp;",
    "\r\n\t",
]


@pytest.mark.parametrize("text", ODD, ids=ascii)
def test_odd_text_survives(text: str) -> None:
    told = envelope({"watch": {text: [text]}})
    written = page(told, title=text if text.isprintable() else "").encode().decode()
    parts = Parts(written)
    assert json.loads(parts.texts["iosim-lab-data"]) == told
    assert [tag for tag, _ in parts.tags].count("script") == 2


@pytest.mark.numbers
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_any_value_survives(value: Any) -> None:
    text = as_json({"views": value})
    assert "<" not in text
    assert json.loads(text.encode()) == {"views": value}


def test_what_is_no_number_is_no_page() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        as_json({"views": float("nan")})


@pytest.mark.parametrize("name", ["lab.pdf", "lab", "lab.html.gz"])
def test_what_is_no_page_is_refused_before_it_is_made(name: str, tmp_path: Path) -> None:
    done = iosim_("lab", "--save", name, cwd=tmp_path)
    assert done.returncode == 2
    assert "is not a page: name a file in .html, .htm, .json" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.numbers
def test_the_command_writes_whole_files_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any]
) -> None:
    """With data that are there; the test below has the command make its own."""
    monkeypatch.setattr(pages, "payload", lambda **_: data)
    for name, said in bad_targets(tmp_path).items():
        before = sorted(tmp_path.iterdir())
        done = iosim_("lab", "--save", name, "--no-open", cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
        assert sorted(tmp_path.iterdir()) == before
    (tmp_path / "real.html").write_text("old")
    (tmp_path / "lab.html").symlink_to("real.html")
    assert ok("lab", "--save", "lab.html", cwd=tmp_path) == f"wrote {tmp_path / 'real.html'}\n"
    assert (tmp_path / "lab.html").is_symlink()
    assert (tmp_path / "real.html").read_text(encoding="utf-8") == page(data)
    assert not [x for x in tmp_path.iterdir() if x.name.startswith(".part")]


@pytest.mark.numbers
def test_the_command_writes_the_data_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is made, where a file ends with .json; and it is made once."""
    made = []

    def few(**more: Any) -> dict[str, Any]:
        assert list(more) == ["exercises", "tick", "schedules", "launches"]  # and so all views
        made.append(payload(["wall"], **more))
        return made[0]

    monkeypatch.setattr(pages, "payload", few)
    ok("lab", "--save", "lab.json", cwd=tmp_path)
    (told,) = made
    assert told["exercises"] == exercises()
    assert json.loads((tmp_path / "lab.json").read_text()) == json.loads(as_json(told))
    assert not [x for x in tmp_path.iterdir() if x.name.startswith(".part")]


def test_the_command_opens_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any]
) -> None:
    """In the browser that the environment names; without -o, or where it is asked."""
    monkeypatch.setattr(pages, "payload", lambda **_: data)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/seen\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    # Python asks the environment once; another test may have been the first.
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    monkeypatch.setattr(webbrowser, "_browsers", {})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    seen = tmp_path / "seen"
    ok("lab", "--save", "lab.html", cwd=tmp_path)
    ok("lab", "--no-open", cwd=tmp_path)
    assert not seen.exists()
    ok("lab", "--save", "lab.html", "--open", cwd=tmp_path)
    assert seen.read_text() == (tmp_path / "lab.html").as_uri() + "\n"
    said = ok("lab", cwd=tmp_path)
    where = Path(said.removeprefix("wrote ").strip())
    assert where.stat().st_size > 10_000
    assert seen.read_text().splitlines()[1:] == [where.as_uri()]


def test_a_bundle_that_is_missing_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "STATIC", tmp_path)
    with pytest.raises(InputError, match=r"lab.css is not built: run `npm ci && npm run build`"):
        page(envelope({}))


def test_watch_takes_instances_only() -> None:
    with pytest.raises(InputError, match="watch takes an instance, got int"):
        watch(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no view 'wath': did you mean 'watch'"):
        widget.lab(["wath"])


def test_without_anywidget_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widget._widget.cache_clear()
    with pytest.raises(InputError, match=r"pip install 'iosim\[lab\]'") as error:
        watch(bind(algorithm("copy").program, {"n": 8}, {"B": 2}))
    assert "\n" not in str(error.value)
    widget._widget.cache_clear()


def test_the_widget_has_the_page_s_data_and_bundle() -> None:
    pytest.importorskip("anywidget")
    instance = bind(algorithm("flash2").program, Attention(64, 8).sizes, {"B_r": 16, "B_c": 4})
    shown = watch(instance)
    assert list(shown.data["views"]) == ["watch"]
    assert shown.data["format"] == pages.FORMAT
    assert "-----" not in shown._esm
    assert os.fspath(pages.STATIC) not in str(shown.data)
    json.dumps(shown.data)


def test_the_widget_answers() -> None:
    def ask_widget(**args: Any) -> dict[str, Any]:
        return widget.answer({"id": 7, "what": "tiles", "args": args})

    problem = Attention(256, 16, causal=True)
    flash2 = algorithm("flash2")
    M = optimal_tiles(flash2.program_for(problem), problem, 4096).peak_words  # no word is left
    best = optimal_tiles(flash2.program_for(problem), problem, M)
    value = {"tiles": best.tiles, "words": str(best.total_words), "peak": str(best.peak_words)}
    sizes = {"N": 256, "d": 16, "causal": True}
    assert ask_widget(algo="flash2", sizes=sizes, M=M) == {"id": 7, "value": value}
    own = widget.answer(
        {"id": 7, "what": "tiles", "args": {"algo": "mine", "sizes": problem.sizes, "M": M}},
        {"mine": flash2.program_for(problem)},
    )
    assert own == {"id": 7, "value": value}
    for args, said in (
        ({"algo": "flash2", "sizes": sizes, "M": 3}, "flash2 needs at least"),
        ({"algo": "flash9", "sizes": sizes, "M": 3}, "did you mean 'flash"),
        ({"algo": "flash2", "sizes": {"N": 0, "d": 1}, "M": 3}, "N"),
        ({"algo": "flash2"}, "requested with other arguments"),
    ):
        assert said in ask_widget(**args)["wrong"]
        assert "\n" not in ask_widget(**args)["wrong"]
    for bad in (None, 3, {}, {"what": ["tiles"]}, {"what": "tiles", "args": None}):
        assert "wrong" in widget.answer(bad)
