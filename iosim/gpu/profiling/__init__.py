"""Profiling any kernel: reports of Nsight Compute read, judged, and printed.

`reading` turns a report into launches, `metrics` says which counters a quantity comes from,
`kernels` adds up launches of one kernel, `verdict` says what bounds it, and `running` makes a
report.
"""
