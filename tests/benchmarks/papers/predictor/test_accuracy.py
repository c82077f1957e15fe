"""How predictions are judged, and what a forest adds to a regression, on times by known laws."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.papers.predictor.accuracy import (
    accuracy,
    alike_as_one,
    by_group,
    held_out,
    tenths,
)
from benchmarks.papers.predictor.forest import fit_corrected
from benchmarks.papers.predictor.regression import FEATURES, LayerFeatures, fit, fit_plain
from benchmarks.papers.predictor.timing import (
    Backend,
    Device,
    LayerRun,
    distinct,
    random_layers,
    subjects_of,
    time_layers,
)
from runtime.machine.timing import TimingConfig
from runtime.network.decompose import Rule, decompose


def layer(kind="conv 3x3/1", flops=1e6):
    return LayerFeatures(kind, (1.0, flops, *(0.0,) * (len(FEATURES) - 2)))


@pytest.fixture(scope="module")
def random_ones():
    return random_layers(Rule.LAYER, 120)


def stepped(generator):
    """Synthetic: where there are few outputs, a kernel that is 6 times slower is taken."""
    flops, output_bytes = 10 ** generator.uniform(6, 8), 10 ** generator.uniform(4, 6)
    one = LayerFeatures(
        "conv 3x3/1", (1.0, flops, 0.0, output_bytes, *(0.0,) * (len(FEATURES) - 4))
    )
    return one, (0.005 + 1e-9 * flops + 1e-8 * output_bytes) * (6 if output_bytes < 1e5 else 1)


def test_predictions_are_judged_by_hand():
    found = accuracy(np.array([1.05, 2.3, 2.0, 8.0]), np.array([1.0, 2.0, 4.0, 8.0]))

    assert (found.layers, found.within_10, found.within_20) == (4, 0.5, 0.75)
    assert found.mape == pytest.approx((0.05 + 0.15 + 0.5) / 4)
    assert found.median_error == pytest.approx(0.1)
    assert found.r2 == pytest.approx(
        1 - (0.05**2 + 0.3**2 + 4) / (2.75**2 + 1.75**2 + 0.25**2 + 4.25**2)
    )
    assert found.tau == pytest.approx(4 / 6)  # five pairs in order, one not


def test_equal_layers_are_one_so_that_none_is_both_fitted_and_held_out():
    timed = [(layer(), 1.0), (layer(flops=2e6), 5.0), (layer(), 3.0)]

    assert alike_as_one(timed) == [(layer(), 2.0), (layer(flops=2e6), 5.0)]


def test_each_tenth_has_layers_of_every_size():
    timed = [(layer(flops=float(i)), 1.0) for i in range(100)]

    parts = tenths(timed)

    assert all(sorted(parts[i : i + 10]) == list(range(10)) for i in range(0, 100, 10))
    assert (parts == tenths(timed)).all()


def test_no_prediction_has_seen_its_layer():
    timed = [(layer(flops=float(i)), 1.0) for i in range(20)]

    class Remembers:
        def __init__(self, seen):
            self.seen = dict(seen)

        def ms(self, one):
            return math.nan if one in self.seen else 7.0

    assert (held_out(timed, tenths(timed), Remembers) == 7.0).all()


def test_a_kind_of_which_nothing_is_left_is_not_judged():
    timed = [*((layer(flops=float(i)), 1.0) for i in range(12)), (layer("softmax"), 1.0)]

    predicted = held_out(timed, tenths(timed), lambda rows: fit("synthetic", rows))

    assert np.isnan(predicted[-1])
    assert [group for group, _ in by_group(timed, predicted)] == ["conv", "all"]


def test_a_forest_learns_the_steps_that_a_regression_cannot_say():
    generator = np.random.default_rng(0)
    timed = [stepped(generator) for _ in range(150)]
    found = {}
    for name, make in {"plain": fit_plain, "relative": fit, "corrected": fit_corrected}.items():
        predicted = held_out(timed, tenths(timed), lambda rows, make=make: make("synthetic", rows))
        found[name] = dict(by_group(timed, predicted))["conv"]

    assert found["corrected"].mape < 0.5 * found["relative"].mape
    assert found["corrected"].mape < 0.5 * found["plain"].mape


def test_a_layer_beyond_all_that_was_timed_is_still_predicted_by_its_size():
    timed = [(layer(flops=1e6 * i), 0.01 * i) for i in range(1, 40)]

    corrected = fit_corrected("synthetic", timed)

    assert corrected.ms(layer(flops=1e9)) == pytest.approx(10, rel=0.1)


def test_the_source_s_equation_is_recovered_with_weights_of_any_sign():
    timed = [(layer(flops=1e6 * i), 5 - 0.01 * i) for i in range(1, 40)]

    assert fit_plain("synthetic", timed).ms(layer(flops=1e8)) == pytest.approx(4)


def test_too_few_layers_of_a_kernel_are_predicted_as_all_convolutions():
    few = [(layer("conv 5x5/1", 1e6 * i), 9.0) for i in range(1, 5)]
    many = [(layer("conv 3x3/1", 1e6 * i), 1.0) for i in range(1, 40)]

    assert sorted(fit("synthetic", few + many).weights_ms) == ["conv", "conv 3x3/1"]


def test_layers_that_do_the_same_under_other_names_are_timed_once():
    class Twice(nn.Module):
        def forward(self, x):
            return torch.relu(x + x) + torch.relu(x + x)

    x = torch.empty(1, 2, 4, 4, device="meta")
    subjects = subjects_of(decompose(Twice().eval(), x), x.shape, x.nbytes)

    assert [subject.layer.kind for subject in subjects] == ["add", "act", "add", "act", "add"]
    assert len(distinct(subjects)) == 3  # the last addition has two inputs


def test_random_layers_of_every_kind_are_timed(random_ones):
    kinds = {one.layer.group: one for one in random_ones}
    assert {
        "conv",
        "linear",
        "pool",
        "norm",
        "act",
        "add",
        "cat",
        "softmax",
        "reshape",
        "identity",
    } <= {*kinds}

    config = TimingConfig(samples=2, turn=1, warm_up_most=2, warm_up_window=1)
    run = LayerRun(Device.cpu, Backend.torch)
    taken = [*time_layers([*kinds.values()], run, config)]

    assert all(len(one.ms) == 2 and (one.ms > 0).all() for one in taken)
