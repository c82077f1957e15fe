"""One inference as something to call."""

import pytest
import torch
from torch import nn

from runtime.inference import Backend, Device, Precision, prepare


@pytest.mark.parametrize("precision", Precision)
def test_weights_input_and_output_have_the_precision(precision):
    network = nn.Linear(4, 2)

    output = prepare(network, torch.ones(1, 4), Device.cpu, Backend.torch, precision)()

    assert output.dtype == network.weight.dtype == precision.dtype


def test_sixteen_bits_compute_nearly_the_same():
    torch.manual_seed(0)
    network, images = nn.Linear(64, 8), torch.randn(1, 64)

    exact = prepare(network, images, Device.cpu, Backend.torch)().clone()
    rounded = prepare(network, images, Device.cpu, Backend.torch, Precision.bf16)()

    assert (rounded - exact).norm() < 0.02 * exact.norm()
