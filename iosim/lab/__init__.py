"""The lab: schedules, bounds and games to watch and play, as an HTML page or in a notebook.

``iosim lab`` and ``iosim export`` call `page` and `export`, whose movies come from `shots` and
`steps`; `iosim.watch` calls `widget`.  `iosim.lab.data` has the data of each view, `programs` a
program as JSON, `iosim.lab.exercises` the questions, ``front/`` the TypeScript source, and
``static/`` the bundle built from it.  A new view takes a file in each of the three folders
(docs/lab.md).  Only `iosim.cli` and `iosim.watch` import the lab.

Changing files here: the page computes no formula of its own.  Its engine in ``front/src/engine``
ports sizes, sums and tiles, and ``tests/browser`` compares it with Python.  Keys of the data are
typed in TypeScript: change both sides, then build ``static`` again (docs/lab.md); never edit it by
hand.  The page's size is limited by a test, and whole numbers beyond 2⁵³ can't travel as numbers
(``tests/lab/test_lab_page.py``).
"""
