"""Protocols of latency oracles, and of the search spaces that they answer for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable, Keys
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind, is_predicted
from edgenas_core.types.task import Task

if TYPE_CHECKING:
    from torch import Tensor, nn


@runtime_checkable
class Space(Keys, Protocol):
    """The part of a search space that latency uses: architectures as rows, and their networks.

    What is computed for all architectures of a space is cached, with the space as the key.
    """

    tasks: Mapping[str, Task]
    resources: Path | None  # folder of `devices.yaml`, `measured/` and `regression.safetensors`

    def canonical(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Map architectures that are the same network to one row of them."""

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw valid architectures, uniformly over options or over distinct networks."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Name of each of `features`."""

    def features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        """Numbers that latency is roughly linear in, named by `feature_names`.

        A feature `connected` is 0 where the output does not depend on the input. A feature `side <n>`
        is 1 on images of that side; a model predicts no side that it was not fitted on.
        """

    def groups(self, architectures: Int64[ndarray, "n D"]) -> Int64[ndarray, "n"]:
        """Group number of each row, the same for networks that compute the same function.

        Cross-validation holds out whole groups, and a search on images trains one network of each.
        """

    def costs(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Mapping[str, Float64[ndarray, "*n"]]:
        """`parameters` and `flops` (multiply-accumulates)."""

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """Build the untrained network."""

    def example_input(
        self, architecture: Int64[ndarray, "D"], task: Task, batch_size: int
    ) -> Tensor:
        """Noise in the shape of the network's images."""

    def control(self) -> Int64[ndarray, "D"]:
        """The reference network: the architecture that is timed throughout a measurement."""


@runtime_checkable
class EnumerableSpace(Space, Enumerable, Protocol):
    """A `Space` that is `Enumerable`, as a type of arguments."""


def every_architecture(space: EnumerableSpace) -> Int64[ndarray, "size D"]:
    """All architectures of a space, in the order of their numbers."""
    return space.architectures(np.arange(space.size))


def any_choices(space: Space, n: int) -> Int64[ndarray, "n D"]:
    """Architectures with every option of every choice equally likely, drawn by a fixed seed.

    A model that is fitted on these knows shallow networks as well as deep ones.
    """
    choices = np.random.default_rng(0).random((n, len(space.num_choices))) * space.num_choices
    return space.normal(choices.astype(np.int64))


class UnmeasuredError(LookupError):
    """An architecture has no latency on this device; the message says which, and the way out."""


@final
@dataclass(frozen=True)
class Latencies:
    """Answers of an oracle, and the kind of each."""

    ms: Float64[ndarray, "*n"]
    kind: Int8[ndarray, "*n"]  # values of `edgenas_core.types.kind.Kind`

    @property
    def is_predicted(self) -> Bool[ndarray, "*n"]:
        """True where a model gave the latency."""
        return is_predicted(self.kind)


@runtime_checkable
class LatencyOracle(Protocol):
    """Knows how long an architecture takes on one device.

    Optional attributes: `uncertainty`, the `Uncertainty` of its predictions or None, and `warnings`, a tuple of
    sentences for the user with reasons not to rely on its numbers.
    """

    @property
    def device(self) -> str:
        """Board / runtime / precision / batch, logged beside every latency."""

    @property
    def source(self) -> str:
        """`table`, `regression`, `transfer`, `blocks`, `layers`, `published`, `probe` or `mapped`; stored with results."""

    @property
    def description(self) -> str:
        """One line for the user: where the numbers come from, and how much of it is predicted."""

    @property
    def instant(self) -> bool:
        """Whether asking is free, so that a whole space may be asked for."""

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference of the device's batch, and the kind of each.

        Raises:
          IndexError: if an architecture lies outside the space.
          UnmeasuredError: if one of the architectures has no latency.
        """

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Whether `answer` has a latency of each architecture.

        Raises:
          IndexError: if an architecture lies outside the space.
        """


@runtime_checkable
class Uncertainty(Protocol):
    """Spread of predicted latencies around the true ones; see `latency.models.confidence`."""

    @property
    def sd(self) -> float:
        """Standard deviation of log(true / predicted)."""

    @property
    def most_confidence(self) -> float:
        """The highest confidence that there is a margin for."""

    def without_slack(self) -> Uncertainty:
        """The uncertainty in a space so large that answers leave no part of a limit unused."""

    def margin(self, confidence: float) -> float:
        """Logarithm of the factor by which a prediction must be below a limit; not negative."""

    def confidence(self, margin: float) -> float:
        """The least probability that an answer with this margin of its own is within its limit."""


@runtime_checkable
class LiveOracle(LatencyOracle, Protocol):
    """Measures during the search, so that a network can be timed again, with another result.

    Optional attribute: `at_once`, the number of networks that it times at once, by default 1.
    """

    @property
    def confirm_top(self) -> int:
        """Number of the best networks that are timed again before one of them wins; 0 for none."""

    def remember(self, architectures: Int64[ndarray, "n D"], latencies: Latencies) -> None:
        """Answer as an earlier part of the same search was answered."""

    def measure_again(
        self, architectures: Int64[ndarray, "n D"], *, in_fp32: bool = False
    ) -> Latencies:
        """Time networks anew, even those with a known time; NaN where the device cannot run one.

        The kind of each is measured, disturbed or missing. `in_fp32` times their fp32 files, whatever the
        precision of the others.

        Raises:
          IndexError: if an architecture lies outside the space.
        """


@final
@dataclass(frozen=True)
class Place:
    """One of several devices that could run a network, and how long it would take there."""

    device: str
    latency_ms: float
    kind: Kind
    limit_ms: float  # that this device has left

    @property
    def fits(self) -> bool:
        """Whether the network is within what the device has left."""
        return self.latency_ms <= self.limit_ms


@runtime_checkable
class OnSeveralDevices(LatencyOracle, Protocol):
    """The best of several devices, each with a limit of its own."""

    def places(self, architecture: Int64[ndarray, "D"]) -> tuple[Place, ...]:
        """Every device that can run the network, the one with most room first."""


@dataclass
class LatencyConfig(ABC):
    """Settings of one source of latencies; `build` opens it."""

    is_live: ClassVar[bool] = False  # asks a board, whose address `device` is
    any_side: ClassVar[bool] = False  # predicts networks for images of any side
    needs_device: ClassVar[bool] = True  # answers for the device that is named, which has to be

    def require_limit(self, limit_ms: float) -> None:  # noqa: B027 - most go with every limit
        """Refuse settings that do not go with the limit of a search; UserError names them."""

    def in_scenario(self, device: str, scenario: str, space: Space) -> str:  # noqa: ARG002 - others use them
        """Id of a device while the work of a scenario runs beside the network.

        Raises:
          UserError: if this source has no latencies of scenarios, or there is no such scenario.
        """
        raise UserError(
            f"scenario={scenario} is for latencies that were measured in it: take latency=auto"
        )

    @abstractmethod
    def build(self, device: str, space: Space, task: Task) -> LatencyOracle:
        """Make the oracle of a device, named by its id or its column.

        Raises:
          UserError: if this source knows no such device, or its files cannot be used.
        """
