"""A feed-forward layer of PyTorch, for ``iosim graph docs/examples/mlp.py:mlp``."""

import torch
from torch import nn


def mlp():
    """The module, and inputs that fix its shapes."""
    layer = nn.Sequential(nn.Linear(1024, 4096), nn.GELU("tanh"), nn.Linear(4096, 1024))
    return layer.half(), (torch.zeros(8, 512, 1024, dtype=torch.float16),)
