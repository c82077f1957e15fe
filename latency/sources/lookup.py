"""Latency tables as oracles: dense where architectures have numbers, by row elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from common.types.architectures import Enumerable
from common.types.kind import Kind
from latency.base import EnumerableSpace, Latencies, Space, UnmeasuredError
from latency.models.confidence import Uncertainty


@final
@dataclass(frozen=True)
class Fill:
    """A model that predicts what was not measured."""

    kind: Kind
    description: str  # a clause: `predicted by ...`
    predict: Callable[[Int64[ndarray, "n D"] | None], Float64[ndarray, "n"]]
    """Milliseconds of each architecture; None stands for all of a space that can be listed."""
    warnings: tuple[str, ...] = ()
    uncertainty: Uncertainty | None = None  # of its predictions, where that is known


class _LookUp(ABC):
    """A table; its subclasses are dataclasses."""

    space: Space
    device: str

    @abstractmethod
    def look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Latencies in milliseconds with their kinds; NaN and `missing` where there is none."""

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference of the device's batch.

        Raises:
          IndexError: if an architecture lies outside a space that can be listed.
          UnmeasuredError: if an architecture has no latency.
        """
        found = self.look_up(architectures)
        missing = np.isnan(found.ms)
        if missing.any():
            text = self.space.text(architectures[missing][0])
            raise UnmeasuredError(
                f"architecture {text} was not measured on {self.device}; "
                f"latency.unmeasured=regression predicts such architectures and marks them"
            )
        return found

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Whether each architecture has a latency."""
        return np.asarray(~np.isnan(self.look_up(architectures).ms))


@final
@dataclass(frozen=True)
class TableLatency(_LookUp):
    """A lookup by the number of an architecture."""

    space: EnumerableSpace
    device: str
    source: str
    description: str
    ms: Float64[ndarray, "size"]  # NaN: not known
    kind: Int8[ndarray, "size"]
    instant: bool = True
    warnings: tuple[str, ...] = ()
    uncertainty: Uncertainty | None = None  # of the latencies that are predicted

    def look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Latencies in milliseconds with their kinds; NaN and `missing` where there is none."""
        numbers = self.space.numbers(architectures)
        return Latencies(np.asarray(self.ms[numbers]), np.asarray(self.kind[numbers]))


@final
@dataclass(frozen=True)
class PartialLatency(_LookUp):
    """A lookup in a space that cannot be listed; a model predicts what the table lacks."""

    space: Space
    device: str
    source: str
    description: str
    measured_ms: Mapping[bytes, float]  # by the bytes of the `normal` row
    fill: Fill | None
    instant: bool = True
    warnings: tuple[str, ...] = ()

    @property
    def uncertainty(self) -> Uncertainty | None:
        """Uncertainty of the latencies that are predicted."""
        return None if self.fill is None else self.fill.uncertainty

    def look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Latencies in milliseconds with their kinds; NaN and `missing` where there is none."""
        rows = self.space.normal(architectures).reshape(-1, architectures.shape[-1])
        ms = np.array([self.measured_ms.get(row.tobytes(), np.nan) for row in rows], np.float64)
        unknown = np.isnan(ms)
        kind = np.where(unknown, Kind.missing, Kind.measured).astype(np.int8)
        if self.fill is not None and unknown.any():
            ms[unknown] = self.fill.predict(rows[unknown])
            kind[unknown] = self.fill.kind
        shape = architectures.shape[:-1]
        return Latencies(ms.reshape(shape), kind.reshape(shape))


Table = TableLatency | PartialLatency


def make_table(
    space: Space,
    architectures: Int64[ndarray, "n D"],
    values_ms: Float64[ndarray, "n"],
    fill: Fill | None = None,
    *,
    device: str = "",
    source: str = "",
    description: str = "",
) -> Table:
    """The oracle of a measured column and of the model that fills its holes.

    Args:
      space: of the architectures.
      architectures: rows of the column; all, by number, in a space that can be listed.
      values_ms: of each row; NaN where it was not measured.
      fill: predicts the others; None: they are missing.
      device: id of the device.
      source: the name of the oracle's source.
      description: one line for the user.
    """
    warnings = () if fill is None else fill.warnings
    missing = np.isnan(values_ms)
    if not isinstance(space, Enumerable):
        rows = space.normal(architectures[~missing])
        measured_ms = {
            row.tobytes(): ms for row, ms in zip(rows, values_ms[~missing].tolist(), strict=True)
        }
        return PartialLatency(
            space, device, source, description, measured_ms, fill, warnings=warnings
        )
    kind = np.where(missing, Kind.missing, Kind.measured).astype(np.int8)
    if fill is not None and missing.any():
        values_ms = np.where(missing, fill.predict(None), values_ms)
        kind[missing] = fill.kind
    uncertainty = None if fill is None else fill.uncertainty
    return TableLatency(
        space,
        device,
        source,
        description,
        values_ms,
        kind,
        warnings=warnings,
        uncertainty=uncertainty,
    )


def predicting(space: Space, device: str, source: str, description: str, fill: Fill) -> Table:
    """The oracle of a model alone."""
    if isinstance(space, Enumerable):
        kind = np.full(space.size, fill.kind, np.int8)
        ms = fill.predict(None)
        return TableLatency(
            space,
            device,
            source,
            description,
            ms,
            kind,
            warnings=fill.warnings,
            uncertainty=fill.uncertainty,
        )
    return PartialLatency(space, device, source, description, {}, fill, warnings=fill.warnings)
