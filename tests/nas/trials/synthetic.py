"""A search problem whose numbers are formulas, for every space that can be listed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgenas_core.types.kind import Kind
from latency.base import Latencies, UnmeasuredError
from nas.accuracy.base import Accuracies, Split
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.problem import RewardedProblem
from rewards.constrained import ConstrainedReward


def worth(architectures):
    """The more, the more accurate and the slower: in [0, 1]."""
    return architectures.sum(-1) / 24


@dataclass
class Oracle:
    """1 to 41 ms; what takes longer than `unmeasured_from_ms` was not measured."""

    unmeasured_from_ms: float = np.inf
    device: str = "board"
    source: str = "table"
    description: str = "synthetic"
    instant: bool = True
    kind: Kind = Kind.measured

    def answer(self, architectures):
        ms = 1 + 40 * worth(architectures)
        if (ms >= self.unmeasured_from_ms).any():
            raise UnmeasuredError("not measured on board; latency=auto predicts")
        return Latencies(ms, np.full(ms.shape, self.kind, np.int8))

    def known(self, architectures):
        return 1 + 40 * worth(architectures) < self.unmeasured_from_ms


@dataclass
class Accuracy:
    """Accuracy is the worth of an architecture, test accuracy a hundredth less."""

    split: Split = Split.valid
    source: str = "table"
    description: str = "synthetic"
    instant: bool = True
    kind: Kind = Kind.measured
    tests_asked: int = 0

    def answer(self, architectures):
        fraction = worth(architectures)
        return Accuracies(fraction, np.full(fraction.shape, self.kind, np.int8))

    def known(self, architectures):
        return np.ones(architectures.shape[:-1], bool)

    def test(self, architectures):
        self.tests_asked += len(architectures)
        return worth(architectures) - 0.01


def problem(*, limit_ms=30.0, oracle=None, accuracy=None, reward=None, **others):
    return RewardedProblem(
        SPACE,
        SPACE.tasks["cifar100"],
        accuracy or Accuracy(),
        oracle or Oracle(),
        limit_ms,
        **others,
        reward=reward or ConstrainedReward(limit_ms),
    )
