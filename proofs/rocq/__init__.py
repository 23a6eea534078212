"""The theorems in Coq, and the model's executable twin: see rocq.md."""

from __future__ import annotations

from . import building, mutants, schedules, simulated

PARTS = (building, schedules, mutants, simulated)
IN_ONE_PROCESS = True  # the steps use one build of all files
