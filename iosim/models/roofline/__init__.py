"""The hierarchical roofline of operators, graphs and models: how long each takes at least, and why.

``iosim roofline`` prints `report`; the lab's view "The wall" and the GPU's report on layers use
`roof` and `work`.  `work` has a kernel's FLOP and bytes at each boundary, `roof` the least time and
what sets it, `capacity` whether a model fits, `ridge` the batch at the ridge, `sentence` a summary,
`figure` the drawing, and `single` one operator by name.

Nothing here decides what moves: `iosim.models.layers.traffic` counts words at a boundary, and this
package divides bytes by the bandwidth of the same boundary.

Changing files here: compare with ``tests/roofline_oracle.py``, which computes the same by hand, and
with published numbers in ``tests/models/test_roofline.py``.  Columns and ``--json`` keys stay.
`figure` draws tables only: an import contract refuses `iosim.core` and `iosim.bounds` there.  A
least time is a lower bound: never add an efficiency factor.
"""
