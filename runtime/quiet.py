"""Is the machine quiet enough for a time to mean something? Asked throughout a measurement."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import psutil

_THROTTLED = "/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count"


@final
@dataclass
class QuietConfig:
    """What counts as a disturbance."""

    control_drift: float = 0.05  # of the control network's median against its first
    other_load: float = 0.2  # processors kept busy by others


def processors_busy_elsewhere(interval_s: float = 0.1) -> float:
    """Processors that other processes keep busy, mean over an interval in which this one sleeps."""
    return psutil.cpu_percent(interval_s) / 100 * (psutil.cpu_count() or 1)


def throttle_count() -> int:
    """How often the processors have throttled since they were started; 0 where it is not told."""
    paths = Path("/").glob(_THROTTLED.lstrip("/"))
    return sum(int(path.read_text()) for path in paths)


@final
class Watch:
    """Compares the machine with what it was at the start; each finding is a line for the user."""

    def __init__(
        self,
        config: QuietConfig,
        busy_elsewhere: Callable[[], float] = processors_busy_elsewhere,
        throttled: Callable[[], int] = throttle_count,
        control_ms: float | None = None,
    ) -> None:
        self._config = config
        self._busy_elsewhere = busy_elsewhere
        self._throttled = throttled
        self._throttled_before = throttled()
        self._control_ms = control_ms  # of an earlier part of the same measurement

    def disturbances(self, control_ms: float) -> list[str]:
        """What has been out of the ordinary since the last call, given the control's median now.

        The control is compared with that of an earlier part of the measurement, or else with
        that of the first call.
        """
        found = []
        if self._control_ms is None:
            self._control_ms = control_ms
        drift = control_ms / self._control_ms - 1
        if abs(drift) > self._config.control_drift:
            found.append(
                f"the control network takes {control_ms:.3f} ms, {drift:+.1%} against its first "
                f"{self._control_ms:.3f} ms"
            )
        busy = self._busy_elsewhere()
        if busy > self._config.other_load:
            found.append(f"other processes keep {busy:.1f} processors busy")
        throttled = self._throttled()
        if throttled > self._throttled_before:
            found.append(f"the processors throttled {throttled - self._throttled_before} times")
            self._throttled_before = throttled
        return found
