"""Bayesian optimisation: asks for the network that is expected to improve most on the best.

Gaussian processes predict accuracy and costs of candidates from what was evaluated. Candidates are
the neighbours of the best known, uniform draws, and the neighbours of the most promising of both,
so the space need not be listed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from threadpoolctl import ThreadpoolController

from controller.base import Choices, ControllerConfig, Score
from controller.model_based.front import Front
from controller.model_based.needed_accuracy import (
    BINS,
    expected_improvement,
    lowered,
    needed_accuracy,
)
from controller.model_based.outcome_model import OutcomeModel, Outcomes
from controller.replicated import ReplicatedController, ReplicaTrials
from controller.rows import keys_of, rows_of

_FAILED = -np.inf  # accuracy of a failed trial; that of a pending one is NaN
_ROUNDS = 3  # of candidates; those of the second and third are neighbours of the most promising
_CLIMBERS = 4  # most promising candidates whose neighbours come next
_SHORTLIST = 64  # most promising candidates, of which a batch is chosen
_DRAWS = 256  # uniform draws among which an architecture not yet asked is sought
_ATTEMPTS = 20  # times that so many are drawn


@final
class GuidedSearch:
    """One search. What it asks depends on its trials, in the order in which it asked them."""

    def __init__(
        self, space: Choices, generator: np.random.Generator, config: GuidedConfig
    ) -> None:
        self._space = space
        self._generator = generator
        self._config = config
        self._positions = len(space.num_choices)
        self._model = OutcomeModel(space, around_limit=not config.front)
        import scipy.linalg  # noqa: F401, PLC0415 - only libraries loaded by now are limited

        self._libraries = ThreadpoolController()
        self._rows: list[Int64[ndarray, "D"]] = []  # asked
        self._at: dict[bytes, list[int]] = {}  # where in `rows`
        self._accuracy: list[float] = []
        self._ratios: list[Float64[ndarray, "M"]] = []
        self._rewards = np.empty(0)  # of those that ended; -inf where failed or pending
        self._num_limits = 0
        self._needed = np.full(BINS, np.inf)
        self._ahead: list[Int64[ndarray, "D"]] = []  # chosen, and not asked yet

    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """The next architectures, none of them asked before unless all have been."""
        asked: list[ndarray] = []
        while len(asked) < count:
            if not self._ahead:
                with self._libraries.limit(limits=1):  # threads cost more than these matrices
                    self._ahead = self._planned(count - len(asked))
            asked.append(self._ahead.pop(0))
            self._ask(asked[-1])
        return np.array(asked)

    def _ask(self, row: Int64[ndarray, "D"]) -> None:
        self._at.setdefault(row.tobytes(), []).append(len(self._rows))
        self._rows.append(row)
        self._accuracy.append(np.nan)
        self._ratios.append(np.full(self._num_limits, np.nan))

    def learn(self, trials: ReplicaTrials, score: Score) -> None:
        """Take in trials, whether they were asked here or not."""
        architectures, accuracy, ratios, failed = trials
        if self._num_limits != ratios.shape[1]:
            self._num_limits = ratios.shape[1]
            self._ratios = [np.full(self._num_limits, np.nan) for _ in self._rows]
        for row, value, costs, fails in zip(
            architectures, accuracy.tolist(), ratios, failed.tolist(), strict=True
        ):
            waiting = [at for at in self._at.get(row.tobytes(), ()) if np.isnan(self._accuracy[at])]
            if not waiting:
                waiting = [len(self._rows)]
                self._ask(row)
            self._accuracy[waiting[0]] = _FAILED if fails else value
            self._ratios[waiting[0]] = costs
        if not failed.all():
            self._judge(score)

    def _judge(self, score: Score) -> None:
        """Compare what is known, and find what is needed to be better."""
        accuracy, ratios = np.array(self._accuracy), np.array(self._ratios)
        evaluated = np.isfinite(accuracy)
        rewards = np.full(len(evaluated), -np.inf)
        rewards[evaluated] = score(accuracy[evaluated], ratios[evaluated])
        best, limits = float(rewards.max()), ratios.shape[1]
        self._needed = needed_accuracy(score, best, accuracy[evaluated], limits)
        self._rewards = rewards

    def _planned(self, count: int) -> list[Int64[ndarray, "D"]]:
        """The next architectures to ask, chosen together."""
        accuracy = np.array(self._accuracy)
        evaluated = np.flatnonzero(np.isfinite(accuracy))
        if len(self._rows) < self._config.random or len(evaluated) < 2:
            return self._uniform(1)
        rows, ratios = np.array(self._rows), np.array(self._ratios)
        best_first = self._best_first(evaluated, accuracy, ratios)
        used = np.append(self._used(best_first, accuracy), np.flatnonzero(np.isnan(accuracy)))
        self._model.fit(rows[used], accuracy[used], ratios[used], accuracy[used] == _FAILED)
        self._compare(ratios[used][np.isfinite(accuracy[used])])
        best = dict.fromkeys(keys_of(rows[best_first]))
        candidates = self._candidates(rows_of(list(best)[: self._config.polish], self._positions))
        if not len(candidates):
            return self._uniform(1)
        count = min(max(count, math.ceil(len(evaluated) / self._config.memory)), len(candidates))
        if count == 1:
            return [candidates[0]]
        outcomes = self._model.predict(candidates)
        chosen = []
        free = np.ones(len(candidates), bool)
        for _ in range(count):
            position = int(np.argmax(np.where(free, self._promise(outcomes), -np.inf)))
            free[position] = False
            chosen.append(candidates[position])
            outcomes.expect(position)
        return chosen

    def _best_first(
        self,
        evaluated: Int64[ndarray, "k"],
        accuracy: Float64[ndarray, "n"],
        ratios: Float64[ndarray, "n M"],
    ) -> Int64[ndarray, "k"]:
        """Evaluated architectures, the best first, or those of the front, in any order."""
        if not self._config.front:
            return evaluated[np.argsort(-self._rewards[evaluated], kind="stable")]
        _, which = Front.of(accuracy[evaluated], np.log(ratios[evaluated]))
        return evaluated[np.lexsort((self._generator.random(len(evaluated)), ~which))]

    def _compare(self, ratios: Float64[ndarray, "k M"]) -> None:
        """Compute the front, or the accuracy bar, that an architecture must exceed to be an improvement.

        Both use the model's smoothed accuracies: of noisy ones the maximum is biased upwards.
        """
        smoothed = self._model.smoothed
        if self._config.front:
            self._front, _ = Front.of(smoothed, self._model.log_costs)
        else:
            self._bar = lowered(self._model.scale(self._needed), smoothed, ratios)

    def _used(
        self, best_first: Int64[ndarray, "k"], accuracy: Float64[ndarray, "n"]
    ) -> Int64[ndarray, "m"]:
        """Trials to fit: the best half of what the model remembers, and the latest."""
        ended = np.flatnonzero(~np.isnan(accuracy))
        if len(ended) <= self._config.memory:
            return ended
        best = best_first[: self._config.memory // 2]
        others = ended[~np.isin(ended, best)]
        return np.sort(np.append(best, others[len(best) - self._config.memory :]))

    def _candidates(self, best: Int64[ndarray, "k D"]) -> Int64[ndarray, "n D"]:
        """The most promising of those not asked yet: around the best known, anywhere, and near them."""
        near = [self._space.neighbours(row) for row in best]
        fresh = self._new([*near, self._space.sample(self._generator, self._config.anywhere)])
        candidates, promise = fresh[:0], np.empty(0)
        for _ in range(_ROUNDS):
            if not len(fresh):
                break
            candidates = np.concatenate([candidates, fresh])
            promise = np.append(promise, self._promise(self._model.predict(fresh)))
            order = np.argsort(-promise, kind="stable")
            seen = set(keys_of(candidates))
            near = [self._space.neighbours(row) for row in candidates[order[:_CLIMBERS]]]
            fresh = self._new(near, seen)
        return candidates[np.argsort(-promise, kind="stable")[:_SHORTLIST]]

    def _promise(self, outcomes: Outcomes) -> Float64[ndarray, "n"]:
        if self._config.front:
            return self._front.growth(outcomes.accuracy, outcomes.log_costs)
        return expected_improvement(outcomes.accuracy, outcomes.log_costs, self._bar)

    def _new(
        self, parts: Sequence[Int64[ndarray, "_ D"]], seen: Collection[bytes] = ()
    ) -> Int64[ndarray, "n D"]:
        """Architectures of several lists that were neither asked nor seen, each once."""
        keys = dict.fromkeys(keys_of(np.concatenate(parts)))
        new = [key for key in keys if key not in self._at and key not in seen]
        return rows_of(new, self._positions)

    def _uniform(self, count: int) -> list[Int64[ndarray, "D"]]:
        """Uniform draws, new ones if some are found."""
        for _ in range(_ATTEMPTS):
            draws = self._space.sample(self._generator, _DRAWS)
            new = self._new([draws])
            if len(new):
                return list(new[:count])
        return list(draws[:count])


@final
@dataclass
class GuidedConfig(ControllerConfig):
    """Settings of Bayesian optimisation; conf/controller/guided.yaml holds their defaults."""

    random: int  # first architectures, drawn uniformly
    polish: int  # best known architectures, whose neighbours are candidates
    anywhere: int  # candidates drawn uniformly
    memory: int  # trials that the model is fitted to at most
    front: bool  # maximise the front of accuracy against latency, not the reward

    def search_front(self) -> None:
        """Set `front`."""
        self.front = True

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range.
        """
        self.require_at_least(random=2, polish=1, anywhere=1, memory=10)
        return ReplicatedController(space, partial(GuidedSearch, space, config=self), seeds)
