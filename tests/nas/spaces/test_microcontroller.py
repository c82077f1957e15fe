"""RAM and flash of networks, against the interpreter of TFLite Micro and files of litert-torch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from edgenas_core.types.errors import UserError
from nas.config.limits import limits_of
from nas.fit.starts.elastic.loading import elastic_space
from nas.spaces.base import ChoiceSpace
from nas.spaces.microcontroller import IMAGE, MicroGraph, split_ram, work_of
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
    (  # convolutions and a pool of a node that nothing reaches, each kind with zeros of its own
        NAS_BENCH_201,
        "|none~0|+|none~0|nor_conv_3x3~1|+|nor_conv_1x1~0|avg_pool_3x3~1|avg_pool_3x3~2|",
        114_048,
        468_576,
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
    assert file <= flash <= 1.02 * file


def test_arrays_of_channels_that_are_no_multiple_of_four_are_aligned():
    task = RESIDUAL.tasks[RESIDUAL.default_task]
    images = torch.zeros(1, 3, 32, 32)

    graph = operations_of(lambda: narrow(task, (14, 32, 32), (1, 2, 2)), images).converted()

    ram, flash = graph.memory()
    assert 55_424 <= ram <= 1.001 * 55_424
    assert 90_696 <= flash <= 1.02 * 90_696


def test_memory_computed_from_layers_is_that_of_the_whole_network():
    task = NAS_BENCH_201.tasks[NAS_BENCH_201.default_task]
    row = NAS_BENCH_201.sample(np.random.default_rng(5), 1)[0]

    computed = NAS_BENCH_201.memory(row, task)

    (whole,) = ChoiceSpace.micro_graphs(NAS_BENCH_201, row, task)
    assert computed == pytest.approx(whole.memory(), rel=1e-3)
    work = NAS_BENCH_201.micro_work(row, task, 50_000.0)
    for name in ("products", "activations", "parameters"):
        assert work[name] == pytest.approx(whole.work()[name], rel=2e-3)


def test_zeros_that_a_convolution_reads_are_counted_once_wherever_the_graph_comes_from():
    task = NAS_BENCH_201.tasks[NAS_BENCH_201.default_task]
    text = "|none~0|+|none~0|nor_conv_3x3~1|+|none~0|none~1|avg_pool_3x3~2|"
    row = NAS_BENCH_201.parse(text)

    _, flash = NAS_BENCH_201.memory(row, task)

    image = NAS_BENCH_201.example_input(row, task, 1)
    traced = operations_of(lambda: NAS_BENCH_201.network(row, task), image).converted()
    assert 53_800 <= flash <= 1.01 * 53_800  # of the file, by benchmarks.microcontroller
    assert traced.memory()[1] == flash


def test_a_network_of_ones_own_is_copied_after_its_memory_was_counted():
    layers = (
        nn.Conv2d(3, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 10, 3, 2, 1),
        nn.AdaptiveAvgPool2d(1),
    )
    space = elastic_space(nn.Sequential(*layers, nn.Flatten()), side=16)
    row, task = space.largest, space.tasks[space.default_task]
    counted = space.memories(row, task)

    copied = copy.deepcopy(space)

    np.testing.assert_array_equal(copied.memories(row, task), counted)


def test_an_operation_that_is_not_quantised_takes_four_bytes_an_element():
    def graph(activation):
        layers = nn.Conv2d(3, 8, 3, padding=1), activation, nn.Conv2d(8, 8, 1)
        return operations_of(lambda: nn.Sequential(*layers), torch.zeros(1, 3, 8, 8)).converted()

    in_int8, in_fp32 = graph(nn.ReLU()), graph(nn.ELU())

    assert [operation.kind for operation in in_int8.operations] == ["CONV_2D", "CONV_2D"]
    assert in_fp32.operations[1].kind == "DEQUANTIZE"
    assert in_fp32.activations() == 4 * in_int8.activations() == 2 * 4 * 512


@pytest.mark.parametrize(
    ("activation", "kinds"),
    [(nn.LeakyReLU(0.1), ["RELU", "MUL", "SUB"]), (nn.PReLU(8), ["RELU", "MUL", "MUL", "SUB"])],
)
def test_leaky_relus_are_counted_as_the_operations_that_the_quantiser_knows(activation, kinds):
    layers = nn.Conv2d(3, 8, 3, padding=1), activation, nn.Conv2d(8, 8, 1)

    graph = operations_of(lambda: nn.Sequential(*layers), torch.zeros(1, 3, 8, 8)).converted()

    counted = [operation.kind for operation in graph.operations]
    assert counted == ["CONV_2D", *kinds, "CONV_2D"]


def test_the_largest_activations_at_the_busiest_operation_spill_and_no_others():
    graph = MicroGraph(1600)
    wide = graph.add("CONV_2D", IMAGE, elements=6400, weights=9, channels=4, kernel=9)
    narrow = graph.add("CONV_2D", wide, elements=800, weights=9, channels=4)
    graph.add("ADD", narrow, narrow, elements=800)

    alone, fast, slow = graph.memory()[0], *split_ram([graph], 7000.0)

    assert graph.spilled(8000.0) == {}
    assert graph.spilled(4000.0) == {wide: 6400}
    assert fast <= 7000 < alone
    assert slow == 6400
    # The time counts what the memories count: kernels keep a part of the fast one, too.
    assert work_of([graph], 7000.0)["spilled"] == slow / 1e6
    assert work_of([graph], float(alone))["spilled"] == 0


def test_in_cube_ai_a_pointwise_convolution_lies_over_an_input_that_is_read_no_more():
    graph = MicroGraph(160)
    first = graph.add("CONV_2D", IMAGE, elements=640, weights=9, channels=4, kernel=9)
    wide = graph.add("CONV_2D", first, elements=1280, weights=16, channels=8)
    graph.add("DEPTHWISE_CONV_2D", wide, elements=320, weights=72, channels=8, kernel=9)

    assert graph.activations_in_cube_ai() == 1280 + 320
    assert graph.activations() == 1280 + 640


def test_two_memories_limit_the_sum_where_each_holds_its_part():
    task = RESIDUAL.tasks[RESIDUAL.default_task]
    rows = RESIDUAL.sample(np.random.default_rng(3), 12)

    def kilobytes(text):
        (limit,) = limits_of(None, None, "here", RESIDUAL, task, memory={"RAM": text}).each
        return limit.cost_of(rows), limit

    alone, _ = kilobytes("32kB")
    both, limit = kilobytes("32kB+16kB")
    split = RESIDUAL.split_memories(rows, task, 32e3)

    assert str(limit) == "RAM = 32 kB + 16 kB"
    np.testing.assert_array_equal(both[alone <= 32], alone[alone <= 32])
    holds = (split[:, 0] <= 32e3) & (split[:, 1] <= 16e3)
    np.testing.assert_array_equal(both <= 48, holds)
    assert holds.sum() > (alone <= 32).sum()
    with pytest.raises(UserError, match="has 3 memories"):
        kilobytes("1kB+2kB+3kB")
    with pytest.raises(UserError, match=r"=256kB\+ is not a size"):
        kilobytes("256kB+")
