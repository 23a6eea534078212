"""Schedules as values: the tree, its builder and checks, and functions that need no machine.

`build` traces a function over a `Builder` once and returns a `Program`, a tree of the node kinds in
`ir`; `walk` binds it to sizes and lists its transfers; `canonical` writes it as text and hashes it;
`iterations` proves which iterations may run together.  Counting, machine, tiling, caches, the
emitter and the lab read the tree.  An operation is one record in `OPS` (`ops`), with all its forms.

Changing files here: a new node kind or field concerns every reader of the tree; in Python, `space`
is the one place that resolves names of axes, spans and loops.  The canonical hash is in the hash of
each row of a sweep, so another spelling of the same tree makes recorded rows foreign
(``tests/core/test_canonical.py``).  Messages of `check` and `build` are compared in
``tests/core/test_program.py``.  `values` and `ops` decide what the machine computes.  An import
contract allows only `iosim.core.problem`, `counts`, `units` and `iosim.base` here.
"""
