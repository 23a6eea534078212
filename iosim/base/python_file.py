"""Runs a user's Python file, one statement at a time, and returns the names that it defines.

`iosim.core.algorithms.own_file` reads schedules with it, `iosim.kernel.source` Triton kernels.  The
caller picks the name that it needs; if that is missing, the error says why.

Changing this file: the user's code runs in this process, unrestricted.  Both callers rely on four
things: a failing statement doesn't stop later ones, imports from the file's folder and package
work, what the file prints goes to stderr, since stdout may be a command's JSON, and `linecache` has
the text that was run, for `inspect.getsource`.  ``tests/base/test_python_file.py`` runs files by
themselves, ``tests/core/test_own_files.py`` and ``tests/kernel/test_refused.py`` by the callers.
"""

from __future__ import annotations

import ast
import linecache
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

from iosim.base.errors import InputError


def run_statements(
    path: Path, module: types.ModuleType | None = None
) -> tuple[dict[str, Any], dict[str, str]]:
    """Run a file's top-level statements in order, skipping those that raise an exception.

    ``__name__`` is the module's, so a block for ``"__main__"`` doesn't run.  A function that raises
    is tried again without its first decorator, as long as it has another one.

    Args:
        path: the file.  If it is in a package, imports relative to it work.
        module: the module that gets the names; a new one if None.

    Returns:
        Name → value, and name → reason (the line and the first exception) for names that a
        failing statement would have defined.  Another statement may have defined one of them.

    Raises:
        InputError: the file doesn't exist, can't be read, or has a syntax error.

    >>> names, failures = run_statements(Path("docs/examples/panels.py"))
    >>> "panels" in names, failures
    (True, {})
    """
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        text = path.read_text()
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        raise InputError(f"{path}, line {error.lineno}: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} isn't Python: {error}") from None
    full = str(path.resolve())
    linecache.cache[full] = (len(text), None, text.splitlines(keepends=True), full)
    root = path.resolve().parent
    if module is None:
        module = types.ModuleType(path.stem)
        folders: list[str] = []
        while (root / "__init__.py").is_file():
            folders.insert(0, root.name)
            root = root.parent
        module.__package__ = ".".join(folders)
    module.__file__ = full
    failures: dict[str, str] = {}
    with _importable([root, path.resolve().parent], module):
        for statement in tree.body:
            while True:
                code = compile(ast.Module([statement], []), full, "exec")
                try:
                    exec(code, module.__dict__)
                    break
                except (Exception, SystemExit) as error:
                    line = f"line {statement.lineno}: {type(error).__name__}: {error}"
                    for name in _defined(statement):
                        failures.setdefault(name, line.splitlines()[0])
                if not isinstance(statement, ast.FunctionDef) or not statement.decorator_list[1:]:
                    break
                del statement.decorator_list[0]
    return dict(module.__dict__), failures


@contextmanager
def _importable(folders: list[Path], module: types.ModuleType) -> Iterator[None]:
    """Within this context folders are first in `sys.path`, and stdout goes to stderr.

    The module is in `sys.modules` meanwhile; afterwards both are as before.
    """
    before = sys.modules.get(module.__name__)
    sys.path[:0] = [str(x) for x in dict.fromkeys(folders)]
    sys.modules[module.__name__] = module
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        for folder in map(str, dict.fromkeys(folders)):
            with suppress(ValueError):
                sys.path.remove(folder)
        if before is None:
            sys.modules.pop(module.__name__, None)
        else:
            sys.modules[module.__name__] = before


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement would define; names inside a function's body are among them."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
