"""How many random cases a check draws: some by default, all with ``--slow``.

Hypothesis draws as many as its profile says: `ci`, or `nightly` with ``--slow`` (conftest.py).
"""

from __future__ import annotations

from hypothesis import settings

slow = False  # set by conftest.py, before tests are imported


def draws(every: int, few: int) -> int:
    """`few`, or `every` with ``--slow``."""
    assert few < every
    return every if slow else few


def examples(times: float) -> settings:
    """So many times the profile's examples."""
    return settings(max_examples=round(times * settings.default.max_examples))
