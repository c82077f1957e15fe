"""What every searcher promises. It sees D choices of K options, nothing of networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray


@runtime_checkable
class Choices(Protocol):
    """What a searcher needs of a search space: rows of D choices, and nothing of networks."""

    num_choices: tuple[int, ...]  # number of options at each position

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Set switched-off positions to 0, so that one architecture is one row."""

    def valid(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True where a row is an architecture of the space."""

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw valid architectures uniformly over the options of each position."""

    def neighbours(self, architecture: Int64[ndarray, "D"]) -> Int64[ndarray, "n D"]:
        """Valid architectures that differ from this one in exactly one choice."""


@runtime_checkable
class EnumerableChoices(Choices, Protocol):
    """Choices few enough to be listed: numbered from 0 to `size` - 1."""

    size: int

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n D"]:
        """Architecture of each number."""

    def numbers(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n"]:
        """Number of each architecture."""


class DivergedError(Exception):
    """The controller's settings drove its policy to numbers that are none; it cannot go on."""


@runtime_checkable
class Controller(Protocol):
    """R independent searches, one a seed, that advance together.

    A replica's architectures depend on its own seed and its own rewards alone.
    """

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica.

        Raises:
          DivergedError: if what it learned so far is not finite.
        """

    def update(
        self, architectures: Int64[ndarray, "R B D"], rewards: Float64[ndarray, "R B"]
    ) -> None:
        """Learn from the rewards of proposed architectures.

        Raises:
          DivergedError: if what it learned is not finite.
        """

    def mode(self) -> Int64[ndarray, "R D"] | None:
        """The architecture each replica's policy now prefers; None without a policy."""

    def diagnostics(self) -> Mapping[str, Float64[ndarray, "R"]]:
        """What the controller knows about itself, by name, for logs."""

    def state(self) -> dict[str, ndarray]:
        """Everything that decides what comes next, as arrays without objects."""

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on exactly where `state` was taken.

        Raises:
          ValueError: if the state is of another controller or of other sizes.
        """


@runtime_checkable
class Trials(Protocol):
    """Evaluated architectures, a batch for each replica, as `Controller.learn` takes them in."""

    @property
    def architectures(self) -> Int64[ndarray, "R B D"]:
        """What was proposed, or given."""

    @property
    def accuracy(self) -> Float64[ndarray, "R B"]:
        """Top-1 on the split that is searched on, a fraction; NaN where the trial failed."""

    @property
    def ratios(self) -> Float64[ndarray, "R B M"]:
        """Each cost divided by its limit, the latency first; NaN where the trial failed."""

    @property
    def rewards(self) -> Float64[ndarray, "R B"]:
        """What the reward made of them; NaN where the trial failed."""

    @property
    def failed(self) -> Bool[ndarray, "R B"]:
        """True where there is no answer and there will be none."""


@runtime_checkable
class StochasticPolicy(Protocol):
    """A controller that draws each choice by probabilities it can tell."""

    def probabilities(self) -> Float64[ndarray, "R D K"] | None:
        """Probability of each option of each position, mean over the batch sampled last.

        A choice may depend on those before it, so this is the mean of what each sample was drawn
        by: an unbiased estimate of how often the policy takes an option. An option that a position
        lacks has 0; None before the first sample.
        """


@runtime_checkable
class LearnsFromObjectives(Protocol):
    """A controller whose method has objectives and constraints instead of a reward."""

    def update_objectives(
        self,
        architectures: Int64[ndarray, "R B D"],
        accuracy: Float64[ndarray, "R B"],
        ratios: Float64[ndarray, "R B L"],
    ) -> None:
        """Learn from what the rewards were made of.

        `ratios` are the costs, each divided by its limit: at most 1 is within it.
        """


Score: TypeAlias = Callable[
    [
        Float64[ndarray, "*n"],  # accuracy
        Float64[ndarray, "*n L"],  # each cost divided by its limit
    ],
    Float64[ndarray, "*n"],  # reward
]


@runtime_checkable
class LearnsFromOutcomes(Protocol):
    """A controller that predicts what rewards are made of, and makes rewards of its predictions."""

    def update_outcomes(
        self,
        architectures: Int64[ndarray, "R B D"],
        accuracy: Float64[ndarray, "R B"],
        ratios: Float64[ndarray, "R B L"],
        score: Score,
    ) -> None:
        """Learn from what the rewards were made of, and from how."""


Teach: TypeAlias = Callable[
    [
        Int64[ndarray, "R B D"],  # architectures
        Float64[ndarray, "R B"],  # accuracy
        Float64[ndarray, "R B L"],  # each cost divided by its limit
        Float64[ndarray, "R B"],  # rewards
    ],
    None,
]


def teacher_of(controller: Controller, score: Score) -> Teach:
    """How this controller is told how good its architectures are: in the terms of its method."""
    if isinstance(controller, LearnsFromOutcomes):
        return lambda architectures, accuracy, ratios, _: controller.update_outcomes(
            architectures, accuracy, ratios, score
        )
    if isinstance(controller, LearnsFromObjectives):
        return lambda architectures, accuracy, ratios, _: controller.update_objectives(
            architectures, accuracy, ratios
        )
    return lambda architectures, _accuracy, _ratios, rewards: controller.update(
        architectures, rewards
    )


@dataclass
class ControllerConfig(ABC):
    """Settings of a controller; YAML holds them, `build` makes the object."""

    batch_size: int

    @abstractmethod
    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> Controller:
        """The controller for positions with these numbers of options, a replica a seed."""
