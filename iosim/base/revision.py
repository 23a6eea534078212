"""The version, and the revision of everything that counts, searches and bounds.

The revision is part of each sweep row's hash, so that rows of different revisions are never taken
for one another.  Raise it with any change after which a count, a peak, a choice of tiles or a lower
bound comes out differently somewhere; `tests/sweep/test_revision.py` fails until that is done.
"""

__version__ = "0.2.0"
REVISION = 19
