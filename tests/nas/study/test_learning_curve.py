from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgenas_core.types.kind import Kind
from nas.spaces.registry import space_named
from nas.study.answers import Answers
from nas.study.evaluation.learning_curve import (
    LearningCurve,
    at_query,
    bin_means,
    bin_within_limit,
    first_times,
)
from nas.study.evaluation.measures import measures_of
from nas.study.search_log import SearchLog
from nas.trials.survey import Survey

SPACE = space_named("nas_bench_201")
LIMIT_MS = 10.0


@pytest.fixture
def curve():
    """Two searches; architecture i takes i ms, and is i % accurate up to 50, 1 % beyond."""
    number = np.arange(SPACE.size, dtype=float)
    accuracy = np.where(number <= 50, number / 100, 0.01)
    measured = np.full(SPACE.size, Kind.measured, np.int8)
    answers = Answers(accuracy, measured, accuracy + 0.1, number, number, measured)
    index = np.array([[20, 3, 3, 10, 3], [30, 40, 30, 12, 11]], np.uint16)
    log = SearchLog(np.arange(2), index, np.array([1.0, 2.0, 3.0]))
    costs = np.zeros((SPACE.size, 0))
    survey = Survey(SPACE, accuracy, measured, number, measured, costs, LIMIT_MS)
    return LearningCurve(log, answers, LIMIT_MS, SPACE, survey)


def values(curve):
    return {measure.name: found.tolist() for measure, found in measures_of(curve)}


def test_only_the_first_of_equal_samples_is_a_query(curve):
    assert curve.new.tolist() == [
        [True, True, False, True, False],
        [True, True, False, True, True],
    ]
    assert first_times(np.array([[7, 7, 8]])).tolist() == [[True, False, True]]


def test_the_gap_is_measured_to_the_exact_optimum_within_the_limit(curve):
    assert curve.gap()[0] == pytest.approx([np.inf, 7, 7, 0, 0])
    assert np.isinf(curve.gap()[1]).all()


def test_optimum_and_front_are_called_predicted_where_something_of_them_is(curve):
    assert (curve.optimum_name, curve.front_name) == ("exact optimum", "true front")

    kinds = np.full(SPACE.size, Kind.surrogate, np.int8)
    guessed = replace(curve, answers=replace(curve.answers, accuracy_kind=kinds))
    assert (guessed.optimum_name, guessed.front_name) == ("predicted optimum", "predicted front")

    kinds = np.where(np.arange(SPACE.size) == 3, Kind.regression, Kind.measured).astype(np.int8)
    of_the_front = replace(curve, answers=replace(curve.answers, latency_kind=kinds))
    assert (of_the_front.optimum_name, of_the_front.front_name) == (
        "exact optimum",
        "predicted front",
    )
    assert values(of_the_front)["latency_predicted"] == [0.6, 0]


def test_a_value_at_a_query_is_that_after_its_repeats_or_the_last(curve):
    gap = np.arange(10.0).reshape(2, 5)
    queries = curve.new.cumsum(1)

    assert at_query(gap, queries, 2).tolist() == [2.0, 7.0]
    assert at_query(gap, queries, 100).tolist() == [4.0, 9.0]


def test_samples_and_queries_to_the_optimum_are_different_axes(curve):
    found = values(curve)

    assert found["samples_to_optimum"] == [4, np.inf]
    assert found["queries_to_optimum"] == [3, np.inf]


def test_a_search_that_found_nothing_within_the_limit_has_no_best(curve):
    assert values(curve)["best_test"] == pytest.approx([20, np.nan], nan_ok=True)


def test_every_query_is_trained_once(curve):
    hours = [(20 + 3 + 10) / 3600, (30 + 40 + 12 + 11) / 3600]

    assert values(curve)["training_hours"] == pytest.approx(hours)


def test_shares_and_seconds_are_those_of_one_search(curve):
    found = values(curve)

    assert found["feasible_share"] == [0.8, 0]
    assert found["seconds"] == [1.5, 1.5]
    assert found["queries"] == [3, 4]


def test_the_whole_space_has_the_whole_hypervolume(curve):
    everything = np.arange(SPACE.size, dtype=np.uint16)[None]
    whole = SearchLog(np.arange(1), everything, np.array([1.0]))

    share = replace(curve, log=whole).hypervolume_share()

    assert share.tolist() == [1.0]
    assert (curve.hypervolume_share() < 1).all()


def test_bins_count_the_samples_before_the_first_one_that_stays_within():
    latency_ms = np.full((4, 40), 5.0)  # 20 bins of 2
    latency_ms[1, 6] = 20.0  # the mean of bin 3 is 12.5
    latency_ms[2, 39] = 20.0  # the last bin
    latency_ms[3, 7] = 15.0  # a mean that is the limit is within it

    assert bin_means(latency_ms).shape == (4, 20)
    assert bin_within_limit(latency_ms, LIMIT_MS).tolist() == [0, 8, np.inf, 0]
