"""Problems, schedules as programs, and what reads programs: counts, machine, optimal tiles, traces.

Layers, lowest first; an import contract checks their order: `problem` says what is computed;
`program` is the language of schedules; `algorithms` has the schedules; `counting`, `machine` and
`trace` count a program in three independent ways; `tiling` chooses tile sizes; `engines` names the
ways to count.  Nearly all other wings call it, mostly through the names that ``iosim`` exports.

An addition goes to one of the subpackages, whose docstrings say how.

Changing files here: the ways to count must stay independent, since ``tests/core/test_agreement.py``
compares them; let none use another's code.  `REVISION` has to rise if a count, a peak or a choice
of tiles changes (``tests/sweep/test_revision.py``).  Only `counting.symbols` imports sympy; an
import contract refuses heavy libraries in the rest.
"""
