"""What a network costs is counted on the network itself."""

import pytest
import torch
from torch import nn

from nas.spaces.counted import count_costs


def small():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 30 * 30, 10))


@pytest.mark.parametrize("inference", [False, True])
def test_products_of_convolutions_and_linear_layers_count_in_inference_mode_too(inference):
    with torch.inference_mode(inference):
        parameters, products = count_costs(small, torch.randn(1, 3, 32, 32))

    assert parameters == 8 * 3 * 9 + 8 + 7200 * 10 + 10
    assert products == 8 * 3 * 9 * 30 * 30 + 7200 * 10
