"""Python files that people write: run statement by statement, for one of their names."""

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


def run_statements(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Run a file statement by statement; one that fails is left out.

    Returns:
        Its names, and of each name that a failing statement would have given, why it failed.

    Raises:
        InputError: there is no such file, or it isn't Python.

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
    module = types.ModuleType(path.stem)
    module.__file__ = full
    failures: dict[str, str] = {}
    with _importable(path.resolve().parent, module):
        for statement in tree.body:
            code = compile(ast.Module([statement], []), full, "exec")
            try:
                exec(code, module.__dict__)
            except (Exception, SystemExit) as error:
                reason = f"line {statement.lineno}: {type(error).__name__}: {error}".splitlines()[0]
                failures.update(dict.fromkeys(_defined(statement), reason))
    return dict(module.__dict__), failures


@contextmanager
def _importable(folder: Path, module: types.ModuleType) -> Iterator[None]:
    """The file's folder is where it imports from; what it prints goes to stderr."""
    before = sys.modules.get(module.__name__)
    sys.path.insert(0, str(folder))
    sys.modules[module.__name__] = module
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        with suppress(ValueError):
            sys.path.remove(str(folder))
        if before is None:
            sys.modules.pop(module.__name__, None)
        else:
            sys.modules[module.__name__] = before


def _defined(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement would define."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        yield statement.name
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
