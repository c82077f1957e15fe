"""Inputs that are no square images: their shape is kept, and channels are cut as of images."""

import pytest
import torch
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.of_network import shape_of
from nas.fit.starts.elastic.space import ElasticSpace


def of_two_dimensions():
    return nn.Sequential(
        nn.Conv2d(1, 32, (10, 4), 2, (5, 1)),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, 1, 1, groups=32),
        nn.Conv2d(32, 48, 1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 12),
    )


def of_one_dimension():
    return nn.Sequential(
        nn.Conv1d(2, 32, 7, 2, 3),
        nn.BatchNorm1d(32),
        nn.ReLU(),
        nn.Conv1d(32, 48, 5, 2, 2),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(48, 5),
    )


@pytest.mark.parametrize(
    ("build", "shape", "classes"),
    [(of_two_dimensions, (1, 49, 10), 12), (of_one_dimension, (2, 250), 5)],
)
def test_parts_take_the_inputs_of_the_whole_and_have_fewer_channels(build, shape, classes):
    torch.manual_seed(0)
    network = build().eval()

    space = ElasticSpace(network, shape[-1], shape=shape)

    task, example = space.tasks["inputs"], torch.randn(3, *shape)
    whole, small = (space.network(row, task).eval() for row in (space.largest, space.smallest()))
    assert task.input_shape == shape
    assert space.structure.sides == (shape[-1],)
    torch.testing.assert_close(whole(example), network(example))
    assert small(example).shape == (3, classes)
    assert space.example_input(space.smallest(), task, 2).shape == (2, *shape)
    counted = space.costs(space.smallest(), task)["parameters"]
    assert counted == sum(each.numel() for each in small.parameters())
    assert counted < 0.5 * sum(each.numel() for each in network.parameters())
    supernet = space.supernet(task).eval()
    supernet.choose(space.smallest())
    torch.testing.assert_close(supernet(example), small(example))


def test_a_shape_is_numbers_joined_by_x():
    assert shape_of("1x40x101") == (1, 40, 101)
    for wrong in ("1x", "0x4", "1,40"):
        with pytest.raises(UserError, match="input="):
            shape_of(wrong)
    with pytest.raises(UserError, match="side=32"):
        shape_of("1x40", 32)
