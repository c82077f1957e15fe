"""RAM and flash of networks, against the interpreter of TFLite Micro and files of litert-torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from nas.spaces.base import ChoiceSpace
from nas.spaces.nas_bench_201.plugin import SPACE as NAS_BENCH_201
from nas.spaces.residual import SPACE as RESIDUAL
from nas.spaces.residual import _Block
from nas.spaces.traced_operations import operations_of

REPORTED = [  # python -m benchmarks.microcontroller: arena and file
    (RESIDUAL, "stride=1 kernel=3 width=16 growth=1.0 blocks=4 kind=residual", 57_584, 30_048),
    (RESIDUAL, "stride=2 kernel=3 width=16 growth=1.5 blocks=3 kind=residual", 19_616, 46_096),
    (RESIDUAL, "stride=2 kernel=5 width=8 growth=1.0 blocks=9 kind=residual", 19_008, 43_432),
    (
        NAS_BENCH_201,
        "|nor_conv_1x1~0|+|avg_pool_3x3~0|none~1|+|avg_pool_3x3~0|skip_connect~1|nor_conv_1x1~2|",
        116_672,
        198_264,
    ),
]


def narrow(task, widths, depths):
    """ResNet-8 of MLPerf Tiny with other widths and numbers of blocks; (16, 32, 64), (1, 1, 1) is its own."""
    layers = [nn.Conv2d(task.channels, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU()]  # fmt: skip
    inputs = widths[0]
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        for block in range(depth):
            layers.append(_Block(inputs, width, 3, 1 + (stage > 0 and block == 0)))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, task.num_classes))  # fmt: skip


@pytest.mark.parametrize(("space", "text", "arena", "file"), REPORTED)
def test_memory_is_that_of_the_file_and_its_interpreter(space, text, arena, file):
    task = space.tasks[space.default_task]

    ram, flash = space.memories(space.parse(text)[None], task)[0]

    assert arena <= ram <= 1.02 * arena
    assert flash == pytest.approx(file, rel=0.01)


def test_arrays_of_channels_that_are_no_multiple_of_four_are_aligned():
    task = RESIDUAL.tasks[RESIDUAL.default_task]
    images = torch.zeros(1, 3, 32, 32)

    graph = operations_of(lambda: narrow(task, (14, 32, 32), (1, 2, 2)), images).converted()

    ram, flash = graph.memory()
    assert 55_424 <= ram <= 1.001 * 55_424
    assert flash == pytest.approx(90_696, rel=0.001)


def test_memory_computed_from_layers_is_that_of_the_whole_network():
    task = NAS_BENCH_201.tasks[NAS_BENCH_201.default_task]
    row = NAS_BENCH_201.sample(np.random.default_rng(5), 1)[0]

    computed = NAS_BENCH_201.memory(row, task)

    (whole,) = ChoiceSpace.micro_graphs(NAS_BENCH_201, row, task)
    assert computed == pytest.approx(whole.memory(), rel=1e-3)
    work = NAS_BENCH_201.micro_work(row, task, 50_000.0)
    for name in ("products", "activations", "parameters"):
        assert work[name] == pytest.approx(whole.work()[name], rel=2e-3)


def test_an_operation_that_is_not_quantised_takes_four_bytes_an_element():
    def graph(activation):
        layers = nn.Conv2d(3, 8, 3, padding=1), activation, nn.Conv2d(8, 8, 1)
        return operations_of(lambda: nn.Sequential(*layers), torch.zeros(1, 3, 8, 8)).converted()

    in_int8, in_fp32 = graph(nn.ReLU()), graph(nn.LeakyReLU())

    assert [operation.kind for operation in in_int8.operations] == ["CONV_2D", "CONV_2D"]
    assert in_fp32.operations[1].kind == "DEQUANTIZE"
    assert in_fp32.activations() == 4 * in_int8.activations() == 2 * 4 * 512
