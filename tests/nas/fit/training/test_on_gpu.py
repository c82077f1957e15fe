"""Captured steps and trainings side by side, on a GPU."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scene_folder import write_scenes
from torch import nn

from nas.fit.learners.opened import open_data
from nas.fit.starts.elastic.starts import start_named
from nas.fit.starts.supernet.training import path_accuracy, train_supernet
from nas.fit.training import trainer
from nas.fit.training.device import Kernels
from nas.fit.training.recipe import RECIPES
from nas.fit.training.step import layout_for
from nas.fit.training.together import TrainingPool
from nas.fit.training.trainer import DivergedTrainingError, TrainingOptions, train
from nas.spaces.nas_bench_201.plugin import SPACE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]

SHORT = replace(RECIPES["nas_bench_201"], epochs=3, batch_size=32)
MODERN = replace(RECIPES["modern"], epochs=3, batch_size=32, clip=5.0)


@pytest.fixture(autouse=True)
def guessed_kernels(monkeypatch):
    """Let cuDNN guess its kernels: each thread times them for itself, and may choose others."""
    monkeypatch.setattr(trainer, "kernels_for", lambda *_, **__: Kernels.guessed)


@pytest.fixture
def cell(brightness):
    """Make the network of a cell; equal seeds make equal weights."""

    def make(number, seed=0):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return SPACE.network(SPACE.architectures(np.array(number)), brightness.task)

    return make


def difference(network, other):
    others = other.state_dict()
    return max(
        float((tensor.float().cpu() - others[name].float().cpu()).abs().max())
        for name, tensor in network.state_dict().items()
    )


@pytest.mark.parametrize("recipe", [SHORT, MODERN])
def test_a_captured_step_is_the_eager_step(cell, brightness, recipe):
    captured, eager = cell(6111), cell(6111)

    of_captured = train(captured, brightness, recipe, TrainingOptions(seed=1))
    of_eager = train(eager, brightness, recipe, TrainingOptions(seed=1, captures=False))

    assert of_captured.losses == pytest.approx(of_eager.losses, rel=1e-3)
    assert difference(captured, eager) < 1e-2


@pytest.mark.parametrize(
    ("task", "start"),
    [
        ("segmentation", "lraspp_mobilenet_v3_large"),
        ("detection", "ssdlite320_mobilenet_v3_large"),
    ],
)
def test_a_captured_step_of_scenes_is_the_eager_step(tmp_path, monkeypatch, task, start):
    data = open_data(f"{task}:{write_scenes(tmp_path / 'scenes')}", side=48)
    recipe = replace(RECIPES["scenes"], epochs=3)
    losses = []

    for is_captured in (True, False):
        monkeypatch.setattr(type(data.learner), "has_equal_steps", is_captured)
        network = start_named(start, data.task.num_classes, 48)
        losses.append(train(network, data, recipe, TrainingOptions(evaluate_every=3)).losses)

    captured, eager = losses
    assert captured == pytest.approx(eager, rel=0.02)


CELL_OF_EACH_OPERATION = {
    "none": "|nor_conv_3x3~0|+|none~0|skip_connect~1|+|none~0|none~1|nor_conv_1x1~2|",
    "skip": "|skip_connect~0|+|skip_connect~0|nor_conv_3x3~1|+|skip_connect~0|skip_connect~1|skip_connect~2|",
    "1x1": "|nor_conv_1x1~0|+|nor_conv_1x1~0|nor_conv_1x1~1|+|nor_conv_1x1~0|skip_connect~1|nor_conv_1x1~2|",
    "3x3": "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|nor_conv_3x3~0|skip_connect~1|nor_conv_3x3~2|",
    "pool": "|avg_pool_3x3~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_3x3~2|",
}


@pytest.mark.parametrize("name", CELL_OF_EACH_OPERATION)
def test_gradients_are_those_of_the_cpu(cell, name):
    """In float32: in bfloat16 those of an untrained network are mostly rounding, on a CPU too."""
    network = cell(int(SPACE.numbers(SPACE.parse(CELL_OF_EACH_OPERATION[name]))))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(64, 3, 32, 32, generator=generator)
    labels = torch.randint(4, (64,), generator=generator)

    def gradients(device):
        layout = layout_for(network, torch.device(device))
        model = deepcopy(network).to(device, memory_format=layout)
        pixels = images.to(device, memory_format=layout)
        with torch.backends.cudnn.flags(allow_tf32=False):
            nn.functional.cross_entropy(model(pixels), labels.to(device)).backward()
        return {name: item.grad.cpu() for name, item in model.named_parameters()}

    expected = gradients("cpu")
    for parameter, gradient in gradients("cuda").items():
        if expected[parameter].norm() > 1e-6:
            cosine = nn.functional.cosine_similarity(
                gradient.flatten(), expected[parameter].flatten(), dim=0
            )
            assert cosine > 0.95, parameter


def test_side_by_side_is_as_alone(cell, brightness, together):
    numbers = (1462, 6111, 0, 1462, 4317)
    beside = [cell(number, seed) for seed, number in enumerate(numbers)]

    results = together(beside, brightness, SHORT, range(5), side_by_side=3)

    for seed, (number, network, result) in enumerate(zip(numbers, beside, results, strict=True)):
        alone = cell(number, seed)
        expected = train(alone, brightness, SHORT, TrainingOptions(seed=seed))
        assert result.losses == pytest.approx(expected.losses, rel=1e-3)
        assert difference(network, alone) < 1e-2


def test_a_resumed_training_ends_where_the_whole_one_does(cell, brightness, tmp_path):
    checkpoint = tmp_path / "training.safetensors"
    whole = train(cell(6111), brightness, SHORT, TrainingOptions(seed=1))

    kept = TrainingOptions(seed=1, checkpoint=checkpoint)
    train(cell(6111), brightness, SHORT, replace(kept, stop=lambda: True))
    resumed = train(cell(6111, 7), brightness, SHORT, kept)

    assert resumed.losses == pytest.approx(whole.losses, rel=1e-3)


class Hungry(nn.Module):
    """Runs out of memory beyond 8 images."""

    def forward(self, images):
        if self.training and len(images) > 8:
            raise torch.OutOfMemoryError
        return images


def test_a_failed_training_leaves_those_beside_it_alone(cell, brightness, together):
    alone, beside = cell(6111), cell(6111)
    expected = train(alone, brightness, SHORT, TrainingOptions(seed=1))
    broken = nn.Sequential(nn.Flatten(), nn.Linear(5, 4))
    diverging = cell(6111)
    with torch.no_grad():
        diverging.classifier.weight.fill_(float("nan"))

    networks = [broken, nn.Sequential(Hungry(), cell(0)), diverging, beside]

    results = together(networks, brightness, SHORT, [0, 0, 0, 1])

    assert isinstance(results[0], RuntimeError)
    assert "micro-batches of 6 images: a batch of 12 needs too much memory" in results[1].notes
    assert isinstance(results[2], DivergedTrainingError)
    assert results[3].losses == pytest.approx(expected.losses, rel=1e-3)


def test_the_memory_of_ended_trainings_is_used_again(cell, brightness):
    with TrainingPool(brightness, side_by_side=2) as pool:

        def reserved(trainings):
            for future in [
                pool.submit(lambda: cell(6111), SHORT, TrainingOptions(seed=0))
                for _ in range(trainings)
            ]:
                future.result()
            return torch.cuda.memory_reserved()

        after_four = reserved(4)
        assert reserved(8) < 1.1 * after_four


def test_a_supernet_of_many_shapes_learns_without_cudnn(brightness, monkeypatch):
    monkeypatch.setattr(trainer, "kernels_for", lambda *_, **__: Kernels.without_cudnn)
    pytest.importorskip("torch_pruning")
    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra

    layers = nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, brightness.task.num_classes))
    space = elastic_space(network, side=brightness.side)
    losses = []

    shared = train_supernet(
        space, brightness, epochs=4, seed=0, on_epoch=lambda item: losses.append(item.loss)
    )

    assert losses[-1] < losses[0]
    for row in space.sample(np.random.default_rng(0), 2):
        assert 0 <= path_accuracy(space, shared, row, brightness) <= 1
    assert torch.backends.cudnn.enabled
