"""The supernet of NAS-Bench-201: paths, what trains, and the draws."""

import numpy as np
import torch
from torch import nn

from nas.accuracy.images.image_set import Images, ImageSet
from nas.accuracy.supernet.training import path_accuracies, train_supernet
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import EDGES
from nas.spaces.nas_bench_201.supernet import SharedCell, SharedCellNetwork
from runtime.network.models.nas_bench_201 import Cell


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

    def __init__(self):
        self.chosen = []

    def supernet(self, task):
        network = SharedCellNetwork(task.num_classes, cells_per_stage=1, channels=4)
        choose = network.choose
        network.choose = lambda row: (self.chosen.append(tuple(row.tolist())), choose(row))[1]
        return network

    def sample_networks(self, rng, n):
        return SPACE.sample_networks(rng, n)

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

    norms = [one for one in network.modules() if isinstance(one, nn.BatchNorm2d)]

    assert norms
    assert all(not one.affine and one.running_mean is None for one in norms)


def test_networks_are_drawn_uniformly_each_as_one_row():
    drawn = SPACE.sample_networks(np.random.default_rng(0), 20_000)

    rows, counts = np.unique(drawn, axis=0, return_counts=True)
    assert (SPACE.canonical(rows) == rows).all()
    assert len(rows) > 6000  # of 6,466, three times each
    assert counts.max() < 15


def test_a_supernet_learns_and_is_the_same_by_the_same_seed():
    spaces = Small(), Small()
    rows = SPACE.sample_networks(np.random.default_rng(1), 3)
    rows[0] = SPACE.from_operations(["skip_connect"] * 6)

    found = [
        path_accuracies(
            train_supernet(space, images(), epochs=2, seed=3, device="cpu"), rows, images(), 32
        )
        for space in spaces
    ]

    np.testing.assert_array_equal(*found)
    assert spaces[0].chosen == spaces[1].chosen
    assert len(set(spaces[0].chosen)) > 10
    assert found[0].max() > 0.8
