"""Counts and peaks of a program in closed form: as integers, in arrays, and as sympy formulas.

`closed` turns a program into polynomials once; `numbers` evaluates them for one instance or a
million (`integers`, `arrays`, `columns`), `symbols` turns them into sympy, `show` prints the
program with them.  `sums` and `block_mask_sums` sum over tiles whose extents vary; `below`,
`integral` and `ramps` bound such sums from below for the tile search.  ``iosim count``,
``iosim show``, sweeps and `iosim.core.tiling` call them.

Changing files here: results are exact integers, equal to a run of the machine and to a walk over
all transfers (``tests/core/test_agreement.py``, ``tests/core/test_sums.py``).  What has no closed
form is refused, never approximated; only functions that say so give bounds.  Listings of `show` are
golden files in ``tests/golden`` and are printed in documents.  Only `symbols` imports sympy.  A new
kind of loop or bound needs every form.
"""
