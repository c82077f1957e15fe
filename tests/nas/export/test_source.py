"""The text of `network.py`, compared with the network that it stands for."""

from __future__ import annotations

import ast

import pytest
import torch

from nas.export.network import IMAGES, initialise, outputs_of
from nas.export.searched import docstring
from nas.spaces.nas_bench_201.plugin import SPACE

pytestmark = pytest.mark.usefixtures("one_thread")

TASK = SPACE.tasks["cifar10"]
ARCHITECTURES = {
    "every operation, and one twice": "|nor_conv_3x3~0|+|none~0|avg_pool_3x3~1|+"
    "|skip_connect~0|nor_conv_1x1~1|nor_conv_1x1~2|",
    "no path": "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
    "each edge alone": "|skip_connect~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+"
    "|nor_conv_3x3~0|none~1|skip_connect~2|",
}


def test_an_untrained_output_depends_on_the_image_even_behind_45_convolutions():
    slowest = SPACE.from_operations(["nor_conv_3x3"] * 6)

    images = SPACE.example_input(slowest, TASK, IMAGES)

    outputs = outputs_of(initialise(SPACE, slowest, TASK), images)

    assert (outputs - outputs[0]).abs().max() > 0.01


def test_the_weights_are_the_same_each_time_and_leave_the_generator_of_others_alone():
    arch = SPACE.parse(ARCHITECTURES["no path"])
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)

    first, again = (initialise(SPACE, arch, TASK) for _ in range(2))

    assert torch.equal(torch.rand(3), expected)
    weights = [network.state_dict()["stem.0.weight"] for network in (first, again)]
    assert torch.equal(weights[0], weights[1])


@pytest.mark.parametrize(
    "hostile",
    [
        '"""\nimport os\nos.abort()\n"""',
        "\\",
        'ends in "',
        "\\N{",
        '\x00\r\nimport os\n"""',
        "\u2028",
    ],
)
def test_no_text_of_a_run_becomes_code(hostile):
    source = f"{docstring(['a network', hostile])}import torch\n"

    kinds = [type(statement).__name__ for statement in ast.parse(source).body]
    assert kinds == ["Expr", "Import"]
