"""What is needed is solved from the reward; what is promised is its expected excess."""

from __future__ import annotations

import numpy as np
import pytest

from controller.model_based.gaussian_process import Normal
from controller.model_based.needed_accuracy import (
    EDGES,
    expected_improvement,
    needed_accuracy,
    without_noise,
)

KNOWN = np.array([0.3, 0.7])


def constrained(accuracy, ratios):
    worst = ratios.max(-1)
    return np.where(worst <= 1, accuracy, 1 / worst - 1)


def soft(accuracy, ratios):
    return accuracy * ratios[..., 0] ** -0.5


def sampled(score, best, accuracy, cost):
    """The expected excess over what is needed, by many draws."""
    draws = np.random.default_rng(0).standard_normal((2, 100_000))
    needed = needed_accuracy(score, best, KNOWN, 1)
    bins = np.searchsorted(EDGES, np.exp(cost[0] + cost[1] * draws[1]))
    return np.maximum(accuracy[0] + accuracy[1] * draws[0] - needed[bins], 0).mean()


def test_within_a_hard_limit_the_best_accuracy_is_needed_and_beyond_it_none_is_enough():
    needed = needed_accuracy(constrained, 0.6, KNOWN, 2)

    within = np.append(EDGES, np.inf) <= 1
    np.testing.assert_allclose(needed[within], 0.6)
    assert np.isinf(needed[~within]).all()


def test_while_nothing_is_within_the_limit_any_accuracy_there_is_enough_and_none_beyond_it():
    needed = needed_accuracy(constrained, 1 / 2 - 1, KNOWN, 1)

    within = np.append(EDGES, np.inf) <= 1
    assert (needed[within] <= KNOWN.min()).all()
    assert np.isinf(needed[~within]).all()


def test_nothing_is_lowered_where_no_known_network_could_be_better():
    needed = needed_accuracy(constrained, 1 / 2 - 1, KNOWN, 1)

    np.testing.assert_array_equal(
        without_noise(needed, KNOWN, np.full((len(KNOWN), 1), 2.0)), needed
    )


def test_a_soft_reward_needs_more_accuracy_at_more_cost():
    needed = needed_accuracy(soft, 0.5, KNOWN, 1)

    middle = np.sqrt(EDGES[1:] * EDGES[:-1])
    possible = np.isfinite(needed[1:-1])
    np.testing.assert_allclose(
        needed[1:-1][possible], np.maximum(0.5 * middle[possible] ** 0.5, -0.1)
    )


@pytest.mark.parametrize(("score", "best"), [(constrained, 0.6), (soft, 0.5), (constrained, -0.4)])
@pytest.mark.parametrize("cost", [(-0.3, 0.2), (0.4, 0.5)])
def test_the_expected_improvement_is_that_of_many_draws(score, best, cost):
    accuracy = (0.55, 0.1)
    needed = needed_accuracy(score, best, KNOWN, 1)

    expected = expected_improvement(
        Normal(*np.array([accuracy]).T), [Normal(*np.array([cost]).T)], needed
    )

    assert expected[0] == pytest.approx(sampled(score, best, accuracy, cost), rel=0.05)


def test_without_costs_it_is_that_of_the_accuracy_alone():
    needed = needed_accuracy(lambda accuracy, _: accuracy, 0.6, KNOWN, 0)

    expected = expected_improvement(Normal(np.array([0.6]), np.array([0.2])), [], needed)

    assert expected[0] == pytest.approx(0.2 / np.sqrt(2 * np.pi))


def test_of_a_noisy_best_less_is_needed_but_only_of_one_within_the_limit():
    needed = needed_accuracy(constrained, 0.7, KNOWN, 1)
    ratios = np.array([[0.5], [0.9], [2.0]])

    bar = without_noise(needed, np.array([0.4, 0.64, 0.9]), ratios)

    within = np.append(EDGES, np.inf) <= 1
    np.testing.assert_allclose(bar[within], 0.64)
    assert np.isinf(bar[~within]).all()
