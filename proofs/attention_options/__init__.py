"""The constant-tight bound for any set of pairs and d ≠ d_v: see attention_options.md."""

from . import constants, hand_counts, pairs, widths

__all__ = ["PARTS", "constants"]

PARTS = (pairs, widths, hand_counts)
