"""Whether every link inside a built site leads somewhere: ``python docs/_ext/built.py build/site``.

Sphinx checks links of pages while it builds; this reads what it wrote, so it also sees links that
extensions, the theme and docstrings made.  Links to other sites are left to ``linkcheck``.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to, and what it can be called."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.add(value)
            elif value and name == "id":
                self.anchors.add(value)


def dead(site: Path) -> list[str]:
    """Links of a folder of pages that lead to no file, or to no anchor in it."""
    # The lab is one page with all that it needs, and makes its own anchors.
    paths = [p for p in sorted(site.rglob("*.html")) if p.name != "lab.html"]
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    found = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("{{"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = pages.get(target)
            if not target.exists() or (known and unquote(parts.fragment) not in known.anchors):
                found.append(f"{path.relative_to(site)}: {link}")
    return found


def main() -> int:
    """Print the dead links of a site; 1 if there is one."""
    found = dead(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "every link inside the site leads somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
