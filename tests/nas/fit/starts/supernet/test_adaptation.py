"""A trained network whose parts inherit its weights: adaptation, scores, files."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.starts.supernet.stored import Inheriting, load_supernet, save_supernet
from nas.fit.starts.supernet.training import (
    initialised,
    path_accuracy,
    recalibrate,
    seconds_of_epoch,
    train_supernet,
)
from nas.fit.training.evaluation import accuracy_of

pytest.importorskip("torch_pruning")
pytestmark = pytest.mark.usefixtures("one_thread")


def images():
    """Two classes that differ in brightness: 64 images to train on, 32 to judge by."""
    rng = np.random.default_rng(0)

    def split(n):
        labels = np.arange(n) % 2
        pixels = rng.integers(0, 128, (n, 8, 8, 3)) + 127 * labels[:, None, None, None]
        return Images(pixels.astype(np.uint8), labels)

    return ImageSet(
        "bright", "Bright", ("no", "yes"), split(64), split(32), split(32),
        (0.5,) * 3, (0.3,) * 3, "digest", (),
    )  # fmt: skip


def small_space():
    from nas.fit.starts.elastic.loading import elastic_space  # noqa: PLC0415 - of an extra

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    return elastic_space(nn.Sequential(*layers, nn.Flatten(), nn.Linear(32, 2)), side=8)


def test_an_adapted_network_learns_and_is_the_same_by_the_same_seed():
    brightness, accuracies = images(), []
    for space in (small_space(), small_space()):
        rows = space.sample(np.random.default_rng(1), 3)
        shared = train_supernet(space, brightness, epochs=8, seed=3, device="cpu")
        accuracies.append(
            [path_accuracy(space, shared, row, brightness, device="cpu") for row in rows]
        )

    np.testing.assert_array_equal(*accuracies)
    assert max(accuracies[0]) > 0.8


def test_an_epoch_is_estimated():
    assert seconds_of_epoch(small_space(), images(), device="cpu") > 0


def test_tensors_of_two_names_are_stored_twice(tmp_path):
    shared = initialised(small_space(), images(), 0)
    before = len(shared.state_dict())
    shared.again = nn.ModuleList([shared.network])

    save_supernet(tmp_path / "supernet", shared)

    assert len(load_file(tmp_path / "supernet")) == 2 * before


def test_a_network_with_statistics_of_its_own_is_as_accurate_as_its_score(tmp_path):
    space, brightness = small_space(), images()
    shared = train_supernet(space, brightness, epochs=2, seed=3, device="cpu")
    save_supernet(tmp_path / "supernet", shared)
    row = space.sample(np.random.default_rng(2), 1)[0]

    network = Inheriting(space, tmp_path / "supernet", brightness)(row, brightness.task)

    score = path_accuracy(space, shared, row, brightness, device="cpu")
    assert accuracy_of(network, brightness.valid, brightness, device="cpu") == score


def test_recalibration_gives_a_network_the_statistics_of_the_training_images():
    brightness = images()
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    before = network[1].momentum

    recalibrate(network, brightness, device="cpu")

    pixels = torch.from_numpy(brightness.train.pixels / 255).float().permute(0, 3, 1, 2)
    features = network[0]((pixels - 0.5) / 0.3)
    torch.testing.assert_close(network[1].running_mean, features.mean((0, 2, 3)))
    assert network[1].momentum == before
    assert not network.training


def test_weights_for_another_task_are_one_line(tmp_path):
    space, brightness = small_space(), images()
    save_supernet(tmp_path / "supernet", initialised(space, brightness, 0))

    with pytest.raises(UserError, match="is not a supernet of space="):
        load_supernet(space, replace(brightness.task, num_classes=3), tmp_path / "supernet")
