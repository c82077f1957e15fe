"""What every searcher promises. It sees D choices of K options, nothing of networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float64, Int64
from numpy import ndarray


@runtime_checkable
class Controller(Protocol):
    """R independent searches, one a seed, that advance together.

    A replica's architectures depend on its own seed and its own rewards alone.
    """

    def sample(self, batch_size: int) -> Int64[ndarray, "R B D"]:
        """Propose architectures, a batch for each replica."""

    def update(
        self, architectures: Int64[ndarray, "R B D"], rewards: Float64[ndarray, "R B"]
    ) -> None:
        """Learn from the rewards of proposed architectures."""

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
class StochasticPolicy(Protocol):
    """A controller that draws each choice by probabilities it can tell."""

    def probabilities(self) -> Float64[ndarray, "R D K"] | None:
        """Probability of each option of each position, mean over the batch sampled last.

        A choice may depend on those before it, so this is the mean of what each sample was drawn
        by: an unbiased estimate of how often the policy takes an option. An option that a position
        lacks has 0; None before the first sample.
        """


@dataclass
class ControllerConfig(ABC):
    """Settings of a controller; YAML holds them, `build` makes the object."""

    batch_size: int

    @abstractmethod
    def build(self, num_choices: Sequence[int], seeds: Sequence[int]) -> Controller:
        """The controller for positions with these numbers of options, a replica a seed."""
