"""A policy gradient guided by a model of what was measured (DyNA-PPO: Angermueller et al., ICLR 2020).

The LSTM policy draws many architectures, which costs nothing; a Gaussian process predicts their
accuracy and costs; what promises most is asked for, and the policy learns from all the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy import ndarray

from controller.base import ControllerConfig, Score
from controller.choice_space import ChoiceSpace
from controller.model_based.outcome_model import OutcomeModel
from controller.model_based.query_plan import NONE, QueryPlan
from controller.policy.lstm_policy import LstmPolicy, require_hidden_size
from controller.randomness import ReplicaGenerators
from controller.state import require_shapes


@final
class GuidedController:
    """Asks for new architectures while that pays, and otherwise for what the policy draws.

    The longer no query has improved on the best, the rarer they become: a query is made with
    probability exp(-queries since the last improvement / patience).
    """

    _of_any_length: ClassVar[dict[str, tuple[int | None, ...]]] = {
        "known_numbers": (None,),
        "known_outcomes": (None, None),
    }

    def __init__(
        self, config: GuidedConfig, num_choices: Sequence[int], seeds: Sequence[int]
    ) -> None:
        self._config = config
        self._space = ChoiceSpace(tuple(num_choices))
        self._generators = ReplicaGenerators(seeds)
        self._policy = LstmPolicy(num_choices, config.hidden_size, self._generators.each)
        self._models = [self._empty_model() for _ in seeds]
        self._pool = np.zeros((len(seeds), config.pool + config.anywhere), np.int64)
        self._plan = QueryPlan(len(seeds), config.batch_size, config.window, config.margin)
        self._best = np.full(len(seeds), -np.inf)
        self._stale = np.zeros(len(seeds), np.int64)  # queries since the best was found
        self._updates = 0
        self._entropy = np.full(len(seeds), math.log(self._space.size))

    def _empty_model(self) -> OutcomeModel:
        return OutcomeModel(self._space, self._config.reach, self._config.noise)

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica: what is planned, or the policy's."""
        u = self._generators.uniform(batch_size, len(self._space.num_choices) + 1)
        choices = self._policy.draw(u[..., 1:]).choices
        plan = self._plan.affordable()[:, :batch_size]
        asks = u[:, : plan.shape[1], 0] < np.exp(-self._stale / self._config.patience)[:, None]
        asks &= plan != NONE
        choices[:, : plan.shape[1]][asks] = self._space.architectures(plan[asks])
        return choices

    def update(
        self, architectures: Int64[ndarray, "R B D"], rewards: Float64[ndarray, "R B"]
    ) -> None:
        """Learn from rewards alone: they are then what the model predicts."""
        no_costs = np.empty((*rewards.shape, 0))
        self.update_outcomes(architectures, rewards, no_costs, lambda objective, _: objective)

    def update_outcomes(
        self,
        architectures: Int64[ndarray, "R B D"],
        accuracy: Float64[ndarray, "R B"],
        ratios: Float64[ndarray, "R B L"],
        score: Score,
    ) -> None:
        """Learn from what the rewards are made of, plan the next queries, and teach the policy."""
        outcomes = np.concatenate([accuracy[..., None], ratios], axis=-1)
        rewards = score(accuracy, ratios)
        numbers = self._space.numbers(architectures)
        news = [
            self._learn(replica, *told)
            for replica, told in enumerate(zip(numbers.tolist(), outcomes, rewards, strict=True))
        ]
        if self._updates % self._config.teach_every == 0:
            self._teach(score)
        self._updates += 1
        costs = ratios.max(-1, initial=0)
        for replica, model in enumerate(self._models):
            self._plan.book(replica, costs[replica])
            if news[replica] and len(model) >= self._config.random:
                self._make_plan(replica, score)

    def _teach(self, score: Score) -> None:
        """Draw a new pool, and move the policy towards what the model expects most of.

        Some draws give way to the best that are known, lest a policy that has settled on less never
        draws them (self-imitation: Oh et al., ICML 2018).
        """
        u = self._generators.uniform(self._config.pool, len(self._space.num_choices))
        choices = self._policy.draw(u).choices
        ours = self._space.numbers(choices)
        anywhere = self._generators.uniform(self._config.anywhere) * self._space.size
        self._pool = np.concatenate([ours, anywhere.astype(np.int64)], axis=1)
        advantage = np.zeros(ours.shape, np.float32)
        for replica, model in enumerate(self._models):
            if len(model) >= self._config.random:
                best = model.best(self._config.imitate, score)
                ours[replica, : len(best)] = best
                choices[replica, : len(best)] = self._space.architectures(best)
                advantage[replica] = standard_ranks(model.expected(ours[replica], score))
        made = self._policy.emit(choices)
        self._entropy = self._policy.reinforce(
            made, advantage, self._config.entropy_weight, self._config.lr
        ).astype(float)

    def _learn(
        self,
        replica: int,
        numbers: Sequence[int],
        outcomes: Float64[ndarray, "B M"],
        rewards: Float64[ndarray, "B"],
    ) -> bool:
        """Take in a batch of one replica; returns whether anything in it was new."""
        model = self._models[replica]
        before = len(model)
        for number, outcome, reward in zip(numbers, outcomes, rewards, strict=True):
            if number in model:
                continue
            model.add(number, outcome)
            better = reward > self._best[replica]
            self._stale[replica] = 0 if better else self._stale[replica] + 1
            self._best[replica] = max(self._best[replica], reward)
        if len(model) == before:
            return False
        model.fit()
        return True

    def _make_plan(self, replica: int, score: Score) -> None:
        """Choose what promises most, of the pool and of the neighbours of the best known."""
        model = self._models[replica]
        best = model.best(max(self._config.polish, 1), score).tolist()
        near = [self._space.neighbours(number) for number in best[: self._config.polish]]
        candidates = np.unique(np.concatenate([self._pool[replica], *near]))
        candidates = model.by_promise(candidates[~model.knows(candidates)], score)
        self._plan.make(
            replica, candidates, model.expected_cost(candidates), best[0], model.cost(best[0])
        )

    def mode(self) -> Int64[ndarray, "R D"]:
        """The architecture the policy prefers, choice after choice."""
        return self._policy.mode()

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """The policy's entropy in nats, the queries, and how many of them since the best."""
        return {
            "entropy": self._entropy,
            "queries": np.array([len(model) for model in self._models], float),
            "stale": self._stale.astype(float),
        }

    def state(self) -> dict[str, ndarray]:
        """Everything that decides what comes next, as arrays without objects."""
        return {
            **self._policy.state(),
            "generators": self._generators.state(),
            "pool": self._pool.copy(),
            **self._plan.state(),
            "best": self._best.copy(),
            "stale": self._stale.copy(),
            "updates": np.array(self._updates),
            "known_numbers": np.concatenate([model.numbers for model in self._models]),
            "known_outcomes": np.concatenate([model.outcomes for model in self._models]),
            "known_counts": np.array([len(model) for model in self._models]),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        shapes = {name: array.shape for name, array in self.state().items()}
        require_shapes(state, {**shapes, **self._of_any_length})
        self._policy.restore(state)
        self._generators.restore(state["generators"])
        self._pool = state["pool"].copy()
        self._plan.restore(state)
        self._best = state["best"].copy()
        self._stale = state["stale"].copy()
        self._updates = int(state["updates"])
        stops = state["known_counts"].cumsum()
        numbers = np.split(state["known_numbers"], stops[:-1])
        outcomes = np.split(state["known_outcomes"], stops[:-1])
        self._models = [self._empty_model() for _ in stops]
        for model, ours, told in zip(self._models, numbers, outcomes, strict=True):
            for number, outcome in zip(ours.tolist(), told, strict=True):
                model.add(number, outcome)
            if len(model):
                model.fit()


def standard_ranks(values: Float64[ndarray, "n"]) -> Float[ndarray, "n"]:
    """Ranks with mean 0 and the variance of a uniform distribution of variance 1; ties share."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - 0.5 * counts) / len(values)
    standard: Float[ndarray, "n"] = (math.sqrt(12) * (ranks[which] - 0.5)).astype(np.float32)
    return standard


@final
@dataclass
class GuidedConfig(ControllerConfig):
    """Settings of the guided policy gradient; conf/controller/guided.yaml holds their defaults."""

    lr: float  # of Adam
    hidden_size: int
    entropy_weight: float
    teach_every: int  # updates from one step of the policy to the next
    pool: int  # architectures that the policy draws for the model to judge
    anywhere: int  # architectures drawn uniformly beside them, lest the policy narrows the view
    polish: int  # best known architectures, whose neighbours are judged too
    imitate: int  # best known architectures that the policy learns from beside its draws
    random: int  # first queries, drawn by the untaught policy
    patience: float  # queries without improvement after which they are 1/e as frequent
    window: int  # samples whose mean cost is to stay within every limit
    margin: float  # and by how much of it
    reach: float  # of the kernel, and the noise beside it: gaussian_process.py
    noise: float

    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> GuidedController:
        """The controller for positions with these numbers of options, a replica a seed.

        Raises:
          ValueError: if a setting lies outside its range.
        """
        require_hidden_size(self.hidden_size)
        for name, least in (
            ("teach_every", 1),
            ("pool", 1),
            ("anywhere", 0),
            ("polish", 0),
            ("imitate", 0),
            ("random", 2),
            ("window", 1),
        ):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"controller.{name}={value} must be at least {least}")
        if not 0 <= self.margin < 1:
            raise ValueError(f"controller.margin={self.margin:g} must be in [0, 1)")
        if self.imitate > self.pool:
            raise ValueError(
                f"controller.imitate={self.imitate} must be at most controller.pool={self.pool}"
            )
        for name in ("lr", "patience", "reach", "noise"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"controller.{name}={value:g} must be positive and finite")
        if not 0 <= self.entropy_weight < math.inf:
            raise ValueError(
                f"controller.entropy_weight={self.entropy_weight:g} must be 0 or more, and finite"
            )
        return GuidedController(self, num_choices, seeds)
