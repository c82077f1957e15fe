"""The NAS-Bench-201 network computes what the paper draws, and can be cut and exported."""

import pytest
import torch
from torch.nn import functional

from edgenas_core.inference.models.nas_bench_201 import (
    Cell,
    CellNetwork,
    ResidualBlock,
    example_input,
)

EVERY_OPERATION = (
    "avg_pool_3x3",
    "nor_conv_1x1",
    "skip_connect",
    "nor_conv_3x3",
    "none",
    "skip_connect",
)

pytestmark = pytest.mark.usefixtures("one_thread")


def small_network(operations=EVERY_OPERATION):
    return CellNetwork(operations, cells_per_stage=1, channels=4).eval()


def features(channels, size=8):
    noise = torch.Generator().manual_seed(1)
    return torch.randn(2, channels, size, size, generator=noise)


def only(operation, *, on):
    return ["none"] * on + [operation] + ["none"] * (5 - on)


def test_a_node_sums_one_operation_of_every_node_before_it():
    cell = Cell(EVERY_OPERATION, 4).eval()
    x = features(4)

    y = cell(x)

    pool, conv_1x1, _, conv_3x3, _, _ = cell.layers
    node_1 = pool(x)
    node_2 = conv_1x1(x) + node_1
    torch.testing.assert_close(y, conv_3x3(x) + 0 * node_1 + node_2)


def test_a_convolution_is_relu_then_weights_then_normalisation():
    cell = Cell(only("nor_conv_3x3", on=3), 4).train()
    x = features(4)

    y = cell(x)

    convolved = functional.conv2d(x.clamp(min=0), cell.layers[3].op[1].weight, padding=1)
    torch.testing.assert_close(y, functional.batch_norm(convolved, None, None, training=True))


def test_the_pool_averages_only_what_lies_inside_the_image():
    cell = Cell(only("avg_pool_3x3", on=3), 1)
    constant = torch.full((1, 1, 5, 5), 7.0)

    torch.testing.assert_close(cell(constant), constant)


def test_six_skips_give_four_times_the_input():
    x = features(4)

    torch.testing.assert_close(Cell(["skip_connect"] * 6, 4)(x), 4 * x)


def test_a_cell_of_none_ignores_the_image():
    network = small_network(["none"] * 6)

    a, b = network(features(3, size=32))

    torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_a_cell_of_none_still_trains_its_stem_with_zero_gradients():
    network = small_network(["none"] * 6)

    network(example_input(32)).sum().backward()

    assert all((parameter.grad == 0).all() for parameter in network.stem.parameters())


def test_the_residual_block_adds_a_pooled_shortcut_to_two_convolutions():
    block = ResidualBlock(4, 8).eval()
    x = features(4)

    y = block(x)

    shortcut = functional.conv2d(functional.avg_pool2d(x, 2), block.downsample[1].weight)
    torch.testing.assert_close(y, shortcut + block.conv_b(block.conv_a(x)))
    assert y.shape == (2, 8, 4, 4)


def test_three_stages_of_n_cells_double_the_channels_between_them():
    network = CellNetwork(EVERY_OPERATION, cells_per_stage=2, channels=8)

    kinds = [type(cell) for cell in network.cells]
    widths = [cell.layers[1].op[1].out_channels for cell in network.cells if type(cell) is Cell]

    assert kinds == [Cell, Cell, ResidualBlock, Cell, Cell, ResidualBlock, Cell, Cell]
    assert widths == [8, 8, 16, 16, 32, 32]


def test_parameters_have_the_names_of_the_authors_checkpoints():
    network = CellNetwork(EVERY_OPERATION)

    assert len(network.cells) == 17
    assert {
        "stem.0.weight",
        "stem.1.running_mean",
        "cells.0.layers.1.op.1.weight",
        "cells.0.layers.3.op.2.running_var",
        "cells.5.conv_a.op.1.weight",
        "cells.11.conv_b.op.2.bias",
        "cells.11.downsample.1.weight",
        "cells.16.layers.3.op.2.num_batches_tracked",
        "lastact.0.weight",
        "classifier.bias",
    } <= set(network.state_dict())


@pytest.mark.parametrize("size", [16, 32, 64])
def test_one_network_takes_images_of_any_size(size):
    assert small_network()(example_input(size, batch_size=2)).shape == (2, 10)


@pytest.mark.parametrize(
    ("more", "named"),
    [([], r"\b5 operations\b.*\b6\b"), (["max_pool_3x3"], r"'max_pool_3x3'.*\bskip_connect\b")],
)
def test_other_operations_are_refused(more, named):
    with pytest.raises(ValueError, match=named):
        CellNetwork([*EVERY_OPERATION[:5], *more])
