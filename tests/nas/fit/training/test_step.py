"""Tests of a training's steps: the memory layout that they compute in, and the batches that they read."""

import pytest
import torch
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.learners.opened import open_data
from nas.fit.training.recipe import RECIPES
from nas.fit.training.step import LearnerStep, Normalised, layout_for


@pytest.mark.parametrize(
    ("channels", "stride", "layout"),
    [
        (8, 1, torch.channels_last),
        (16, 2, torch.channels_last),
        (8, 2, torch.contiguous_format),
    ],
)
def test_no_narrow_shortcut_computes_with_channels_last_on_a_cpu(channels, stride, layout):
    """OneDNN would write past a buffer, and end the process where it is freed."""
    shortcut = nn.Conv2d(channels, 8, 1, stride)
    network = nn.Sequential(nn.Conv2d(3, channels, 3), shortcut, nn.Flatten())
    model = Normalised(network, (0.5,) * 3, (0.5,) * 3, torch.device("cpu"))
    seen = []
    shortcut.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(torch.zeros(3, 8, 8, 3, dtype=torch.uint8))
    assert seen[0].is_contiguous(memory_format=layout)


@pytest.mark.parametrize(
    ("pool", "device", "layout"),
    [
        (nn.AvgPool2d(3, 1, 1), "cuda", torch.contiguous_format),
        (nn.AvgPool2d((3, 2), 2), "cuda", torch.contiguous_format),
        (nn.AvgPool2d(2, 2), "cuda", torch.channels_last),
        (nn.AvgPool2d(3, 1, 1), "cpu", torch.channels_last),
    ],
)
def test_no_overlapping_pool_computes_with_channels_last_on_a_gpu(pool, device, layout):
    assert layout_for(nn.Sequential(pool), torch.device(device)) == layout


def test_a_captured_step_reads_copies_of_batches_of_one_shape():
    data = open_data("embedding:digits", side=8)
    device = torch.device("cpu")
    network = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    model = Normalised(network, None, None, device)
    step = LearnerStep(model, RECIPES["scenes"], data, steps=2, device=device, is_captured=True)
    first, second = ((torch.full((2, 3, 8, 8), value), torch.zeros(2)) for value in (1.0, 2.0))

    step.load(first)
    step.load(second)

    ((read, _), _), *_ = step._parts()
    assert torch.equal(read, second[0])
    assert torch.equal(first[0], torch.ones(2, 3, 8, 8))
    with pytest.raises(UserError, match="equal steps"):
        step.load(tuple(each[:1] for each in second))


class Views(torch.nn.Module):
    """A network that merges channels and sides by `view`, as many tutorials do."""

    def __init__(self):
        super().__init__()
        self.features, self.last = torch.nn.Conv2d(3, 8, 3, 2, 1), torch.nn.Linear(8 * 4 * 4, 2)

    def forward(self, images):
        features = self.features(images)
        return self.last(features.view(features.size(0), -1))


def test_a_network_that_views_its_feature_maps_runs_in_the_contiguous_format():
    network, pixels = Views(), torch.randint(256, (2, 8, 8, 3), dtype=torch.uint8)
    expected = network(((pixels / 255 - 0.5) / 0.5).permute(0, 3, 1, 2).contiguous())

    model = Normalised(network, (0.5,) * 3, (0.5,) * 3, torch.device("cpu"))
    model.choose_layout(pixels)

    assert network.features.weight.is_contiguous()
    assert torch.allclose(model(pixels), expected, atol=1e-5)
    assert model.training
