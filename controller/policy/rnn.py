"""REINFORCE (Williams, 1992) on an LSTM policy, with a moving baseline and an entropy bonus."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from controller.base import ControllerConfig
from controller.policy.lstm import Pass
from controller.policy.lstm_policy import LstmPolicy, require_hidden_size
from controller.randomness import ReplicaGenerators
from controller.state import require_shapes


@final
class RnnController:
    """The thesis's controller: a policy that emits the D choices one after another."""

    def __init__(self, config: RnnConfig, num_choices: Sequence[int], seeds: Sequence[int]) -> None:
        self._config = config
        self._positions = len(num_choices)
        self._generators = ReplicaGenerators(seeds)
        self._policy = LstmPolicy(num_choices, config.hidden_size, self._generators.each)
        self._baseline = np.full(len(seeds), np.nan)  # NaN until the first rewards
        self._entropy = np.full(len(seeds), np.nan)
        self._last: Pass | None = None

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""
        self._last = self._policy.draw(self._generators.uniform(batch_size, self._positions))
        return self._last.choices

    def update(
        self, architectures: Int64[ndarray, "R B D"], rewards: Float64[ndarray, "R B"]
    ) -> None:
        """Learn from the rewards of proposed architectures."""
        made = self._last
        if made is None or made.choices is not architectures:
            made = self._policy.emit(architectures)
        mean_reward = rewards.mean(-1)
        baseline = np.where(np.isnan(self._baseline), mean_reward, self._baseline)
        advantage = (rewards - baseline[:, None]).astype(np.float32)
        decay = self._config.baseline_decay
        self._baseline = decay * baseline + (1 - decay) * mean_reward
        self._entropy = self._policy.reinforce(
            made, advantage, self._config.entropy_weight, self._config.lr
        )

    def mode(self) -> Int64[ndarray, "R D"]:
        """The architecture the policy prefers, choice after choice."""
        return self._policy.mode()

    def probabilities(self) -> Float64[ndarray, "R D K"] | None:
        """Probability of each option of each position, mean over the batch sampled last."""
        return None if self._last is None else self._last.probabilities.mean(2, dtype=float)

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """The baseline, and the policy's entropy over the last batch in nats."""
        return {"baseline": self._baseline, "entropy": self._entropy.astype(float)}

    def state(self) -> dict[str, ndarray]:
        """Everything that decides what comes next, as arrays without objects."""
        return {
            **self._policy.state(),
            "baseline": self._baseline.copy(),
            "generators": self._generators.state(),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        require_shapes(state, {name: np.shape(array) for name, array in self.state().items()})
        self._policy.restore(state)
        self._baseline = state["baseline"].copy()
        self._generators.restore(state["generators"])
        self._last = None


@final
@dataclass
class RnnConfig(ControllerConfig):
    """Settings of the policy gradient; conf/controller/rnn.yaml holds their defaults."""

    lr: float  # of Adam
    hidden_size: int
    baseline_decay: float
    entropy_weight: float

    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> RnnController:
        """The controller for positions with these numbers of options, a replica a seed.

        Raises:
          ValueError: if a setting lies outside its range.
        """
        if not 0 < self.lr < math.inf:
            raise ValueError(f"controller.lr={self.lr:g} must be positive and finite")
        require_hidden_size(self.hidden_size)
        if not 0 <= self.baseline_decay < 1:
            raise ValueError(f"controller.baseline_decay={self.baseline_decay:g} must be in [0, 1)")
        if not 0 <= self.entropy_weight < math.inf:
            raise ValueError(
                f"controller.entropy_weight={self.entropy_weight:g} must be 0 or more, and finite"
            )
        return RnnController(self, num_choices, seeds)
