"""Checks of the whole, and what people read: tightness, proofs, tables, figures, movies.

``iosim verify``, ``tightness``, ``prove``, ``step``, ``reproduce`` and ``plot`` call it, and so do
the lab and figures of models.  `verify` runs schedules and compares all numbers, `tightness`
divides words by bounds, `proof` runs the steps that ``proofs/`` defines, `reproduce` runs
experiments again, `table` writes CSV, `figures`, `plot` and `movie` draw.  `views` says how
notebooks show each kind of value.  A new figure is a function from rows in `figures`.

Changing files here: an import contract keeps `iosim.core` and `iosim.bounds` out of whatever draws:
figures take tables, and compute no count.  Columns of CSV files are in ``docs/img`` and
``experiments/data``, and are compared to the word (``tests/report/test_committed.py``).  Committed
figures must be what is drawn now (``tests/report/test_figures.py``).  `proof`'s names and statuses
are used by all of ``proofs/``.  `drawing` and `movie` import matplotlib: import these two only
where something is drawn.
"""
