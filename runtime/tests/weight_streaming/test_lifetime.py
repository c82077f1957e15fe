"""Lifetime of a streamed network: closing, forks, killed processes, side effects."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from torch import nn

import edgenas_runtime
from edgenas_runtime.weight_streaming.streamable import open_streamable

DISK = Path("/var/tmp")  # noqa: S108 - only looked at


def test_close_waits_for_the_inference_in_progress(chain):
    module, x, expected = chain
    small = edgenas_runtime.stream(module, x, budget="3MB")
    compute, began, ended = small._pipeline._compute, threading.Event(), []

    def slow(*arguments):
        began.set()
        time.sleep(0.02)
        compute(*arguments)

    small._pipeline._compute = slow
    caller = threading.Thread(target=lambda: ended.append(torch.equal(small(x), expected)))
    caller.start()
    began.wait()
    small.close()
    caller.join()
    assert ended == [True]
    with pytest.raises(RuntimeError, match="closed"):
        small(x)


class Halving(nn.Module):
    """Changes its input, as `nn.ReLU(inplace=True)` in front does."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)])

    def forward(self, x):
        return self.layers(x.mul_(0.5))


def test_a_network_that_changes_its_input_is_initialised_on_copies():
    module, x = Halving().eval(), torch.randn(2, 256)
    expected, given = module(x.clone()), x.clone()
    with edgenas_runtime.stream(module, given, budget="600kB") as small:
        assert torch.equal(given, x)
        assert torch.equal(small(given), expected)
        assert torch.equal(given, 0.5 * x)
    given = x.clone()
    with edgenas_runtime.stream(module, budget="600kB") as small:
        assert torch.equal(small(given), expected)


def test_a_weight_of_several_layers_is_counted_once():
    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(256, 256)

        def forward(self, x):
            for _ in range(6):
                x = torch.tanh(self.layer(x))
            return x

    module, x = Again().eval(), torch.randn(2, 256)
    own = sum(weight.nbytes for weight in module.parameters())
    with torch.no_grad(), edgenas_runtime.stream(module, x, budget=2 * own) as small:
        assert torch.equal(small(x), module(x))
        assert own <= small.memory.weights < own + 6 * 4096
    opened = open_streamable(module, x)
    assert opened.layered.weight_bytes > 5 * own
    opened.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_streams_independently(chain):
    module, x, expected = chain
    with edgenas_runtime.stream(module, x, budget="3MB") as small:
        assert torch.equal(small(x), expected)
        small._pipeline.wait_prefetched()  # by a thread that the child lacks
        child = os.fork()
        if not child:
            right = False
            try:
                right = torch.equal(small(x), expected)
            finally:
                os._exit(0 if right else 1)
        assert torch.equal(small(x), expected)
        assert os.waitpid(child, 0) == (child, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_killed_while_packing_leaves_no_file(chain, monkeypatch):
    before = set(DISK.iterdir())

    def killing(_file):
        os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if not child:
        try:
            monkeypatch.setattr(os, "fsync", killing)
            edgenas_runtime.stream(chain[0], chain[1], budget="3MB")
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert [one for one in set(DISK.iterdir()) - before if "edgenas" in one.name] == []


def test_two_threads_may_pack_into_one_file(chain, tmp_path):
    module, x, expected = chain
    path, right = tmp_path / "weights.safetensors", []

    def call():
        with edgenas_runtime.stream(module, x, budget="3MB", weights=path) as small:
            right.append(torch.equal(small(x), expected))

    for _ in range(3):
        path.unlink(missing_ok=True)
        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert right == [True] * 6
    assert [*tmp_path.iterdir()] == [path]
