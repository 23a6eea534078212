"""Lower bounds for the backward pass of attention: see attention_backward.md."""

from . import accounting, charging, constants, inequalities, meeting, weighing

__all__ = ["PARTS", "accounting", "constants"]

PARTS = (accounting, inequalities, charging, meeting, weighing)
