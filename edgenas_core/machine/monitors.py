"""Monitors of what can disturb a measurement: load, stolen time, clocks and throttling."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, final

from edgenas_core.machine.nvidia import read_gpu, throttling

_THROTTLED = "/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count"

_LEAST_S = 0.3
"""Shortest interval: the system counts busy time in steps of 10 ms, 3 % of it."""


@final
class OtherLoad:
    """Load of other processes: the system's busy time minus that of this process."""

    def __init__(self, limit: float, cores: Collection[int], expected: float = 0.0) -> None:
        """Start to count.

        Args:
          limit: number of processors that other processes may keep busy.
          cores: processors of this process, on which no other load is expected.
          expected: processors that other parts of the same measurement keep busy elsewhere.
        """
        self._limit, self._cores, self._expected = limit, frozenset(cores), expected
        self._mark = self._read()

    def __call__(self) -> list[str]:
        """One line if the load since the last call is above the limit."""
        time.sleep(max(0.0, self._mark[0] + _LEAST_S - time.monotonic()))
        before, self._mark = self._mark, self._read()
        taken_s, everywhere, here = (
            now - then for now, then in zip(self._mark, before, strict=True)
        )
        lines = loaded(everywhere / taken_s, self._limit + self._expected)
        if self._expected and here / taken_s > self._limit:
            lines.append(f"other processes keep {here / taken_s:.1f} of this processor busy")
        return lines

    def _read(self) -> tuple[float, float, float]:
        """Now, and busy seconds of all processors and of `cores`, both without this process."""
        import psutil  # noqa: PLC0415 - a command line's help does not wait for it

        own_s = sum(psutil.Process().cpu_times()[:4])  # user and system, of ended children too
        busy_s = [_busy_s(times) for times in psutil.cpu_times(percpu=True)]
        here_s = sum(busy_s[core] for core in self._cores if core < len(busy_s))
        return time.monotonic(), sum(busy_s) - own_s, here_s - own_s


def loaded(processors: float, limit: float) -> list[str]:
    """One line if other processes keep more processors busy than the limit."""
    if processors <= limit:
        return []
    return [f"other processes keep {processors:.1f} processors busy"]


def _busy_s(times: Any) -> float:
    idle = ("idle", "iowait", "steal", "guest", "guest_nice")  # a guest is in `user` already
    return float(sum(s for name, s in times._asdict().items() if name not in idle))


@final
class Stolen:
    """Time for which the hypervisor ran other guests on these processors (`steal` of /proc/stat)."""

    def __init__(self, limit: float, cores: Collection[int]) -> None:
        """Start to count; `limit` is a share of the processors' time."""
        self._limit, self._cores = limit, frozenset(cores)
        self._mark = self._read()

    def __call__(self) -> list[str]:
        """One line if the share of stolen time since the last call is above the limit."""
        before, self._mark = self._mark, self._read()
        taken_s, stolen_s = (now - then for now, then in zip(self._mark, before, strict=True))
        share = stolen_s / max(taken_s, _LEAST_S) / len(self._cores)
        if share <= self._limit:
            return []
        return [f"the hypervisor took {share:.0%} of this processor's time"]

    def _read(self) -> tuple[float, float]:
        import psutil  # noqa: PLC0415 - loaded when needed

        each = psutil.cpu_times(percpu=True)
        stolen = (getattr(each[core], "steal", 0.0) for core in self._cores if core < len(each))
        return time.monotonic(), sum(stolen)


@final
class Throttles:
    """Thermal throttling of the processors, where the system reports it."""

    def __init__(self, count: Callable[[], int] | None = None) -> None:
        """Start to count; `count` returns the number of throttle events since boot."""
        self._count = throttle_count if count is None else count
        self._before = self._count()

    def __call__(self) -> list[str]:
        """One line if the processors throttled since the last call."""
        before, self._before = self._before, self._count()
        times = self._before - before
        return [f"the processors throttled {times} times"] if times > 0 else []


def throttle_count() -> int:
    """Number of throttle events since boot; 0 where the system does not report it."""
    return sum(int(path.read_text()) for path in Path("/").glob(_THROTTLED.lstrip("/")))


def cpu_mhz(core: int) -> float | None:
    """Current clock of the processor, MHz; None where it is unknown, as in virtual machines."""
    path = Path(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq")
    try:
        return int(path.read_text()) / 1000
    except (OSError, ValueError):
        return None


def gpu_mhz() -> float | None:
    """Current clock of the GPU, MHz; None where it is unknown."""
    state = read_gpu()
    try:
        return None if state is None else float(state["clocks.sm"])
    except ValueError:
        return None


def gpu_throttling() -> list[str]:
    """One line if the GPU throttles now."""
    state = read_gpu()
    reasons = [] if state is None else throttling(state)
    return [f"the GPU throttles: {', '.join(reasons)}"] if reasons else []
