"""Accuracies become scores of their ranks."""

from __future__ import annotations

import numpy as np
import pytest

from controller.model_based.outcome_model import AccuracyScale

ACCURACY = np.array([0.1, 0.7, 0.5, 0.5, 0.72, 0.3])


def test_the_unit_of_the_accuracy_does_not_matter():
    in_percent = AccuracyScale.from_values(100 * ACCURACY - 3)(100 * ACCURACY - 3)

    np.testing.assert_allclose(in_percent, AccuracyScale.from_values(ACCURACY)(ACCURACY))


def test_a_score_says_how_few_are_better():
    scores = AccuracyScale.from_values(np.arange(100.0))(np.array([0.0, 89.5, 99.0]))

    np.testing.assert_allclose(scores, -np.log([0.995, 0.1, 0.005]), atol=0.06)


def test_something_better_than_the_best_has_a_higher_score():
    scale = AccuracyScale.from_values(ACCURACY)

    assert scale(np.array(0.8)) > scale(np.array(0.75)) > scale(np.array(0.72))


def test_where_all_are_alike_more_is_still_better():
    scale = AccuracyScale.from_values(np.array([0.4, 0.4]))

    assert scale(np.array(0.5)) > scale(np.array(0.4)) == pytest.approx(np.log(2))
