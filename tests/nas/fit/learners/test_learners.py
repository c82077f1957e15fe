"""Learners: built-in ones of labelled images, and one's own."""

import itertools
import re
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import r2_score
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from edgenas_core.types.errors import UserError
from nas.fit.data.image_set import Images, ImageSet, Target
from nas.fit.data.open import open_images
from nas.fit.learners.base import LearnerDescription, Metric
from nas.fit.learners.data import LearnerData
from nas.fit.learners.functions import learner
from nas.fit.learners.of_images import learner_of
from nas.fit.learners.opened import open_data
from nas.fit.training.evaluation import metric_of
from nas.fit.training.recipe import RECIPES
from nas.fit.training.step import normalised_for
from nas.fit.training.trainer import DivergedTrainingError, TrainingOptions, train
from nas.spaces.registry import space_named

RECIPE = replace(RECIPES["from_scratch"], epochs=4, flip=False, lr=0.1)


@pytest.fixture(scope="module")
def digits():
    return open_images("digits", side=8)


def network_for(data, seed=0):
    space = space_named("residual")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return space.network(space.architectures(np.array(0)), data.task)


def strips_of(digits, rng):
    """Strips of three digits, of which each image's labels are those that it shows."""

    def strips(images, count):
        few = np.flatnonzero(images.labels < 3)
        chosen = rng.choice(few, (count, 3))
        pixels = images.pixels[chosen][:, :, ::2, ::2]  # three of 4 x 4 pixels
        strip = np.concatenate([np.moveaxis(pixels, 1, 0)[at] for at in range(3)], axis=2)
        canvas = np.zeros((count, 12, 12, 3), np.uint8)
        canvas[:, 4:8] = strip
        names = ["+".join(map(str, sorted(set(row)))) for row in images.labels[chosen].tolist()]
        return canvas, names

    parts = [strips(each, count) for each, count in ((digits.train, 600), (digits.valid, 100))]
    classes = tuple(sorted({name for _, names in parts for name in names}))
    train, valid = (
        Images(canvas, np.array([classes.index(name) for name in names])) for canvas, names in parts
    )
    return ImageSet(
        "strips", "Strips", classes, train, valid, valid, (0.3,) * 3, (0.3,) * 3, "0", ()
    )


class OwnLearner:
    """The digit's value, learnt by a learner of one's own."""

    def __init__(self, images, loss=None, value=None, batches=8):
        self.images, self._loss, self._value, self._count = images, loss, value, batches

    def batches(self, split):
        images = getattr(self.images, split)
        order = torch.randperm(len(images))[: 32 * self._count]
        for which in order.split(32):
            pixels = torch.from_numpy(np.array(images.pixels[which.numpy()])).float() / 255
            yield {"x": pixels.permute(0, 3, 1, 2), "y": torch.from_numpy(images.labels)[which]}

    def loss(self, network, batch):
        if callable(self._loss):
            return self._loss()
        if self._loss is not None:
            return self._loss
        return functional.mse_loss(network(batch["x"])[:, 0], batch["y"] / 9)

    def metric(self, network, batches):
        if self._value is not None:
            return Metric("closeness", self._value)
        each = [(network(b["x"])[:, 0] - b["y"] / 9).abs() for b in batches]
        return Metric("closeness", max(0.0, 1 - float(torch.cat(each).mean())))

    def example_input(self):
        return next(iter(self.batches("train")))["x"][:1]

    def describe(self):
        counts = (32 * self._count, 32 * self._count, 32 * self._count)
        return LearnerDescription(
            name="own", title="Own", outputs=1, metric="closeness", counts=counts
        )


@pytest.mark.parametrize("target", [Target.regression, Target.multilabel])
def test_tasks_of_labelled_images_are_learnt(digits, target):
    is_value = target is Target.regression
    few = replace(digits, train=Images(digits.train.pixels[:600], digits.train.labels[:600]))
    data = (few if is_value else strips_of(digits, np.random.default_rng(0))).learnt_as(target)
    network = network_for(data)

    trained = train(network, data, RECIPE, TrainingOptions(), device="cpu")

    metric = metric_of(network, data.valid, data, device="cpu")
    assert data.task.num_classes == (1 if is_value else 3)
    assert trained.accuracy == pytest.approx(metric.value)
    assert metric.name == data.metric
    assert metric.value > 0.5
    assert metric.interval[0] < metric.value < metric.interval[1]


def test_a_number_is_learnt_as_well_in_any_unit(digits):
    few = replace(digits, train=digits.train.first(400), valid=digits.valid.first(100))
    other = replace(few, classes=tuple(repr(1e-3 * float(name) + 273.15) for name in few.classes))
    values = []
    for images in (few, other):
        data = images.learnt_as(Target.regression)
        network = network_for(data)
        values.append(train(network, data, RECIPE, TrainingOptions(), device="cpu").accuracy)
        answers = normalised_for(data, network, torch.device("cpu"))(
            torch.from_numpy(np.array(data.valid.pixels))
        )[:, 0]
    truth = np.array([float(name) for name in other.classes])[other.valid.labels]

    assert values[1] == pytest.approx(values[0], abs=0.02)
    assert values[1] == pytest.approx(r2_score(truth, answers.detach().numpy()), abs=1e-3)


@pytest.mark.parametrize("answers", [[4.5] * 3, [30.0, -2.0, 5.0], [1.0, 2.0, 9.0]])
def test_r2_is_that_of_scikit_learn_on_the_split_at_hand(digits, answers):
    classes = ("1", "2", "9", "1000")  # a training value far from the others
    data = replace(
        digits, classes=classes, train=Images(digits.train.pixels[:4], np.arange(4))
    ).learnt_as(Target.regression)
    outputs, labels = torch.tensor(answers)[:, None], torch.arange(3)

    metric = learner_of(data).metric(nn.Identity(), [(outputs, labels)])

    assert metric.value == pytest.approx(r2_score([1, 2, 9], answers), abs=1e-3)


@pytest.mark.parametrize("name", ["1_5", "nan", "10%", "0,5", "inf", "x", "1e999", "\u0663"])
def test_only_plain_numbers_are_values(digits, name):
    classes = (*digits.classes[:-1], name)

    with pytest.raises(UserError, match=re.escape(repr(name))):
        replace(digits, classes=classes).learnt_as(Target.regression)


def test_one_value_cannot_be_learnt(digits):
    one = replace(digits, train=Images(digits.train.pixels[:4], np.full(4, 7)))

    with pytest.raises(UserError, match="value 7"):
        one.learnt_as(Target.regression)


def test_images_of_a_class_come_to_lie_together():
    data = open_data("embedding:digits", side=8)
    network = network_for(data)
    before = metric_of(network, data.valid, data, device="cpu")

    trained = train(network, data, RECIPE, TrainingOptions(), device="cpu")

    after = metric_of(network, data.valid, data, device="cpu")
    assert after.name == data.metric == "k-NN accuracy"
    assert trained.accuracy == after.value > max(0.9, before.value)
    assert after.interval[0] < after.value <= after.interval[1]


def test_the_neighbours_of_an_embedding_by_hand():
    learner = open_data("embedding:digits", side=8).learner
    angles = torch.tensor(
        [0.0, 0.1, 0.2, 2.0, 2.1, 2.2]
    )  # an image itself is none of its neighbours
    points = torch.stack([angles.cos(), angles.sin()], 1)

    metric = learner.metric(nn.Identity(), [(points, torch.tensor([0, 0, 0, 1, 1, 1]))])
    few_labels = torch.tensor([0, 0, 2, 1, 1, 2])
    few_points = torch.tensor(
        [[1.0, 0.0], [0.9, 0.1], [0.8, 0.4], [-1.0, 0.0], [-0.9, 0.1], [-0.8, 0.4]]
    )
    few = learner.metric(nn.Identity(), [(few_points, few_labels)])
    wrong = learner.metric(nn.Identity(), [(points[:4], torch.tensor([0, 1, 0, 1]))])
    loss = learner.loss(nn.Identity(), (points[:3], torch.tensor([0, 0, 1])))

    assert metric.value == 1  # of two neighbours both
    assert few.value == pytest.approx(4 / 6)  # of one neighbour: a 2 is far from the other
    assert wrong.value == 0
    cosines = torch.tensor([0.1, 0.2]).cos() * 10
    surprise = [-(cosines[:1] - cosines.logsumexp(0)), -(cosines[0] - cosines[[0, 0]].logsumexp(0))]
    assert loss.item() == pytest.approx(float(surprise[0] + surprise[1]) / 2)
    with pytest.raises(UserError, match="is alone"):
        learner.metric(nn.Identity(), [(points[:1], torch.tensor([0]))])


def test_findings_show_numbers_and_labels_of_the_test_images(digits):
    class Value(nn.Module):
        def __init__(self, outputs):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor(outputs))

        def forward(self, inputs):
            return self.weight.expand(len(inputs), -1)

    values = learner_of(digits.learnt_as(Target.regression)).findings(Value([4.0]))
    strips = strips_of(digits, np.random.default_rng(0)).learnt_as(Target.multilabel)
    labels = learner_of(strips).findings(Value([1.0, 1.0, -1.0]))

    assert values.values[0] == (float(digits.test.labels[0]), 4.0)
    assert values.pictures[0].caption == "9, answered 4"  # the furthest
    assert values.pictures[0].jpeg.startswith(b"\xff\xd8")
    assert [each.name for each in labels.classes] == ["0", "1", "2"]
    shares = [each.items / len(strips.test) for each in labels.classes]
    assert labels.classes[0].value == pytest.approx(2 * shares[0] / (1 + shares[0]))
    assert labels.classes[2].value == 0
    assert labels.pictures[0].caption == "2, answered 0+1"


def test_a_built_in_learner_gives_the_same_by_its_own_batches(digits):
    learner, network = learner_of(digits), network_for(digits).eval()

    by_batches = learner.metric(network, learner.batches("valid"))

    assert by_batches.value == metric_of(network, digits.valid, digits, device="cpu").value
    assert torch.isfinite(learner.loss(network, next(iter(learner.batches("train")))))


def test_a_learner_of_ones_own_is_trained_and_resumed_bit_by_bit(digits, tmp_path):
    data = LearnerData.checked(OwnLearner(digits))

    def trained(**options):
        network = network_for(data)
        result = train(network, data, RECIPE, TrainingOptions(**options), device="cpu")
        return network.state_dict(), result

    whole, result = trained()
    file = tmp_path / "checkpoint.safetensors"
    trained(checkpoint=file, stop=lambda: True)
    resumed, _ = trained(checkpoint=file)

    assert result.accuracy > 0.7
    assert result.losses[-1] < result.losses[0]
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("named", [False, True])
def test_every_item_of_a_data_loader_is_learnt_and_judged(size, named):
    items = [
        (Pair._make if named else tuple)((torch.full((1, 4, 4), each / 10), each))
        for each in range(10)
    ]
    judged = []

    def metric(_network, batches):
        judged.append(sum(len(y) for _, y in batches))
        return 0.5

    loaders = [DataLoader(items, batch_size=size, shuffle=True) for _ in range(2)]
    data = LearnerData.checked(
        learner(lambda net, b: net(b[0]).mean() - b[1].sum(), metric, *loaders)
    )

    train(
        nn.Sequential(nn.Flatten(), nn.Linear(16, 1)), data, RECIPE, TrainingOptions(), device="cpu"
    )

    assert judged[-1] == len(data.train) == len(data.valid) == 10
    assert len(data.inputs(4)) == 4


def test_the_first_batches_are_the_same_each_time(digits):
    first = LearnerData.checked(OwnLearner(digits)).train.first(40)

    batches, again = (list(first.batches(torch.device("cpu"))) for _ in range(2))

    assert len(batches) == 2
    assert all(torch.equal(a["x"], b["x"]) for a, b in zip(batches, again, strict=True))


@pytest.mark.parametrize(
    ("wrong", "error", "named"),
    [
        ({"loss": torch.tensor(float("nan"), requires_grad=True)}, DivergedTrainingError, "nan"),
        ({"loss": torch.ones(2, requires_grad=True)}, UserError, "(2,)"),
        ({"loss": 0.5}, UserError, "float"),
        ({"loss": lambda: 1 / 0}, UserError, "ZeroDivisionError"),
        ({"value": 1.5}, UserError, "1.5"),
        ({"value": float("nan")}, UserError, "nan"),
        ({"batches": 0}, UserError, "train"),
    ],
)
def test_what_a_learner_does_wrong_is_named(digits, wrong, error, named):
    def trained():
        data = LearnerData.checked(OwnLearner(digits, **wrong))
        train(network_for(data), data, RECIPE, TrainingOptions(), device="cpu")

    with pytest.raises(error, match=re.escape(named)):
        trained()


def test_an_object_without_the_methods_is_no_learner():
    with pytest.raises(UserError, match="batches, loss, metric, example_input, describe"):
        LearnerData.checked(nn.Identity())


@pytest.mark.parametrize(
    ("about", "named"),
    [
        ({"outputs": 10**9}, "outputs=1000000000"),
        ({"outputs": 0}, "outputs=0"),
        ({"counts": (3, -1, 0)}, "-1"),
    ],
)
def test_a_description_that_no_network_can_have_is_refused(digits, about, named):
    own = OwnLearner(digits)
    described = replace(own.describe(), **about)
    own.describe = lambda: described

    with pytest.raises(UserError, match=re.escape(named)):
        LearnerData.checked(own)


def test_batches_without_an_end_are_refused(digits, monkeypatch):
    own = OwnLearner(digits)
    (first,) = itertools.islice(own.batches("train"), 1)
    own.batches = lambda _split: itertools.repeat(first)
    data = LearnerData.checked(own)
    monkeypatch.setattr("nas.fit.learners.data._COUNTED_S", 0.01)

    with pytest.raises(UserError, match="they must end"):
        train(network_for(data), data, RECIPE, TrainingOptions(), device="cpu")
    with pytest.raises(UserError, match="has not ended"):
        LearnerData.checked(learner(own.loss, own.metric, itertools.repeat(first), [first]))


@pytest.mark.slow
def test_any_description_is_accepted_or_refused_in_one_line(digits):
    values = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.lists(st.integers())
    )
    names = st.sampled_from([field.name for field in fields(LearnerDescription)])
    own = OwnLearner(digits)

    @settings(max_examples=500, deadline=None)
    @given(st.dictionaries(names, values, min_size=1, max_size=3))
    def check(changes):
        described = OwnLearner(digits).describe()
        for name, value in changes.items():
            object.__setattr__(described, name, value)
        own.describe = lambda: described
        try:
            LearnerData.checked(own)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017 - both ways are right

    check()
