"""REINFORCE (Williams, 1992) on an LSTM policy, with a moving baseline and an entropy bonus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from controller.base import Choices, Score, ScoredTrials
from controller.policy.lstm import Pass
from controller.policy.lstm_policy import LstmPolicy, PolicyConfig
from controller.replicated import ReplicaGenerators


@final
class RnnController:
    """The thesis's controller: a policy that emits the D choices one after another.

    A trial is credited to the policy as it is when the trial arrives, even if an earlier policy
    drew it. A failed trial has advantage 0: only the entropy bonus acts on it.
    """

    def __init__(self, config: RnnConfig, space: Choices, seeds: Sequence[int]) -> None:
        self._config = config
        self._space = space
        self._positions = len(space.num_choices)
        self._generators = ReplicaGenerators(seeds)
        self._policy = LstmPolicy(space, config.hidden_size, self._generators.each)
        self._baseline = np.full(len(seeds), np.nan)  # NaN until the first rewards
        self._entropy = np.full(len(seeds), np.nan)
        self._last: Pass | None = None  # the batch sampled last
        self._is_current = False  # whether the weights are still those it was drawn with

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""
        self._last = self._policy.draw(self._generators.uniform(batch_size, self._positions))
        self._is_current = True
        return self._space.normal(self._last.choices)

    def learn(self, trials: ScoredTrials, score: Score) -> None:  # noqa: ARG002 - rewards suffice
        """Learn from the rewards of architectures, its own or given ones."""
        made = self._forward(trials.architectures)
        rewards, failed = trials.rewards, trials.failed
        some_failed = failed.any()
        mean_reward = _mean_of_evaluated(rewards, failed) if some_failed else rewards.mean(-1)
        baseline = np.where(np.isnan(self._baseline), mean_reward, self._baseline)
        advantage = (rewards - baseline[:, None]).astype(np.float32)
        decay = self._config.baseline_decay
        self._baseline = decay * baseline + (1 - decay) * mean_reward
        if some_failed:
            advantage[failed] = 0
            self._baseline = np.where(failed.all(-1), baseline, self._baseline)
        self._entropy = self._policy.reinforce(
            made, advantage, self._config.entropy_weight, self._config.lr
        )

    def _forward(self, architectures: Int64[ndarray, "R B D"]) -> Pass:
        """Forward pass of these architectures with the present weights."""
        last, is_current = self._last, self._is_current
        self._is_current = False  # the weights are about to change
        if is_current and last is not None and np.array_equal(last.choices, architectures):
            return last
        return self._policy.emit(architectures)

    def mode(self) -> Int64[ndarray, "R D"]:
        """The architecture the policy prefers, choice after choice."""
        return self._policy.mode()

    def probabilities(self) -> Float64[ndarray, "R D K"] | None:
        """Probability of each option of each position, mean over the batch sampled last."""
        return None if self._last is None else self._last.probabilities.mean(2, dtype=float)

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """The baseline, and the policy's entropy over the last batch in nats."""
        return {"baseline": self._baseline, "entropy": self._entropy.astype(float)}


def _mean_of_evaluated(
    rewards: Float64[ndarray, "R B"], failed: Bool[ndarray, "R B"]
) -> Float64[ndarray, "R"]:
    """Mean reward of each replica's trials; NaN where all of them failed."""
    count = (~failed).sum(-1)
    total = np.where(failed, 0, rewards).sum(-1)
    return np.where(count, total / np.maximum(count, 1), np.nan)


@final
@dataclass
class RnnConfig(PolicyConfig):
    """Settings of the policy gradient; conf/controller/rnn.yaml holds their defaults."""

    entropy_weight: float

    baseline_decay = 0.95

    def build(self, space: Choices, seeds: Sequence[int]) -> RnnController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range.
        """
        self.require_finite("lr", positive=True)
        self.require_finite("entropy_weight")
        return RnnController(self, space, seeds)
