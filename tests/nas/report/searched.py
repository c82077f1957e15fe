"""A finished search of made-up numbers, for the tests of what is printed, drawn and written."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from controller.uniform import UniformConfig
from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.accuracy.base import Accuracies, Split
from nas.report.run_folder import Environment
from nas.report.run_page import run_page
from nas.report.summary import RunSettings, Summary, summarise
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.limits import NO_FURTHER_LIMITS
from nas.trials.problem import RewardedProblem
from nas.trials.statistics import ChoiceHistory
from nas.trials.trial import State, Trials
from rewards.constrained import ConstrainedReward

ACCURACY = np.random.default_rng(0).uniform(0.1, 0.7, SPACE.size)
LATENCY_MS = np.random.default_rng(1).uniform(2, 40, SPACE.size)
BY_LATENCY = np.argsort(LATENCY_MS)
TASK = SPACE.tasks["cifar100"]
MACHINE = Environment(
    date="2026-11-21T09:00:00+00:00",
    python="3.11.7",
    platform="Linux",
    machine="x86_64",
    processors=2,
    packages={"edgenas": "0.1.0", "numpy": "2.4.6"},
)


class Oracle:
    """A latency for each number; NaN where there is none. It counts what it is asked."""

    def __init__(
        self, device="board", *, ms=LATENCY_MS, kind=Kind.measured, instant=True, source="table"
    ):
        self.device, self.source, self.instant = device, source, instant
        self.description = "made up"
        self.asked = 0
        self._ms, self._kind = ms, np.broadcast_to(np.asarray(kind, np.int8), ms.shape)

    def answer(self, architectures):
        numbers = SPACE.numbers(architectures)
        self.asked += numbers.size
        return Latencies(np.asarray(self._ms[numbers]), np.asarray(self._kind[numbers]))

    def known(self, architectures):
        return ~np.isnan(self._ms[SPACE.numbers(architectures)])


class Accuracy:
    """An accuracy for each number, test accuracy a hundredth less. It counts what it is asked."""

    def __init__(self, *, kind=Kind.measured, split=Split.valid, tests=True, source="table"):
        self.source, self.split, self.instant = source, split, True
        self.description = "made up"
        self.asked = self.tests_asked = 0
        self._kind, self._tests = kind, tests

    def answer(self, architectures):
        fraction = np.asarray(ACCURACY[SPACE.numbers(architectures)])
        self.asked += fraction.size
        return Accuracies(fraction, np.full(fraction.shape, self._kind, np.int8))

    def known(self, architectures):
        return np.ones(architectures.shape[:-1], bool)

    def test(self, architectures):
        self.tests_asked += len(architectures)
        tested = ACCURACY[SPACE.numbers(architectures)] - 0.01
        return np.asarray(tested if self._tests else np.full(tested.shape, np.nan))


def problem_of(oracle=None, accuracy=None, *, limit_ms=17.0, limits=NO_FURTHER_LIMITS):
    reward = ConstrainedReward(limit_ms)
    oracle, accuracy = oracle or Oracle(), accuracy or Accuracy()
    return RewardedProblem(SPACE, TASK, accuracy, oracle, limit_ms, limits, reward=reward)


@dataclass
class Searched:
    """What the report of a search is made of."""

    summary: Summary
    trials: Trials
    problem: RewardedProblem
    history: ChoiceHistory

    def page(self):
        command, config = "python -m nas.search T=17ms", "T: 17ms\n"
        return run_page(
            self.summary,
            self.trials,
            self.problem,
            self.history,
            environment=MACHINE,
            command=command,
            config=config,
        )


def searched(
    numbers,
    problem=None,
    *,
    epochs=200,
    controller=None,
    states=None,
    confirmed=None,
    stages=(),
    **settings,
):
    """A search that asked for the architectures of these numbers, in this order.

    `states` are those of the trials that are not done, by position.
    """
    problem = problem or problem_of()
    architectures = SPACE.architectures(np.asarray(numbers))
    searcher = (controller or UniformConfig()).build(SPACE, [0])
    history = ChoiceHistory(searcher, SPACE.num_choices, len(architectures))
    for first, row in enumerate(architectures):
        searcher.sample(1)
        history(first, row[None, None])
    trials = _unfinished(problem.evaluate(architectures), states or {})
    summary = summarise(
        trials,
        architectures[-1],
        problem,
        RunSettings(
            **{
                "space": SPACE.name,
                "dataset": TASK.name,
                "dataset_title": str(TASK),
                "reward": "proposed",
                "controller": "rnn",
                "epochs": epochs,
                "test_epochs": 200,
                "seed": 3,
                "budget": len(architectures),
                **settings,
            }
        ),
        seconds=1.0,
        resumed_at=0,
        confirmed=confirmed,
        stages=stages,
    )
    return Searched(summary, trials, problem, history)


def _unfinished(trials, states):
    """Trials without an accuracy; one that failed has its error."""
    at = np.array(list(states), np.int64)
    columns = {
        "state": list(states.values()),
        "accuracy": np.nan,
        "accuracy_kind": Kind.missing,
        "rewards": np.nan,
        "error": [
            "RuntimeError: diverged" if one is State.failed else "" for one in states.values()
        ],
    }
    changed = {name: getattr(trials, name).copy() for name in columns}
    for name, values in columns.items():
        changed[name][at] = values
    return replace(trials, **changed)
