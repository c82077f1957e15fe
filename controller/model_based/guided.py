"""A policy gradient guided by a model of the outcomes (DyNA-PPO: Angermueller et al., ICLR 2020).

The LSTM policy draws many architectures, which costs nothing; a Gaussian process predicts their
accuracy and costs; the most promising one is evaluated, and the policy learns from all predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray

from controller.base import Choices, ControllerConfig, Score, Trials
from controller.model_based.outcome_model import OutcomeModel
from controller.model_based.query_plan import NONE, QueryPlan
from controller.policy.lstm_policy import LstmPolicy, require_hidden_size
from controller.randomness import ReplicaGenerators
from controller.rows import keys_of, listing, packed, unpacked
from controller.state import require_shapes
from controller.uniform import UniformDraws

_DEPTH = 16  # queries planned at least, for asynchronous workers beyond the batch


@final
class GuidedController:
    """Asks for new architectures while that pays, and otherwise for what the policy draws.

    The longer no query has improved on the best, the rarer they become: a query is made with
    probability exp(-queries since the last improvement / patience). A planned query whose trial
    is pending is not made again.
    """

    def __init__(self, config: GuidedConfig, space: Choices, seeds: Sequence[int]) -> None:
        self._config = config
        self._space = space
        self._positions = len(space.num_choices)
        self._generators = ReplicaGenerators(seeds)
        self._policy = LstmPolicy(space, config.hidden_size, self._generators.each)
        self._models = [self._empty_model() for _ in seeds]
        shape = len(seeds), config.pool + config.anywhere, self._positions
        self._pool = np.zeros(shape, np.int64)
        self._plan = QueryPlan(
            len(seeds),
            self._positions,
            depth=max(_DEPTH, config.batch_size),
            window=config.window,
            margin=config.margin,
        )
        self._pending: list[set[bytes]] = [set() for _ in seeds]
        self._best = np.full(len(seeds), -np.inf)
        self._stale = np.zeros(len(seeds), np.int64)  # queries since the best was found
        self._updates = 0
        self._entropy = np.full(len(seeds), math.log(math.prod(space.num_choices)))
        self._draw = UniformDraws(space, self._generators)
        self._listed = listing(space)

    def _empty_model(self) -> OutcomeModel:
        return OutcomeModel(self._positions, self._config.reach, self._config.noise)

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica: planned queries, or policy samples."""
        u = self._generators.uniform(batch_size, self._positions + 1)
        choices = self._space.normal(self._policy.draw(u[..., 1:]).choices)
        plan = self._plan.affordable(batch_size, self._pending)
        asks = u[:, : plan.shape[1], 0] < np.exp(-self._stale / self._config.patience)[:, None]
        asks &= plan[..., 0] != NONE
        choices[:, : plan.shape[1]][asks] = plan[asks]
        for pending, rows in zip(self._pending, choices, strict=True):
            pending.update(keys_of(rows))
        return choices

    def learn(self, trials: Trials, score: Score) -> None:
        """Learn accuracy and costs, plan the next queries, and train the policy."""
        architectures, ratios = self._space.normal(trials.architectures), trials.ratios
        outcomes = np.concatenate([trials.accuracy[..., None], ratios], axis=-1)
        rewards = score(trials.accuracy, ratios)
        failed = trials.failed
        news = [
            self._add(replica, *batch)
            for replica, batch in enumerate(
                zip(architectures, outcomes, rewards, failed, strict=True)
            )
        ]
        if self._updates % self._config.teach_every == 0:
            self._teach(score)
        self._updates += 1
        costs = ratios.max(-1, initial=0)
        for replica, model in enumerate(self._models):
            self._plan.book(replica, costs[replica, ~failed[replica]])
            if news[replica] and len(model) >= self._config.random:
                self._make_plan(replica, score)

    def _add(
        self,
        replica: int,
        architectures: Int64[ndarray, "B D"],
        outcomes: Float64[ndarray, "B M"],
        rewards: Float64[ndarray, "B"],
        failed: Bool[ndarray, "B"],
    ) -> bool:
        """Take in a batch of one replica; returns whether anything in it was new."""
        model, keys = self._models[replica], keys_of(architectures)
        self._pending[replica].difference_update(keys)
        known, failures = len(model), len(model.failed)
        for key, row, outcome, reward, fails in zip(
            keys, architectures, outcomes, rewards.tolist(), failed.tolist(), strict=True
        ):
            if key in model or (fails and key in model.failed):
                continue
            better = not fails and reward > self._best[replica]
            self._stale[replica] = 0 if better else self._stale[replica] + 1
            if better:
                self._best[replica] = reward
            if fails:
                model.failed.add(key)
            else:
                model.add(row, outcome)
        if len(model) > known:
            model.fit()
        return len(model) > known or len(model.failed) > failures

    def _teach(self, score: Score) -> None:
        """Draw a new pool, and move the policy towards the best that the model expects.

        The best known architectures replace some draws, because a policy that has settled on worse
        ones may never draw them (self-imitation: Oh et al., ICML 2018).
        """
        u = self._generators.uniform(self._config.pool, self._positions)
        choices = self._space.normal(self._policy.draw(u).choices)
        self._pool = np.concatenate([choices, self._anywhere()], axis=1)
        advantage = np.zeros(choices.shape[:2], np.float32)
        for replica, model in enumerate(self._models):
            if len(model) >= self._config.random:
                best = model.architectures[model.best(self._config.imitate, score)]
                choices[replica, : len(best)] = best
                advantage[replica] = standard_ranks(model.expected(choices[replica], score))
        made = self._policy.emit(choices)
        self._entropy = self._policy.reinforce(
            made, advantage, self._config.entropy_weight, self._config.lr
        ).astype(float)

    def _anywhere(self) -> Int64[ndarray, "R N D"]:
        """Uniform architectures beside those of the policy."""
        count = self._config.anywhere
        if self._listed is None:
            return self._draw(count)
        drawn = self._generators.uniform(count) * len(self._listed)
        return self._listed.architectures(drawn.astype(np.int64))

    def _make_plan(self, replica: int, score: Score) -> None:
        """Choose the most promising of the pool and of the neighbours of the best known."""
        model = self._models[replica]
        best = model.best(max(self._config.polish, 1), score)
        rows = model.architectures[best]
        near = [self._space.neighbours(row) for row in rows[: self._config.polish]]
        candidates = np.unique(np.concatenate([self._pool[replica], *near]), axis=0)
        candidates = model.by_promise(candidates[model.untried(candidates)], score)
        costs = model.expected_cost(candidates)
        self._plan.make(replica, candidates, costs, rows[0], model.cost(int(best[0])))

    def mode(self) -> Int64[ndarray, "R D"]:
        """The architecture the policy prefers, choice after choice."""
        return self._policy.mode()

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """The policy's entropy in nats, the queries, and the queries since the best was found."""
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
            "known": np.concatenate([model.architectures for model in self._models]),
            "known_counts": np.array([len(model) for model in self._models]),
            "known_outcomes": np.concatenate([model.outcomes for model in self._models]),
            **packed("failed", [sorted(model.failed) for model in self._models], self._positions),
            **packed("pending", [sorted(keys) for keys in self._pending], self._positions),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """
        shapes: dict[str, tuple[int | None, ...]] = {
            name: array.shape for name, array in self.state().items()
        }
        shapes |= dict.fromkeys(("known", "failed", "pending"), (None, self._positions))
        require_shapes(state, {**shapes, "known_outcomes": (None, None)})
        self._policy.restore(state)
        self._generators.restore(state["generators"])
        self._pool = state["pool"].copy()
        self._plan.restore(state)
        self._best = state["best"].copy()
        self._stale = state["stale"].copy()
        self._updates = int(state["updates"])
        self._pending = [set(keys_of(rows)) for rows in unpacked("pending", state)]
        self._models = [self._empty_model() for _ in self._models]
        failed, known = unpacked("failed", state), unpacked("known", state)
        outcomes = iter(state["known_outcomes"])
        for model, failures, rows in zip(self._models, failed, known, strict=True):
            model.failed.update(keys_of(failures))
            for row in rows:
                model.add(row, next(outcomes))
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
    pool: int  # architectures that the policy draws for the model to predict
    anywhere: int  # architectures drawn uniformly beside them, for variety
    polish: int  # best known architectures, whose neighbours are predicted too
    imitate: int  # best known architectures that the policy learns from beside its draws
    random: int  # first queries, drawn by the untrained policy
    patience: float  # queries without improvement after which they are 1/e as frequent
    window: int  # samples whose mean cost is to stay within every limit
    margin: float  # and by how much of it
    reach: float  # of the kernel, and the noise beside it: gaussian_process.py
    noise: float

    def build(self, space: Choices, seeds: Sequence[int]) -> GuidedController:
        """Make the controller, with one replica for each seed.

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
        return GuidedController(self, space, seeds)
