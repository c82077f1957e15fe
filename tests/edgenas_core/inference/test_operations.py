"""Operations of a network in words, and their times inside a captured graph."""

import pytest
import torch
from torch import nn

from edgenas_core.inference.backend import Backend, Device
from edgenas_core.inference.inference import prepare
from edgenas_core.inference.operations import operation_times, operations
from latency.models.layers import kind_of


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(8, 16, 3, 2, 1, bias=False)
        self.norm, self.relu = nn.BatchNorm2d(16), nn.ReLU(inplace=True)
        self.drop, self.linear = nn.Dropout(), nn.Linear(16, 10)

    def forward(self, x):
        x = self.relu(self.norm(self.convolution(x)))
        parts = x.chunk(2, 1)
        return self.linear(self.drop(torch.cat(parts[::-1], 1).mean((2, 3))))


WORDS = [
    "Conv float32[1,8,6,6] float32[16,8,3,3] > float32[1,16,3,3]",
    "batch_norm float32[1,16,3,3] float32[16] float32[16] float32[16] float32[16] > float32[1,16,3,3]",
    "relu float32[1,16,3,3] > float32[1,16,3,3]",
    "cat float32[1,8,3,3] float32[1,8,3,3] > float32[1,16,3,3]",
    "mean float32[1,16,3,3] > float32[1,16]",
    "Gemm float32[1,16] float32[10,16] float32[10] > float32[1,10]",
]
"""Without the views of `chunk`, and the dropout that does nothing."""


def test_operations_are_those_that_compute_in_their_order():
    assert operations(Block().eval(), torch.zeros(1, 8, 6, 6)) == WORDS


def test_kinds_of_operations_are_those_of_fused_layers():
    kinds = [kind_of(words) for words in WORDS]

    assert kinds == [
        "Conv float32 larger",
        *(f"{name} float32" for name in ("batch_norm", "relu", "cat", "mean")),
        "Gemm float32 row",
    ]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_operations_of_a_graph_take_as_long_as_the_graph():
    network, images = Block().eval().cuda(), torch.zeros(64, 8, 256, 256, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    timed = operation_times(network, images, 20)

    replay = prepare(network, images, Device.cuda, Backend.graph)
    for _ in range(3):
        replay()
    start.record()
    for _ in range(20):
        replay()
    end.record()
    torch.cuda.synchronize()
    graph_us = 1e3 * start.elapsed_time(end) / 20
    names = [words.partition(" ")[0] for words, _ in timed]
    assert names == [words.partition(" ")[0] for words in WORDS]
    assert all(us > 0 for _, us in timed)
    assert sum(us for _, us in timed) == pytest.approx(graph_us, rel=0.5)
