"""ResNet computes what its paper draws, at full size and small."""

import pytest
import torch
from torch import nn

from edgenas_core.inference.models.resnet import ResNet, ResNetBlock

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_photograph_of_imagenet_gives_a_thousand_logits():
    with torch.device("meta"):
        logits = ResNet().eval()(torch.empty(2, 3, 224, 224))

    assert logits.shape == (2, 1000)


@pytest.mark.parametrize("depth", [18, 50])
def test_narrow_networks_take_small_images(depth):
    network = ResNet(depth, width=4, num_classes=7).eval()

    assert network(torch.zeros(1, 3, 32, 32)).shape == (1, 7)


def test_a_block_adds_its_input_before_the_last_activation():
    block = ResNetBlock((4, 4, 4), (3, 3), 1).eval()
    nn.init.zeros_(block.bn2.weight)
    x = torch.randn(1, 4, 5, 5)

    torch.testing.assert_close(block(x), x.clamp(min=0))


def test_the_bottleneck_strides_in_its_3x3_convolution():
    block = ResNetBlock((8, 4, 4, 16), (1, 3, 1), 2)

    strides = [block.conv1.stride, block.conv2.stride, block.conv3.stride]

    assert strides == [(1, 1), (2, 2), (1, 1)]
    assert block(torch.zeros(1, 8, 6, 6)).shape == (1, 16, 3, 3)
