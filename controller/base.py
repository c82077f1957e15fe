"""The protocol of controllers, which propose architectures and learn from their evaluation.

A controller sees rows of D choice indices and numbers, never a network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Rows


@runtime_checkable
class Choices(Rows, Protocol):
    """The part of a search space that a controller uses: rows of D choice indices.

    A space may have a method `descriptions(architectures)`, which returns groups of numbers, each of shape
    (n, any), such as counts of paths and of operations: architectures that are close in one group are close in
    accuracy or cost. It may have a method `expected(architectures)`, a number each (n), larger where networks of
    other tasks were more accurate.
    """

    def valid(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True where a row is an architecture of the space."""

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw valid architectures, uniformly over options or over distinct networks."""

    def neighbours(self, architecture: Int64[ndarray, "D"]) -> Int64[ndarray, "n D"]:
        """Valid architectures that differ from this one in exactly one choice."""


class DivergedError(Exception):
    """Raised if a policy's parameters or probabilities are not finite, so that the search cannot continue."""


@runtime_checkable
class ScoredTrials(Protocol):
    """Evaluated architectures, a batch for each replica."""

    @property
    def architectures(self) -> Int64[ndarray, "R B D"]:
        """Rows of choice indices, proposed by the controller or given by the user."""

    @property
    def accuracy(self) -> Float64[ndarray, "R B"]:
        """Top-1 accuracy on the split that is searched on, a fraction; NaN where failed."""

    @property
    def ratios(self) -> Float64[ndarray, "R B M"]:
        """Each cost divided by its limit, the latency first; NaN where failed."""

    @property
    def rewards(self) -> Float64[ndarray, "R B"]:
        """Reward of each trial; NaN where failed."""

    @property
    def failed(self) -> Bool[ndarray, "R B"]:
        """True where the evaluation failed: there is no answer and there will be none."""


Score: TypeAlias = Callable[
    [
        Float64[ndarray, "*n"],  # accuracy
        Float64[ndarray, "*n M"],  # each cost divided by its limit
    ],
    Float64[ndarray, "*n"],  # reward
]
"""The reward as a function, for controllers that predict accuracy and costs themselves."""


@runtime_checkable
class Controller(Protocol):
    """R independent searches, one for each seed, that advance together.

    The architectures of a replica depend on its own seed and its own trials alone. Every proposed
    architecture is valid. Several batches may be sampled before their trials are learned from, and
    trials may be learned from in any order and in batches of any size.

    A stochastic policy has a method `probabilities()`, which returns the probability of each option of each
    position as an array of shape (R, D, K), or None before the first sample. It is the mean of the distributions
    that the last batch was drawn from, so an unbiased estimate of how often the policy takes an option. Options
    that a position lacks have 0.
    """

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica.

        Raises:
          DivergedError: if the policy's probabilities are not finite.
        """

    def learn(self, trials: ScoredTrials, score: Score) -> None:
        """Learn from evaluated architectures; `score` is the function behind their rewards.

        A failed trial counts as evaluated, but never as good: a controller that does not repeat
        itself does not propose it again.

        Raises:
          DivergedError: if the policy's parameters are not finite any more.
        """

    def mode(self) -> Int64[ndarray, "R D"] | None:
        """The architecture that each replica prefers now, or None if it has no preference."""

    def diagnostics(self) -> Mapping[str, Float64[ndarray, "R"]]:
        """Numbers to log, by name."""


class NoPreference:
    """Parts of a controller that prefers no architecture and has nothing to log."""

    def mode(self) -> None:
        """There is no preference."""

    def diagnostics(self) -> dict[str, Float64[ndarray, "R"]]:
        """Nothing to log."""
        return {}


@dataclass
class ControllerConfig(ABC):
    """Settings of a controller; YAML holds them, `build` makes the object."""

    batch_size = 1  # architectures that are proposed before the first of them is learned from
    is_taught = False  # whether it uses what other tasks let expect of an architecture

    def require_at_least(self, **least: int) -> None:
        """Check settings against their least values.

        Raises:
          ValueError: for the first that is less.
        """
        for name, bound in least.items():
            self.require(name, f"at least {bound}", fulfilled=getattr(self, name) >= bound)

    def require(self, setting: str, what: str, *, fulfilled: bool) -> None:
        """Check a setting; `what` describes the allowed values.

        Raises:
          ValueError: if that is not fulfilled.
        """
        if not fulfilled:
            raise ValueError(f"controller.{setting}={getattr(self, setting)} must be {what}")

    def search_front(self) -> None:
        """Search for the front of accuracy and latency instead of the highest reward.

        Raises:
          ValueError: if this controller cannot.
        """
        raise ValueError(
            "objectives=[accuracy,latency]: this controller maximises a reward; add "
            "controller=guided or controller=nsga2"
        )

    @abstractmethod
    def build(self, space: Choices, seeds: Sequence[int]) -> Controller:
        """Make the controller for a search space, with one replica for each seed.

        Raises:
          ValueError: if a setting lies outside its range, or the space does not suit.
        """
