"""A user's network is trained for a step, cut and exported before anything is timed, and scaled as it was trained."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.data.open import open_images
from nas.fit.starts.elastic.loading import elastic_space
from nas.fit.starts.elastic.rehearsal import SCALINGS, choose_scaling, rehearse

CLASSES = 10


@pytest.fixture(scope="module")
def digits():
    return open_images("digits", side=16)


def features(channels=3):
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()
    )


class Net(nn.Module):
    """A network whose subclasses give their outputs in other forms."""

    def __init__(self, channels=3):
        super().__init__()
        self.features, self.last = features(channels), nn.Linear(32, CLASSES)

    def forward(self, images):
        return self.last(self.features(images).mean((2, 3)))


class Named(Net):
    def forward(self, images):
        maps = self.features(images)
        return {"logits": self.last(maps.mean((2, 3))), "maps": maps}


class InADictionary(Net):
    def forward(self, images):
        return {"logits": super().forward(images)}


class Auxiliary(Net):
    def __init__(self):
        super().__init__()
        self.auxiliary = nn.Linear(32, CLASSES)

    def forward(self, images):
        pooled = self.features(images).mean((2, 3))
        logits = self.last(pooled)
        return (logits, self.auxiliary(pooled)) if self.training else logits


class Pooled(Net):
    def forward(self, images):
        pooled = nn.functional.adaptive_avg_pool2d(self.features(images), 3)
        return self.last(pooled.mean((2, 3)))


class Untrainable(Net):
    def forward(self, images):
        if self.training:
            raise ValueError("no labels given")
        return super().forward(images)


@pytest.mark.parametrize(
    ("network", "hint"),
    [
        (Named(), r"network=Named.*\(images, classes\)"),
        (InADictionary(), "network=InADictionary returns its tensor in a dict"),
        (Auxiliary(), "network=Auxiliary returns 2 tensors in training"),
        (Pooled(), "network=Pooled.*ONNX"),
        (Net(channels=1), r"images of 1 channels, and images are read with 3 \(rgb\)"),
        (Untrainable(), "cannot be trained: no labels given"),
    ],
)
def test_what_would_fail_after_all_the_time_was_spent_is_one_line(network, hint, digits):
    space = elastic_space(network, side=16)

    with pytest.raises(UserError, match=hint):
        rehearse(space, digits)


class Attends(Net):
    def forward(self, images):
        tokens = self.features(images).flatten(2).transpose(1, 2)
        attended = nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)
        return self.last(attended.mean(1))


def test_a_network_that_needs_later_operators_of_onnx_is_rehearsed(digits):
    rehearse(elastic_space(Attends(), side=16), digits)


@pytest.fixture(scope="module")
def trained(digits):
    """A network trained on pixels / 255, as `transforms.ToTensor()` makes them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Net()
        pixels, labels = (torch.tensor(part) for part in (digits.train.pixels, digits.train.labels))
        images = pixels.permute(0, 3, 1, 2) / 255
        optimizer = torch.optim.AdamW(network.parameters(), 1e-2)
        for _ in range(8):
            for rows in torch.randperm(len(images)).split(64):
                optimizer.zero_grad()
                nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
                optimizer.step()
    return network.eval()


def test_a_network_is_scaled_as_it_was_trained(trained, digits):
    space = elastic_space(trained, side=16)

    sentence = choose_scaling(space, digits)

    mean, sd = space.pretrained_normalisation
    assert (mean, sd) == SCALINGS["mean=0 std=1 (pixels / 255)"]
    pixels = torch.tensor(digits.valid.pixels[:200]).permute(0, 3, 1, 2) / 255
    own = (trained(pixels).argmax(1) == torch.tensor(digits.valid.labels[:200])).float().mean()
    assert f"{own:.1%}" in sentence


def test_a_named_scaling_is_kept(trained, digits):
    space = elastic_space(trained, side=16)
    space.pretrained_normalisation = SCALINGS["mean=0.5 std=0.5 (-1 to 1)"]

    assert choose_scaling(space, digits) is None
    assert space.pretrained_normalisation == SCALINGS["mean=0.5 std=0.5 (-1 to 1)"]


def test_what_is_not_pruned_is_told():
    report = elastic_space(Attends(), side=16).report

    assert any("groups of channels can be pruned" in line for line in report)
    assert any(line.startswith("not pruned: ") for line in report)
