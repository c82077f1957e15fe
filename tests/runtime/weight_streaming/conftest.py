"""Networks to stream, and where they lie on a disk."""

import threading

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def no_thread_is_left(one_thread):  # noqa: ARG001 - torch's own threads would be left
    before = {thread.ident for thread in threading.enumerate()}
    yield
    left = [one.name for one in threading.enumerate() if one.ident not in before]
    assert [name for name in left if "tqdm" not in name] == []


@pytest.fixture
def chain():
    """Six layers of 1 MB, an input and what comes of it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(
            *[nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(6)]
        ).eval()
        x = torch.randn(4, 512)
    with torch.no_grad():
        return module, x, module(x)
