"""The course of one search: its samples within the limit, and the history of its choices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import problem

from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.statistics import WINDOW, ChoiceHistory, best_feasible, sample_within_limit

RNN = RnnConfig(batch_size=4, lr=0.05, entropy_weight=0.0)
BUDGET = 200


def advance(controller, history, first, stop):
    """Rewards are synthetic: the third operation, everywhere."""
    about = problem()
    for at in range(first, stop, 4):
        architectures = controller.sample(4)
        rewards = (architectures == 2).mean(-1)
        history(at, architectures)
        controller.learn(replace(about.evaluate(architectures, at), rewards=rewards), about.score)


@pytest.mark.parametrize("config", [RNN, UniformConfig()])
def test_each_edge_of_each_bin_sums_to_one(config):
    controller = config.build(SPACE, [0])
    history = ChoiceHistory(controller, SPACE.num_choices, BUDGET)

    advance(controller, history, 0, BUDGET)

    assert history.means().shape == (10, 6, 5)
    np.testing.assert_allclose(history.means().sum(-1), 1)


def test_what_the_policy_learns_shows():
    controller = RNN.build(SPACE, [0])
    history = ChoiceHistory(controller, SPACE.num_choices, BUDGET)

    advance(controller, history, 0, BUDGET)

    means = history.means()
    assert history.has_policy
    assert (means[-1, :, 2] > means[0, :, 2]).all()


def test_the_policys_probabilities_are_those_it_draws_by():
    controller = RNN.build(SPACE, [0])
    assert controller.probabilities() is None

    architectures = controller.sample(5000)[0]

    shares = (architectures[:, :, None] == np.arange(5)).mean(0)
    np.testing.assert_allclose(controller.probabilities()[0], shares, atol=0.03)


def by_definition(latency_ms, limit_ms):
    """The first sample count from which every window of 100 has its mean within the limit."""
    counts = range(WINDOW, len(latency_ms) + 1)
    within = [latency_ms[n - WINDOW : n].mean() <= limit_ms for n in counts]
    for position, count in enumerate(counts):
        if all(within[position:]):
            return count
    return None


@given(st.lists(st.sampled_from([10.0, 20.0]), min_size=0, max_size=260))
def test_it_is_the_sample_from_which_the_sliding_mean_stays_within_the_limit(latencies):
    latency_ms = np.array(latencies)

    assert sample_within_limit(latency_ms, 15.0) == by_definition(latency_ms, 15.0)


def test_the_best_feasible_sample_is_the_first_most_accurate_within_the_limit():
    accuracy = np.array([0.9, 0.5, 0.7, 0.7])
    latency_ms = np.array([20.0, 5.0, 17.0, 3.0])

    assert best_feasible(accuracy, latency_ms, 17.0) == 2
    assert best_feasible(accuracy, latency_ms, 2.0) is None


@given(st.floats(0.001, 1000), st.integers(100, 400))
def test_a_mean_that_is_exactly_the_limit_is_within_it_despite_rounding(limit_ms, count):
    assert sample_within_limit(np.full(count, limit_ms), limit_ms) == WINDOW
