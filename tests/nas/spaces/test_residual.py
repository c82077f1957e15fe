"""`space=residual`, by the published size of the network of it that MLPerf Tiny times."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from nas.spaces.function import complete_rows
from nas.spaces.registry import space_named

SPACE = space_named("residual")
TASK = SPACE.tasks["images"]


def test_resnet_8_of_mlperf_tiny_is_a_row():
    row = SPACE.parse("stride=1 kernel=3 width=16 growth=2.0 blocks=3 kind=residual")
    network = SPACE.network(row, TASK)
    layers = [*network.modules()]
    biases = sum(layer.out_channels for layer in layers if isinstance(layer, nn.Conv2d))
    statistics = sum(
        2 * layer.num_features for layer in layers if isinstance(layer, nn.BatchNorm2d)
    )
    parameters, multiply_accumulates = SPACE.count(row, TASK)

    # Keras adds a bias to each convolution, and counts moving statistics
    assert parameters + biases + statistics == 78_666
    assert multiply_accumulates == pytest.approx(12.5e6, rel=0.01)


@pytest.mark.parametrize("blocks", range(3, 10))
def test_a_network_has_so_many_blocks_and_widths_up_to_64(blocks):
    row = SPACE.parse(f"stride=2 kernel=5 width=32 growth=2.0 blocks={blocks} kind=residual")
    network = SPACE.network(row, TASK).eval()
    widths = [layer.out_channels for layer in network.modules() if isinstance(layer, nn.Conv2d)]

    shortcuts = 2
    assert len(widths) == 1 + 2 * blocks + shortcuts
    assert max(widths) == 64
    assert network(torch.zeros(2, 3, 16, 16)).shape == (2, TASK.num_classes)


def test_texts_from_before_plain_networks_are_those_of_the_same_networks():
    text = "stride=2 kernel=5 width=32 growth=1.5 blocks=4"
    row = SPACE.parse(text)

    assert SPACE.chosen(row)["kind"] == "residual"
    assert SPACE.text(row) == text  # by which the folder of a trained network is named
    assert (SPACE.parse(f"{text} kind=residual") == row).all()
    assert SPACE.text(SPACE.parse(f"{text} kind=plain")) == f"{text} kind=plain"


def test_rows_from_before_plain_networks_are_those_of_the_same_networks():
    before, row = (
        np.array([[1, 1, 2, 1, 1]]),
        SPACE.parse("stride=2 kernel=5 width=32 growth=1.5 blocks=4"),
    )

    assert (complete_rows(before, SPACE) == row).all()
    assert complete_rows(before[:, :4], SPACE).shape == (1, 4)  # of another space
    assert complete_rows(row[None], SPACE).tolist() == [row.tolist()]


def plain_cnn(classes):
    """Convolutions with a maximum over 2 x 2 pixels after every second one."""
    layers, inputs = nn.Sequential(), 3
    for number, width in enumerate((32, 32, 64, 64, 128, 128)):
        convolution = nn.Conv2d(inputs, width, 3, padding=1, bias=False)
        layers.extend((convolution, nn.BatchNorm2d(width), nn.ReLU()))
        if number % 2:
            layers.append(nn.MaxPool2d(2))
        inputs = width
    return layers.extend((nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)))


def test_the_default_network_is_the_plain_cnn_that_it_is_compared_with():
    task, default = replace(TASK, num_classes=5), SPACE.default_network
    plain, network = plain_cnn(5).eval(), SPACE.network(default, task).eval()
    weights = zip(network.state_dict(), plain.state_dict().values(), strict=True)
    network.load_state_dict(dict(weights))
    images = torch.randn(2, 3, 32, 32)

    assert torch.equal(network(images), plain(images))
    assert network(torch.zeros(2, 3, 5, 5)).shape == (2, 5)


def test_what_counting_leaves_out_changes_no_count():
    row = SPACE.architectures(np.array(100))
    network = SPACE.network(row, TASK).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(1, 3, 32, 32))
    assert SPACE.count(row, TASK)[1] == counter.get_total_flops() / 2
