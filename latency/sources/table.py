"""Latency of the whole space as an array indexed by architecture: a measured lookup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped
from numpy import ndarray

from latency.base import Latencies, UnmeasuredError
from runtime.shell.provenance import Kind


@final
@dataclass(frozen=True)
class TableLatency:
    """A lookup. NaN stands for a cell that was not measured.

    `is_predicted` marks the entries that a model filled in; a table of measurements has none.
    """

    device: str
    source: str
    description: str
    table_ms: Float64[ndarray, "*choices"]
    is_predicted: Bool[ndarray, "*choices"]
    tabular: bool = True
    warnings: tuple[str, ...] = ()  # what a user should not overlook, a sentence each

    def latency_ms(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Milliseconds per inference of the device's batch.

        Raises:
          IndexError: if an architecture lies outside the table.
          UnmeasuredError: if an architecture was not measured on this device.
        """
        found = _look_up(self.table_ms, architectures)
        if np.isnan(found).any():
            choices = architectures[np.isnan(found)][0].tolist()
            raise UnmeasuredError(
                f"architecture {choices} was not measured on {self.device}; "
                f"latency.unmeasured=regression predicts such cells and marks them"
            )
        return found

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
        """Which architectures were measured, or filled in by a model."""
        return np.asarray(~np.isnan(_look_up(self.table_ms, architectures)))

    def predicted(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Which of these latencies are a model's predictions, not measurements."""
        return _look_up(self.is_predicted, architectures)


def _look_up(
    table: Shaped[ndarray, "*choices"], architectures: Int64[ndarray, "*n D"]
) -> Shaped[ndarray, "*n"]:
    """The entries of a table, one an architecture; an array even where there is one only."""
    if architectures.size and architectures.min() < 0:
        raise IndexError(f"choice {architectures.min()} is negative")
    return np.asarray(table[tuple(np.moveaxis(architectures, -1, 0))])
