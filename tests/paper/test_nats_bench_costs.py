"""FLOPs and parameters in the official NATS-Bench archive (Dong et al., TPAMI 2021), NATS-tss-v1_0.

`api.get_cost_info(index, dataset, hp="200")` of nats_bench 1.8; GitHub D-X-Y/NATS-Bench commit
1d4a304 holds cells 0, 11 and 284 of the archive in the open.
"""

import csv

import numpy as np
import pytest
import torch
from nats_bench import create

from nas.spaces.nas_bench_201 import costs as cost
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS

ARCHIVE_NAME = {
    TASKS["cifar10"]: "cifar10",
    TASKS["cifar100"]: "cifar100",
    TASKS["imagenet16"]: "ImageNet16-120",
}

PUBLISHED = [
    (0, TASKS["cifar10"], 15.64737, 0.129306),
    (0, TASKS["cifar100"], 15.65322, 0.135156),
    (0, TASKS["imagenet16"], 3.91948, 0.136456),
    (11, TASKS["cifar10"], 113.95137, 0.802426),
    (11, TASKS["cifar100"], 113.95722, 0.808276),
    (11, TASKS["imagenet16"], 28.49548, 0.809576),
    (284, TASKS["cifar10"], 11.71521, 0.101306),
    (284, TASKS["cifar100"], 11.72106, 0.107156),
    (284, TASKS["imagenet16"], 2.93644, 0.108456),
]


@pytest.mark.parametrize(("number", "dataset", "mflops", "million_parameters"), PUBLISHED)
def test_flops_and_parameters_of_the_open_cells(number, dataset, mflops, million_parameters):
    architecture = NAS_BENCH_201.rows[number]

    assert cost.mflops(architecture, dataset) == pytest.approx(mflops, rel=1e-12)
    assert cost.parameters(architecture, dataset) == round(million_parameters * 1e6)


@pytest.mark.parametrize(("number", "dataset", "_", "million_parameters"), PUBLISHED)
def test_parameters_of_the_torch_networks_of_the_open_cells(number, dataset, _, million_parameters):
    with torch.device("meta"):
        network = SPACE.network(NAS_BENCH_201.rows[number], dataset)

    count = sum(parameter.numel() for parameter in network.parameters())

    assert count == round(million_parameters * 1e6)


@pytest.mark.data
def test_the_numbers_above_are_the_archives(nas_data):
    api = create(str(nas_data / "raw/nats-tss-sample"), "tss", fast_mode=True, verbose=False)

    for number, dataset, mflops, million_parameters in PUBLISHED:
        info = api.get_cost_info(number, ARCHIVE_NAME[dataset], hp="200")

        assert (info["flops"], info["params"]) == pytest.approx((mflops, million_parameters))


@pytest.mark.data
@pytest.mark.parametrize("dataset", TASKS.values())
def test_flops_and_parameters_of_all_15625_cells(nas_data, dataset):
    with (nas_data / "nb201_accuracy.csv").open() as file:
        rows = list(csv.DictReader(file))
    mflops = np.array([float(row[f"{dataset.name}_mflops"]) for row in rows])
    parameters = np.array([int(row[f"{dataset.name}_params"]) for row in rows])

    architectures = NAS_BENCH_201.rows

    np.testing.assert_allclose(cost.mflops(architectures, dataset), mflops, rtol=1e-12)
    np.testing.assert_array_equal(cost.parameters(architectures, dataset), parameters)
