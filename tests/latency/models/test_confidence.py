"""How far a prediction must be below a limit, from the residuals of a model."""

import numpy as np
import pytest

from latency.models.confidence import FACTORS, MOST_CONFIDENCE, QUANTILES, of_few, of_residuals
from latency.models.regression import embedded_models
from nas.spaces.registry import space_named

NORMAL = of_residuals(np.random.default_rng(0).normal(0, 0.05, 10_000))


def test_the_standard_deviation_is_that_of_the_middle_and_no_outlier_widens_it():
    residuals = np.random.default_rng(0).normal(0, 0.05, 10_000)
    residuals[:100] = -7.0

    assert of_residuals(residuals).sd == pytest.approx(0.05, rel=0.05)


def test_more_confidence_needs_a_wider_margin():
    margins = [NORMAL.margin(one) for one in (0.0, 0.83, 0.91, 0.95, MOST_CONFIDENCE)]

    assert margins == sorted(margins)
    assert margins[0] == 0
    assert margins[-1] == pytest.approx(1.96 * 0.05, rel=0.1)


@pytest.mark.parametrize("level", [0.75, 0.86, 0.89, 0.9, 0.95, 0.975, 0.99])
def test_no_answer_is_said_to_be_more_probable_than_its_own_margin_makes_it(level):
    margin = float(np.interp(level, QUANTILES, NORMAL.quantiles))

    assert 0 < NORMAL.confidence(margin + 1e-9) <= level
    assert NORMAL.confidence(margin) == NORMAL.without_slack().confidence(margin)
    assert NORMAL.confidence(-0.01) == 0


def test_a_space_too_large_to_leave_slack_needs_a_wider_margin():
    dense = NORMAL.without_slack()

    assert dense.level(0.95) > NORMAL.level(0.95)
    assert dense.margin(0.95) > NORMAL.margin(0.95)
    assert 0.9 < dense.confidence(dense.margin(0.95)) <= 0.95
    assert dense.scaled(2.0).margin(0.95) == pytest.approx(2 * dense.margin(0.95))
    assert dense.and_of(NORMAL).level(0.95) == dense.level(0.95)
    assert dense.most_confidence < NORMAL.most_confidence


def test_independent_residuals_add_up():
    residuals = np.random.default_rng(1).normal(0, 0.12, 10_000)
    both = NORMAL.and_of(of_residuals(residuals))

    assert both.sd == pytest.approx(0.13, rel=0.05)
    assert both.margin(0.95) == pytest.approx(2.6 * NORMAL.margin(0.95), rel=0.05)
    assert NORMAL.and_of(None) == NORMAL
    assert NORMAL.scaled(2.0).margin(0.95) == pytest.approx(2 * NORMAL.margin(0.95))


def test_every_embedded_model_knows_its_uncertainty():
    for model in embedded_models(space_named("nas_bench_201")).values():
        assert 0 < model.uncertainty.margin(0.95) < 0.4 or model.quality.r2 > 0.9999


def test_a_model_of_few_networks_keeps_a_margin_in_spreads_and_says_less_of_its_answers():
    residuals = np.random.default_rng(0).normal(0, 0.05, 100)
    few, many = of_few(residuals), of_residuals(residuals)

    spread = np.quantile(np.abs(residuals), 0.9)
    assert few.margin(0.95) == pytest.approx(FACTORS[0.95] * spread)
    assert few.margin(0.95) > 1.5 * many.margin(0.95)
    assert few.scaled(2.0).margin(0.95) == pytest.approx(2 * few.margin(0.95))
    assert many.and_of(few).margin(0.95) > few.margin(0.95)
    assert few.confidence(few.margin(0.95)) == 0.88
    assert few.confidence(0.0) == 0
    dense = few.without_slack()
    assert dense.margin(0.95) > few.margin(0.95)
    assert (dense.confidence(spread), few.confidence(spread)) == (0.0, 0.75)
    assert few.margin(0.0) == 0
