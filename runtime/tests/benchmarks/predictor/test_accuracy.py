"""How predictions are judged, and what trees add to a regression, on times by known laws."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.predictor.accuracy import (
    accuracy,
    alike_as_one,
    by_group,
    held_out,
    tenths,
)
from benchmarks.predictor.layers_and_choices import FITS
from benchmarks.predictor.regression import fit_plain, operator_of
from benchmarks.predictor.timing import (
    Backend,
    Device,
    LayerRun,
    distinct,
    has_kernels,
    random_layers,
    subjects_of,
    time_layers,
)
from edgenas_core.machine.timing import TimingConfig
from edgenas_runtime.network.decompose import Rule, decompose


def linear(channels=1000):
    return f"Gemm float[1,{channels}] float[10,{channels}] > float[1,10]"


@pytest.fixture(scope="module")
def random_ones():
    return random_layers(Rule.LAYER, 120)


def stepped(channels):
    """Synthetic: of a few channels, a kernel that is 6 times slower is taken."""
    layer = f"Conv float[1,{channels},9,9] float[64,{channels},3,3] > float[1,64,9,9]"
    return layer, (0.005 + 1e-5 * channels) * (6 if channels < 100 else 1)


def test_predictions_are_judged_by_hand():
    judged = accuracy(np.array([1.05, 2.3, 2.0, 8.0]), np.array([1.0, 2.0, 4.0, 8.0]))

    assert (judged.layers, judged.within_10, judged.within_20) == (4, 0.5, 0.75)
    assert judged.mape == pytest.approx((0.05 + 0.15 + 0.5) / 4)
    assert judged.median_error == pytest.approx(0.1)
    assert judged.r2 == pytest.approx(
        1 - (0.05**2 + 0.3**2 + 4) / (2.75**2 + 1.75**2 + 0.25**2 + 4.25**2)
    )
    assert judged.tau == pytest.approx(4 / 6)  # five pairs in order, one not


def test_equal_layers_are_one_so_that_none_is_both_fitted_and_held_out():
    timed = [(linear(), 1.0), (linear(2000), 5.0), (linear(), 3.0)]

    assert alike_as_one(timed) == [(linear(), 2.0), (linear(2000), 5.0)]


def test_each_tenth_has_layers_of_every_size():
    timed = [(linear(i + 1), 1.0) for i in range(100)]

    parts = tenths(timed)

    assert all(sorted(parts[i : i + 10]) == list(range(10)) for i in range(0, 100, 10))
    assert (parts == tenths(timed)).all()


def test_no_prediction_has_seen_its_layer():
    timed = [(linear(i + 1), 1.0) for i in range(20)]

    class Remembers:
        def __init__(self, layers, us):
            assert (us == 1e3).all()
            self.seen = {*layers}

        def predict_us(self, layers):
            return np.array([math.nan if layer in self.seen else 7e3 for layer in layers])

    assert (held_out(timed, tenths(timed), Remembers) == 7.0).all()


def test_an_operator_of_which_nothing_is_left_is_not_judged():
    timed = [*((linear(i + 1), 1.0) for i in range(12)), ("softmax float[5] > float[5]", 1.0)]

    predicted = held_out(timed, tenths(timed), fit_plain)

    assert np.isnan(predicted[-1])
    assert [operator for operator, _ in by_group(timed, predicted)] == ["Gemm", "all"]


def test_trees_learn_the_steps_that_a_regression_cannot_say():
    timed = [stepped(channels) for channels in range(20, 320, 2)]

    errors = {
        name: dict(by_group(timed, held_out(timed, tenths(timed), fit)))["Conv"].mape
        for name, fit in FITS.items()
    }

    assert errors["corrected"] < 0.5 * min(errors["relative"], errors["as printed"])


def test_layers_that_do_the_same_under_other_names_are_timed_once():
    class Twice(nn.Module):
        def forward(self, x):
            return torch.relu(x + x) + torch.relu(x + x)

    x = torch.empty(1, 2, 4, 4, device="meta")
    subjects = subjects_of(decompose(Twice().eval(), x), x.shape)

    assert [operator_of(subject.layer) for subject in subjects] == [
        "add",
        "act",
        "add",
        "act",
        "add",
    ]
    assert len(distinct(subjects)) == 3  # the last addition has two inputs


def test_random_layers_of_every_kind_are_timed(random_ones):
    kinds = {operator_of(subject.layer): subject for subject in random_ones}
    assert {
        *("Conv", "Gemm", "MaxPool2d", "AvgPool2d", "norm", "act"),
        *("add", "cat", "softmax", "reshape", "identity"),
    } <= {*kinds}

    config = TimingConfig(samples=2, turn=1, warm_up_most=2, warm_up_window=1)
    run = LayerRun(Device.cpu, Backend.torch)
    taken = [*time_layers([*kinds.values()], run, config)]

    assert all(len(samples.ms) == 2 and (samples.ms > 0).all() for samples in taken)


def test_layers_that_return_views_have_no_kernels(random_ones):
    empty = {operator_of(subject.layer) for subject in random_ones if not has_kernels(subject)}

    assert empty == {"identity", "reshape"}
