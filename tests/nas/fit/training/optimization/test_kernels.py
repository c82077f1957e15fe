"""Which kernels compute convolutions."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.profiler import profile

from edgenas_core.types.task import Task
from nas.fit.learners.data import LearnerData
from nas.fit.learners.functions import learner
from nas.fit.training.optimization.kernels import Kernels, Products, computed_by, kernels_for
from nas.fit.training.recipe import RECIPES
from nas.fit.training.sources import LearnerSources
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import TrainingOptions, kernels_of
from nas.spaces.mobilenet_v3.plugin import NARROW, MobileNetV3Space
from nas.spaces.nas_bench_201.plugin import SPACE

TASK = Task("shapes", 4, 32)
GPU = torch.device("cuda", 0)


@pytest.fixture
def small():
    space = MobileNetV3Space("small", 0.25, None)
    torch.manual_seed(0)
    return space.network(space.sample(np.random.default_rng(0), 1)[0], TASK)


def outputs_and_gradients(network):
    network.zero_grad()
    torch.manual_seed(1)
    logits = network.eval()(torch.randn(2, 3, 32, 32))
    logits.square().sum().backward()
    return [logits, *(layer.grad for layer in network.parameters())]


def test_products_compute_what_1x1_and_first_convolutions_compute(small):
    expected = outputs_and_gradients(small)
    with profile() as without, Products():
        computed = outputs_and_gradients(small)
    for layer, other in zip(computed, expected, strict=True):
        torch.testing.assert_close(layer, other, rtol=1e-3, atol=1e-5)
    convolutions = [layer for layer in small.modules() if isinstance(layer, nn.Conv2d)]
    others = [layer for layer in convolutions[1:] if layer.kernel_size != (1, 1)]
    assert len(others) < len(convolutions)
    counts = {layer.key: layer.count for layer in without.key_averages()}
    assert counts["aten::conv2d"] == len(others)


def test_one_image_without_a_batch_is_convolved_as_usual():
    layer, image = nn.Conv2d(3, 4, 1), torch.randn(3, 5, 5)
    with Products():
        computed = layer(image)
    torch.testing.assert_close(computed, layer(image))


def test_short_trainings_of_many_shapes_do_not_try_kernels():
    mobile = NARROW.network(NARROW.sample(np.random.default_rng(0), 1)[0], TASK)
    cell = SPACE.network(SPACE.architectures(np.array(6111)), TASK)
    assert kernels_for(mobile, 20) is Kernels.guessed
    assert kernels_for(mobile, 200) is Kernels.tried
    assert kernels_for(cell, 1) is Kernels.tried
    assert kernels_for(mobile, 100, shapes_vary=True) is Kernels.without_cudnn
    assert kernels_for(cell, 100, shapes_vary=True) is Kernels.guessed


@pytest.mark.parametrize(
    ("kernels", "tries", "uses_cudnn"),
    [
        (Kernels.tried, True, True),
        (Kernels.guessed, False, True),
        (Kernels.without_cudnn, False, False),
    ],
)
def test_settings_of_cudnn_hold_within_the_block(kernels, tries, uses_cudnn):
    before = torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled
    with pytest.raises(KeyError), computed_by(kernels, GPU):  # noqa: PT012 - looks inside
        inside = torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled
        raise KeyError
    assert inside == (tries, uses_cudnn)
    assert (torch.backends.cudnn.benchmark, torch.backends.cudnn.enabled) == before


@pytest.mark.parametrize(
    ("epochs", "kernels"), [(12, Kernels.without_cudnn), (20, Kernels.guessed)]
)
def test_short_trainings_of_a_learner_find_no_kernels(epochs, kernels):
    mobile = NARROW.network(NARROW.sample(np.random.default_rng(0), 1)[0], TASK)
    batches = [(torch.zeros(2, 3, 8, 8), torch.zeros(2))]
    data = LearnerData(learner(lambda *_: torch.zeros(1), lambda *_: 0.0, batches, batches))
    sources = LearnerSources(data, TrainOn.train, torch.device("cpu"), 1)
    recipe = replace(RECIPES["scenes"], epochs=epochs)

    assert kernels_of(mobile, sources, recipe, TrainingOptions()) is kernels
