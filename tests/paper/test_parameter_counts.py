"""Parameters of ResNet, as printed in torchvision's table of weights (`num_params`)."""

import pytest
import torch

from edgenas_core.inference.models.resnet import ResNet

PUBLISHED = [
    (18, 11_689_512),
    (34, 21_797_672),
    (50, 25_557_032),
    (101, 44_549_160),
    (152, 60_192_808),
]


@pytest.mark.parametrize(("depth", "published"), PUBLISHED)
def test_number_of_parameters(depth, published):
    with torch.device("meta"):
        built = ResNet(depth)

    assert sum(parameter.numel() for parameter in built.parameters()) == published
