"""The cost of an architecture is the cost of the network that it becomes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from nas.spaces.nas_bench_201 import costs as cost
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

numbers = st.integers(0, NAS_BENCH_201.size - 1)
datasets = st.sampled_from(list(TASKS.values()))


def shapes_only(number, dataset):
    """The network of an architecture without memory or arithmetic behind it."""
    with torch.device("meta"):
        return SPACE.network(NAS_BENCH_201.rows[number], dataset).eval()


@settings(max_examples=4, deadline=None)
@given(numbers, datasets)
def test_mflops_are_the_multiply_accumulates_that_torch_counts_and_the_classifiers_bias(
    number, dataset
):
    network = shapes_only(number, dataset)
    image = torch.empty(1, 3, dataset.image_side, dataset.image_side, device="meta")

    with FlopCounterMode(display=False) as counter:
        network(image)

    multiply_accumulates = counter.get_total_flops() / 2
    mflops = cost.mflops(NAS_BENCH_201.rows[number], dataset)
    assert mflops == pytest.approx((multiply_accumulates + dataset.num_classes) / 1e6, rel=1e-12)


@pytest.mark.parametrize("of", [cost.mflops, cost.parameters])
def test_one_more_convolution_never_costs_less(of):
    operations = ("none", "skip_connect", "avg_pool_3x3", "nor_conv_1x1", "nor_conv_3x3")
    rows = np.stack([NAS_BENCH_201.from_operations([name] + ["none"] * 5) for name in operations])

    free, _, _, small, large = costs = of(rows, TASKS["cifar10"])

    assert (costs[:3] == free).all()
    assert free < small < large
