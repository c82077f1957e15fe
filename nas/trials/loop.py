"""The search loop: propose, ask, reward, learn. What is done with a step is the caller's.

$ python -m nas.search reward=proposed T=17ms
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Controller
from latency.base import LatencyOracle
from nas.accuracy.base import Accuracy
from nas.trials.limits import NO_FURTHER_LIMITS, Limits
from rewards.base import Reward


@final
@dataclass(frozen=True)
class Evaluated:
    """A batch of each replica with its answers, as a controller learns from it."""

    architectures: Int64[ndarray, "R B D"]
    accuracy: Float64[ndarray, "R B"]  # a fraction
    ratios: Float64[ndarray, "R B M"]  # each cost divided by its limit
    rewards: Float64[ndarray, "R B"]

    @property
    def failed(self) -> Bool[ndarray, "R B"]:
        """True where the reward is NaN."""
        return np.asarray(np.isnan(self.rewards))


@final
@dataclass(frozen=True)
class Step:
    """One batch of each replica, evaluated and learned from."""

    first: int  # samples that each replica had before this step
    architectures: Int64[ndarray, "R B D"]
    accuracy: Float64[ndarray, "R B"]  # on the split that is searched on, a fraction
    latency_ms: Float64[ndarray, "R B"]
    rewards: Float64[ndarray, "R B"]
    diagnostics: Mapping[str, Float64[ndarray, "R"]]

    @property
    def samples(self) -> int:
        """Samples that each replica has after this step."""
        return self.first + int(self.architectures.shape[1])


def search(
    controller: Controller,
    accuracy: Accuracy,
    oracle: LatencyOracle,
    reward: Reward,
    *,
    budget: int,
    batch_size: int,
    limits: Limits = NO_FURTHER_LIMITS,
    done: int = 0,
) -> Iterator[Step]:
    """Sample `budget` architectures in each replica, of which `done` have been sampled before.

    Raises:
      UserError: if the accuracy source lacks an architecture.
      UnmeasuredError: if the latency oracle does.
    """
    while done < budget:
        architectures = controller.sample(min(batch_size, budget - done))
        top1 = accuracy(architectures)
        latency_ms = oracle.latency_ms(architectures)
        further = limits.ratios(architectures)
        rewards = reward(top1, latency_ms, further)
        ratios = reward.ratios(latency_ms, further)
        controller.learn(Evaluated(architectures, top1, ratios, rewards), reward.of_ratios)
        step = Step(done, architectures, top1, latency_ms, rewards, controller.diagnostics())
        yield step
        done = step.samples
