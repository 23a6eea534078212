"""PyTorch's backward passes beside the model, from the record of a GPU."""

from __future__ import annotations

import pytest
from test_cli import iosim_

from iosim.gpu.reports.backward import WATCHED, modelled

BLOCK = 128  # columns of PyTorch's kernels


@pytest.mark.parametrize(("N", "d", "heads"), [*WATCHED, (1000, 64, 3)])
def test_the_model_by_hand(N, d, heads):
    """Each block of columns reads all rows once, and adds to all of dQ."""
    blocks = -(-N // BLOCK)
    found = modelled(N, d, heads)
    assert found.rows == heads * (2 + 2 * blocks) * N * d * 2
    assert found.statistics == heads * 2 * blocks * N * 4
    assert found.reduced == heads * blocks * N * d * 4
    assert found.stored == heads * 2 * N * d * 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--schedules flash2", "flash2 is no backward pass: give of"),
        ("--case window", "case 'window' is not timed: give dense or causal"),
        ("--M 100", "M = 100 words holds no tile of two_kernels at d = 64: use M >="),
    ],
)
def test_bad_input_is_a_line(words, said):
    done = iosim_("gpu", "backward", *words.split())
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
