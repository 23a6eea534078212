"""Schedules as values: the tree, its builder, and the folds that need no machine."""
