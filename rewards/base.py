"""Base class of rewards: accuracy and latency in, one number to maximise out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import overload

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from omegaconf import MISSING

from edgenas_core.types.answers import real_numbers, require_between

_LARGEST = np.finfo(float).max


@dataclass
class Reward(ABC):
    """A multi-objective reward; larger is better. It is its own config."""

    target_ms: float = MISSING

    @overload
    def __call__(self, accuracy: float, latency_ms: float) -> float: ...
    @overload
    def __call__(
        self,
        accuracy: Float64[ndarray, "*n"],
        latency_ms: Float64[ndarray, "*n"],
        further: Float64[ndarray, "*n L"] | None = None,
    ) -> Float64[ndarray, "*n"]: ...
    def __call__(
        self,
        accuracy: float | Float64[ndarray, "*n"],
        latency_ms: float | Float64[ndarray, "*n"],
        further: Float64[ndarray, "*n L"] | None = None,
    ) -> float | Float64[ndarray, "*n"]:
        """Reward of each pair of accuracy (a fraction) and latency (milliseconds, positive).

        `further` are the other costs, each divided by its own limit; with none of them, the
        reward is that of its paper. An evaluation that failed, of accuracy NaN, has the reward NaN.

        Raises:
          UserError: if the formula, which may be the user's own, returns no finite number for each.
        """
        # copies, into which a formula of the user's own may write
        answers = np.array(accuracy, float, ndmin=1), np.array(latency_ms, float, ndmin=1)
        is_known = np.isfinite(answers[0]) & np.isfinite(answers[1])
        if further is not None and further.shape[-1]:
            rewards = self.score_limits(*answers, further)
        else:
            rewards = self.score(*answers)
        origin = f"{type(self).__name__} returned"
        rewards = real_numbers(origin, rewards, is_known.shape)
        require_between(origin, rewards, -_LARGEST, _LARGEST, is_known)
        rewards = np.where(np.isnan(answers[0]), np.nan, rewards)  # failed, whatever its latency
        return rewards if np.ndim(accuracy) or np.ndim(latency_ms) else float(rewards[0])

    def ratios(
        self, latency_ms: Float64[ndarray, "*n"], further: Float64[ndarray, "*n L"]
    ) -> Float64[ndarray, "*n M"]:
        """Every cost divided by its limit, the latency first."""
        return np.concatenate([(latency_ms / self.target_ms)[..., None], further], axis=-1)

    def of_ratios(
        self, accuracy: Float64[ndarray, "*n"], ratios: Float64[ndarray, "*n M"]
    ) -> Float64[ndarray, "*n"]:
        """The reward of an accuracy and of what `ratios` makes of the costs."""
        return self(accuracy, ratios[..., 0] * self.target_ms, ratios[..., 1:])

    def score_limits(
        self,
        accuracy: Float64[ndarray, "*n"],
        latency_ms: Float64[ndarray, "*n"],
        further: Float64[ndarray, "*n L"],
    ) -> Float64[ndarray, "*n"]:
        """Reward with several limits: `score` at the latency whose ratio to T is the worst ratio."""
        worst = self.ratios(latency_ms, further).max(-1)
        return self.score(accuracy, worst * self.target_ms)

    @property
    def caveat(self) -> str:
        """Limit of this reward at this T, a sentence for the user; empty if there is none."""
        return ""

    @abstractmethod
    def score(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The formula, on arrays of one shape."""
