"""Networks as people write them: wrapped, frozen, parametrised, with branches, in several files."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

from edgenas_core.files import python_file
from edgenas_core.types.errors import UserError
from nas.fit.starts.elastic.loading import elastic_space


def layer(inputs, outputs):
    convolution = nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())


def ending(channels):
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)


def plain():
    torch.manual_seed(0)
    return nn.Sequential(layer(3, 16), layer(16, 32), *ending(32))


def convolutions(network):
    return [each for each in network.modules() if isinstance(each, nn.Conv2d)]


def weight_normed():
    network = plain()
    for each in convolutions(network):
        nn.utils.parametrizations.weight_norm(each)
    return network


def weight_normed_by_hooks():
    network = plain()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in convolutions(network):
            nn.utils.weight_norm(each)
    return network


def masked():
    network = plain()
    for each in convolutions(network):
        prune.l1_unstructured(each, "weight", 0.5)
    return network


class ChangesItsInput(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = plain()

    def forward(self, images):
        return self.network(images.sub_(0.5).div_(0.25))


class TwoScales(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale1 = nn.Parameter(torch.ones(1, 16, 1, 1))
        self.scale2 = nn.Parameter(torch.ones(1, 32, 1, 1))
        self.first, self.second, self.end = (
            layer(3, 16),
            layer(16, 32),
            nn.Sequential(*ending(32)),
        )

    def forward(self, images):
        return self.end(self.second(self.first(images) * self.scale1) * self.scale2)


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(layer(3, 16), layer(16, 32))
        self.last = nn.Linear(32 * 8 * 8, 10)

    def forward(self, images):
        features = self.features(images)
        return self.last(features.view(features.size(0), -1))


class LayerOfTwoNames(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.again = layer(3, 16), nn.Sequential(layer(16, 16))
        self.same, self.end = self.again, nn.Sequential(layer(16, 32), *ending(32))

    def forward(self, images):
        return self.end(self.same(self.again(self.first(images))))


def lazy():
    torch.manual_seed(0)
    first = nn.LazyConv2d(16, 3, 2, 1), nn.LazyBatchNorm2d(), nn.ReLU()
    ending = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LazyLinear(10)
    return nn.Sequential(*first, layer(16, 32), *ending)


def test_a_layer_of_two_names_stays_one_layer():
    network = LayerOfTwoNames().eval()

    space = elastic_space(network, side=32)

    (task,) = space.tasks.values()
    small = space.network(space.smallest(), task)
    assert small.same is small.again
    assert all(isinstance(each.weight, nn.Parameter) for each in convolutions(space.whole))
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(space.network(space.largest, task)(images), network(images))
    supernet = space.supernet(task).eval()
    supernet.choose(space.smallest())
    example = space.example_input(space.smallest(), task, 2)
    torch.testing.assert_close(supernet(example), small(example))


def compiled():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.compile(plain())


@pytest.mark.parametrize(
    "build",
    [
        plain,
        lambda: nn.DataParallel(plain()),
        compiled,
        lambda: plain().requires_grad_(requires_grad=False),
        weight_normed,
        weight_normed_by_hooks,
        masked,
        ChangesItsInput,
        TwoScales,
        Views,
    ],
)
def test_a_network_is_cut_and_stays_as_it_was(build):
    network = build().train()
    before = {name: each.clone() for name, each in network.state_dict().items()}
    trainable = [each.requires_grad for each in network.parameters()]

    space = elastic_space(network, side=32)

    assert [max(each) for each in space.structure.widths] == [16, 32]
    (task,) = space.tasks.values()
    for row in space.sample(np.random.default_rng(0), 3):
        small = space.network(row, task)
        assert small(torch.randn(2, 3, *2 * [space.image_side(row, task)])).shape == (2, 10)
    assert network.training
    assert all(torch.equal(before[name], each) for name, each in network.state_dict().items())
    assert [each.requires_grad for each in network.parameters()] == trainable


def test_lazy_layers_take_their_shapes_from_the_images():
    assert len(elastic_space(lazy(), side=32).structure.groups) == 2


class ReturnsNothing(nn.Module):
    """Methods that set the mode, as people override them."""

    def __init__(self):
        super().__init__()
        self.network = plain()

    def train(self, mode=True):
        super().train(mode)
        self.network[0].eval()

    def eval(self):
        self.train(mode=False)

    def forward(self, images):
        return self.network(images)


def test_methods_that_set_the_mode_may_return_nothing():
    space = elastic_space(ReturnsNothing(), side=32)

    (task,) = space.tasks.values()
    small = space.network(space.smallest(), task).train()
    assert small.training
    assert not small.network[0].training
    assert not small.eval().training


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_other_numbers_are_trained_in_32_bits(kind):
    network = plain().to(kind)

    space = elastic_space(network, side=32)

    assert {each.dtype for each in space.whole.parameters()} == {torch.float32}
    assert {each.dtype for each in network.parameters()} == {kind}
    assert "are converted to float32" in space.notes[0]


class WithoutGradients(ReturnsNothing):
    @torch.no_grad()
    def forward(self, images):
        return self.network(images)


def test_a_network_that_computes_without_gradients_is_told_so():
    with pytest.raises(UserError, match=r"WithoutGradients computes without gradients"):
        elastic_space(WithoutGradients(), side=32)


class SpatialAttention(nn.Module):
    """CBAM's: a convolution of two maps, the mean and the largest of the channels."""

    def __init__(self):
        super().__init__()
        self.mask = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, maps):
        pooled = torch.cat([maps.mean(1, keepdim=True), maps.max(1, keepdim=True)[0]], 1)
        return maps * self.mask(pooled).sigmoid()


def test_maps_that_are_pooled_over_channels_are_no_fault():
    torch.manual_seed(0)
    network = nn.Sequential(layer(3, 16), SpatialAttention(), layer(16, 32), *ending(32))

    space = elastic_space(network, side=32)

    (task,) = space.tasks.values()
    small = space.network(space.smallest(), task)
    assert small(space.example_input(space.smallest(), task, 2)).shape == (2, 10)


def traced():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(plain().eval(), torch.randn(1, 3, 32, 32))


def without_values():
    with torch.device("meta"):
        return plain()


def not_finite():
    network = plain()
    network[0][0].weight.data[0] = torch.nan
    return network


def quantised():
    layers = nn.Flatten(), nn.Linear(3072, 32), nn.ReLU(), nn.Linear(32, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(nn.Sequential(*layers), {nn.Linear})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (traced, "its ONNX file"),
        (without_values, r"0\.0\.weight is on torch's device meta"),
        (not_finite, r"0\.0\.weight holds numbers that are not finite"),
        (quantised, "as of quantised layers"),
    ],
)
def test_what_cannot_be_trained_is_one_line_at_once(build, message):
    with pytest.raises(UserError, match=message):
        elastic_space(build(), side=32)


def test_a_lazy_layer_that_does_not_fit_its_input_is_one_line():
    network = nn.Sequential(nn.LazyConv2d(16, 3), nn.Conv2d(5, 8, 3), *ending(8))

    with pytest.raises(UserError, match="does not run on inputs of shape"):
        elastic_space(network, side=32)


def test_folded_weights_are_those_that_the_network_computed():
    images = torch.randn(2, 3, 32, 32)
    for network in (weight_normed(), weight_normed_by_hooks(), masked()):
        expected = network.eval()(images)

        space = elastic_space(network, side=32)

        assert torch.allclose(space.whole(images), expected, atol=1e-5)
        assert "2 layers are folded" in space.notes[0]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16))

    def forward(self, images, rate=None):
        return images + self.body(images) * (1 - (rate or 0))


class CalledWithMore(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.end = layer(3, 16), nn.Sequential(*ending(16))
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, images):
        features = self.stem(images)
        for number, block in enumerate(self.blocks):
            features = block(features, rate=0.1 * number)
        return self.end(features)


def test_a_block_that_gets_more_than_its_input_is_not_skipped():
    assert not elastic_space(CalledWithMore(), side=32).structure.stages


class Branches(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False), nn.BatchNorm2d(outputs))
            for _ in range(3)
        )
        self.one = None

    def forward(self, images):
        if self.one is not None:
            return self.one(images).relu()
        return sum(branch(images) for branch in self.branches).relu()

    def reparameterize(self):
        weight, bias = 0, 0
        for convolution, norm in self.branches:
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            weight = weight + convolution.weight * scale[:, None, None, None]
            bias = bias + norm.bias - norm.running_mean * scale
        self.one = nn.Conv2d(convolution.in_channels, convolution.out_channels, 3, 2, 1)
        self.one.weight.data, self.one.bias.data = weight, bias
        for parameter in self.parameters():
            parameter.detach_()
        self.branches = None


class WrongBranches(Branches):
    def reparameterize(self):
        super().reparameterize()
        self.one.bias.data += 1


def branched(kind):
    torch.manual_seed(0)
    return nn.Sequential(kind(3, 16), kind(16, 32), *ending(32)).eval()


def test_branches_are_merged_as_they_are_deployed():
    network, images = branched(Branches), torch.randn(2, 3, 32, 32)

    space = elastic_space(network, side=32)

    assert len(convolutions(space.whole)) == 2
    assert len(convolutions(network)) == 6
    assert torch.allclose(space.whole(images), network(images), atol=1e-5)
    assert all(each.requires_grad for each in space.whole.parameters())
    assert "merged by reparameterize()" in space.notes[0]


def test_branches_whose_merging_changes_the_outputs_stay():
    space = elastic_space(branched(WrongBranches), side=32)

    assert len(convolutions(space.whole)) == 6
    assert "changes the outputs" in space.notes[0]


@pytest.mark.parametrize("groups", [4, 16])
def test_whole_groups_of_a_group_norm_are_cut(groups):
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.GroupNorm(groups, 32), nn.ReLU())
    network = nn.Sequential(first, layer(32, 32), *ending(32))

    space = elastic_space(network, side=32)

    assert space.structure.groups[0].unit == 32 // groups
    (task,) = space.tasks.values()
    small = space.network(space.smallest(), task)
    assert small[0][1].num_groups == small[0][0].out_channels // (32 // groups)
    assert small(torch.randn(2, 3, 32, 32)).shape == (2, 10)


class Squeezes(nn.Module):
    def __init__(self):
        super().__init__()
        self.features, self.last = (
            nn.Sequential(layer(3, 16), nn.AdaptiveAvgPool2d(1)),
            nn.Linear(16, 10),
        )

    def forward(self, images):
        return self.last(self.features(images).squeeze())


def test_an_output_without_the_dimension_of_the_batch_is_refused():
    with pytest.raises(UserError, match=r"\(10,\), not \(1, 10\)"):
        elastic_space(Squeezes(), side=32)


def test_a_network_of_one_channel_is_analysed_with_one():
    space = elastic_space(nn.Sequential(layer(1, 16), layer(16, 32), *ending(32)), side=32)

    (task,) = space.tasks.values()
    assert task.channels == 1
    assert space.whole(torch.randn(2, 1, 32, 32)).shape == (2, 10)


@dataclass
class Answer:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.network = plain()

    def forward(self, images):
        return Answer(self.network(images))


def test_outputs_may_be_fields():
    assert len(elastic_space(Named(), side=32).structure.groups) == 2


def test_a_file_finds_modules_beside_it(tmp_path):
    (tmp_path / "layers_beside_it.py").write_text("from torch import nn\nWIDTH = 16\n")
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "from layers_beside_it import WIDTH\n"
        "def build():\n"
        "    torch.manual_seed(0)\n"
        "    return nn.Sequential(nn.Conv2d(3, WIDTH, 3), nn.ReLU(), nn.Conv2d(WIDTH, 16, 3),\n"
        "                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))\n"
    )

    assert len(elastic_space(f"{tmp_path}/net.py:build", side=32).structure.groups) == 2


def test_our_packages_are_never_taken_for_modules_beside_a_file():
    ours = {"nas", "controller", "rewards", "latency", "conf", "edgenas", "edgenas_core"}

    beside = python_file._modules_of(Path(python_file.__file__).parents[2])

    assert not ours & {module.__name__.partition(".")[0] for module in beside}


def without_counts(weights):
    return {name: each for name, each in weights.items() if "num_batches" not in name}


@pytest.mark.parametrize(
    ("saved", "note"),
    [
        (lambda weights: weights, None),
        (without_counts, None),
        (lambda weights: {f"_orig_mod.{name}": each for name, each in weights.items()}, "_orig_mod"),
        (
            lambda weights: {
                "state_dict": {f"model.{name}": each for name, each in weights.items()},
                "epoch": 1,
                "optimizer_states": [{"state": {0: torch.ones(3)}}],
            },
            "state_dict.model",
        ),
        (lambda weights: {"params": weights, "iteration": torch.tensor(7)}, "params"),
        (
            lambda weights: {
                "model": weights,
                "model_ema": {f"module.{name}": each + 1 for name, each in weights.items()},
            },
            "model",
        ),
        (lambda weights: {name: each.half() if each.is_floating_point() else each for name, each in weights.items()}, "float16"),
    ],
)  # fmt: skip
def test_checkpoints_of_many_forms_fill_the_network(tmp_path, saved, note):
    weights = {
        name: each + 0.5 if each.is_floating_point() else each
        for name, each in plain().state_dict().items()
    }
    torch.save(saved(weights), tmp_path / "best.pth")

    space = elastic_space(plain(), str(tmp_path / "best.pth"), side=32)

    loaded = space.whole.state_dict()
    for name, each in without_counts(weights).items():
        assert torch.allclose(loaded[name], each, atol=1e-2)
    assert note is None or any(note in each for each in space.notes)


def bad(weights, **changed):
    return {**weights, **changed}


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        (torch.ones(16).to(torch.float8_e4m3fn), "float8"),
        (torch.ones(16, dtype=torch.complex64), "complex64"),
        (torch.ones(16).to_sparse(), "sparse"),
        (torch.ones(16, device="meta"), "without values"),
        (torch.full((16,), torch.inf), "not finite"),
        (torch.ones(15), r"\(15,\)"),
    ],
)
def test_tensors_that_are_no_weights_are_refused_by_their_names(tmp_path, changed, hint):
    weights = plain().state_dict() | {"0.1.weight": changed}
    torch.save(weights, tmp_path / "bad.pth")

    with pytest.raises(UserError, match=rf"0\.1\.weight.*{hint}"):
        elastic_space(plain(), str(tmp_path / "bad.pth"), side=32)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\x80\x02}q\x00.", b"\x80\x02\x8c\xf0.", 50 * b"\x00"]
)
def test_damaged_checkpoints_are_one_line(tmp_path, content):
    (tmp_path / "damaged.pth").write_bytes(content)

    with pytest.raises(UserError, match=r"damaged\.pth") as caught:
        elastic_space(plain(), str(tmp_path / "damaged.pth"), side=32)

    assert "\n" not in str(caught.value)


def test_a_file_of_another_network_names_what_it_lacks(tmp_path):
    save_file({"stem.weight": torch.ones(3)}, tmp_path / "other.safetensors")

    with pytest.raises(UserError, match=r"lack 0\.0\.weight and \d+ others"):
        elastic_space(plain(), str(tmp_path / "other.safetensors"), side=32)
