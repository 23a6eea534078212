"""The red-blue pebble game: checked move by move, and solved exactly on small graphs.

``iosim optimal`` calls `optimum`; the lab's games, its exercises and notebooks use `game`, `graphs`
and the recorded optima.  `dag` has the graphs, `game` the rules, `solve` the answer with its
certificate.  Two searches find it, `layered_search` without recomputation and `recompute_search`
with it; `bounding`, `chains`, `expanding`, `thinning` and others are their loops.  Lower bounds of
whole graphs are in `iosim.pebbling.bounds`, file formats in `iosim.pebbling.readers`.

Changing files here: "optimal" is a proof, so a pruning rule needs its argument in the docstring.
``tests/pebbling/test_pebbling_oracle.py`` compares with a plain breadth-first search, and the
recorded optima (``experiments/data/pebbling``) must come out again.  Loops compiled by numba also
run as plain Python and must not depend on it.  `game` is the judge: keep it independent of the
search.

>>> from iosim.pebbling import attention, optimum
>>> best = optimum(attention(N=2, d=1), M=5)
>>> best.cost, best.optimal
(11, True)
>>> sorted(READERS)  # formats of files
['edges', 'graphml', 'hdag', 'node-link']
"""

from __future__ import annotations

from iosim.pebbling.annealing import annealed
from iosim.pebbling.attention_dags import attention, attention_backward
from iosim.pebbling.dag import Dag
from iosim.pebbling.game import Game, IllegalMove, Move, Unfinished, replay
from iosim.pebbling.graph_input import from_edges, from_networkx
from iosim.pebbling.graphs import butterfly, chain, grid, matmul, pyramid, tree
from iosim.pebbling.partition import Segment, fewest_parts, segments
from iosim.pebbling.readers import READERS, from_file
from iosim.pebbling.solve import Known, Optimum, optimum

__all__ = [
    "READERS",
    "Dag",
    "Game",
    "IllegalMove",
    "Known",
    "Move",
    "Optimum",
    "Segment",
    "Unfinished",
    "annealed",
    "attention",
    "attention_backward",
    "butterfly",
    "chain",
    "fewest_parts",
    "from_edges",
    "from_file",
    "from_networkx",
    "grid",
    "matmul",
    "optimum",
    "pyramid",
    "replay",
    "segments",
    "tree",
]
