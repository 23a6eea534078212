"""Files that people write run as far as they can."""

from __future__ import annotations

import types
from pathlib import Path

from iosim.base.python_file import run_statements

DECORATED = """
def double(f):
    return lambda: 2 * f()

@missing(1)
@double
def two():
    return 1

@missing
def one():
    return 1
"""


def test_a_decorator_that_fails_is_left_out_and_those_below_it_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "decorated.py"
    file.write_text(DECORATED)
    names, failures = run_statements(file)
    assert names["two"]() == 2
    assert "one" not in names
    reason = "NameError: name 'missing' is not defined"
    assert failures == {"two": f"line 7: {reason}", "one": f"line 11: {reason}"}


def test_a_file_of_a_package_imports_from_it(tmp_path: Path) -> None:
    inner = tmp_path / "wholly_outer" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner.parent, inner):
        (folder / "__init__.py").touch()
    (inner.parent / "sizes.py").write_text("N = 7\n")
    (inner / "kernel.py").write_text(
        "from ..sizes import N\nfrom wholly_outer import sizes\nM = sizes.N + N\n"
    )
    names, failures = run_statements(inner / "kernel.py")
    assert (names["M"], failures) == (14, {})


def test_names_go_to_a_module_that_is_given(tmp_path: Path) -> None:
    (tmp_path / "value.py").write_text("N = 7\n")
    module = types.ModuleType("other")
    run_statements(tmp_path / "value.py", module)
    assert vars(module)["N"] == 7
