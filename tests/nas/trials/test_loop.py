"""The loop, on synthetic sources."""

from __future__ import annotations

import numpy as np
import pytest

from controller.libraries.nsga2 import Nsga2Config
from controller.libraries.tpe import TpeConfig
from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from latency.base import UnmeasuredError
from latency.sources.table import TableLatency
from nas.accuracy.base import Split
from nas.accuracy.tabular import TabularAccuracy
from nas.search.checkpoint import load_checkpoint, save_checkpoint
from nas.search.replay import replay
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.choice_history import OperationHistory
from nas.trials.loop import search
from nas.trials.trial import Samples
from rewards.constrained import ConstrainedReward
from runtime.shell.provenance import Kind

GRID = NAS_BENCH_201.num_choices
WORTH = np.indices(GRID).sum(0) / 24  # synthetic: the more, the more accurate and the slower
ROWS = tuple(NAS_BENCH_201.rows.T)
ACCURACY = TabularAccuracy(
    SPACE, "table", "synthetic", Kind.measured, Split.valid, WORTH[ROWS], WORTH[ROWS]
)
ORACLE = TableLatency("board", "table", "synthetic", 1 + 40 * WORTH, np.zeros(GRID, bool))
REWARD = ConstrainedReward(30.0)
STEP_COLUMNS = ("architectures", "accuracy", "latency_ms", "rewards")


def steps(config, seeds, budget, **options):
    controller = config.build(SPACE, seeds)
    return list(
        search(
            controller,
            ACCURACY,
            ORACLE,
            REWARD,
            budget=budget,
            batch_size=config.batch_size,
            **options,
        )
    )


@pytest.mark.parametrize(("batch_size", "expected"), [(1, [1] * 10), (4, [4, 4, 2]), (20, [10])])
def test_the_budget_is_sampled_exactly_in_batches(batch_size, expected):
    found = steps(UniformConfig(batch_size), [0, 1], 10)

    assert [step.architectures.shape for step in found] == [(2, n, 6) for n in expected]
    assert [step.first for step in found] == np.cumsum([0, *expected[:-1]]).tolist()
    assert found[-1].samples == 10


def test_a_step_holds_what_the_sources_say_of_its_architectures():
    for step in steps(UniformConfig(3), [0], 9):
        np.testing.assert_array_equal(step.accuracy, ACCURACY(step.architectures))
        np.testing.assert_array_equal(step.latency_ms, ORACLE.latency_ms(step.architectures))
        np.testing.assert_array_equal(step.rewards, REWARD(step.accuracy, step.latency_ms))


def test_what_was_done_before_counts_toward_the_budget():
    found = steps(UniformConfig(4), [0], 10, done=7)

    assert [(step.first, step.samples) for step in found] == [(7, 10)]


def test_the_policy_gradient_finds_better_networks_within_the_limit_than_chance():
    config = RnnConfig(
        batch_size=4, lr=0.01, hidden_size=16, baseline_decay=0.95, entropy_weight=0.0
    )

    found = steps(config, range(4), 2000)

    first = np.concatenate([s.rewards for s in found[:25]], axis=1)
    last = np.concatenate([s.rewards for s in found[-25:]], axis=1)
    assert (last.mean(1) > first.mean(1) + 0.2).all()


def test_an_unmeasured_architecture_ends_the_search_after_the_steps_before_it():
    holes = np.where(WORTH > 0.7, np.nan, 1 + WORTH)
    oracle = TableLatency("board", "table", "synthetic", holes, np.zeros(GRID, bool))
    controller = UniformConfig(1).build(SPACE, [0])
    seen = []

    rest = search(controller, ACCURACY, oracle, REWARD, budget=5000, batch_size=1)

    with pytest.raises(UnmeasuredError, match=r"latency\.unmeasured=regression"):
        seen.extend(rest)  # keeps what came before the error

    assert seen
    assert all(np.isfinite(step.latency_ms).all() for step in seen)


@pytest.mark.parametrize(
    "config",
    [
        TpeConfig(batch_size=3, n_startup_trials=5, n_ei_candidates=8),
        Nsga2Config(batch_size=3, population_size=8, constrained=True),
    ],
)
def test_a_replay_from_a_checkpoint_teaches_what_the_search_taught(config, tmp_path):
    begun, again = (config.build(SPACE, [0]) for _ in range(2))
    parts = {"budget": 60, "batch_size": 3}
    history, history_again = (OperationHistory(one, 60) for one in (begun, again))
    whole = []
    for step in search(begun, ACCURACY, ORACLE, REWARD, **parts):
        whole.append(step)
        if step.samples == 15:
            save_checkpoint(tmp_path / "checkpoint.npz", begun, history, step.samples)
    columns = [[getattr(step, name)[0] for step in whole] for name in STEP_COLUMNS]
    journal = Samples(*(np.concatenate(column)[:31] for column in columns))

    learned = load_checkpoint(tmp_path / "checkpoint.npz", again, history_again, len(journal))
    done = replay(again, REWARD, journal, history_again, done=learned, **parts)

    rest = search(again, ACCURACY, ORACLE, REWARD, done=done, **parts)
    assert (learned, done) == (15, 30)
    for step, expected in zip(rest, whole[10:], strict=True):
        np.testing.assert_array_equal(step.architectures, expected.architectures)
