"""Checks of the whole, and what people read: tightness, tables, figures, movies."""
