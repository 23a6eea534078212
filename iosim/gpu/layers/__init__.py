"""One layer of a transformer in PyTorch on a GPU: what runs, what is measured, what it means.

`modules` and `tasks` run in the worker and need PyTorch; the rest reads records.
"""
