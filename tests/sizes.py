"""How many random cases a check draws: some by default, all with ``--slow``."""

from __future__ import annotations

slow = False  # set by conftest.py, before tests are imported


def draws(every: int, few: int) -> int:
    """`few`, or `every` with ``--slow``."""
    assert few < every
    return every if slow else few
