"""Latency of an architecture while others run beside it: a table, and live times of the best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.base import Latencies
from latency.sources.table import TableLatency
from runtime.shell.provenance import Kind


@final
@dataclass(frozen=True)
class CorunLatency:
    """A `LiveOracle`: the table answers every question of a search, the device those of its end."""

    table: TableLatency
    confirm_top: int
    measure_again: Callable[[Int64[ndarray, "n D"]], Float64[ndarray, " n"]]

    @property
    def device(self) -> str:
        """With the situation in it."""
        return self.table.device

    @property
    def source(self) -> str:
        """`corun`."""
        return self.table.source

    @property
    def description(self) -> str:
        """Of the table, and of what comes after."""
        return f"{self.table.description}; the best {self.confirm_top} are timed here at the end"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Of the table."""
        return self.table.warnings

    @property
    def tabular(self) -> bool:
        """As the table is."""
        return self.table.tabular

    def latency_ms(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Milliseconds per inference of the device's batch, in the situation.

        Raises:
          IndexError: if an architecture lies outside the table.
          UnmeasuredError: if an architecture has no latency.
        """
        return self.table.latency_ms(architectures)

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference of the device's batch, and the kind of each.

        Raises:
          IndexError: if an architecture lies outside the space.
          UnmeasuredError: if an architecture has no latency.
        """
        predicted = self.predicted(architectures)
        kind = np.where(predicted, Kind.regression, Kind.measured).astype(np.int8)
        return Latencies(self.latency_ms(architectures), kind)

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Which architectures have a latency."""
        return self.table.known(architectures)

    def predicted(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Which of these latencies are a model's predictions, not measurements."""
        return self.table.predicted(architectures)

    def remember(
        self, architectures: Int64[ndarray, "n D"], latency_ms: Float64[ndarray, " n"]
    ) -> None:
        """Nothing: a table answers as it did."""
