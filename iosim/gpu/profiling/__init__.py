"""Profiling any kernel: reads reports of Nsight Compute, judges each kernel, and prints the reason.

``iosim profile`` calls it: `running` makes a report with the counters that are needed, `reading`
and `tables` read one in any page and layout, `metrics` maps quantities to counters, `kernels` adds
up launches of one kernel, `verdict` says what bounds it, `expected` and `known_kernels` say what a
schedule or a library's kernel should move, and `show` prints.  A counter's other name goes to
``quantities.toml``, a kernel of a library to `known_kernels`.

Changing files here: real reports in the repository must give the same launches in every layout
(``tests/gpu/test_profile_reading.py``), and each threshold of a verdict is tested from both sides
(``tests/gpu/test_profile_thresholds.py``): a new threshold needs a source and two cases.  What a
report lacks is named, and never guessed.  `saving` must keep out names of hosts and users.
"""
