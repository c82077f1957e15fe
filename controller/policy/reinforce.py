"""REINFORCE that converges: ranks as advantages, an entropy that falls to 0, and a memory of the best samples.

docs/explanation/policy.md describes it; benchmarks/results/policy.md has the contribution of each part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray

from controller.base import Choices, Score, ScoredTrials
from controller.policy.lstm import Pass
from controller.policy.lstm_policy import LstmPolicy, PolicyConfig
from controller.policy.pacing import WINDOW, Pacing
from controller.replicated import ReplicaGenerators

_DRAWS = 2  # draws of the policy for each sample
_PARENTS = 40  # most accurate architectures within the limits, whose neighbours are sampled
_CHEAPER = (
    0.8  # of the limit: cost of the architecture that is repeated where nothing is affordable
)
_GAIN = 10.0  # weight of the cost in the advantage, for each limit that the policy is beyond
_MOST = 3.0  # largest weight of the cost


@final
class ReinforceController:
    """A policy that converges to the maximum of the reward by the end of its horizon.

    It is updated after every `update_every` trials, whatever the batch size. A failed trial ranks below all others.
    """

    def __init__(self, config: ReinforceConfig, space: Choices, seeds: Sequence[int]) -> None:
        self._config = config
        self._space = space
        self._positions = len(space.num_choices)
        self._generators = ReplicaGenerators(seeds)
        self._policy = LstmPolicy(space, config.hidden_size, self._generators.each)
        self._elite = Elite(len(seeds), config.elite, self._positions)
        self._within = Elite(len(seeds), _PARENTS, self._positions)  # by accuracy
        self._cheaper = Elite(len(seeds), 1, self._positions)
        self._pacing = Pacing(len(seeds), tuple(space.num_choices))
        self._trials = 0
        self._most_entropy = math.log(math.prod(space.num_choices))
        self._entropy = np.full(len(seeds), self._most_entropy)
        self._cost = np.zeros(len(seeds))  # mean predicted cost of the policy's last draws
        self._waiting = np.zeros((len(seeds), 0, self._positions), np.int64)
        self._waiting_scores = np.zeros((len(seeds), 0))  # -inf where failed
        self._waiting_costs = np.zeros((len(seeds), 0))
        self._last: Pass | None = None  # the policy's last draws

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica; new ones as far as possible."""
        u = self._generators.uniform(batch_size * _DRAWS, self._positions)
        self._last = self._policy.draw(u)
        self._entropy = self._most_entropy * self._policy.entropy(self._last)
        draws = self._space.normal(self._last.choices)
        self._cost = self._pacing.predict(draws).mean(-1)
        best_known = [
            np.where(np.isfinite(best.scores)[..., None], best.architectures, draws[:, :1])
            for best in (self._elite, self._cheaper)
        ]
        candidates = np.concatenate([draws, *best_known], axis=1)
        self._put_neighbours(candidates[:, :batch_size])
        return self._pacing.choose(candidates, batch_size, self._is_guarded())

    def _put_neighbours(self, candidates: Int64[ndarray, "R B D"]) -> None:
        """Replace a share of the candidates by new neighbours of the most accurate architectures within the limits."""
        replaced = self._generators.uniform(candidates.shape[1]) < self._config.neighbours
        num_known = np.isfinite(self._within.scores).sum(-1)
        for replica, generator in enumerate(self._generators.each):
            for i in np.flatnonzero(replaced[replica] & (num_known[replica] > 0)):
                parent = self._within.architectures[replica, generator.integers(num_known[replica])]
                near = self._space.neighbours(parent)
                near = near[self._pacing.worth_asking(replica, near)]
                if len(near):
                    candidates[replica, i] = near[generator.integers(len(near))]

    def _is_guarded(self) -> Bool[ndarray, "R"]:
        """True for replicas whose best reward is within the limits, so that the mean cost is kept there, too."""
        guarded: Bool[ndarray, "R"] = (self._trials >= WINDOW) & (self._elite.costs[:, 0] <= 1)
        return guarded

    def learn(self, trials: ScoredTrials, score: Score) -> None:  # noqa: ARG002 - rewards suffice
        """Store the trials, and update the policy once `update_every` of them wait."""
        architectures, failed = self._space.normal(trials.architectures), trials.failed
        scores = np.where(failed, -np.inf, trials.rewards)
        costs = trials.ratios.max(-1, initial=0)
        feasible = ~failed & (costs <= 1)
        self._trials += scores.shape[1]
        self._pacing.add(architectures, np.where(failed, np.nan, costs))
        self._elite.add(architectures, scores, costs)
        self._cheaper.add(architectures, np.where(costs <= _CHEAPER, scores, -np.inf), costs)
        self._within.add(architectures, np.where(feasible, trials.accuracy, -np.inf), costs)
        self._waiting = np.concatenate([self._waiting, architectures], axis=1)
        self._waiting_scores = np.concatenate([self._waiting_scores, scores], axis=1)
        self._waiting_costs = np.concatenate([self._waiting_costs, costs], axis=1)
        if self._waiting.shape[1] >= self._config.update_every:
            self._update()
            self._waiting = self._waiting[:, :0]
            self._waiting_scores = self._waiting_scores[:, :0]
            self._waiting_costs = self._waiting_costs[:, :0]

    def _update(self) -> None:
        """Take one step of the policy on the waiting trials and the elite, ranked together.

        The advantage is the rank of the reward less the weighted rank of the cost. The elite shrinks to its best
        member in proportion to the target of the entropy.
        """
        elite = self._elite
        left = self._entropy_target() / self._most_entropy
        size = max(1, math.ceil(self._config.elite * left))
        architectures = np.concatenate([self._waiting, elite.architectures], axis=1)
        scores = np.concatenate([self._waiting_scores, elite.scores], axis=1)
        costs = np.concatenate([self._waiting_costs, elite.costs], axis=1)
        counted = np.ones(scores.shape, bool)
        waiting = self._waiting.shape[1]
        counted[:, waiting:] = np.isfinite(elite.scores)
        counted[:, waiting + size :] = False
        weight = self._cost_weight()[:, None]
        advantage = standard_ranks(scores, counted)
        succeeded = counted & np.isfinite(scores)
        advantage -= weight * standard_ranks(np.where(succeeded, costs, 0), succeeded)
        advantage /= 1 + weight
        advantage[:, waiting:] *= self._config.elite / size
        missed = (self._entropy_target() - self._entropy) / self._positions  # nats a position
        entropy_weight = self._config.entropy_gain * missed
        self._policy.reinforce(
            self._policy.emit(architectures),
            advantage.astype(np.float32),
            entropy_weight.astype(np.float32)[:, None, None, None],
            self._config.lr,
        )

    def _entropy_target(self) -> float:
        """Target of the policy's entropy, in nats: it falls linearly to 0."""
        end = self._config.converged_at * self._config.horizon
        return self._most_entropy * max(0.0, 1 - self._trials / end)

    def _cost_weight(self) -> Float64[ndarray, "R"]:
        """Weight of the cost's rank in the advantage; it rises with the excess of the policy's mean cost over 1."""
        weight: Float64[ndarray, "R"] = np.clip(_GAIN * (self._cost - 1), 0, _MOST)
        return np.where(self._is_guarded(), weight, 0)

    def mode(self) -> Int64[ndarray, "R D"]:
        """Greedy architecture: the most likely option at each position, one position after another."""
        return self._policy.mode()

    def probabilities(self) -> Float64[ndarray, "R D K"] | None:
        """Probability of each option of each position, mean over the policy's last draws."""
        return None if self._last is None else self._last.probabilities.mean(2, dtype=float)

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """Entropy of the policy and its target, in nats, and the weight of the cost."""
        return {
            "entropy": self._entropy,
            "entropy_target": np.full(len(self._entropy), self._entropy_target()),
            "cost_weight": self._cost_weight(),
        }


def standard_ranks(
    values: Float64[ndarray, "R N"], counted: Bool[ndarray, "R N"]
) -> Float[ndarray, "R N"]:
    """Ranks of each row, scaled to the range from -sqrt(3) to sqrt(3) (a uniform distribution of variance 1).

    Equal values share a rank. Values that are not `counted` have rank 0 and do not affect the others.
    """
    above = (values[:, :, None] > values[:, None]).astype(np.int64)
    above -= values[:, :, None] < values[:, None]
    above *= counted[:, None]
    ranks = above.sum(-1) * (math.sqrt(3) / np.maximum(counted.sum(-1, keepdims=True), 1))
    return np.where(counted, ranks, 0)


@final
@dataclass
class ReinforceConfig(PolicyConfig):
    """Settings of the policy gradient; conf/controller/reinforce.yaml holds their defaults.

    The constants were chosen by benchmarks/results/policy.md.
    """

    horizon: int  # trials

    update_every = 20  # trials
    elite = 10  # best known architectures, which every update learns from
    neighbours = 0.3  # share of samples near the most accurate known within the limits
    entropy_gain = 1.8  # weight of the entropy, for each nat a position beside its target
    converged_at = 0.9  # share of the horizon after which the target of the entropy is 0

    def build(self, space: Choices, seeds: Sequence[int]) -> ReinforceController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range.
        """
        self.require_finite("lr", positive=True)
        self.require_at_least(horizon=1)
        return ReinforceController(self, space, seeds)


@final
class Elite:
    """Distinct architectures with the highest scores of each replica, best first.

    Empty slots have a score of -inf and a cost of inf.
    """

    def __init__(self, replicas: int, size: int, positions: int) -> None:
        self.architectures = np.zeros((replicas, size, positions), np.int64)
        self.scores = np.full((replicas, size), -np.inf)
        self.costs = np.full((replicas, size), np.inf)

    def add(
        self,
        architectures: Int64[ndarray, "R B D"],
        scores: Float64[ndarray, "R B"],
        costs: Float64[ndarray, "R B"],
    ) -> None:
        """Add architectures that score higher than the worst member; of equal rows, the first one stays."""
        size = self.scores.shape[1]
        rows = np.concatenate([self.architectures, architectures], axis=1)
        scores = np.concatenate([self.scores, scores], axis=1)
        costs = np.concatenate([self.costs, costs], axis=1)
        filled = np.isfinite(scores)
        same = (rows[:, :, None] == rows[:, None]).all(-1) & filled[:, None]
        repeated = (same & np.tri(rows.shape[1], k=-1, dtype=bool)).any(-1)
        scores = np.where(repeated, -np.inf, scores)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :size]
        self.architectures = np.take_along_axis(rows, best[..., None], axis=1)
        self.scores = np.take_along_axis(scores, best, axis=1)
        self.costs = np.where(
            np.isfinite(self.scores), np.take_along_axis(costs, best, axis=1), np.inf
        )
