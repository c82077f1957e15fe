"""Parameters of the ImageNet networks, as printed in torchvision's table of weights (`num_params`)."""

import pytest
import torch

from benchmarks.networks.alexnet import AlexNet
from benchmarks.networks.densenet import DenseNet
from benchmarks.networks.vgg import VGG
from benchmarks.streaming.yolo import YOLOv4

PUBLISHED = [
    (AlexNet, (), 61_100_840),
    (VGG, (11,), 132_863_336),
    (VGG, (16,), 138_357_544),
    (DenseNet, (121,), 7_978_856),
    (DenseNet, (169,), 14_149_480),
    (DenseNet, (201,), 20_013_928),
]


@pytest.mark.parametrize(("network", "depth", "published"), PUBLISHED)
def test_number_of_parameters(network, depth, published):
    with torch.device("meta"):
        built = network(*depth)

    assert sum(parameter.numel() for parameter in built.parameters()) == published


def test_yolov4_is_as_large_as_the_file_of_its_authors():
    """`yolov4.weights`, 257,717,640 bytes: a header of 20, floats, statistics of normalisations."""
    with torch.device("meta"):
        built = YOLOv4()
    running = [value for name, value in built.named_buffers() if "running" in name]
    floats = sum(value.numel() for value in [*built.parameters(), *running])

    assert 4 * floats + 20 == 257_717_640
    assert sum(isinstance(module, torch.nn.Conv2d) for module in built.modules()) == 110
