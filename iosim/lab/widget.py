"""The lab in a notebook: an anywidget, for Jupyter and marimo, with the page's own bundle.

It needs the extra ``lab``.  What the page finds in its file is the widget's trait ``data``; and
where the page's search continues in the background, the widget asks Python (`ASKED`).

`iosim.watch` calls it.  ``tests/browser/test_widget.py`` runs it in notebooks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from iosim.base.errors import InputError, IosimError, closest
from iosim.base.rows import Values
from iosim.core.algorithms import algorithm
from iosim.core.program.ir import Program
from iosim.core.program.walk import Instance
from iosim.core.tiling import optimal_tiles
from iosim.kernel.launch import KernelCall
from iosim.lab.columns import Json
from iosim.lab.data import DATA
from iosim.lab.data import watch as watching
from iosim.lab.page import envelope, payload, static


def watch(instance: Instance | KernelCall, M: int | None = None) -> Any:
    """A schedule or a launch of a Triton kernel step by step, in a notebook.

    Args:
        instance: a program whose sizes and tiles are numbers: what `iosim.bind` returns; or a
            launch: what `iosim.kernel.describe_launch` returns.
        M: words of fast memory; by default the instance's peak.

    Returns:
        The widget, which a notebook shows.

    Raises:
        InputError: it is neither, a launch has too many steps or was given an M, or anywidget is
            not installed.

    >>> from iosim import Attention, algorithm, bind
    >>> flash2, sizes = algorithm("flash2").program, Attention(256, 32).sizes
    >>> watch(bind(flash2, sizes, {"B_r": 64, "B_c": 16}))  # doctest: +SKIP
    >>> watch("flash2")
    Traceback (most recent call last):
        ...
    iosim.base.errors.InputError: watch takes an instance, got str: pass what iosim.bind returns
    """
    if isinstance(instance, KernelCall):
        if M is not None:
            raise InputError("a kernel's launch has no M: leave it out")
        return _widget()(data=envelope({"watch": watching.data_of_launch(instance)}))
    if not isinstance(instance, Instance):
        raise InputError(
            f"watch takes an instance, got {type(instance).__name__}: pass what iosim.bind returns"
        )
    program = instance.program
    shown = envelope({"watch": watching.data_of(instance, M)})
    return _widget()({program.name: program}, data=shown)


def lab(views: Sequence[str] | None = None) -> Any:
    """The whole lab, or some of its views, in a notebook.

    Args:
        views: names of views; all of them if None.

    Raises InputError for an unknown view, and where anywidget is not installed.
    """
    for name in views or ():
        if name not in DATA:
            raise InputError(f"no view {name!r}: {closest(name, list(DATA))}")
    return _widget()(data=payload(views))


def answer(asked: Any, programs: Mapping[str, Program] | None = None) -> Json:
    """What the widget sends back for a question ``{id, what, args}``: a value, or what is wrong.

    Args:
        asked: the request, as it came from the browser.
        programs: those that are not of the registry, or go before its own, by name.

    >>> args = {"algo": "flash2", "sizes": {"N": 1024, "d": 64}, "M": 24576}
    >>> answer({"id": 1, "what": "tiles", "args": args})
    {'id': 1, 'value': {'tiles': {'B_r': 171, 'B_c': 9}, 'words': '917504', 'peak': '24345'}}
    >>> answer({"id": 2, "what": "tea", "args": {}})
    {'id': 2, 'wrong': "nobody answers 'tea'; known: tiles"}
    """
    told = asked if isinstance(asked, Mapping) else {}
    what = told.get("what")
    args: Any = told.get("args")
    try:
        if not (isinstance(what, str) and what in ASKED):
            raise InputError(f"nobody answers {what!r}; known: {', '.join(ASKED)}")
        try:
            return {"id": told.get("id"), "value": ASKED[what](programs or {}, **args)}
        except TypeError as error:
            raise InputError(f"{what!r} is requested with other arguments: {error}") from None
    except IosimError as error:
        return {"id": told.get("id"), "wrong": str(error)}


def _tiles(programs: Mapping[str, Program], algo: str, sizes: Values, M: int) -> Json:
    """The tiles that move the fewest words in M; words are text, since they may pass 2^53.

    Sizes are those of the problem with its options, or those that the user's program has.
    """
    problem: Any = SimpleNamespace(sizes=sizes)
    if (program := programs.get(algo)) is None:
        found = algorithm(algo)
        problem = found.problem(**sizes)
        program = found.program_for(problem)
    best = optimal_tiles(program, problem, M)
    return {"tiles": best.tiles, "words": str(best.total_words), "peak": str(best.peak_words)}


# What the browser may ask, and who answers.
ASKED: dict[str, Callable[..., Any]] = {"tiles": _tiles}


@functools.cache
def _widget() -> type[Any]:
    """The widget's class, made when it is first used: anywidget is heavy, and optional."""
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError:
        raise InputError(
            "the widget needs anywidget: run pip install 'iosim[lab]' and start the notebook again"
        ) from None

    class LabWidget(anywidget.AnyWidget):  # type: ignore[misc]
        """The lab in a cell.

        Attributes:
            data: what it shows, as `iosim.lab.page.payload` makes it.
        """

        _esm = static("lab.js")
        _css = static("lab.css")
        data = traitlets.Dict().tag(sync=True)

        def __init__(self, programs: Mapping[str, Program] | None = None, **traits: Any) -> None:
            super().__init__(**traits)
            self.on_msg(lambda _, asked, __: self.send(answer(asked, programs)))

        def __repr__(self) -> str:
            return f"<Lab {', '.join(self.data.get('views', ()))}>"

    return LabWidget
