"""Monitors of what disturbs timings on this machine: other load, stolen time, throttling."""

from __future__ import annotations

from runtime.machine.description import usable_cores
from runtime.machine.monitors import OtherLoad, Stolen, Throttles, gpu_throttling
from runtime.machine.stability import Monitor, StabilityConfig, Watch


def watch_disturbances(*, on_gpu: bool) -> Watch:
    """Start watching the cores of this process, and the GPU if it is used."""
    limits, cores = StabilityConfig(), usable_cores()
    monitors: list[Monitor] = [
        OtherLoad(limits.other_load, cores),
        Stolen(limits.stolen, cores),
        Throttles(),
    ]
    return Watch(limits, [*monitors, gpu_throttling] if on_gpu else monitors)
