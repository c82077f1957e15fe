"""The ImageNet networks compute what their papers draw, at full size and small."""

import pytest
import torch
from benchmarks.networks.alexnet import AlexNet
from benchmarks.networks.densenet import DenseBlock, DenseNet
from benchmarks.networks.vgg import VGG
from torch import nn

from edgenas_core.inference.models.resnet import ResNet, ResNetBlock

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("build", [AlexNet, VGG, ResNet, DenseNet])
def test_a_photograph_of_imagenet_gives_a_thousand_logits(build):
    with torch.device("meta"):
        logits = build().eval()(torch.empty(2, 3, 224, 224))

    assert logits.shape == (2, 1000)


@pytest.mark.parametrize(
    ("network", "size"),
    [
        (AlexNet(width=2, num_classes=7), 63),
        (VGG(11, width=2, num_classes=7), 32),
        (ResNet(18, width=4, num_classes=7), 32),
        (ResNet(50, width=4, num_classes=7), 32),
        (DenseNet(121, growth=2, num_classes=7), 32),
    ],
    ids=["alexnet", "vgg", "resnet18", "resnet50", "densenet"],
)
def test_narrow_networks_take_small_images(network, size):
    assert network.eval()(torch.zeros(1, 3, size, size)).shape == (1, 7)


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


def test_a_dense_block_keeps_its_input_and_adds_the_growth_of_each_layer():
    block = DenseBlock(3, channels=4, growth=2).eval()
    x = torch.randn(1, 4, 5, 5)

    y = block(x)

    assert y.shape == (1, 10, 5, 5)
    assert torch.equal(y[:, :4], x)
