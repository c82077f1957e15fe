"""The latency inside NATS-Bench's own archive: a GTX 1080 Ti, a batch of 256 (Dong et al., 2021).

`nats_bench` documents the batch at `get_latency`. The archive is asked one cell at a time, so the
whole space is not free to enumerate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

NATS_DEVICE = "gtx-1080ti/nats/b256"
"""Its id in the registry of devices."""


@final
@dataclass(frozen=True)
class NatsLatency:
    """Asks for each architecture once, and remembers.

    `number_of` gives official numbers of architectures and raises IndexError outside the space;
    `latency_ms_of` gives the milliseconds of a number and raises where the archive lacks it, which
    `holds` tells beforehand.
    """

    description: str
    number_of: Callable[[Int64[ndarray, "*n D"]], Int64[ndarray, "*n"]]
    latency_ms_of: Callable[[int], float]
    holds: Callable[[int], bool]
    device: str = NATS_DEVICE
    source: str = "nats"
    tabular: bool = False
    _known_ms: dict[int, float] = field(default_factory=dict, repr=False)

    def latency_ms(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n"]:
        """Milliseconds for a batch of 256.

        Raises:
          IndexError: if an architecture lies outside the space.
        """
        numbers, position = np.unique(self.number_of(architectures), return_inverse=True)
        found_ms = np.array([self._ms(int(n)) for n in numbers])
        return np.asarray(found_ms[position.reshape(architectures.shape[:-1])])

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Which architectures the archive holds.

        Raises:
          IndexError: if an architecture lies outside the space.
        """
        numbers = self.number_of(architectures)
        held = [self.holds(int(n)) for n in numbers.ravel()]
        return np.array(held, bool).reshape(numbers.shape)

    def predicted(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Nothing: the archive holds measurements only."""
        return np.zeros(architectures.shape[:-1], bool)

    def _ms(self, number: int) -> float:
        if number not in self._known_ms:
            self._known_ms[number] = self.latency_ms_of(number)
        return self._known_ms[number]
