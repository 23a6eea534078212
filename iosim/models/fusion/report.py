"""What a fusion saves, as rows: a kernel each, and totals of the fusions that a graph has.

``iosim fuse`` prints them; keys of ``--json`` stay (``tests/models/test_fusion_cli.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from iosim.base.errors import InputError
from iosim.base.rows import Row, Rows
from iosim.models.fusion.named_fusions import FUSIONS, Absent, fused
from iosim.models.fusion.partitions import Partition
from iosim.models.layers.graph import Graph


def rows(graph: Graph, found: Partition) -> Rows:
    """Each kernel: its operators, words in and out, words that it saves, and its schedule.

    What it saves is compared with its operators one by one.

    >>> from iosim.models.fusion import fused
    >>> from iosim.models.fusion.chain import chain
    >>> [(r["words_in"], r["words_out"], r["words_saved"])
    ...  for r in rows(chain(3, 8), fused(chain(3, 8), "best", M=2))]
    [(8, 8, 32)]
    """
    alone = {k.names[0]: k.words for k in fused(graph, "none", found.M).groups}
    return [
        {
            "operators": list(group.names),
            "words_in": sum(group.crossing.loads.values()),
            "words_out": sum(group.crossing.stores.values()),
            "words_saved": sum(alone[x] for x in group.names) - group.words,
            "schedule": group.crossing.how,
        }
        for group in found.groups
    ]


def totals(
    graph: Graph,
    known: Sequence[Partition],
    *,
    online_softmax: bool = True,
    unfused: Graph | None = None,
) -> Rows:
    """Kernels and words of each fusion that the graph has, with those that are known already.

    A fusion of another graph is left out; one whose kernels don't fit in M has that as a note.
    Shares are of the words of the operators one by one, in a graph that is written without fused
    operators: the same for each way to write a layer.
    """
    answers: Rows = []
    told, M = {one.how: one for one in known}, known[0].M
    none = fused(unfused or graph, "none", M).words
    for how in dict.fromkeys((*FUSIONS, *told)):
        row: Row = {
            "fusion": how,
            "kernels": None,
            "words": None,
            "of_none": None,
            "note": "",
        }
        try:
            one = told[how] if how in told else fused(graph, how, M, online_softmax=online_softmax)
            row |= {
                "kernels": len(one.groups),
                "words": one.words,
                "of_none": float(f"{one.words / none:.4g}"),
            }
        except Absent:
            continue
        except InputError as error:
            row["note"] = str(error).removeprefix(f"{how}: ")
        answers.append(row)
    return answers
