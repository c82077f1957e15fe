"""Is the machine quiet enough for a time to mean something? Asked throughout a measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

Sense = Callable[[], list[str]]
"""Says what was out of the ordinary since it was asked last; each finding is a line for the user."""


@final
@dataclass
class QuietConfig:
    """What counts as a disturbance."""

    control_drift: float = 0.05  # of the control network's median against its first
    other_load: float = 0.2  # processors kept busy by others
    stolen: float = 0.02  # share of the processor's time that the hypervisor gave to others
    clock_drop: float = 0.1  # of the clock against its first, where it can be read


@final
class Watch:
    """Compares the machine with what it was at the start; each finding is a line for the user."""

    def __init__(
        self,
        config: QuietConfig,
        senses: Sequence[Sense],
        control_ms: float | None = None,
        clock_mhz: float | None = None,
    ) -> None:
        """Begins to watch.

        Args:
          config: what counts as a disturbance.
          senses: what is asked beside control and clock; `runtime.senses` has them.
          control_ms: the control's time in an earlier part of the same measurement.
          clock_mhz: the clock in it.
        """
        self._config = config
        self._senses = senses
        self._control_ms = control_ms
        self._clock_mhz = clock_mhz

    def disturbances(self, control_ms: float, clock_mhz: float | None = None) -> list[str]:
        """What has been out of the ordinary since the last call, given control and clock now.

        They are compared with those of an earlier part of the measurement, or else with those of
        the first call.
        """
        found = []
        self._control_ms = self._control_ms or control_ms
        self._clock_mhz = self._clock_mhz or clock_mhz
        drift = control_ms / self._control_ms - 1
        if abs(drift) > self._config.control_drift:
            found.append(
                f"the control network takes {control_ms:.3f} ms, {drift:+.1%} against its first "
                f"{self._control_ms:.3f} ms"
            )
        if clock_mhz and self._clock_mhz:
            drop = 1 - clock_mhz / self._clock_mhz
            if drop > self._config.clock_drop:
                found.append(
                    f"the clock is at {clock_mhz:,.0f} MHz, {-drop:+.0%} against its first "
                    f"{self._clock_mhz:,.0f} MHz"
                )
        for sense in self._senses:
            found += sense()
        return found
