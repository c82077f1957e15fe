"""A network to stream, a reader with faults, and a check that no thread is left."""

import gc
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
def no_collection():
    """No garbage is collected: Python drops a Ctrl-C that falls into a callback of a collection."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def chain():
    """Six layers of 1 MB, an input and the output."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(
            *[nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(6)]
        ).eval()
        x = torch.randn(4, 512)
    with torch.no_grad():
        return module, x, module(x)


class _RecordingReader:
    """Records the reads of a reader and calls `harm` before one of them."""

    def __init__(self, reader, events, at=0, harm=None):
        self._reader = reader
        self._events = events
        self._left = at
        self._harm = harm

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def read(self, layer, into, is_stopped=bool):
        self._left -= 1
        if self._left == 0:
            self._harm()
        self._reader.read(layer, into, is_stopped)
        self._events.append(("read", layer.segments.start))


@pytest.fixture
def recording_reader():
    return _RecordingReader
