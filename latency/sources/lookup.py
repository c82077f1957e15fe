"""Latency tables as oracles: by number where a space can be listed, by row elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.kind import Kind
from latency.base import Latencies, Space, UnmeasuredError
from latency.models.confidence import ResidualUncertainty


@final
@dataclass(frozen=True)
class Fill:
    """A model that predicts what was not measured."""

    kind: Kind
    description: str  # a clause: `predicted by ...`
    predict: Callable[[Int64[ndarray, "n D"] | None], Float64[ndarray, "n"]]
    """Milliseconds of each architecture; None stands for all of a space that can be listed."""
    warnings: tuple[str, ...] = ()
    uncertainty: ResidualUncertainty | None = None  # of its predictions, where that is known


@dataclass(frozen=True, kw_only=True)
class LookUp(ABC):
    """An oracle whose answers are free."""

    space: Space
    device: str
    source: str
    description: str
    warnings: tuple[str, ...] = ()
    uncertainty: ResidualUncertainty | None = None  # of the latencies that are predicted
    instant: bool = True

    @abstractmethod
    def look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Latencies in milliseconds with their kinds; NaN and `missing` where there is none."""

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference of the device's batch.

        Raises:
          IndexError: if an architecture lies outside a space that can be listed.
          UnmeasuredError: if an architecture has no latency.
        """
        latencies = self.look_up(architectures)
        missing = np.isnan(latencies.ms)
        if missing.any():
            text = self.space.text(architectures[missing][0])
            way_out = "; latency=auto predicts such architectures and marks them"
            raise UnmeasuredError(
                f"architecture {text} was not measured on {self.device}"
                f"{way_out if self.source == 'table' else ''}"
            )
        return latencies

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Whether each architecture has a latency."""
        return np.asarray(~np.isnan(self.look_up(architectures).ms))


@final
@dataclass(frozen=True, kw_only=True)
class TableLatency(LookUp):
    """Measured latencies, and a model's predictions of the others; `make_table` makes it."""

    ms: Float64[ndarray, "rows"]  # NaN: not known
    kind: Int8[ndarray, "rows"]
    row_of: Mapping[bytes, int] | None = None  # by the bytes of the `normal` row; None: by number
    fill: Fill | None = None

    def look_up(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Latencies in milliseconds with their kinds; NaN and `missing` where there is none."""
        if isinstance(self.space, Enumerable):
            numbers = self.space.numbers(architectures)
            return Latencies(np.asarray(self.ms[numbers]), np.asarray(self.kind[numbers]))
        assert self.row_of is not None
        rows = self.space.normal(architectures).reshape(-1, architectures.shape[-1])
        places = np.array([self.row_of.get(row.tobytes(), -1) for row in rows], np.int64)
        ms, kind = self.ms[places], self.kind[places]
        missing = np.isnan(ms)
        if self.fill is not None and missing.any():
            ms[missing] = self.fill.predict(rows[missing])
            kind[missing] = self.fill.kind
        shape = architectures.shape[:-1]
        return Latencies(ms.reshape(shape), kind.reshape(shape))


def make_table(
    space: Space,
    architectures: Int64[ndarray, "n D"],
    values_ms: Float64[ndarray, "n"],
    fill: Fill | None = None,
    *,
    device: str = "",
    source: str = "",
    description: str = "",
) -> TableLatency:
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
    row_of = None
    if not isinstance(space, Enumerable):
        rows = space.normal(architectures)
        row_of = {row.tobytes(): place for place, row in enumerate(rows)}
        values_ms = np.append(values_ms, np.nan)  # the last: of a row that is not in the table
    missing = np.isnan(values_ms)
    kind = np.where(missing, Kind.missing, Kind.measured).astype(np.int8)
    if fill is not None and row_of is None and missing.any():
        values_ms = np.where(missing, fill.predict(None), values_ms)
        kind[missing] = fill.kind
    return TableLatency(
        space=space,
        device=device,
        source=source,
        description=description,
        warnings=() if fill is None else fill.warnings,
        uncertainty=None if fill is None else fill.uncertainty,
        ms=values_ms,
        kind=kind,
        row_of=row_of,
        fill=fill,
    )


def predicting(
    space: Space, device: str, source: str, description: str, fill: Fill
) -> TableLatency:
    """The oracle of a model alone."""
    size = space.size if isinstance(space, Enumerable) else 0
    nothing = np.empty((size, len(space.num_choices)), np.int64)
    values_ms = np.full(size, np.nan)
    return make_table(
        space, nothing, values_ms, fill, device=device, source=source, description=description
    )
