"""Small networks of every family, and what the tests share with those of edgenas."""

import os
import signal

# A process a core runs the tests: threads that wait for each other cost tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings
from shared_fixtures import *  # noqa: F403 - fixtures are found by their names

from benchmarks.networks.alexnet import AlexNet
from benchmarks.networks.cell import EVERY_OPERATION
from benchmarks.networks.densenet import DenseNet
from benchmarks.networks.vgg import VGG
from edgenas_core.inference.models.nas_bench_201 import CellNetwork
from edgenas_core.inference.models.resnet import ResNet

settings.register_profile("edgenas", deadline=None, max_examples=40)  # a busy machine is no failure
settings.load_profile("edgenas")

# A shell's background job ignores Ctrl-C, and so would the commands that it is sent to here.
signal.signal(signal.SIGINT, signal.default_int_handler)

BUILDERS = {
    "nas_bench_201": lambda: (CellNetwork(EVERY_OPERATION, cells_per_stage=1, channels=4), 16),
    "alexnet": lambda: (AlexNet(width=2, num_classes=7), 63),
    "vgg16": lambda: (VGG(16, width=2, num_classes=7), 32),
    "resnet18": lambda: (ResNet(18, width=4, num_classes=7), 32),
    "resnet50": lambda: (ResNet(50, width=4, num_classes=7), 32),
    "densenet121": lambda: (DenseNet(121, growth=2, num_classes=7), 32),
}


def _settled(module):
    """With batch normalisations that do something."""
    noise = torch.Generator().manual_seed(2)
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(generator=noise)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 2.0, generator=noise)
    return module.eval()


@pytest.fixture(scope="session")
def networks():
    """By name: a module, and two images for it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built = {name: build() for name, build in BUILDERS.items()}
        return {
            name: (_settled(module), torch.randn(2, 3, size, size))
            for name, (module, size) in built.items()
        }


@pytest.fixture(params=BUILDERS)
def network(request, networks):
    return networks[request.param]
