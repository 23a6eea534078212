"""Models of several operators: their words, their fusion, and their least time on a machine.

Layers, lowest first, in an import contract: `operators` (words and FLOP of one), `layers` (graphs
of whole models), `fusion` (which operators are one kernel), `roofline` (least times).  `hardware`
has the machines, and imports none of these.  ``iosim roofline``, ``iosim fuse``, ``iosim graph``
and ``iosim machines`` call them, and so do the lab's view "The wall" and the GPU's report on
layers.

An addition goes to one of the subpackages; docs/extending.md has a row for each kind.

Changing files here: words of operators, kernels and attention come from exact schedules where there
are any, not from formulas written a second time.  The tests hold them against code by hand
(``tests/operators_by_hand.py``, ``tests/layers_by_hand.py``, ``tests/roofline_oracle.py``).  After
a change of numbers, run ``python -m iosim.lab.data.wall``, and check the documents that print them.
"""
