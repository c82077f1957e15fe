"""Tests of the memory layout that a training computes in."""

import pytest
import torch
from torch import nn

from nas.accuracy.training.optimization.step import Normalised


@pytest.mark.parametrize(
    ("channels", "stride", "layout"),
    [
        (8, 1, torch.channels_last),
        (16, 2, torch.channels_last),
        (8, 2, torch.contiguous_format),
    ],
)
def test_no_narrow_shortcut_computes_with_channels_last_on_a_cpu(channels, stride, layout):
    """OneDNN would write past a buffer, and end the process where it is freed."""
    shortcut = nn.Conv2d(channels, 8, 1, stride)
    network = nn.Sequential(nn.Conv2d(3, channels, 3), shortcut, nn.Flatten())
    model = Normalised(network, (0.5,) * 3, (0.5,) * 3, torch.device("cpu"))
    seen = []
    shortcut.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(torch.zeros(3, 8, 8, 3, dtype=torch.uint8))
    assert seen[0].is_contiguous(memory_format=layout)
