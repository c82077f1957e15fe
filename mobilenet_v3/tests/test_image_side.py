"""Networks whose architecture chooses the side of its images."""

from copy import deepcopy
from functools import partial

import torch

from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.plugin import NARROW
from edgenas_mobilenet_v3.supernet import SMALLEST
from nas.fit.training.network import own_side, resized, untrained

TASK = Task("tiny", 3, 32)


def built(side=None):
    torch.manual_seed(0)
    build = deepcopy(partial(untrained, NARROW, side=side))  # as a worker gets it
    return build(SMALLEST, TASK).eval()


def test_images_are_resized_to_the_side_that_the_architecture_chose():
    images = torch.rand(2, 3, 32, 32)
    network = built()

    side = own_side(NARROW, SMALLEST, TASK)
    plain = NARROW.network(SMALLEST, TASK).eval()
    plain.load_state_dict(network.state_dict())

    assert side == 18
    with torch.no_grad():
        assert torch.equal(network(images), plain(resized(images, 18)))


def test_ranked_on_smaller_images_it_is_the_network_for_those():
    images = torch.rand(2, 3, 32, 32)

    with torch.no_grad():
        smaller = built(side=16)(images)

    with torch.no_grad():
        assert torch.equal(smaller, built(side=16)(resized(images, 9)))
