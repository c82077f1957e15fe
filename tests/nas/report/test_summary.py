from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from searched import ACCURACY, LATENCY_MS, Accuracy, Oracle, problem_of, searched

from edgenas_core.files.typed_json import read_json, write_json
from edgenas_core.types.kind import Kind
from latency.base import Latencies, Place
from nas.report.answer import Answer
from nas.report.summary import SCHEMA, Summary, summarise
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.confirmation import Confirmation
from nas.trials.trial import State


def test_repeats_and_equal_networks_are_counted_apart():
    twins = np.flatnonzero(SPACE.network_class == SPACE.network_class[0])[:2]

    summary = searched([*twins, twins[0], 7]).summary

    assert summary.samples == 4
    assert summary.distinct_architectures == 3
    assert summary.distinct_networks == 2


@pytest.mark.parametrize("instant", [False, True])
def test_nothing_is_asked_again_for_summary_and_page_but_the_test_accuracy_of_their_networks(
    instant,
):
    oracle, accuracy = Oracle(instant=instant), Accuracy()
    problem = problem_of(oracle, accuracy)
    assert (problem.survey is not None) is instant
    before = oracle.asked, accuracy.asked

    made = searched(range(200), problem)
    made.page().html()

    assert (oracle.asked - before[0], accuracy.asked - before[1]) == (200, 200)
    reported = [made.summary.best, made.summary.optimum, made.summary.mode]
    assert sum(one is not None for one in reported) == 2 + instant
    assert accuracy.tests_asked == 2 + instant + len(made.summary.front)


def test_a_mode_that_was_no_trial_is_reported_only_where_asking_is_free():
    made = searched(range(50))
    other = SPACE.architectures(np.array(60))
    settings = {"seconds": 1.0, "resumed_at": 0}

    oracle = Oracle(instant=False)
    live = problem_of(oracle)
    asked = summarise(made.trials, other, live, made.summary.settings, **settings)
    free = summarise(made.trials, other, made.problem, made.summary.settings, **settings)

    assert (asked.mode, oracle.asked) == (None, 0)
    assert asked.mode_arch == free.mode.arch == SPACE.text(other)
    assert (free.mode.index, free.mode.sample) == (60, None)
    assert free.mode.latency_ms == LATENCY_MS[60]
    rewards = made.problem.evaluate(SPACE.architectures(np.arange(SPACE.size))).rewards
    assert free.mode_gap == pytest.approx(rewards.max() - rewards[60])
    assert asked.mode_gap is None


def test_failed_trials_are_counted_and_take_no_part():
    best = int(np.argmax(np.where(LATENCY_MS[:50] <= 17, ACCURACY[:50], -1)))
    states = {best: State.failed, (best + 1) % 50: State.failed, (best + 2) % 50: State.failed}

    whole, summary = searched(range(50)).summary, searched(range(50), states=states).summary

    assert summary.states == {"done": 47, "failed": 3}
    assert summary.samples == 50
    assert sum(summary.latency_kinds.values()) == pytest.approx(1)
    assert whole.best.index == best != summary.best.index
    assert summary.best.sample == summary.best.index + 1
    assert summary.gap > whole.gap


@pytest.mark.parametrize("limit_ms", [5.0, 17.0, 30.0])
def test_the_gap_is_to_the_most_accurate_architecture_within_the_limit(limit_ms):
    summary = searched(range(2000), problem_of(limit_ms=limit_ms)).summary

    feasible = limit_ms >= LATENCY_MS
    best = summary.best.accuracy_searched
    assert summary.optimum.accuracy_searched == ACCURACY[feasible].max()
    assert summary.gap == pytest.approx(ACCURACY[feasible].max() - best)
    assert summary.best.rank == 1 + (ACCURACY[feasible] > best).sum()


def test_an_optimum_is_exact_only_where_no_prediction_can_change_it():
    within = np.flatnonzero(LATENCY_MS <= 3)
    best = within[np.argmax(ACCURACY[within])]
    better = np.flatnonzero(ACCURACY[best] < ACCURACY)[0]
    worse = np.flatnonzero(ACCURACY[best] > ACCURACY)[0]
    for number, exact, name in ((better, False, "partly predicted"), (worse, True, "exact")):
        kinds = np.full(SPACE.size, Kind.measured)
        kinds[number] = Kind.regression

        summary = searched(range(50), problem_of(Oracle(kind=kinds), limit_ms=3.0)).summary

        assert summary.optimum_exact is exact
        assert summary.space_latency_predicted == 1 / SPACE.size
        assert Answer(summary).optimum_name == f"{name} optimum"


class OnTwoBoards(Oracle):
    def places(self, architecture):
        ms = float(LATENCY_MS[SPACE.numbers(architecture)])
        return (
            Place("other board", ms / 2, Kind.measured, 17.0),
            Place("board", ms, Kind.regression, 17.0),
        )


def test_the_best_of_those_timed_again_wins_with_its_second_time():
    first, second, _ = order = np.argsort(-np.where(LATENCY_MS[:50] <= 17, ACCURACY[:50], -1))[:3]
    states = {first: State.failed}  # positions are those of the trials that were done
    shift = (order > first).astype(int)
    again = Latencies(np.array([18.0, 16.5]), np.full(2, Kind.measured, np.int8))
    confirmed = Confirmation((order - shift)[1:], again, 17.0)

    summary = searched(range(50), states=states, confirmed=confirmed).summary

    timed = SPACE.architectures(order[1:])
    assert [one.arch for one in summary.confirmation] == [SPACE.text(one) for one in timed]
    assert [one.within_T for one in summary.confirmation] == [False, True]
    assert summary.confirmation[0].sample == second + 1
    assert summary.best.index == order[2]
    assert summary.best.latency_ms == summary.best.latency_again_ms == 16.5
    assert summary.best.latency_first_ms == LATENCY_MS[order[2]]


class TestTheFile:
    @pytest.fixture
    def path(self, tmp_path):
        made = searched(range(200), states={3: State.failed})
        write_json(tmp_path / "summary.json", made.summary)
        return tmp_path / "summary.json"

    def test_is_read_as_it_was_written(self, path):
        made = searched(range(200), states={3: State.failed})

        assert read_json(path, Summary) == made.summary
        assert json.loads(path.read_text())["schema"] == SCHEMA == asdict(made.summary)["schema"]


def test_the_front_holds_what_no_trial_beats_in_both_and_its_share_of_the_true_one():
    whole, some = searched(range(SPACE.size)).summary, searched(range(300)).summary

    accuracy, latency_ms = ACCURACY[:300], LATENCY_MS[:300]
    beaten = [
        ((accuracy >= a) & (latency_ms <= ms)).sum() > 1
        for a, ms in zip(accuracy, latency_ms, strict=True)
    ]
    expected = sorted(latency_ms[~np.array(beaten)])
    np.testing.assert_allclose([trial.latency_ms for trial in some.front], expected)
    assert whole.front_share == pytest.approx(1)
    assert 0 < some.front_share < 1
