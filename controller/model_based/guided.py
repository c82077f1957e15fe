"""Bayesian optimisation: evaluates the candidate with the largest expected improvement.

Independent Gaussian processes predict the accuracy score z(x) of a network x (`AccuracyScale`) and the logarithm
of each cost as a share of its limit (`OutcomeModel`). The acquisition function is

    EI(x) = sum_b P(largest share of a limit lies in bin b) E[max(z(x) - needed_b, 0)],

where needed_b is the least score with which a network in bin b exceeds the best known reward
(`needed_accuracy`). With `front`, it is the expected growth of the hypervolume (`Front`).

A batch is planned in four steps:

1. Fit the outcome model to at most `memory` trials.
2. Compute needed_b, or the front, from the smoothed accuracies of these trials.
3. Collect candidates that were not evaluated: neighbours of the `polish` best architectures, `anywhere` uniform
   draws, and then, twice, the neighbours of the four best candidates. The space need not be listed.
4. Take the candidate with the largest acquisition value, add it to the model as pending, and repeat until the
   batch is full.
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
    needed_accuracy,
    without_noise,
)
from controller.model_based.outcome_model import OutcomeModel, Outcomes, limits_bind
from controller.replicated import OneSearch, ReplicatedController, ReplicaTrials
from controller.rows import keys_of, rows_of

_FAILED = -np.inf  # accuracy of a failed trial; that of a pending one is NaN
_ROUNDS = 3  # rounds of candidates; the second and third hold neighbours of the best candidates
_CLIMBERS = 4  # best candidates of a round whose neighbours form the next round
_SHORTLIST = 64  # best candidates, from which a batch is chosen
_DRAWS = 256  # uniform draws in one attempt to find an architecture that was not asked
_ATTEMPTS = 20  # attempts to find one


@final
class GuidedSearch(OneSearch):
    """Search of one replica; its proposals depend only on its trials, in the order of the proposals."""

    def __init__(
        self, space: Choices, generator: np.random.Generator, config: GuidedConfig
    ) -> None:
        self._space = space
        self._generator = generator
        self._config = config
        self._positions = len(space.num_choices)
        self._model = OutcomeModel(space, around_limit=not config.front)
        self._expected = getattr(space, "expected", None)
        import scipy.linalg  # noqa: F401, PLC0415 - only libraries loaded by now are limited

        self._libraries = ThreadpoolController()
        self._rows: list[Int64[ndarray, "D"]] = []  # asked
        self._positions_of: dict[bytes, list[int]] = {}  # indices in `rows` by key
        self._accuracy: list[float] = []
        self._ratios: list[Float64[ndarray, "M"]] = []
        self._rewards = np.empty(0)  # of those that ended; -inf where failed or pending
        self._num_limits = 0
        self._needed = np.full(BINS, np.inf)
        self._planned: list[Int64[ndarray, "D"]] = []  # not proposed yet

    def propose(self, count: int) -> Int64[ndarray, "B D"]:
        """Next architectures to evaluate; repeats one only if no new one is found."""
        asked: list[ndarray] = []
        while len(asked) < count:
            if not self._planned:
                with self._libraries.limit(limits=1):  # threads cost more than these matrices
                    self._planned = self._plan(count - len(asked))
            asked.append(self._planned.pop(0))
            self._ask(asked[-1])
        return np.array(asked)

    def _ask(self, row: Int64[ndarray, "D"]) -> None:
        self._positions_of.setdefault(row.tobytes(), []).append(len(self._rows))
        self._rows.append(row)
        self._accuracy.append(np.nan)
        self._ratios.append(np.full(self._num_limits, np.nan))

    def learn(self, trials: ReplicaTrials, score: Score) -> None:
        """Add trials, proposed by this search or given by the user."""
        architectures, accuracy, ratios, failed = trials
        if self._num_limits != ratios.shape[1]:
            self._num_limits = ratios.shape[1]
            self._ratios = [np.full(self._num_limits, np.nan) for _ in self._rows]
        for row, value, costs, fails in zip(
            architectures, accuracy.tolist(), ratios, failed.tolist(), strict=True
        ):
            waiting = [
                at
                for at in self._positions_of.get(row.tobytes(), ())
                if np.isnan(self._accuracy[at])
            ]
            if not waiting:
                waiting = [len(self._rows)]
                self._ask(row)
            self._accuracy[waiting[0]] = _FAILED if fails else value
            self._ratios[waiting[0]] = costs
        if not failed.all():
            self._update_needed(score)

    def _update_needed(self, score: Score) -> None:
        """Compute the rewards of all trials, and the accuracy needed to exceed the best of them."""
        accuracy, ratios = np.array(self._accuracy), np.array(self._ratios)
        evaluated = np.isfinite(accuracy)
        rewards = np.full(len(evaluated), -np.inf)
        rewards[evaluated] = score(accuracy[evaluated], ratios[evaluated])
        best, limits = float(rewards.max()), ratios.shape[1]
        self._needed = needed_accuracy(score, best, accuracy[evaluated], limits)
        self._rewards = rewards

    def _plan(self, count: int) -> list[Int64[ndarray, "D"]]:
        """Plan at least one and at most `count` architectures, or more where fitting the model takes long."""
        accuracy = np.array(self._accuracy)
        evaluated = np.flatnonzero(np.isfinite(accuracy))
        rows, ratios = np.array(self._rows), np.array(self._ratios)
        if len(self._rows) < self._config.random or len(evaluated) < 2:
            is_bound = not self._config.front and len(evaluated) and limits_bind(ratios[evaluated])
            uniform = self._config.random - self._config.taught
            return self._uniform(1, best=len(self._rows) >= uniform and not is_bound)
        # 1. fit the model
        best_first = self._sort_by_reward(evaluated, accuracy, ratios)
        used = np.append(
            self._fitted_trials(best_first, accuracy), np.flatnonzero(np.isnan(accuracy))
        )
        self._model.fit(rows[used], accuracy[used], ratios[used], accuracy[used] == _FAILED)
        # 2. what is needed to be better
        self._update_bar(ratios[used][np.isfinite(accuracy[used])])
        # 3. candidates
        best = dict.fromkeys(keys_of(rows[best_first]))
        candidates = self._candidates(rows_of(list(best)[: self._config.polish], self._positions))
        if not len(candidates):
            return self._uniform(1)
        count = min(max(count, math.ceil(len(evaluated) / self._config.memory)), len(candidates))
        if count == 1:
            return [candidates[0]]
        # 4. choose greedily, each choice pending for the next
        outcomes = self._model.predict(candidates)
        chosen = []
        free = np.ones(len(candidates), bool)
        for _ in range(count):
            position = int(np.argmax(np.where(free, self._acquisition(outcomes), -np.inf)))
            free[position] = False
            chosen.append(candidates[position])
            outcomes.expect(position)
        return chosen

    def _sort_by_reward(
        self,
        evaluated: Int64[ndarray, "k"],
        accuracy: Float64[ndarray, "n"],
        ratios: Float64[ndarray, "n M"],
    ) -> Int64[ndarray, "k"]:
        """Indices of evaluated architectures by falling reward; with `front`, those of the front first, shuffled."""
        if not self._config.front:
            return evaluated[np.argsort(-self._rewards[evaluated], kind="stable")]
        _, which = Front.from_values(accuracy[evaluated], np.log(ratios[evaluated]))
        return evaluated[np.lexsort((self._generator.random(len(evaluated)), ~which))]

    def _update_bar(self, ratios: Float64[ndarray, "k M"]) -> None:
        """Compute the front, or the bar in each bin, that an architecture must exceed to be an improvement.

        Both use the model's smoothed accuracies, because the maximum of noisy values is biased upwards.
        """
        smoothed = self._model.smoothed
        if self._config.front:
            self._front, _ = Front.from_values(smoothed, self._model.log_costs)
        else:
            self._bar = without_noise(self._model.scale(self._needed), smoothed, ratios)

    def _fitted_trials(
        self, best_first: Int64[ndarray, "k"], accuracy: Float64[ndarray, "n"]
    ) -> Int64[ndarray, "m"]:
        """Indices of the trials to fit: the `memory / 2` best, and the latest of the others."""
        ended = np.flatnonzero(~np.isnan(accuracy))
        if len(ended) <= self._config.memory:
            return ended
        best = best_first[: self._config.memory // 2]
        others = ended[~np.isin(ended, best)]
        return np.sort(np.append(best, others[len(best) - self._config.memory :]))

    def _candidates(self, best: Int64[ndarray, "k D"]) -> Int64[ndarray, "n D"]:
        """Architectures not asked yet with the largest acquisition values, in falling order."""
        near = [self._space.neighbours(row) for row in best]
        fresh = self._not_asked([*near, self._space.sample(self._generator, self._config.anywhere)])
        candidates, values = fresh[:0], np.empty(0)
        for _ in range(_ROUNDS):
            if not len(fresh):
                break
            candidates = np.concatenate([candidates, fresh])
            values = np.append(values, self._acquisition(self._model.predict(fresh)))
            order = np.argsort(-values, kind="stable")
            seen = set(keys_of(candidates))
            near = [self._space.neighbours(row) for row in candidates[order[:_CLIMBERS]]]
            fresh = self._not_asked(near, seen)
        return candidates[np.argsort(-values, kind="stable")[:_SHORTLIST]]

    def _acquisition(self, outcomes: Outcomes) -> Float64[ndarray, "n"]:
        """Acquisition value of each candidate: growth of the front, or expected improvement."""
        accuracy = outcomes.accuracy.normal
        log_costs = [prediction.normal for prediction in outcomes.log_costs]
        if self._config.front:
            return self._front.growth(accuracy, log_costs)
        return expected_improvement(accuracy, log_costs, self._bar)

    def _not_asked(
        self, parts: Sequence[Int64[ndarray, "_ D"]], seen: Collection[bytes] = ()
    ) -> Int64[ndarray, "n D"]:
        """Distinct architectures of several lists that were neither asked nor seen."""
        keys = dict.fromkeys(keys_of(np.concatenate(parts)))
        new = [key for key in keys if key not in self._positions_of and key not in seen]
        return rows_of(new, self._positions)

    def _uniform(self, count: int, *, best: bool = False) -> list[Int64[ndarray, "D"]]:
        """Uniform draws that were not asked, or any if none is found; the best ones by other tasks, if these are known."""
        for _ in range(_ATTEMPTS):
            draws = self._space.sample(self._generator, _DRAWS)
            new = self._not_asked([draws])
            if len(new) and best and self._expected is not None:
                return list(new[np.argsort(-self._expected(new), kind="stable")[:count]])
            if len(new):
                return list(new[:count])
        return list(draws[:count])


@final
@dataclass
class GuidedConfig(ControllerConfig):
    """Settings of Bayesian optimisation; the constants were chosen by benchmarks/results/guided.md."""

    random = 4  # first architectures, drawn uniformly
    taught = 2  # of these, the last, are the best of many draws by other tasks, unless limits bind
    is_taught = True
    polish = 5  # best known architectures, whose neighbours are candidates
    anywhere = 256  # candidates drawn uniformly
    memory = 400  # trials that the model is fitted to at most
    front = False  # maximise the front of accuracy against latency, not the reward

    def search_front(self) -> None:
        """Set `front`."""
        self.front = True

    def build(self, space: Choices, seeds: Sequence[int]) -> ReplicatedController:
        """Make the controller, with one replica for each seed."""
        return ReplicatedController(space, partial(GuidedSearch, space, config=self), seeds)
