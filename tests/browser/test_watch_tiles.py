"""The tiles that Watch shows of a link are those of `optimal_tiles` for what is typed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from engine import asker
from sizes import draws

import iosim
from iosim.base.errors import CapacityError, InputError
from iosim.core.algorithms import Algorithm
from iosim.core.tiling import optimal_tiles
from iosim.lab.data.watch import MASKS

LINKS = draws(400, 120)
Typed = tuple[Algorithm, Any, int, dict[str, str]]


def typed(rng: random.Random) -> Typed | None:
    """A schedule, a problem with any options, an M, and the link that says them."""
    algorithm = rng.choice(iosim.all_algorithms("attention"))
    mask = rng.choice(list(MASKS))
    most = 2 ** rng.uniform(0, 11)

    def size(most: float) -> int:
        return max(1, int(most ** rng.random() * 1.2))

    told: dict[str, Any] = {"N": size(most), "d": size(130), "heads": size(3)}
    apart = {"N_k": size(most), "d_v": size(130), "kv_heads": size(3)}
    told |= {k: v for k, v in apart.items() if k in algorithm.needs or rng.random() < 0.4}
    if "kv_heads" in told:
        told["heads"] *= told["kv_heads"]
    if "left" in MASKS[mask] and rng.random() < 0.3:
        told["sinks"] = size(20)
    if MASKS[mask] and "N_k" in told and rng.random() < 0.3:
        told["align"] = "upper left"
    limits = {x: size(most) - 1 for x in MASKS[mask] if x != "causal"}
    M = int(2 ** rng.uniform(1, 18))
    given = dict(told)
    if "causal" in MASKS[mask]:
        given["causal"] = True
    if limits:
        given["window"] = (limits.get("left"), limits.get("right"))
    try:
        problem = iosim.Attention(**given)
        algorithm.program_for(problem)
    except InputError:
        return None
    link = {"algo": algorithm.name, "mask": mask, "M": M, **told, **limits}
    return algorithm, problem, M, {k: str(v) for k, v in link.items()}


def test_links_show_the_best_tiles(
    tmp_path_factory: pytest.TempPathFactory, only: Callable[..., Any]
) -> None:
    """At once, or in the end where the search goes on beside the view; all labeled so."""
    rng = random.Random(1)
    cases = [x for _ in range(2 * LINKS) if (x := typed(rng))][:LINKS]
    asked: list[Any] = [only("watch")]
    asked += [{"params": case[3], "atOnce": 1e9 * (k % 2)} for k, case in enumerate(cases)]
    ask = asker(tmp_path_factory.mktemp("watch") / "links.mjs", "src/views/watch/links.ts")
    seen = dict.fromkeys(("refused", "too small", "fits", "later", "masked"), 0)
    for (algorithm, problem, M, link), answer in zip(cases, ask(asked)[1:], strict=True):
        first, last = answer["first"], answer["last"]
        if "message" in first:  # a set of options for which no program travels
            assert first["field"] in ("options", "sinks"), (link, first)
            seen["refused"] += 1
            continue
        seen["masked"] += link["mask"] != "all columns"
        assert last["ended"]
        assert last["how"] == "fewest words"
        if first["ended"]:
            assert first == last
        else:
            assert first["how"] == "few words, while the fewest are searched"
            seen["later"] += 1
        program = algorithm.program_for(problem)
        try:
            best = optimal_tiles(program, problem, M)
        except CapacityError as error:
            least = re.search(r"at least (\d+) words", str(error))
            assert least
            assert last["smallest"] == int(least[1]) > M, link
            assert not last["fits"]
            best = optimal_tiles(program, problem, int(least[1]))
            seen["too small"] += 1
        else:
            assert last["fits"], link
            seen["fits"] += 1
        assert last["tiles"] == best.tiles, link
    print(seen)
    assert seen["refused"] < LINKS / 4
    assert min(seen[x] for x in ("too small", "fits", "later", "masked")) > LINKS / 20, seen
