"""Objectives and costs go to the scales of the model and come back."""

from __future__ import annotations

import numpy as np
import pytest

from controller.model_based.outcome_scale import OutcomeScale

OBJECTIVE = np.array([0.1, 0.7, 0.5, 0.5, 0.72, 0.3])


def test_outcomes_come_back_as_they_were():
    outcomes = np.stack([OBJECTIVE, np.linspace(0.2, 4, 6)], axis=1)
    scale = OutcomeScale.of(OBJECTIVE)

    np.testing.assert_allclose(scale.exp(scale.log(outcomes)), outcomes)


def test_the_unit_of_the_objective_does_not_matter():
    outcomes = OBJECTIVE[:, None]
    scaled = OutcomeScale.of(OBJECTIVE).log(outcomes)

    in_percent = OutcomeScale.of(100 * OBJECTIVE - 3).log(100 * outcomes - 3)

    np.testing.assert_array_equal(in_percent, scaled)


def test_a_score_says_how_few_are_better():
    scores = OutcomeScale.of(np.arange(100.0)).log(np.array([[0.0], [89.5], [99.0]]))[:, 0]

    np.testing.assert_allclose(scores, -np.log([0.995, 0.1, 0.005]), atol=0.06)


def test_something_better_than_the_best_can_be_imagined():
    scale = OutcomeScale.of(OBJECTIVE)
    best = scale.log(np.array([[0.72]]))

    assert scale.exp(best + 1)[0, 0] > 0.72


def test_where_all_are_alike_nothing_better_is_imagined():
    scale = OutcomeScale.of(np.array([0.4, 0.4]))

    assert scale.exp(np.array([[9.0]]))[0, 0] == pytest.approx(0.4)


def test_a_cost_that_was_measured_as_nothing_is_a_small_one():
    assert np.isfinite(OutcomeScale.of(OBJECTIVE).log(np.array([[0.5, 0.0]]))).all()
