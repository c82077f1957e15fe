"""Stability check: is the machine quiet enough for a measurement? Asked throughout it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import final

import numpy as np

from edgenas_core.command.settings import setting
from edgenas_core.types.errors import UserError

Monitor = Callable[[], list[str]]
"""Returns the disturbances since the last call, one line for each."""


class OnDisturbance(Enum):
    """Reaction to a disturbance of the device during a measurement."""

    stop = "stop"
    flag = "flag"  # go on; the time is marked, or its field of the table stays empty


MOST_DRIFT = 0.05
"""Relative change of the reference network's time."""


@dataclass
class StabilityConfig:
    """Limits above which a time counts as taken under load: usual ones times a factor."""

    tolerance: float = setting(
        1.0,
        "Factor on the limits. They are: a change of 5 % of the reference network's time; 0.2 processors busy with other "
        "programs; a fall of the clock by 10 %; 2 % of the processor's time taken by a hypervisor.",
        heading="When a measurement counts as taken under load",
    )

    def require_sensible(self, name: str = "tolerance") -> None:
        """Refuse a factor that is negative or no number.

        Raises:
          UserError: if it is.
        """
        if not self.tolerance >= 0:
            raise UserError(f"{name}={self.tolerance:g} must be 0 or more; 1 is usual")

    @property
    def control_drift(self) -> float:
        """Largest relative change of the reference network's time."""
        return MOST_DRIFT * self.tolerance

    @property
    def other_load(self) -> float:
        """Processors that other programs may keep busy."""
        return 0.2 * self.tolerance

    @property
    def clock_drop(self) -> float:
        """Largest relative fall of the clock, where it can be read."""
        return 0.1 * self.tolerance

    @property
    def stolen(self) -> float:
        """Share of the processor's time that a hypervisor may give to others."""
        return 0.02 * self.tolerance


def quiet_control_ms(control_ms: Collection[float]) -> float:
    """Time of the reference network on a quiet machine: the lower quartile of its times, ms.

    Load makes it slower. The first time may be taken under load, and other guests of the same host
    can slow half of a measurement.
    """
    return float(np.quantile(list(control_ms), 0.25, method="lower"))


def drifted(control_ms: float, quiet_ms: float, limit: float) -> list[str]:
    """One line if the reference network differs from its quiet time by more than the limit."""
    drift = control_ms / quiet_ms - 1
    if abs(drift) <= limit:
        return []
    return [
        (
            f"the reference network, timed beside each, takes {control_ms:.3f} ms, {drift:+.1%} against "
            f"{quiet_ms:.3f} ms"
        )
    ]


def clock_dropped(now_mhz: float | None, first_mhz: float | None, limit: float) -> list[str]:
    """One line if the clock is below the first clock by more than the limit.

    None means that a clock is unknown.
    """
    if not now_mhz or not first_mhz or 1 - now_mhz / first_mhz <= limit:
        return []
    change = f"{now_mhz / first_mhz - 1:+.0%} against its first {first_mhz:,.0f} MHz"
    return [f"the clock is at {now_mhz:,.0f} MHz, {change}"]


@final
class Watch:
    """Compares the machine with its state at the beginning; reports one line for each change."""

    def __init__(
        self,
        config: StabilityConfig,
        monitors: Sequence[Monitor],
        control_ms: Collection[float] = (),
        clock_mhz: float | None = None,
    ) -> None:
        """Start to watch.

        Args:
          config: limits of disturbances.
          monitors: asked besides control and clock; `edgenas_core.machine.monitors` has them.
          control_ms: earlier times of the reference network, if a measurement is continued.
          clock_mhz: clock at the beginning.
        """
        self._config = config
        self._monitors = monitors
        self._control_ms = list(control_ms)
        self._clock_mhz = clock_mhz

    def drift(self, control_ms: float) -> list[str]:
        """One line if the reference network is off its quiet time, as estimated from all times so far."""
        self._control_ms.append(control_ms)
        quiet_ms = quiet_control_ms(self._control_ms)
        return drifted(control_ms, quiet_ms, self._config.control_drift)

    def disturbances(self, clock_mhz: float | None = None) -> list[str]:
        """Other disturbances since the last call, given the current clock."""
        self._clock_mhz = self._clock_mhz or clock_mhz
        lines = clock_dropped(clock_mhz, self._clock_mhz, self._config.clock_drop)
        for monitor in self._monitors:
            lines += monitor()
        return lines
