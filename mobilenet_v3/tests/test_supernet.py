"""The supernet of MobileNetV3: its parts are the space's own networks."""

import numpy as np
import pytest
import torch

from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.plugin import MobileNetV3Space
from edgenas_mobilenet_v3.supernet import LARGEST, SMALLEST, SharedMobileNet
from nas.fit.starts.supernet.training import inherited
from nas.fit.training.network import own_side

pytestmark = pytest.mark.usefixtures("one_thread")

SPACE = MobileNetV3Space("narrow", 0.25, None)
TASK = Task("tiny", 3, 24)


@pytest.fixture(scope="module")
def shared():
    torch.manual_seed(0)
    return SharedMobileNet(SPACE.network, SPACE.layers, SPACE.sample, TASK)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("which", ["smallest", "largest", "random"])
def test_a_part_computes_the_network_that_inherits_its_weights(shared, which, training):
    random = SPACE.sample(np.random.default_rng(0), 1)[0]
    row = {"smallest": SMALLEST, "largest": LARGEST, "random": random}[which]
    if training and which == "largest":
        pytest.skip("it drops features and blocks")
    alone = inherited(SPACE, shared, row, TASK).train(training)
    alone.classifier[0].p = 0.0
    images = torch.rand(4, 3, TASK.image_side, TASK.image_side)
    shared.train(training).choose(row)

    with torch.no_grad():
        assert torch.equal(shared(images), alone(images))


def test_a_step_trains_the_largest_which_teaches_the_smallest_and_two_random_networks(shared):
    rows = shared.of_step(np.random.default_rng(1))

    assert (rows[0] == LARGEST).all()
    assert (rows[1] == SMALLEST).all()
    assert SPACE.text(rows[2]) != SPACE.text(rows[3])
    assert own_side(SPACE, rows[0], TASK) == TASK.image_side > own_side(SPACE, rows[1], TASK)


def test_only_the_largest_network_drops_features_and_blocks(shared):
    images = torch.rand(4, 3, TASK.image_side, TASK.image_side)
    shared.train()

    def outputs(row):
        shared.choose(row)
        with torch.no_grad():
            return shared(images), shared(images)

    assert torch.equal(*outputs(SMALLEST))
    assert not torch.equal(*outputs(LARGEST))


def test_weights_of_a_part_are_views_of_the_whole(shared):
    weights = shared.weights(SMALLEST)

    whole = {tensor.data_ptr() for tensor in shared.state_dict().values()}
    assert set(weights) == set(SPACE.network(SMALLEST, TASK).state_dict())
    assert weights["stem.0.weight"].data_ptr() in whole
    kernels = {tensor.shape[-1] for name, tensor in weights.items() if name.endswith("1.0.weight")}
    assert 3 in kernels
    assert not {5, 7} & kernels
