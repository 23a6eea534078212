"""Docstrings as they are written here, made what Napoleon reads."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

# Several names with one explanation, which Napoleon takes for a type and a name.
_SEVERAL = re.compile(r"^(\s+)(\w+(?:, \w+)+): ")


def joined(line: str) -> str:
    """A line of a docstring, with the names that it explains as one word.

    >>> joined("    inputs, outputs: its tensors, in order.")
    '    inputs,outputs: its tensors, in order.'
    """
    return _SEVERAL.sub(lambda found: f"{found[1]}{found[2].replace(', ', ',')}: ", line)


def _read(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    lines[:] = map(joined, lines)


# A qualified name of a type, of which the last part is enough.
_QUALIFIED = re.compile(r"~?(?:\b[A-Za-z_]\w*\.)+(?=[A-Z])")


def short(signature: str) -> str:
    """A signature without the modules of its types, which autodoc writes beside some defaults.

    >>> short("(x: type[~typing.Any], rule: ~collections.abc.Callable[[int], None] = <factory>)")
    '(x: type[Any], rule: Callable[[int], None] = …)'
    """
    return re.sub(r"<[^>]*>+", "…", _QUALIFIED.sub("", signature))


def _sign(*given: Any) -> tuple[str | None, str | None] | None:
    signature, returned = given[-2:]
    if signature and "~" in signature:
        return short(signature), returned
    return None


def _without_returns(_app: Sphinx, page: str, _template: str, context: Any, _tree: Any) -> None:
    """Pages of sources keep no links back: of names with two homes they lead to neither."""
    if page.startswith("_modules/") and "body" in context:
        context["body"] = re.sub(r'<a class="viewcode-back".*?</a>', "", context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Before Napoleon, whose priority is 500."""
    app.connect("autodoc-process-docstring", _read, priority=400)
    app.connect("autodoc-process-signature", _sign)
    app.connect("html-page-context", _without_returns)
    return {"parallel_read_safe": True}
