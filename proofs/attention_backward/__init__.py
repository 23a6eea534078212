"""Lower bounds for the backward pass of attention: see attention_backward.md."""

from . import accounting, charging, constants, inequalities

__all__ = ["PARTS", "accounting", "constants"]

PARTS = (accounting, inequalities, charging)
