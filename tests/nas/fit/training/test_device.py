"""Which kernels compute convolutions."""

import platform
import resource
import threading
from dataclasses import replace

import numpy as np
import psutil
import pytest
import torch
from torch import nn
from torch.profiler import profile

from edgenas_core.types.task import Task
from nas.fit.learners.data import LearnerData
from nas.fit.learners.functions import learner
from nas.fit.training import device
from nas.fit.training.device import (
    Kernels,
    Products,
    computed_by,
    freed_memory_kept,
    kernels_for,
    take_share,
)
from nas.fit.training.recipe import RECIPES
from nas.fit.training.sources import LearnerSources
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import TrainingOptions, kernels_of
from nas.spaces.nas_bench_201.plugin import SPACE

TASK = Task("shapes", 4, 32)
GPU = torch.device("cuda", 0)


def mobile(blocks):
    """A network of depthwise and 1x1 convolutions, of three more shapes in each block."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)]
    for width in range(8, 8 + blocks):
        layers += [
            nn.Conv2d(width, 2 * width, 1),
            nn.Hardswish(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.Conv2d(2 * width, width + 1, 1, bias=False),
        ]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def outputs_and_gradients(network):
    network.zero_grad()
    torch.manual_seed(1)
    logits = network.eval()(torch.randn(2, 3, 32, 32))
    logits.square().sum().backward()
    return [logits, *(layer.grad for layer in network.parameters())]


def test_products_compute_what_1x1_and_first_convolutions_compute():
    small = mobile(2)
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
    many = mobile(8)
    cell = SPACE.network(SPACE.architectures(np.array(6111)), TASK)
    assert kernels_for(many, 20) is Kernels.guessed
    assert kernels_for(many, 200) is Kernels.tried
    assert kernels_for(cell, 1) is Kernels.tried
    assert kernels_for(many, 100, shapes_vary=True) is Kernels.without_cudnn
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
    batches = [(torch.zeros(2, 3, 8, 8), torch.zeros(2))]
    data = LearnerData(learner(lambda *_: torch.zeros(1), lambda *_: 0.0, batches, batches))
    sources = LearnerSources(data, TrainOn.train, torch.device("cpu"), 1)
    recipe = replace(RECIPES["scenes"], epochs=epochs)

    assert kernels_of(mobile(8), sources, recipe, TrainingOptions()) is kernels


def test_a_lone_worker_leaves_busy_cores_to_others(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(device, "_MOST_THREADS", 64)
    monkeypatch.setattr(device, "usable_cores", lambda: [*range(8)])
    threads = []
    for busy in (0.0, 50.0, 100.0):
        percent = [busy] * 8 + [100.0] * 8  # others' cores do not count
        monkeypatch.setattr(device.psutil, "cpu_percent", lambda percent=percent, **_: percent)
        take_share(0, 1)
        threads.append(torch.get_num_threads())
    torch.set_num_threads(before)

    assert threads == ([before] * 3 if torch.cuda.is_available() else [8, 4, 1])


def test_workers_on_a_cpu_take_a_core_each():
    before = torch.get_num_threads()
    threads = []

    def work():
        torch.set_num_threads(4)
        take_share(1, 2)
        threads.append(torch.get_num_threads())

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()

    assert threads == [4 if torch.cuda.is_available() else 1]
    assert torch.get_num_threads() == before


NUMBERS = 7_000_000  # 28 MB, of 6,800 pages: older glibc keeps no more


def faults_of_an_allocation():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(NUMBERS).fill_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_freed_memory_is_used_again_in_the_block_and_given_back_after_it():
    with freed_memory_kept():
        with freed_memory_kept():
            pass
        taken = [faults_of_an_allocation() for _ in range(10)]  # some in other free memory
        kept = psutil.Process().memory_info().rss
    left = psutil.Process().memory_info().rss

    assert min(taken) < 1000
    assert kept - left > 25e6
