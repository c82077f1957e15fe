"""The supernet of NAS-Bench-201: paths, what trains, and the draws."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from edgenas_core.inference.models.nas_bench_201 import Cell, CellNetwork
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
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import EDGES
from nas.spaces.nas_bench_201.supernet import SharedCell, SharedCellNetwork, distinct_networks

pytestmark = pytest.mark.usefixtures("one_thread")


def images():
    """Two classes that differ in brightness: 64 images to train on, 32 to judge by."""
    rng = np.random.default_rng(0)

    def split(n):
        labels = np.arange(n) % 2
        pixels = rng.integers(0, 128, (n, 4, 4, 3)) + 127 * labels[:, None, None, None]
        return Images(pixels.astype(np.uint8), labels)

    return ImageSet(
        "bright", "Bright", ("no", "yes"), split(64), split(32), split(32),
        (0.5,) * 3, (0.3,) * 3, "digest", (),
    )  # fmt: skip


class Small:
    """NAS-Bench-201 with a cell a stage and four channels."""

    name = SPACE.name
    num_choices = SPACE.num_choices

    def __init__(self):
        self.chosen = []

    def supernet(self, task):
        network = SharedCellNetwork(task.num_classes, cells_per_stage=1, channels=4)
        choose = network.choose
        network.choose = lambda row: (self.chosen.append(tuple(row.tolist())), choose(row))[1]
        return network

    def network(self, architecture, task):
        return CellNetwork(
            SPACE.operations(architecture),
            cells_per_stage=1,
            channels=4,
            num_classes=task.num_classes,
        )

    def example_input(self, architecture, task, batch_size):
        return SPACE.example_input(architecture, task, batch_size)

    def normal(self, architectures):
        return architectures

    def text(self, architecture):
        return SPACE.text(architecture)

    def parse(self, text):
        return SPACE.parse(text)


def test_a_path_computes_the_cell_of_its_operations():
    torch.manual_seed(0)
    shared = SharedCell(4).eval()
    row = SPACE.parse(
        "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|avg_pool_3x3~1|nor_conv_3x3~2|"
    )
    shared.chosen = row.tolist()
    plain = Cell(SPACE.operations(row), 4).eval()
    for edge in range(len(EDGES)):
        plain.layers[edge] = shared.edges[edge][int(row[edge])]
    x = torch.randn(2, 4, 8, 8)

    assert torch.equal(shared(x), plain(x))


def test_only_the_weights_of_the_chosen_path_get_gradients():
    network = SharedCellNetwork(2, cells_per_stage=1, channels=4)
    network.choose(SPACE.from_operations(["nor_conv_1x1"] + ["skip_connect"] * 5))

    network(torch.randn(2, 3, 4, 4)).sum().backward()

    for cell in network.shared:
        trained = {
            (edge, choice)
            for edge, operations in enumerate(cell.edges)
            for choice, operation in enumerate(operations)
            if any(weight.grad is not None for weight in operation.parameters())
        }
        assert trained == {(0, 2)}


def test_normalisation_has_neither_parameters_nor_a_memory():
    network = SharedCellNetwork(2, cells_per_stage=1, channels=4)

    norms = [norm for norm in network.modules() if isinstance(norm, nn.BatchNorm2d)]

    assert norms
    assert all(not norm.affine and norm.running_mean is None for norm in norms)


def test_networks_are_drawn_uniformly_each_as_one_row():
    networks = distinct_networks(np.random.default_rng(0), 20_000)

    rows, counts = np.unique(networks, axis=0, return_counts=True)
    assert (SPACE.canonical(rows) == rows).all()
    assert len(rows) > 6000  # of 6,466, three times each
    assert counts.max() < 15


def test_a_supernet_learns_and_is_the_same_by_the_same_seed():
    spaces = Small(), Small()
    rows = distinct_networks(np.random.default_rng(1), 3)
    rows[0] = SPACE.from_operations(["skip_connect"] * 6)
    brightness = images()

    accuracies = []
    for space in spaces:
        shared = train_supernet(space, brightness, epochs=2, seed=3, device="cpu")
        accuracies.append(
            [path_accuracy(space, shared, row, brightness, device="cpu") for row in rows]
        )

    np.testing.assert_array_equal(*accuracies)
    assert spaces[0].chosen == spaces[1].chosen
    assert len(set(spaces[0].chosen)) > 10
    assert max(accuracies[0]) > 0.8


def test_an_epoch_is_estimated_by_steps_that_train_paths():
    space = Small()

    seconds = seconds_of_epoch(space, images(), device="cpu")

    assert seconds > 0
    assert space.chosen


def test_a_network_inherits_the_weights_of_its_path(tmp_path):
    space, brightness = Small(), images()
    shared = initialised(space, brightness, 0)
    save_supernet(tmp_path / "supernet", shared)
    row = distinct_networks(np.random.default_rng(2), 1)[0]
    pixels = torch.rand(64, 3, 4, 4)

    network = Inheriting(space, tmp_path / "supernet")(row, brightness.task)
    shared.choose(row)

    assert torch.equal(network.train()(pixels), shared(pixels))


def test_tensors_of_two_names_are_stored_twice(tmp_path):
    shared = initialised(Small(), images(), 0)
    before = len(shared.state_dict())
    shared.again = nn.ModuleList(shared.children())

    save_supernet(tmp_path / "supernet", shared)

    assert len(load_file(tmp_path / "supernet")) == 2 * before


def test_a_network_with_statistics_of_its_own_is_as_accurate_as_its_score(tmp_path):
    space, brightness = Small(), images()
    shared = train_supernet(space, brightness, epochs=2, seed=3, device="cpu")
    save_supernet(tmp_path / "supernet", shared)
    row = distinct_networks(np.random.default_rng(2), 1)[0]

    network = Inheriting(space, tmp_path / "supernet", None, brightness)(row, brightness.task)

    score = path_accuracy(space, shared, row, brightness, device="cpu")
    assert accuracy_of(network, brightness.valid, brightness, device="cpu") == score


def test_recalibration_gives_a_network_the_statistics_of_the_training_images():
    brightness = images()
    network = Small().network(SPACE.from_operations(["skip_connect"] * 6), brightness.task)
    before = network.stem[1].momentum

    recalibrate(network, brightness, device="cpu")

    pixels = torch.from_numpy(brightness.train.pixels / 255).float().permute(0, 3, 1, 2)
    features = network.stem[0]((pixels - 0.5) / 0.3)
    torch.testing.assert_close(network.stem[1].running_mean, features.mean((0, 2, 3)))
    assert network.stem[1].momentum == before
    assert not network.training


def test_a_supernet_of_another_task_is_one_line(tmp_path):
    space, brightness = Small(), images()
    save_supernet(tmp_path / "supernet", initialised(space, brightness, 0))

    with pytest.raises(UserError, match="is not a supernet of space=nas_bench_201"):
        load_supernet(space, replace(brightness.task, num_classes=3), tmp_path / "supernet")
