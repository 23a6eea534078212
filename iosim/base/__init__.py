"""What every wing needs: errors, tables, files, progress, limits, and old names that still work.

All other wings import it, and it imports none of them: it is the lowest layer.  `errors` has the
exceptions that end a command with one line, `reading` and `writing` handle files, `validate` checks
numbers that users give, `registry` loads what a dictionary of import strings names, `rows`,
`cells`, `html` and `display` show values, and `compiled` runs a loop by numba or plain Python.

An addition belongs here only if at least two wings need it and it knows nothing of attention.

Changing files here: `REVISION` in `revision` is part of the hash of each row of a sweep; raise it
only if an answer changes.  Messages and HTML are compared in ``tests/base``.  ``writing`` must
leave a whole file or none, whatever interrupts it (``tests/base/test_writing.py``).  An import
contract refuses sympy, scipy, matplotlib, click, torch and triton here, so that ``import iosim``
stays fast.
"""
