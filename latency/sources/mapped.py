"""One network, several devices that could run it, each with time left of its own.

With the first device's time as the limit T, the latency is `T * min_j latency_j / left_j`
(`runtime.mapping.model.effective_latency`): within T if and only if some device has room.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from latency.base import Latencies, Place
from latency.sources.table import TableLatency
from runtime.mapping.model.effective_latency import effective_ms
from runtime.shell.provenance import Kind


@final
@dataclass(frozen=True)
class Left:
    """What one device has left."""

    latency: TableLatency
    ms: float


@final
@dataclass(frozen=True)
class MappedLatency:
    """The best of them, as milliseconds of the first."""

    devices: tuple[Left, ...]
    tabular: bool = True

    @property
    def device(self) -> str:
        """All of them, with what each leaves: with other times it is another device."""
        return " or ".join(f"{one.latency.device} ({one.ms:.12g} ms)" for one in self.devices)

    @property
    def source(self) -> str:
        """`mapped`, whatever each device's is."""
        return "mapped"

    @property
    def description(self) -> str:
        """What each device leaves, and where its latencies come from."""
        said = [f"{one.latency.device} leaves {one.ms:g} ms" for one in self.devices]
        said += [f"{one.latency.device}: {one.latency.description}" for one in self.devices]
        return f"mapped, as ms of {self.devices[0].latency.device}: {'; '.join(said)}"

    def latency_ms(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Milliseconds of the first device.

        Raises:
          IndexError: if an architecture lies outside the tables.
          UnmeasuredError: if one was measured on no device.
        """
        return self._best.latency_ms(architectures)

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
        """Which architectures some device knows."""
        return self._best.known(architectures)

    def predicted(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Of which the best device's latency is a prediction."""
        return self._best.predicted(architectures)

    def places(self, architecture: Int64[ndarray, "D"]) -> tuple[Place, ...]:
        """Every device that has a latency of the network, the one with most room first."""
        row = architecture[None]
        found = [
            Place(
                one.latency.device,
                float(one.latency.latency_ms(row)[0]),
                Kind.regression if one.latency.predicted(row)[0] else Kind.measured,
                one.ms,
            )
            for one in self.devices
            if one.latency.known(row)[0]
        ]
        return tuple(sorted(found, key=lambda place: place.latency_ms / place.limit_ms))

    @cached_property
    def _best(self) -> TableLatency:
        left_ms = np.array([one.ms for one in self.devices])
        tables_ms = np.stack([one.latency.table_ms for one in self.devices], -1)
        predicted = np.stack([one.latency.is_predicted for one in self.devices], -1)
        ratios = tables_ms / left_ms
        # of a device that did not measure a cell another one is the best
        best = np.where(np.isnan(ratios), np.inf, ratios).argmin(-1)[..., None]
        nowhere = np.isnan(tables_ms).all(-1)
        return TableLatency(
            device=self.device,
            source=self.source,
            description=self.description,
            table_ms=np.where(nowhere, np.nan, effective_ms(tables_ms, left_ms, left_ms[0])),
            is_predicted=np.take_along_axis(predicted, best, -1)[..., 0],
        )
