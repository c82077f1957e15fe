from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nas.trials.trajectory import WINDOW, best_feasible, sample_within_limit


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


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([10.0] * 300, WINDOW),
        ([20.0] * 300, None),
        ([20.0] * 100 + [10.0] * 200, 150),
        ([10.0] * 200 + [20.0] * 100, None),
        ([10.0] * 99, None),
    ],
)
def test_plain_cases(latencies, expected):
    assert sample_within_limit(np.array(latencies), 15.0) == expected


def test_the_best_feasible_sample_is_the_first_most_accurate_within_the_limit():
    accuracy = np.array([0.9, 0.5, 0.7, 0.7])
    latency_ms = np.array([20.0, 5.0, 17.0, 3.0])

    assert best_feasible(accuracy, latency_ms, 17.0) == 2
    assert best_feasible(accuracy, latency_ms, 2.0) is None


@given(st.floats(0.001, 1000), st.integers(100, 400))
def test_a_mean_that_is_exactly_the_limit_is_within_it_despite_rounding(limit_ms, count):
    assert sample_within_limit(np.full(count, limit_ms), limit_ms) == WINDOW
