"""How much slower a scenario makes architectures."""

import numpy as np
import pytest

from latency.models.confidence import of_residuals
from latency.models.regression import Quality
from latency.models.slowdown import Pairs, SlowdownQuality, fit, kendall_tau, quality

RNG = np.random.default_rng(7)
FEATURES = RNG.integers(0, 4, (400, 6)).astype(float)
SOLO_MS = 1 + FEATURES @ np.array([0.5, 1.0, 2.0, 0.1, 0.0, 0.3])
RATIO = np.exp(0.1 + FEATURES @ np.array([0.0, 0.1, 0.0, 0.05, 0.0, 0.0]) + 0.2 * np.log(SOLO_MS))
GROUPS = np.arange(400)


def test_a_law_of_the_ratio_is_recovered_from_a_part_of_the_space():
    few = slice(0, 80)

    model = fit(Pairs(SOLO_MS[few], (SOLO_MS * RATIO)[few], FEATURES[few], GROUPS[few]))

    error = np.abs(model.predict_ms(SOLO_MS, FEATURES) / (SOLO_MS * RATIO) - 1)
    assert np.quantile(error, 0.9) < 0.01  # the rest lies beyond the ratios that were seen


def test_no_ratio_is_predicted_beyond_those_that_were_seen():
    model = fit(Pairs(SOLO_MS, SOLO_MS * RATIO, FEATURES, GROUPS))

    ratios = model.predict_ms(np.array([1e6, 1e-6]), np.zeros((2, 6))) / np.array([1e6, 1e-6])

    assert ratios.tolist() == pytest.approx([RATIO.max(), RATIO.min()])


def test_the_quality_is_that_of_held_out_architectures():
    noise = np.exp(RNG.normal(0, 0.1, 400))

    how_good = quality(Pairs(SOLO_MS, SOLO_MS * noise, FEATURES, GROUPS))

    # a tenth of noise cannot be predicted: the median of |x| is 0.67 standard deviations
    assert how_good.by_ridge.median_error == pytest.approx(0.0674, rel=0.25)
    assert how_good.median_ratio == pytest.approx(1, abs=0.03)
    assert how_good.uncertainty.sd == pytest.approx(0.1, rel=0.15)


def test_a_model_of_the_ratio_beats_one_factor_where_architectures_differ():
    how_good = quality(Pairs(SOLO_MS, SOLO_MS * RATIO, FEATURES, GROUPS))

    assert how_good.by_ridge.median_error < 0.2 * how_good.by_one_factor.median_error


def test_architectures_of_a_group_are_held_out_together():
    """Twins with a ratio of their own: known only to who has seen the other."""
    own = np.repeat(np.exp(RNG.normal(0, 0.3, 60)), 2)
    features = np.repeat(np.eye(60), 2, axis=0)
    solo_ms = np.full(120, 3.0)

    apart = quality(Pairs(solo_ms, solo_ms * own, features, np.repeat(np.arange(60), 2)))
    known = quality(Pairs(solo_ms, solo_ms * own, features, np.arange(120)))

    assert known.by_ridge.median_error < 0.7 * apart.by_ridge.median_error


def test_a_scenario_that_keeps_the_order_has_a_tau_of_one():
    assert kendall_tau(SOLO_MS, SOLO_MS**2) == pytest.approx(1)
    assert kendall_tau(SOLO_MS, -SOLO_MS) == pytest.approx(-1)


def test_an_order_of_equal_values_is_none():
    assert np.isnan(kendall_tau(np.ones(5), np.arange(5.0)))


@pytest.mark.parametrize(
    ("ridge", "factor", "is_ridge"), [(0.485, 0.33, False), (0.02, 0.08, True), (0.1, 0.1, False)]
)
def test_the_better_on_held_out_architectures_is_chosen_and_named(ridge, factor, is_ridge):
    by_ridge, by_factor = Quality(0.5, 0.9, 0.3, ridge), Quality(0.4, 0.8, 0.4, factor)
    how_good = SlowdownQuality(by_ridge, by_factor, 0.8, 1.2, of_residuals(np.zeros(10)))

    assert how_good.ridge_is_better == is_ridge
    assert how_good.chosen.median_error == min(ridge, factor)
    assert ("by ridge" in str(how_good)) == is_ridge
    assert ("by one factor" in str(how_good)) != is_ridge
