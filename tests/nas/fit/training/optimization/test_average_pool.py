"""Gradients of average pools with overlapping windows."""

import pytest
import torch
from torch import nn

from nas.fit.training.optimization.average_pool import exact_average_pools


def gradient(network, images, weights):
    images = images.clone().requires_grad_()
    out = network(images)
    (out * weights).sum().backward()
    return out, images.grad


@pytest.mark.parametrize(
    "pool",
    [
        nn.AvgPool2d(3, 1, 1, count_include_pad=False),
        nn.AvgPool2d(3, 1, 1, count_include_pad=True),
        nn.AvgPool2d((5, 3), 1, (2, 1), count_include_pad=False),
        nn.AvgPool2d(3, 2, 1),
        nn.AvgPool2d(3, 1),
        nn.AvgPool2d(2, 2),
    ],
)
def test_they_are_those_of_torch_on_a_cpu(pool):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, 3, 8, 8, generator=generator, dtype=torch.float64)
    images = images.to(memory_format=torch.channels_last)
    weights = torch.randn(pool(images).shape, generator=generator, dtype=torch.float64)
    network = nn.Sequential(pool)
    expected = gradient(network, images, weights)

    with exact_average_pools(network):
        exact = gradient(network, images, weights)

    for ours, other in zip(exact, expected, strict=True):
        torch.testing.assert_close(ours, other)
    assert "forward" not in vars(pool)
