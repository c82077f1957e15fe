"""Is the machine quiet enough for a time to mean something? Asked throughout a measurement."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

Sense = Callable[[], list[str]]
"""Says what was out of the ordinary since it was asked last; each finding is a line for the user."""


@final
@dataclass
class QuietConfig:
    """What counts as a disturbance."""

    control_drift: float = 0.05  # of the control network's median against its lower quartile
    other_load: float = 0.2  # processors kept busy by others
    stolen: float = 0.02  # share of the processor's time that the hypervisor gave to others
    clock_drop: float = 0.1  # of the clock against its first, where it can be read


def quiet_control_ms(control_ms: Collection[float]) -> float:
    """What the control takes while nothing disturbs it: the lower quartile of its times.

    Disturbances make it slower. Its first time may be one of them, and those of others on the
    same host can last for half a measurement.
    """
    return float(np.quantile(list(control_ms), 0.25, method="lower"))


def drifted(control_ms: float, quiet_ms: float, limit: float) -> list[str]:
    """A line for the user if the control is off what it takes in quiet by more than the limit."""
    drift = control_ms / quiet_ms - 1
    if abs(drift) <= limit:
        return []
    return [
        f"the control network takes {control_ms:.3f} ms, {drift:+.1%} against {quiet_ms:.3f} ms"
    ]


def clock_dropped(now_mhz: float | None, first_mhz: float | None, limit: float) -> list[str]:
    """A line for the user if the clock is below its first by more than the limit.

    None stands for a clock that is not told.
    """
    if not now_mhz or not first_mhz or 1 - now_mhz / first_mhz <= limit:
        return []
    change = f"{now_mhz / first_mhz - 1:+.0%} against its first {first_mhz:,.0f} MHz"
    return [f"the clock is at {now_mhz:,.0f} MHz, {change}"]


@final
class Watch:
    """Compares the machine with what it was before; each finding is a line for the user."""

    def __init__(
        self,
        config: QuietConfig,
        senses: Sequence[Sense],
        control_ms: Collection[float] = (),
        clock_mhz: float | None = None,
    ) -> None:
        """Begins to watch.

        Args:
          config: what counts as a disturbance.
          senses: what is asked beside control and clock; `runtime.machine.monitors` has them.
          control_ms: the control's times so far, where the measurement goes on.
          clock_mhz: the clock at its beginning.
        """
        self._config = config
        self._senses = senses
        self._control_ms = list(control_ms)
        self._clock_mhz = clock_mhz

    def drift(self, control_ms: float) -> list[str]:
        """How far the control is off its quiet time, as far as that is known by now."""
        self._control_ms.append(control_ms)
        quiet_ms = quiet_control_ms(self._control_ms)
        return drifted(control_ms, quiet_ms, self._config.control_drift)

    def disturbances(self, clock_mhz: float | None = None) -> list[str]:
        """What else has been out of the ordinary since the last call, given the clock now."""
        self._clock_mhz = self._clock_mhz or clock_mhz
        found = clock_dropped(clock_mhz, self._clock_mhz, self._config.clock_drop)
        for sense in self._senses:
            found += sense()
        return found
