from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from nas.study.evaluation.statistics import (
    FEWEST,
    Interval,
    holm,
    median_intervals,
    paired_p,
    probability_of_improvement,
)
from nas.trials.survey import hypervolume

NEVER = math.inf
runs = arrays(np.float64, st.integers(1, 8), elements=st.sampled_from([0.0, 1.0, 2.5, 7.0, NEVER]))
pairs = st.integers(1, 6).flatmap(
    lambda n: st.tuples(*[arrays(float, n, elements=st.sampled_from([1.0, 2.0, NEVER]))] * 2)
)
probabilities = st.lists(st.floats(0, 1), min_size=1, max_size=12)
points = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 10)), min_size=1, max_size=8)


def median_interval(*values):
    return median_intervals(np.array([values], float))[0]


class TestMedianIntervals:
    def test_the_interval_is_scipys_percentile_bootstrap(self):
        values = np.random.default_rng(1).normal(size=30)

        found = median_interval(*values)

        expected = stats.bootstrap(
            (values,), np.median, n_resamples=20_000, method="percentile", random_state=2
        ).confidence_interval
        assert found.middle == np.median(values)
        assert found.low == pytest.approx(expected.low, abs=0.1)
        assert found.high == pytest.approx(expected.high, abs=0.1)

    def test_what_never_happens_in_most_runs_never_happens_in_the_median(self):
        assert median_interval(3, NEVER, NEVER, NEVER, NEVER).middle == NEVER
        assert median_interval(3, NEVER).middle == NEVER

    def test_an_interval_may_reach_from_a_number_to_never(self):
        found = median_interval(*[100.0] * 6, *[NEVER] * 5)

        assert (found.middle, found.low, found.high) == (100, 100, NEVER)

    def test_of_fewer_than_five_runs_there_is_no_interval(self):
        for count in range(1, 5):
            assert median_interval(*[4.0] * count) == Interval(4.0)
            few = np.arange(count) * 1.0
            assert probability_of_improvement(few, few) == Interval(0.5)
        assert median_interval(*[4.0] * 5).bounds == (4, 4)

    def test_five_runs_in_which_it_never_happened_have_an_interval_there(self):
        assert median_interval(*[NEVER] * 5).bounds == (NEVER, NEVER)

    @settings(max_examples=30)
    @given(runs)
    def test_no_interval_is_upside_down_and_none_is_nan(self, values):
        found = median_intervals(values[None])[0]

        assert (found.bounds is None) == (len(values) < FEWEST)
        if found.bounds:
            assert found.low <= found.high
        assert not math.isnan(found.middle)


class TestProbabilityOfImprovement:
    def test_it_is_the_mann_whitney_statistic_as_in_rliable(self):
        first, second = np.random.default_rng(0).normal(size=(2, 20))

        found = probability_of_improvement(first, second + 0.5)

        u = stats.mannwhitneyu(second + 0.5, first).statistic
        assert found.middle == pytest.approx(u / 400)
        assert found.low < found.middle < found.high

    @settings(max_examples=30)
    @given(runs, runs)
    def test_one_of_the_two_improves(self, first, second):
        there = probability_of_improvement(first, second).middle
        back = probability_of_improvement(second, first).middle

        assert there + back == pytest.approx(1)


class TestPairedP:
    def test_it_is_wilcoxons(self):
        first, second = np.random.default_rng(3).normal(size=(2, 15))

        assert paired_p(first, second) == pytest.approx(stats.wilcoxon(first - second).pvalue)

    def test_equal_runs_and_runs_that_both_never_end_do_not_differ(self):
        same = np.array([1.0, 2.0, NEVER])

        assert paired_p(same, same) == 1

    def test_ending_is_the_largest_difference_from_never_ending(self):
        ends = np.arange(1.0, 13.0)

        assert paired_p(ends, np.full(12, NEVER)) == pytest.approx(2 / 2**12)

    def test_never_of_more_is_better_is_the_other_way_round(self):
        ends = -np.arange(1.0, 9.0)  # few: SciPy goes through all signs of ties

        assert paired_p(np.full(8, -NEVER), np.full(8, NEVER)) == pytest.approx(2 / 2**8)
        assert paired_p(np.append(ends, 0), np.full(9, -NEVER)) == pytest.approx(2 / 2**9)

    @settings(max_examples=15)  # SciPy permutes where there are ties
    @given(pairs)
    def test_it_is_a_probability_and_the_same_both_ways(self, pair):
        there = paired_p(*pair)

        assert 0 <= there <= 1
        assert paired_p(*pair[::-1]) == pytest.approx(there)


class TestHolm:
    def test_an_example_by_hand(self):
        # sorted: .005 x 4, .01 x 3, .03 x 2, .04 x 1 -> the last is lifted to the one before
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    @given(probabilities)
    def test_it_lies_between_none_and_bonferroni_and_keeps_the_order(self, p_values):
        adjusted = holm(p_values)

        for p, q in zip(p_values, adjusted, strict=True):
            assert p <= q <= min(1, p * len(p_values)) + 1e-12
        order = np.argsort(p_values, kind="stable")
        assert (np.diff(np.array(adjusted)[order]) >= 0).all()


class TestHypervolume:
    def test_a_rectangle(self):
        assert hypervolume(np.array([0.5]), np.array([4.0]), 0.0, 10.0) == 3.0

    def test_it_agrees_with_moocore(self):
        moocore = pytest.importorskip("moocore")
        latency_ms, accuracy = np.random.default_rng(5).uniform(size=(2, 50))

        found = hypervolume(accuracy, latency_ms, 0.0, 0.9)

        costs = np.stack([latency_ms, -accuracy], axis=1)
        assert found == pytest.approx(moocore.hypervolume(costs, ref=[0.9, 0.0]))

    @given(points, st.tuples(st.integers(1, 9), st.integers(0, 10)))
    def test_another_point_never_takes_anything_away(self, found, another):
        def area(these):
            latency_ms, accuracy = np.array(these, float).T
            return hypervolume(accuracy, latency_ms, 0.0, 8.0)

        assert area([*found, another]) >= area(found)
        assert area([*found, found[0]]) == area(found)
