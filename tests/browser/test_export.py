"""The page of one schedule that ``iosim export`` writes, in Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page

from iosim import Attention, algorithm, bind, count
from iosim.core.problem import BlockSparse
from iosim.core.program.walk import Instance
from iosim.lab.export import export

CAUSAL = Attention(96, 8, 4, kv_heads=2, causal=True)
FLASH2 = algorithm("flash2").program_for(CAUSAL)
MASK = np.array([[True, False, True], [False, True, True]])
INSTANCES = {
    "causal": bind(FLASH2, CAUSAL.sizes, {"B_r": 20, "B_c": 7}),
    "blocks": bind(
        algorithm("block_sparse").program,
        BlockSparse(7, 11, 2, 1).sizes,
        {"B_r": 4, "B_c": 4},
        {"blocks": MASK},
    ),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_an_exported_page_ends_with_the_words_of_count(
    name: str, open_file: Callable[..., Page], tmp_path: Path
) -> None:
    instance: Instance = INSTANCES[name]
    page = open_file(export(instance, tmp_path / "page.html"))
    assert page.get_by_role("tab").all_inner_texts() in ([], ["Watch"])
    page.get_by_role("button", name="To the end").click()
    words = count(instance)
    page.get_by_text(f"{words.total_words:,} of {words.total_words:,} words moved").first.wait_for()
    table = page.get_by_role("table").first
    for (way, tensor), moved in words:
        row = table.get_by_role("row").filter(has_text=f"{way} {tensor}")
        cells = row.locator("td").all_inner_texts()
        assert cells.count(f"{moved:,}") == 2, (way, tensor, cells)
