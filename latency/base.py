"""What every latency oracle promises."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Bool, Float64, Int64
from numpy import ndarray


class UnmeasuredError(LookupError):
    """An architecture has no latency on this device; the message says which, and the way out."""


@runtime_checkable
class LatencyOracle(Protocol):
    """Knows how long an architecture takes on one device."""

    @property
    def device(self) -> str:
        """Board / runtime / precision / batch, logged beside every latency."""

    @property
    def source(self) -> str:
        """`table`, `regression`, `transfer`, `nats`, `probe`, `mapped` or `corun`; stored beside every result."""

    @property
    def description(self) -> str:
        """One line for the user: where the numbers come from, and how much of it is predicted."""

    @property
    def tabular(self) -> bool:
        """Whether asking for the whole space is free, so that the exact optimum is known."""

    def latency_ms(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Milliseconds per inference of the device's batch.

        Raises:
          IndexError: if an architecture lies outside the space this oracle covers.
          UnmeasuredError: if this oracle does not know one of the architectures.
        """

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Which architectures `latency_ms` has an answer for.

        Raises:
          IndexError: if an architecture lies outside the space this oracle covers.
        """

    def predicted(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Which of these latencies are a model's predictions, not measurements."""


@runtime_checkable
class Doubtful(LatencyOracle, Protocol):
    """May know why its numbers are not to be relied on."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should not overlook, a sentence each; none where nothing is wrong."""


@runtime_checkable
class LiveOracle(LatencyOracle, Protocol):
    """Measures while the search waits, so that a time can be taken again, and may come out otherwise."""

    @property
    def confirm_top(self) -> int:
        """How many of the best networks are timed again before one of them wins; 0 for none."""

    def remember(
        self, architectures: Int64[ndarray, "n D"], latency_ms: Float64[ndarray, " n"]
    ) -> None:
        """Answer as an earlier part of the same search was answered."""

    def measure_again(self, architectures: Int64[ndarray, "n D"]) -> Float64[ndarray, " n"]:
        """New times, whatever is known; NaN where the device cannot run the network.

        Raises:
          IndexError: if an architecture lies outside the space this oracle covers.
        """
