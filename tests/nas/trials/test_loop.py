"""The loop, on synthetic sources."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Oracle, problem

from controller.libraries.settings import Nsga2Config, TpeConfig
from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from edgenas_core.types.kind import Kind
from latency.base import UnmeasuredError
from nas.runs.journal import Asked
from nas.search.replay import complete, replay
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.loop import search
from nas.trials.statistics import ChoiceHistory
from nas.trials.trial import State

PROBLEM = problem()


def steps(config, seeds, budget, *, about=PROBLEM, batch_size=None, **options):
    controller = config.build(SPACE, seeds)
    batch_size = batch_size or config.batch_size
    return list(search(controller, about, budget=budget, batch_size=batch_size, **options))


@pytest.mark.parametrize(("batch_size", "expected"), [(1, [1] * 10), (4, [4, 4, 2]), (20, [10])])
def test_the_budget_is_sampled_exactly_in_batches(batch_size, expected):
    found = steps(UniformConfig(), [0, 1], 10, batch_size=batch_size)

    assert [trials.architectures.shape for trials in found] == [(2, n, 6) for n in expected]
    assert [trials.first for trials in found] == np.cumsum([0, *expected[:-1]]).tolist()
    assert found[-1].last == 10


def test_trials_hold_what_the_sources_answer_and_the_kind_of_each_number():
    for trials in steps(UniformConfig(), [0], 9, batch_size=3):
        rows = trials.architectures
        np.testing.assert_array_equal(trials.accuracy, PROBLEM.accuracy.answer(rows).fraction)
        np.testing.assert_array_equal(trials.latency_ms, PROBLEM.oracle.answer(rows).ms)
        np.testing.assert_array_equal(
            trials.rewards, PROBLEM.reward(trials.accuracy, trials.latency_ms)
        )
        assert (trials.state == State.done).all()
        assert (trials.accuracy_kind == Kind.measured).all()
        assert (trials.latency_kind == Kind.measured).all()


def test_what_was_done_before_counts_toward_the_budget():
    found = steps(UniformConfig(), [0], 10, batch_size=4, first=7)

    assert [(trials.first, trials.last) for trials in found] == [(7, 10)]


def test_what_is_asked_is_handed_on_before_its_answer():
    oracle = Oracle(unmeasured_from_ms=1.0)  # answers nothing
    asked = []

    with pytest.raises(UnmeasuredError):
        steps(
            UniformConfig(),
            [0],
            4,
            batch_size=2,
            about=problem(oracle=oracle),
            on_asked=lambda first, rows: asked.append((first, rows.shape)),
        )

    assert asked == [(0, (1, 2, 6))]


def test_the_policy_gradient_finds_better_networks_within_the_limit_than_chance():
    config = RnnConfig(batch_size=4, lr=0.01, entropy_weight=0.0)

    found = steps(config, range(4), 2000)

    first = np.concatenate([s.rewards for s in found[:25]], axis=1)
    last = np.concatenate([s.rewards for s in found[-25:]], axis=1)
    assert (last.mean(1) > first.mean(1) + 0.2).all()


def test_an_unmeasured_architecture_ends_the_search_after_the_steps_before_it():
    controller = UniformConfig().build(SPACE, [0])
    about = problem(oracle=Oracle(unmeasured_from_ms=29.0))
    seen = []

    rest = search(controller, about, budget=5000, batch_size=1)

    with pytest.raises(UnmeasuredError):
        seen.extend(rest)  # keeps what came before the error

    assert seen
    assert all(np.isfinite(trials.latency_ms).all() for trials in seen)


@pytest.mark.parametrize(
    "config",
    [
        TpeConfig(),
        Nsga2Config(),
        RnnConfig(batch_size=3, lr=0.01, entropy_weight=0.0),
    ],
)
def test_a_replay_teaches_what_the_search_taught(config):
    begun, again = (config.build(SPACE, [0]) for _ in range(2))
    history, history_again = (ChoiceHistory(each, SPACE.num_choices, 60) for each in (begun, again))
    events, parts = [], {"budget": 60, "batch_size": 3}

    def asked(first, rows):
        events.append(Asked(first, rows))
        history(first, rows)

    for trials in search(begun, PROBLEM, on_asked=asked, **parts):
        events.append(trials.replica(0))  # noqa: PERF401 - between what `asked` adds
    journal = complete(events[:21])  # the last batch was asked, and not answered

    replayed = replay(again, PROBLEM, journal, history_again)

    assert (replayed.asked, len(replayed.trials)) == (30, 30)
    remaining = search(again, PROBLEM, first=30, on_asked=history_again, **parts)
    for trials, expected in zip(remaining, events[21::2], strict=True):
        np.testing.assert_array_equal(trials.architectures[0], expected.architectures)
    np.testing.assert_array_equal(history_again.means(), history.means())
