"""Slides as one HTML file: ``python docs/lecture/build.py slides.html`` (``iosim[docs]``)."""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
STYLE = """:root{color-scheme:light dark}body{font:max(18px,3.3vh)/1.4 sans-serif;margin:0}
section{min-height:100vh;box-sizing:border-box;padding:4vh 6vw;break-after:page}
img{max-width:100%;max-height:62vh;background:white}pre{overflow:auto;font-size:.8em}"""
# Arrow keys, space and page keys go from slide to slide.
SCRIPT = """addEventListener("keydown", e => {
  const by = {ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1}[e.key];
  if (!by || e.ctrlKey || e.altKey || e.metaKey) return;
  e.preventDefault();
  const all = [...document.querySelectorAll("section")];
  const near = all.map(x => Math.abs(x.getBoundingClientRect().top));
  const at = near.indexOf(Math.min(...near)) + by;
  all[Math.max(0, Math.min(all.length - 1, at))].scrollIntoView();
})"""


def _embedded(match: re.Match[str]) -> str:
    data = base64.b64encode((HERE / match[1]).read_bytes()).decode()
    return f'src="data:image/svg+xml;base64,{data}"'


def slides() -> str:
    """All slides, figures included."""
    from markdown_it import MarkdownIt

    parts = re.split(r"^(?=## )", (HERE / "slides.md").read_text(encoding="utf-8"), flags=re.M)
    body = "".join(f"<section>{MarkdownIt().render(part)}</section>\n" for part in parts)
    body = re.sub(r'src="([^"]+\.svg)"', _embedded, body)
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Attention, counted</title>'
    head += f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style>'
    return f"{head}{body}<script>{SCRIPT}</script>"


if __name__ == "__main__":
    Path(*sys.argv[1:2] or ["slides.html"]).write_text(slides(), encoding="utf-8")
