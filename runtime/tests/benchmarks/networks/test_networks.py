"""The ImageNet networks compute what their papers draw, at full size and small."""

import pytest
import torch

from benchmarks.networks.alexnet import AlexNet
from benchmarks.networks.densenet import DenseBlock, DenseNet
from benchmarks.networks.vgg import VGG


@pytest.mark.parametrize("build", [AlexNet, VGG, DenseNet])
def test_a_photograph_of_imagenet_gives_a_thousand_logits(build):
    with torch.device("meta"):
        logits = build().eval()(torch.empty(2, 3, 224, 224))

    assert logits.shape == (2, 1000)


@pytest.mark.parametrize(
    ("network", "size"),
    [
        (AlexNet(width=2, num_classes=7), 63),
        (VGG(11, width=2, num_classes=7), 32),
        (DenseNet(121, growth=2, num_classes=7), 32),
    ],
    ids=["alexnet", "vgg", "densenet"],
)
def test_narrow_networks_take_small_images(network, size):
    assert network.eval()(torch.zeros(1, 3, size, size)).shape == (1, 7)


def test_a_dense_block_keeps_its_input_and_adds_the_growth_of_each_layer():
    block = DenseBlock(3, channels=4, growth=2).eval()
    x = torch.randn(1, 4, 5, 5)

    y = block(x)

    assert y.shape == (1, 10, 5, 5)
    assert torch.equal(y[:, :4], x)
