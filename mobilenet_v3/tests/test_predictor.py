"""`accuracy=ofa`: the published predictor, read without executing it."""

import pickle

import numpy as np
import pytest
import torch

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.plugin import NARROW, SPACE
from edgenas_mobilenet_v3.predictor import FITTED_SIDES, OfaAccuracyConfig, encoded
from edgenas_mobilenet_v3.space import FORM
from nas.accuracy.base import Split

IMAGENET = SPACE.tasks["imagenet"]
SHAPES = {
    f"{2 * layer}.{part}": shape
    for layer, (inputs, outputs) in enumerate([(128, 400), (400, 400), (400, 400), (400, 1)])
    for part, shape in (("weight", (outputs, inputs)), ("bias", (outputs,)))
}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    (tmp_path / "mobilenet_v3" / "raw").mkdir(parents=True)
    return tmp_path / "mobilenet_v3" / "raw" / "ofa_acc_predictor.pth"


def write(path, state=None):
    generator = torch.Generator().manual_seed(0)
    random = {
        name: 0.05 * torch.randn(shape, generator=generator) for name, shape in SHAPES.items()
    }
    state = random if state is None else state
    torch.save(state, path)
    return random


def build(space=SPACE, task=IMAGENET, split=Split.auto):
    return OfaAccuracyConfig().build(space, task, split, 200)


def on_sides(*sides):
    return np.stack([SPACE.parse(FORM.replace("r224", f"r{side}")) for side in sides])


def test_it_computes_what_the_published_layers_compute(path):
    state = write(path)
    layers = torch.nn.Sequential(
        torch.nn.Linear(128, 400),
        torch.nn.ReLU(),
        torch.nn.Linear(400, 400),
        torch.nn.ReLU(),
        torch.nn.Linear(400, 400),
        torch.nn.ReLU(),
        torch.nn.Linear(400, 1),
    )
    layers.load_state_dict(state)
    rows = on_sides(*FITTED_SIDES)

    answered = build().answer(rows)

    with torch.no_grad():
        expected = layers(torch.from_numpy(encoded(rows, np.arange(5))))[:, 0].numpy()
    np.testing.assert_allclose(answered.fraction, expected, atol=1e-5)
    assert (answered.kind == Kind.surrogate).all()


def test_the_inputs_are_one_hot_and_a_block_that_is_off_has_none():
    (row,) = encoded(SPACE.parse(FORM)[None], np.array([4]))

    blocks = sum(stage.count("k") for stage in FORM.split()[1:])
    assert row.sum() == 2 * blocks + 1
    # first block: kernel 3, expansion 6; the third of stage 1 is off; the side is the last input
    np.testing.assert_array_equal(row[:3], [1, 0, 0])
    np.testing.assert_array_equal(row[60:63], [0, 0, 1])
    assert not row[6:12].any()
    np.testing.assert_array_equal(row[120:], [0, 0, 0, 0, 0, 0, 0, 1])


def test_sides_between_the_fitted_ones_are_interpolated(path):
    write(path)

    low, between, high = build().answer(on_sides(192, 196, 208)).fraction

    assert between == pytest.approx(0.75 * low + 0.25 * high)


def test_weights_of_sides_that_it_was_not_fitted_on_do_not_matter(path):
    state = write(path)
    before = build().answer(on_sides(128, 144, 160)).fraction
    state["0.weight"][:, 120:123] = 100.0
    write(path, state)

    np.testing.assert_array_equal(build().answer(on_sides(128, 144, 160)).fraction, before)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ({"0.weight": torch.zeros(1)}, r"no finite tensor '0\.weight'"),
        ([1, 2], "no finite tensor"),
        ({name: torch.full(shape, torch.nan) for name, shape in SHAPES.items()}, "no finite"),
        ({"0.weight": torch.zeros(2_000_000)}, "is larger than"),
    ],
)
def test_another_file_is_refused_in_one_line(path, state, error):
    write(path, state)

    with pytest.raises(UserError, match=error):
        build()


class Evil:
    def __reduce__(self):
        return (open, ("evil", "w"))


def test_code_in_the_file_is_not_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path.write_bytes(pickle.dumps({"0.weight": Evil()}))

    with pytest.raises(UserError, match="plain numbers"):
        build()
    assert not (tmp_path / "evil").exists()


def test_without_the_file_it_says_what_to_do(path):
    del path
    with pytest.raises(UserError, match=r"nas\.data space=mobilenet_v3 fetch.*data="):
        SPACE.surrogate(IMAGENET, Split.auto, 200)


@pytest.mark.parametrize(
    ("space", "task", "split", "error"),
    [
        (NARROW, IMAGENET, Split.auto, "space=mobilenet_v3"),
        (SPACE, Task("own", 3, 224), Split.auto, "predicts dataset=imagenet"),
        (SPACE, IMAGENET, Split.test, "split=valid only"),
    ],
)
def test_other_widths_tasks_and_splits_are_refused(path, space, task, split, error):
    write(path)

    with pytest.raises(UserError, match=error):
        build(space, task, split)


@pytest.mark.data
@pytest.mark.usefixtures("nas_data")
def test_published_networks_are_predicted_in_the_order_of_their_accuracy():
    published = {  # specialised networks of width 1.2: top-1 after fine-tuning
        79.1: "r224 k3e3-k3e3 k5e3-k5e6-k3e3 k5e4-k5e4-k3e3 k5e6-k5e4-k3e4-k3e4 k3e6-k3e6-k7e6-k3e3",
        79.6: (
            "r224 k5e3-k3e3-k3e3 k5e4-k3e4-k5e4-k3e3 k5e4-k5e6-k3e3-k3e3 k5e6-k7e6-k3e6-k5e4 "
            "k7e6-k3e6-k3e6-k3e3"
        ),
        78.4: "r224 k3e3-k3e3 k5e4-k3e3-k3e4 k5e4-k5e4-k3e3 k3e6-k3e4-k3e4 k3e6-k3e6-k3e4-k3e3",
        71.4: "r160 k3e3-k3e3 k3e3-k3e4 k3e4-k3e3-k3e3 k3e3-k3e4 k3e4-k5e4",
    }
    rows = np.stack([SPACE.parse(text) for text in published.values()])

    predicted = build().answer(rows).fraction

    np.testing.assert_array_equal(np.argsort(predicted), np.argsort(list(published)))
    assert predicted[0] == pytest.approx(0.8256, abs=5e-5)  # of `ofa.tutorial.AccuracyPredictor`
