"""Fine-tuning: frozen features, the classifier that it begins with, and what it changes."""

from dataclasses import replace
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch import nn

from nas.fit.data.image_set import Images
from nas.fit.data.open import open_images
from nas.fit.starts.fine_tuning.frozen import frozen_features, frozen_result, pixel_accuracy
from nas.fit.starts.fine_tuning.tuning import absorb_statistics, freeze, set_classifier
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trainer import train
from nas.fit.training.trial import proxy_batch

pytestmark = pytest.mark.usefixtures("one_thread")


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


def test_absorbing_statistics_leaves_the_outputs_as_they_are():
    tested, images = network().eval(), torch.randn(16, 3, 8, 8)
    tested[2] = nn.BatchNorm2d(8, affine=False, track_running_stats=False)
    before = tested(images)

    absorb_statistics(tested, images)

    assert torch.allclose(tested(images), before, atol=1e-5)
    assert not torch.equal(tested[1].running_mean, torch.zeros(8))


def test_features_that_tell_the_classes_apart_are_worth_more_than_noise():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=300)
    noise = generator.normal(size=(300, 20)).astype(np.float32)
    telling = noise + 2 * np.eye(20, dtype=np.float32)[labels]
    worth = [
        frozen_result((x[:200], labels[:200]), (x[200:], labels[200:]), 3) for x in (noise, telling)
    ]

    assert worth[0].left_out < 0.5 < worth[1].left_out
    logits = telling[200:] @ worth[1].weight.T + worth[1].bias
    assert (logits.argmax(1) == labels[200:]).mean() > 0.5


def test_pixels_tell_digits_apart_and_noise_does_not():
    digits = open_images("digits", side=8).train
    noise = np.random.default_rng(0).integers(0, 256, (400, 40, 40, 3), np.uint8)

    assert pixel_accuracy(digits) > 0.9
    assert pixel_accuracy(Images(noise, np.arange(400) % 4)) == pytest.approx(0.25, abs=0.1)


def test_naming_the_frequent_class_is_worth_no_more_than_chance():
    generator = np.random.default_rng(0)
    labels = np.repeat([0, 1], [270, 30])[generator.permutation(300)]
    noise = generator.normal(size=(300, 20)).astype(np.float32)

    worth = frozen_result((noise[:200], labels[:200]), (noise[200:], labels[200:]), 2)

    assert worth.left_out == pytest.approx(0.5, abs=0.1)


def test_a_feature_that_is_almost_constant_does_not_rule_on_other_images():
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=300)
    features = generator.normal(size=(300, 20)).astype(np.float32)
    features[:200, 0] = 1e-3 * (labels[:200] == 0)

    result = frozen_result((features[:200], labels[:200]), (features[200:], labels[200:]), 3)

    assert np.abs(result.weight[:, 0]).max() < 1


def test_features_of_a_handful_of_images_are_judged():
    labels = np.array([0, 1, 0, 1])
    features = np.eye(4, dtype=np.float32)

    worth = frozen_result((features[:2], labels[:2]), (features[2:], labels[2:]), 2)

    assert 0 <= worth.left_out <= 1


class Averaged(nn.Module):
    """Two classifiers, each behind a normalisation, as of RepViT and LeViT."""

    pretrained_cfg = MappingProxyType({"classifier": ("first.1", "second.1")})

    def __init__(self):
        super().__init__()
        self.body = network()[:5]
        self.first, self.second = (
            nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 10)) for _ in range(2)
        )
        self.second[0].running_mean += 1

    def forward(self, images):
        features = self.body(images)
        return (self.first(features) + self.second(features)) / 2


def test_a_network_begins_with_what_its_frozen_features_were_worth():
    tested, images = Averaged(), open_images("digits", side=8)
    parts = [images.train.first(300), images.valid.first(100)]
    features = frozen_features(tested, parts, images, torch.device("cpu"))
    fitted = frozen_result(
        *((values, part.labels) for values, part in zip(features, parts, strict=True)), 10
    )

    set_classifier(tested, fitted.weight, fitted.bias)
    batch = proxy_batch(images, 64)
    absorb_statistics(tested, batch)
    freeze(tested, {"first.1.weight", "second.1.weight"})

    logits = torch.from_numpy(features[0][:64] @ fitted.weight.T + fitted.bias)
    assert fitted.left_out > 0.3
    with torch.no_grad():
        assert torch.allclose(tested.train()(batch), logits, atol=1e-3)
        assert torch.allclose(tested.eval()(batch), logits, atol=1e-3)


@pytest.mark.parametrize(("tuned", "trains"), [(("1.weight", "1.bias"), True), ((), False)])
def test_statistics_without_parameters_are_frozen_unless_everything_is_tuned(tuned, trains):
    tested = nn.Sequential(nn.BatchNorm2d(3, affine=False), nn.Conv2d(3, 4, 1))

    freeze(tested, tuned)

    assert tested.train()[0].training is trains


def test_a_training_of_the_head_changes_nothing_else():
    images, tested = open_images("digits", side=8), network()
    freeze(tested, {"5.weight", "5.bias"})
    before = {name: tensor.clone() for name, tensor in tested.state_dict().items()}

    train(tested, images, replace(recipe_named("fine_tuning"), epochs=1))

    after = tested.state_dict()
    changed = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    assert changed == {"5.weight", "5.bias"}


@pytest.mark.parametrize("keeps", [True, False])
def test_statistics_stay_in_training_where_they_are_kept(keeps):
    images, tested = open_images("digits", side=8), network()
    freeze(tested, {name for name, _ in tested.named_parameters()}, keeps_statistics=keeps)
    before = {name: tensor.clone() for name, tensor in tested.state_dict().items()}

    train(tested, images, replace(recipe_named("fine_tuning"), epochs=1))

    after = tested.state_dict()
    changed = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    assert {name for name, _ in tested.named_parameters()} <= changed
    assert any("running_mean" in name for name in changed) is not keeps


def test_the_first_classifier_is_no_surer_than_left_out_images_warrant():
    generator = np.random.default_rng(0)
    labels = generator.integers(5, size=600)
    features = generator.normal(size=(600, 400)).astype(np.float32)
    features[:, :5] += np.eye(5, dtype=np.float32)[labels]

    layer = frozen_result((features[:300], labels[:300]), (features[300:], labels[300:]), 5)

    logits = torch.from_numpy(features[300:] @ layer.weight.T + layer.bias)
    surprise = nn.functional.cross_entropy(logits, torch.from_numpy(labels[300:]))
    assert surprise < np.log(5)  # a layer that knows nothing
