"""Tutorials: pages of Markdown, and the notebooks that are made from them.

The page is the only source.  ``python docs/_ext/tutorials.py notebooks FOLDER`` writes each page of
docs/tutorials as a notebook of Jupyter and as one of marimo, and ``… figures`` draws again the
figures that the pages show.

On a page a session (a fence of ``pycon``) is code, and ``![…](img/NAME.svg)`` behind it shows the
figure that its variable NAME is.  A solution is folded away by ``<details>``; it stays text in a
notebook, so that nothing behind it may need its names.
"""

from __future__ import annotations

import ast
import doctest
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "tutorials"
FIGURES = FOLDER / "img"

_SESSION = re.compile(r"^```pycon\n(.*?)^```\n", re.M | re.S)
_DETAILS = re.compile(r"^<details>.*?^</details>\n", re.M | re.S)
_SUMMARY = re.compile(r"^<details><summary>(.*?)</summary>\n(.*?)^</details>\n", re.M | re.S)
_IMAGE = re.compile(r"^!\[[^\]]*\]\(img/(\w+)\.svg\)\n", re.M)


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: Markdown, or Python."""

    kind: str
    text: str


def pages() -> list[Path]:
    """The tutorials: all pages of the folder that have sessions."""
    return [p for p in sorted(FOLDER.glob("*.md")) if _SESSION.search(p.read_text("utf-8"))]


def cells(page: str) -> list[Cell]:
    """The cells of a page.

    A cell of code ends where the session shows a value, which a notebook shows for a cell's last
    line only.

    >>> cells("# A\\n\\n```pycon\\n>>> x = 1\\n>>> x\\n1\\n>>> x + 1\\n2\\n```\\n\\nEnd.\\n")
    ... # doctest: +NORMALIZE_WHITESPACE
    [Cell(kind='markdown', text='# A'), Cell(kind='code', text='x = 1\\nx'),
     Cell(kind='code', text='x + 1'), Cell(kind='markdown', text='End.')]
    """
    found: list[Cell] = []
    for kind, text in _parts(re.sub(r"^<!-- [\w -]+ -->\n", "", page, flags=re.M)):
        if kind == "code":
            found += [Cell(kind, x) for x in _split(text)]
            continue
        if shown := _IMAGE.match(text.lstrip()):
            found[-1] = Cell("code", f"{found[-1].text}\n{shown[1]}")
            text = _IMAGE.sub("", text, count=1)
        text = re.sub(r"\]\((?!\w+:)([^)#]*)\.md(#[^)]*)?\)", r"](\1.html\2)", text).strip()
        if text:
            found.append(Cell("markdown", text))
    return found


def _parts(page: str) -> Iterator[tuple[str, str]]:
    """Text and sessions in turn; what is folded away is text."""
    folded = [x.span() for x in _DETAILS.finditer(page)]
    last = 0
    for session in _SESSION.finditer(page):
        if any(a <= session.start() < b for a, b in folded):
            continue
        yield "markdown", page[last : session.start()]
        yield "code", session[1]
        last = session.end()
    yield "markdown", page[last:]


def _split(session: str) -> Iterator[str]:
    lines: list[str] = []
    for example in doctest.DocTestParser().get_examples(session):
        lines.append(example.source.rstrip("\n"))
        body = ast.parse(example.source).body
        printed = ast.unparse(body[-1]).startswith("print(")
        if example.want and isinstance(body[-1], ast.Expr) and not printed:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def notebook(page: str, *, marimo: bool = False) -> dict[str, Any]:
    """A notebook in Jupyter's format, without outputs; for marimo with the folds that it knows."""
    made = []
    for k, cell in enumerate(cells(page)):
        text = cell.text
        if marimo:
            text = _SUMMARY.sub(r"/// details | \1\n\2///\n", text + "\n").rstrip()
        told: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{k}",
            "metadata": {},
            "source": text.splitlines(keepends=True),
        }
        made.append(
            told | ({"execution_count": None, "outputs": []} if cell.kind == "code" else {})
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write_notebooks(folder: Path) -> list[Path]:
    """Write each page for Jupyter and, by marimo's converter, as its file of Python."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        jupyter, marimo = (folder / f"{page.stem}.{x}" for x in ("ipynb", "py"))
        between = folder / f"{page.stem}.marimo.ipynb"
        jupyter.write_text(json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n", "utf-8")
        between.write_text(json.dumps(notebook(text, marimo=True)), "utf-8")
        command = [sys.executable, "-m", "marimo", "-q", "-y", "convert", str(between)]
        subprocess.run([*command, "-o", str(marimo)], check=True, capture_output=True)
        between.unlink()
        made += [jupyter, marimo]
    return made


def write_figures(folder: Path = FIGURES, of: Sequence[Path] = ()) -> list[Path]:
    """Run the sessions of each page, or of some, and draw what its images show."""
    import matplotlib

    from iosim.report.plot import STYLE, write_figure

    made = []
    for page in of or pages():
        names: dict[str, Any] = {}
        text = page.read_text(encoding="utf-8")
        for cell in cells(text):
            if cell.kind == "code":
                exec(compile(cell.text, str(page), "exec"), names)
        for name in _IMAGE.findall(text):
            with matplotlib.rc_context(STYLE):
                made.append(write_figure(names[name], folder / f"{name}.svg", "svg"))
    return made


def _link(app: Any, doctree: Any) -> None:
    """Offer a tutorial's notebooks below its title."""
    from docutils import nodes

    page = Path(app.env.doc2path(app.env.docname))
    if app.builder.format != "html" or page not in pages():
        return
    line = nodes.paragraph("", "This page as a notebook: ", classes=["notebooks"])
    for what, suffix in (("Jupyter", "ipynb"), ("marimo", "py")):
        target = f"{page.stem}.{suffix}"
        link = nodes.reference("", what, internal=False, refuri=target, download=target)
        line += [link, nodes.Text(", " if suffix == "ipynb" else ".")]
    title = next(doctree.findall(nodes.title))
    title.parent.insert(title.parent.index(title) + 1, line)


def _write(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        write_notebooks(Path(app.outdir, "docs", "tutorials"))


def setup(app: Any) -> dict[str, bool]:
    """Link the notebooks from their pages, and write them when all pages are built."""
    app.connect("doctree-read", _link)
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main(what: str = "", *folder: str) -> None:
    """Write notebooks or figures, and print where they are."""
    if (what, len(folder)) not in (("notebooks", 1), ("figures", 0)):
        sys.exit("say what to write: notebooks FOLDER, or figures")
    sys.path.insert(0, str(ROOT))
    write = {"notebooks": write_notebooks, "figures": write_figures}[what]
    print(*write(*map(Path, folder)), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
