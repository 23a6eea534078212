"""The revision of everything that counts, searches and bounds.

It is part of each sweep row's hash, so that rows of different revisions are never taken for one
another.  Raise it with any change after which a count, a peak, a choice of tiles or a lower bound
comes out differently somewhere; `tests/test_revision.py` fails until that is done.
"""

REVISION = 19
