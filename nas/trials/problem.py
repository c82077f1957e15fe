"""The search problem: a space, its accuracy and latency sources, the limits and, of a search, the reward."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from edgenas_core.types.answers import real_numbers, require_between
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from edgenas_core.types.units import LEAST_MS, MOST_MS
from latency.base import Latencies, LatencyOracle, Uncertainty
from latency.models.microcontrollers import is_chip
from nas.accuracy.base import Accuracies, Accuracy
from nas.spaces.base import SearchSpace
from nas.trials.limits import NO_FURTHER_LIMITS, Limits
from nas.trials.survey import EstimatedShare, Survey, estimated_share, survey, with_margin
from nas.trials.trial import State, Trials
from rewards.base import Reward


@dataclass(frozen=True)
class SearchProblem:
    """A space, its sources and the limits; rewards of its trials are NaN."""

    space: SearchSpace
    task: Task
    accuracy: Accuracy
    oracle: LatencyOracle
    limit_ms: float
    limits: Limits = NO_FURTHER_LIMITS
    confidence: float = 0.95  # share of answers of predicted latencies that are within T

    @cached_property
    def uncertainty(self) -> Uncertainty | None:
        """Uncertainty of predicted latencies; None if it is unknown."""
        uncertainty: Uncertainty | None = getattr(self.oracle, "uncertainty", None)
        if uncertainty is None or isinstance(self.space, Enumerable):
            return uncertainty
        return uncertainty.without_slack()

    def uncertainty_of(self, architecture: Int64[ndarray, "D"]) -> Uncertainty | None:
        """Uncertainty of the predicted latency of one architecture."""
        of_one = getattr(self.oracle, "uncertainty_of", None)
        if of_one is None or self.uncertainty is None:
            return self.uncertainty
        uncertainty: Uncertainty = of_one(architecture)
        return uncertainty if isinstance(self.space, Enumerable) else uncertainty.without_slack()

    @cached_property
    def margin(self) -> float:
        """Logarithm of the factor by which predicted latencies must be below T."""
        return 0.0 if self.uncertainty is None else self.uncertainty.margin(self.confidence)

    @property
    def is_for_microcontroller(self) -> bool:
        """Whether the device or the limits are those of a microcontroller."""
        return is_chip(self.oracle.device) or bool({"RAM", "flash"} & {*self.limits.symbols})

    @property
    def is_for_tflite(self) -> bool:
        """Whether the device or the limits belong to .tflite files."""
        return self.is_for_microcontroller or "/litert/" in self.oracle.device

    def compared_ms(self, latencies: Latencies) -> Float64[ndarray, "*n"]:
        """Latencies to compare with T: predictions times the factor of the margin, others as they are."""
        return with_margin(latencies.ms, latencies.kind, self.margin)

    def within_limits(self, trials: Trials) -> Bool[ndarray, "*n"]:
        """True where a finished trial is within every limit, also by a latency measured under other load."""
        within = (
            self.compared_ms(Latencies(trials.latency_ms, trials.latency_kind)) <= self.limit_ms
        )
        return np.asarray(within & (trials.state == State.done) & self.limits.met(trials.costs))

    def feasible(self, trials: Trials) -> Bool[ndarray, "*n"]:
        """True where a finished trial is within every limit, by a latency without other load."""
        return np.asarray(self.within_limits(trials) & (trials.latency_kind != Kind.disturbed))

    @cached_property
    def survey(self) -> Survey | None:
        """The exact answers about the whole space, for reports; None where they are not free."""
        return survey(
            self.space,
            self.accuracy,
            self.oracle,
            self.limit_ms,
            self.limits,
            margin=self.margin,
        )

    def surveyed(self, numbers: Int64[ndarray, "n"]) -> Trials:
        """Architectures of the space as trials of no search, number -1, answered by the survey."""
        survey = self.survey
        if survey is None:
            raise ValueError(f"{self.space.name} has no survey")
        answered = self.judge(
            0,
            survey.space.architectures(numbers),
            Latencies(survey.latency_ms[numbers], survey.latency_kind[numbers]),
            Accuracies(survey.accuracy[numbers], survey.accuracy_kind[numbers]),
            0.0,
        )
        return replace(answered, number=np.full(len(answered), -1))

    @cached_property
    def estimated_share(self) -> EstimatedShare | None:
        """The feasible share of a space without survey, from samples; None where asking is not free.

        Raises:
          UserError: if latencies are missing.
        """
        if self.survey is not None:
            return None
        return estimated_share(self.space, self.oracle, self.limit_ms, self.limits, self.margin)

    def evaluate(self, architectures: Int64[ndarray, "*n D"], first: int = 0) -> Trials:
        """Ask both sources about a batch, the latency first.

        Raises:
          UserError: if the accuracy source lacks an architecture.
          UnmeasuredError: if the latency oracle does.
        """
        started_s = time.perf_counter()
        latencies = self.oracle.answer(architectures.copy())
        accuracies = self.accuracy.answer(architectures.copy())
        seconds = time.perf_counter() - started_s
        return self.judge(first, architectures, latencies, accuracies, seconds)

    def judge(
        self,
        first: int,
        architectures: Int64[ndarray, "*n D"],
        latencies: Latencies,
        accuracies: Accuracies,
        seconds: float,
    ) -> Trials:
        """Make finished trials of answers; `seconds` is shared evenly among them.

        Raises:
          UserError: if a source or the reward, which may be the user's own, returned what is no answer.
        """
        shape = architectures.shape[:-1]
        latencies = Latencies(*_sound(self.oracle, latencies, shape, LEAST_MS, MOST_MS))
        # the R2 of a regression is negative where a network is worse than a constant
        is_trained = np.array_equal(accuracies.kind, np.full(shape, Kind.trained))
        least = -math.inf if is_trained else 0.0
        accuracies = Accuracies(*_sound(self.accuracy, accuracies, shape, least, 1.0))
        same = _constant_columns(shape)
        costs = self.limits.costs(architectures)
        compared_ms = self.compared_ms(latencies)
        further = costs / self.limits.bounds if self.limits else costs
        return Trials(
            number=same.number + first,
            architectures=architectures,
            state=same.done,
            accuracy=accuracies.fraction,
            accuracy_kind=accuracies.kind,
            latency_ms=latencies.ms,
            latency_kind=latencies.kind,
            costs=costs,
            ratios=self.ratios(compared_ms, further),
            rewards=self.rewards(accuracies.fraction, compared_ms, further),
            fidelity=same.fidelity,
            seconds=np.full(shape, seconds / max(1, math.prod(shape))),
            error=same.error,
        )

    def ratios(
        self, compared_ms: Float64[ndarray, "*n"], further: Float64[ndarray, "*n L"]
    ) -> Float64[ndarray, "*n M"]:
        """Every cost divided by its limit, the latency first."""
        return np.concatenate([(compared_ms / self.limit_ms)[..., None], further], axis=-1)

    def rewards(
        self,
        accuracy: Float64[ndarray, "*n"],
        compared_ms: Float64[ndarray, "*n"],  # noqa: ARG002 - for a reward
        further: Float64[ndarray, "*n L"],  # noqa: ARG002 - for a reward
    ) -> Float64[ndarray, "*n"]:
        """NaN: there is no reward."""
        return np.full(accuracy.shape, np.nan)


@final
@dataclass(frozen=True)
class RewardedProblem(SearchProblem):
    """A problem whose trials have a reward, from which controllers learn."""

    reward: Reward = field(kw_only=True)

    def rewards(
        self,
        accuracy: Float64[ndarray, "*n"],
        compared_ms: Float64[ndarray, "*n"],
        further: Float64[ndarray, "*n L"],
    ) -> Float64[ndarray, "*n"]:
        """Reward of accuracies, latencies and further costs, each of these divided by its limit."""
        return self.reward(accuracy, compared_ms, further)

    def score(
        self, accuracy: Float64[ndarray, "*n"], ratios: Float64[ndarray, "*n M"]
    ) -> Float64[ndarray, "*n"]:
        """The reward of an accuracy and of costs, each divided by its limit."""
        return self.reward.of_ratios(accuracy, ratios)


def _sound(
    source: Accuracy | LatencyOracle,
    answer: Latencies | Accuracies,
    shape: tuple[int, ...],
    least: float,
    most: float,
) -> tuple[Float64[ndarray, "*n"], Int8[ndarray, "*n"]]:
    """The numbers and kinds of an answer as new arrays."""
    origin = f"{source.source} returned"
    values, kinds = vars(answer).values()
    numbers = real_numbers(origin, values, shape)
    kinds = real_numbers(f"{origin} the kinds", kinds, shape).astype(np.int8)
    require_between(f"{origin} the kind", kinds, 0, max(Kind))
    require_between(origin, numbers, least, most, kinds != Kind.missing)
    return numbers, kinds


@final
@dataclass(frozen=True)
class _ConstantColumns:
    """Columns that are equal in all finished batches of a shape, cached for speed at batch 1."""

    number: Int64[ndarray, "*n"]
    done: Int8[ndarray, "*n"]
    fidelity: Int8[ndarray, "*n"]
    error: ndarray


@lru_cache(maxsize=8)
def _constant_columns(shape: tuple[int, ...]) -> _ConstantColumns:
    return _ConstantColumns(
        np.broadcast_to(np.arange(shape[-1]) if shape else 0, shape).copy(),
        np.full(shape, State.done, np.int8),
        np.zeros(shape, np.int8),
        np.full(shape, "", object),
    )
