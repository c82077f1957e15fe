"""A program computes what the module computes, under every decomposition rule."""

from collections import Counter
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.fx.proxy import TraceError

from benchmarks.networks.alexnet import AlexNet
from benchmarks.networks.densenet import DenseLayer
from benchmarks.networks.vgg import VGG
from edgenas_core.inference.models.nas_bench_201 import Cell, ResidualBlock
from edgenas_core.inference.models.resnet import ResNet, ResNetBlock
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.program import NETWORK_INPUT, Inference
from edgenas_runtime.network.segment_kind import SegmentKind

pytestmark = pytest.mark.usefixtures("one_thread")


def run(module, x, rule=Rule.LAYER, **kwargs):
    with torch.inference_mode():
        return decompose(module, x, rule, **kwargs).run(x), module(x)


def on_meta(build):
    with torch.device("meta"):
        return build().eval(), torch.empty(1, 3, 224, 224)


@pytest.mark.parametrize("rule", [Rule.LAYER, Rule.UNFOLDED, Rule.WHOLE])
def test_single_layers_equal_the_module_bit_for_bit(network, rule):
    computed, plain = run(*network, rule)

    assert torch.equal(computed, plain)
    assert SegmentKind.OTHER not in decompose(*network).kinds


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("nas_bench_201", (Cell, ResidualBlock)),
        ("resnet18", (ResNetBlock,)),
        ("resnet50", (ResNetBlock,)),
        ("densenet121", (DenseLayer,)),
        ("vgg16", (nn.Sequential,)),
        ("alexnet", (nn.Sequential,)),
    ],
)
def test_cells_equal_the_module_bit_for_bit(networks, name, cells):
    computed, plain = run(*networks[name], Rule.CELL, cells=cells)

    assert torch.equal(computed, plain)


def test_folding_changes_rounding_only(network):
    module, x = network

    computed, exact = run(deepcopy(module).double(), x.double(), Rule.FUSED)
    single, plain = run(module, x, Rule.FUSED)

    torch.testing.assert_close(computed, exact, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(single, plain, rtol=1e-3, atol=1e-4)


def test_layers_have_names_and_known_kinds(networks):
    program = decompose(*networks["resnet18"])

    kinds = Counter(segment.kind for segment in program.segments)

    assert kinds[SegmentKind.CONV] == 20
    assert kinds[SegmentKind.NORM] == 20
    assert kinds[SegmentKind.ADD] == 8
    assert kinds[SegmentKind.POOL] == 2
    assert kinds[SegmentKind.LINEAR] == kinds[SegmentKind.RESHAPE] == 1
    assert program.segments[0].name == "conv1"
    assert {segment.name for segment in program.segments} >= {"layer2.0.downsample.1", "fc", "add"}


def test_normalisation_and_activation_fuse_with_their_convolution(networks):
    program = decompose(*networks["resnet18"], Rule.FUSED)

    kinds = Counter(segment.kind for segment in program.segments)

    # 5 identity shortcuts; of 17 activations, 8 follow a sum and serve two readers.
    assert kinds == {
        SegmentKind.CONV: 20,
        SegmentKind.ADD: 8,
        SegmentKind.ACT: 8,
        SegmentKind.IDENTITY: 5,
        SegmentKind.POOL: 2,
        SegmentKind.RESHAPE: 1,
        SegmentKind.LINEAR: 1,
    }


def test_leading_normalisation_and_activation_fuse_with_the_next_convolution(networks):
    program = decompose(*networks["nas_bench_201"], Rule.FUSED)

    kinds = Counter(segment.kind for segment in program.segments)

    assert kinds[SegmentKind.NORM] == 1  # before the global pool
    assert kinds[SegmentKind.ACT] == 0


def test_folding_leaves_the_module_alone():
    module = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)).eval()
    nn.init.uniform_(module[1].weight, 2.0, 3.0)
    before = {name: value.clone() for name, value in module.state_dict().items()}

    decompose(module, torch.zeros(1, 2, 4, 4), Rule.FUSED)

    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())


def test_a_convolution_with_two_readers_keeps_its_normalisation_apart():
    class TwoReaders(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 1)
            self.norm = nn.BatchNorm2d(2)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    program = decompose(TwoReaders().eval(), torch.zeros(1, 2, 3, 3), Rule.FUSED)

    assert [segment.kind for segment in program.segments] == [
        SegmentKind.CONV,
        SegmentKind.NORM,
        SegmentKind.ADD,
    ]


def test_cells_are_segments_between_single_layers(networks):
    module, x = networks["nas_bench_201"]

    program = decompose(module, x, Rule.CELL, cells=(Cell, ResidualBlock))

    assert [segment.name for segment in program.segments] == [
        "stem.0",
        "stem.1",
        *(f"cells.{i}" for i in range(5)),
        "lastact.0",
        "lastact.1",
        "global_pooling",
        "flatten",
        "classifier",
    ]
    assert [segment.kind for segment in program.segments[2:7]] == [SegmentKind.CELL] * 5
    assert program.segments[4].output_shape == (2, 8, 8, 8)
    assert program.segments[4].output_bytes == 4 * 2 * 8**3


def test_a_skip_connection_reads_the_segment_that_computes_it(networks):
    program = decompose(*networks["resnet18"])

    inputs = {segment.name: segment.inputs for segment in program.segments}
    index = {segment.name: i for i, segment in enumerate(program.segments)}

    assert inputs["conv1"] == (NETWORK_INPUT,)
    assert set(inputs["add_2"]) == {
        index["layer2.0.bn2"],
        index["layer2.0.downsample.1"],
    }


def test_a_value_is_dropped_after_its_last_use(network):
    module, x = network
    program = decompose(module, x)
    needed_at = {
        value: max((i for i, s in enumerate(program.segments) if value in s.inputs), default=value)
        for value in range(NETWORK_INPUT, len(program))
    }
    inference = Inference(program, x)

    for i in range(len(program)):
        inference.step()
        assert {*inference._values} == {
            value
            for value in range(NETWORK_INPUT, i + 1)
            if needed_at[value] > i or value == program.output
        }


@pytest.mark.parametrize(
    ("build", "published_gmacs"),
    [(AlexNet, 0.71), (VGG, 15.47), (lambda: ResNet(18), 1.81), (lambda: ResNet(50), 4.09)],
)
@pytest.mark.parametrize("rule", [Rule.LAYER, Rule.FUSED, Rule.WHOLE])
def test_flops_equal_torchvisions_table(build, published_gmacs, rule):
    program = decompose(*on_meta(build), rule)

    gmacs = sum(segment.flops for segment in program.segments) / 2e9

    assert gmacs == pytest.approx(published_gmacs, abs=0.011)  # it prints two digits


def test_weights_are_counted_once_per_segment():
    module, x = on_meta(VGG)

    program = decompose(module, x)

    assert sum(segment.weight_bytes for segment in program.segments) == 4 * 138_357_544


def test_decomposition_leaves_the_module_unchanged():
    class Shifting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            return self.layer(x) + torch.ones(8) + torch.full((8,), 2.0)

    module, x = nn.Sequential(Shifting(), Shifting()).eval(), torch.randn(2, 8)
    before = [{*vars(part)} for part in module.modules()]
    programs = [decompose(module, x) for _ in range(2)]
    assert [{*vars(part)} for part in module.modules()] == before
    names = [
        [name for segment in one.segments for name, _ in segment.body.named_buffers()]
        for one in programs
    ]
    assert names[0] == names[1]
    assert len(names[0]) == 4
    with torch.no_grad():
        assert torch.equal(programs[0].run(x), module(x))


class Shuffle(nn.Module):
    """Sizes and views are computed where they are read."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, x):
        n, c = x.shape[0], x.size(1)
        a, b = torch.relu(x).chunk(2, dim=1)
        return torch.cat([b, a], 1).view(n, c, -1) * self.scale


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.conv(x)
        z = self.relu(y)
        return z + y  # y was changed under its reader's hands


class Masked(nn.Module):
    """A buffer is sliced to the length of the input."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("mask", torch.tril(torch.ones(16, 16, dtype=torch.bool)))

    def forward(self, x):
        length = x.shape[1]
        weights = x @ x.transpose(1, 2)
        return self.layer(weights.masked_fill(~self.mask[:length, :length], 0.0) @ x)


class Branches(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


TWICE = nn.Linear(3, 3)
WITHOUT_STATISTICS = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3, track_running_stats=False))


@pytest.mark.parametrize(
    ("module", "shape", "rule", "segments"),
    [
        (Shuffle(), (2, 4, 3, 3), Rule.LAYER, None),
        (InPlace(), (2, 2, 3, 3), Rule.LAYER, 3),
        (InPlace(), (2, 2, 3, 3), Rule.FUSED, 3),
        (Masked(), (2, 5, 8), Rule.LAYER, None),
        (nn.Sequential(TWICE, TWICE), (2, 3), Rule.LAYER, 2),
        (WITHOUT_STATISTICS, (4, 2, 5, 5), Rule.FUSED, 1),  # not folded
        (Branches(), (2,), Rule.WHOLE, 1),
        (VGG(11, width=2, num_classes=7), (1, 3, 32, 32), Rule.FUSED, None),  # nothing to fold
    ],
)
def test_modules_of_any_form_equal_their_program_bit_for_bit(module, shape, rule, segments):
    x = torch.randn(shape)

    computed, plain = run(module.eval(), x, rule)

    assert torch.equal(computed, plain)
    assert segments in {None, len(decompose(module, x, rule))}


def test_control_flow_on_values_cannot_be_traced():
    with pytest.raises(TraceError):
        decompose(Branches().eval(), torch.ones(2))


class Wrapped(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


TWO_OUTPUTS = Wrapped(lambda x: (x + 1, x))


@pytest.mark.parametrize(
    ("module", "arguments", "named"),
    [
        (nn.Sequential(nn.Dropout()), {}, r"\.eval\(\)"),
        (
            nn.ReLU().eval(),
            {"rule": Rule.CELL, "cells": (Cell, ResNetBlock)},
            r"\bCell\b.*\bResNetBlock\b",
        ),
        (nn.ReLU().eval(), {"rule": Rule.CELL}, "cells="),
        (nn.ReLU().eval(), {"rule": Rule.WHOLE, "cells": (Cell,)}, "cells="),
        (TWO_OUTPUTS.eval(), {"rule": Rule.LAYER}, "one computed tensor"),
        (TWO_OUTPUTS.eval(), {"rule": Rule.WHOLE}, "tuple"),
        (nn.Bilinear(1, 1, 1).eval(), {}, "2 inputs"),
        (nn.Sequential(nn.LSTM(2, 2), nn.Identity()).eval(), {}, r"layer 0\b.*\btuple"),
    ],
)
def test_what_has_no_segments_is_refused(module, arguments, named):
    with pytest.raises(ValueError, match=named):
        decompose(module, torch.zeros(1, 1, 2), **arguments)
