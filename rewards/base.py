"""What every reward promises: accuracy and latency in, one number to maximise out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np
from omegaconf import MISSING

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray


@dataclass
class Reward(ABC):
    """A multi-objective reward; larger is better. It is its own config."""

    target_ms: float = MISSING

    @overload
    def __call__(self, accuracy: float, latency_ms: float) -> float: ...
    @overload
    def __call__(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]: ...
    def __call__(
        self,
        accuracy: float | Float64[ndarray, "*n"],
        latency_ms: float | Float64[ndarray, "*n"],
    ) -> float | Float64[ndarray, "*n"]:
        """Reward of each pair of accuracy (a fraction) and latency (milliseconds, positive)."""
        rewards = self.score(np.asarray(accuracy, float), np.asarray(latency_ms, float))
        return rewards if isinstance(rewards, np.ndarray) and rewards.ndim else float(rewards)

    @abstractmethod
    def score(
        self, accuracy: Float64[ndarray, "*n"], latency_ms: Float64[ndarray, "*n"]
    ) -> Float64[ndarray, "*n"]:
        """The formula, on arrays of one shape."""
