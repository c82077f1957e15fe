"""Small image sets and networks."""

import numpy as np
import pytest
import torch
from torch import nn

from nas.fit.data.image_set import Images, ImageSet
from nas.fit.training.together import TrainingPool
from nas.fit.training.trainer import TrainingOptions


def _split(rng, n, side):
    labels = rng.integers(0, 4, n)
    pixels = rng.integers(0, 100, (n, side, side, 3))
    pixels += (labels * 40)[
        :, None, None, None
    ]  # brighter classes, so that there is something to learn
    return Images(pixels.astype(np.uint8), labels)


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that wait for each other at every small operation are slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def brightness():
    """A set whose classes differ in brightness."""
    rng = np.random.default_rng(0)
    return ImageSet(
        name="brightness",
        title="Brightness",
        classes=("black", "dark", "bright", "white"),
        train=_split(rng, 200, 8),
        valid=_split(rng, 60, 8),
        test=_split(rng, 50, 8),
        mean=(0.4, 0.4, 0.4),
        sd=(0.25, 0.25, 0.25),
        digest="0" * 64,
        report=(),
    )


@pytest.fixture
def tiny():
    """Make a small network; equal seeds make equal weights."""

    def make(seed=0, *more):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(),
                *more,
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(8, 4),
            )

    return make


@pytest.fixture
def together():
    """Train networks in place, a few at a time: a result each, or what its training raised."""

    def train(networks, images, recipe, seeds, **pool_settings):
        with TrainingPool(images, **pool_settings) as pool:
            futures = [
                pool.submit(lambda network=network: network, recipe, TrainingOptions(seed=seed))
                for network, seed in zip(networks, seeds, strict=True)
            ]
            return [future.exception() or future.result() for future in futures]

    return train
