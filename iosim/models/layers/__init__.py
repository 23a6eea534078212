"""Layers and models as graphs of operators."""
