"""The theorems in Coq, and the model's executable twin: see rocq.md."""

from __future__ import annotations

from . import building, mutants, schedules

PARTS = (building, schedules, mutants)
