"""Images as the user's own network takes them."""

from dataclasses import replace

import pytest
from torch import nn

from nas.fit.config import FitConfig
from nas.fit.of_network import with_images_of_network
from nas.fit.starts.elastic.space import ElasticSpace

pytest.importorskip("torch_pruning")

CONFIG = FitConfig(space="mine", epochs=1)


@pytest.fixture(scope="module")
def space():
    """Parts of a network of one channel."""
    layers = nn.Conv2d(1, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.AdaptiveAvgPool2d(1)
    return ElasticSpace(nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 1)), 16, channels=1)


@pytest.mark.parametrize("data", ["pets", "regression:pets?range=0:9", "multilabel:/a:b"])
def test_images_are_read_in_grey_for_a_network_of_one_channel(space, data):
    read = with_images_of_network(replace(CONFIG, data=data), space)

    assert read.data == f"{data}?channels=grey"


def test_images_without_labels_are_read_in_grey_too(space):
    config = replace(CONFIG, data="agreement:pets?range=0:9", mean=0.5, std=0.5)

    assert with_images_of_network(config, space).data == (
        "agreement:pets?range=0:9?channels=grey?teacher=mine?scaling=0.5;0.5"
    )
