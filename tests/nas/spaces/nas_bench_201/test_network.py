"""An architecture becomes its network, and equal functions become equal networks."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from edgenas_core.inference.models.nas_bench_201 import CellNetwork
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

pytestmark = pytest.mark.usefixtures("one_thread")

numbers = st.integers(0, NAS_BENCH_201.size - 1)


def test_each_edge_runs_the_operation_that_its_choice_names():
    architecture = NAS_BENCH_201.parse(
        "|none~0|+|skip_connect~0|nor_conv_1x1~1|+|nor_conv_3x3~0|avg_pool_3x3~1|none~2|"
    )

    network = SPACE.network(architecture, TASKS["cifar10"])

    kinds = [type(layer).__name__ for layer in network.cells[0].layers]
    assert kinds == ["Zero", "Identity", "ReluConvBn", "ReluConvBn", "AvgPool2d", "Zero"]
    assert network.cells[0].layers[2].op[1].kernel_size == (1, 1)
    assert network.cells[0].layers[3].op[1].kernel_size == (3, 3)


def with_equal_kernels(architecture):
    """Its network, in which all convolutions of one shape have one kernel."""
    network = CellNetwork(
        NAS_BENCH_201.operations(architecture), cells_per_stage=1, channels=4
    ).double()
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                same = torch.Generator().manual_seed(0)
                module.weight.normal_(generator=same)
        network.classifier.bias.zero_()
    return network.eval()


@settings(max_examples=30, deadline=None)
@given(numbers, st.data())
def test_architectures_of_one_function_class_compute_the_same_once_kernels_are_equal(number, data):
    classes = NAS_BENCH_201.function_class
    others = np.flatnonzero(classes == classes[number])
    other = data.draw(st.sampled_from(others.tolist()))
    images = SPACE.example_input(SPACE.control(), TASKS["imagenet16"], 1).double()

    with torch.no_grad():
        a, b = (with_equal_kernels(NAS_BENCH_201.rows[i])(images) for i in (number, other))

    torch.testing.assert_close(a, b)
