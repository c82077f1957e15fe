"""What disturbs a run of several networks on this machine."""

from __future__ import annotations

from edgenas_core.machine.description import usable_cores
from edgenas_core.machine.monitors import OtherLoad, Stolen, Throttles, gpu_throttling
from edgenas_core.machine.stability import Monitor, StabilityConfig, Watch


def watch_disturbances(*, on_gpu: bool) -> Watch:
    """Start watching the cores of this process, and the GPU if it is used."""
    limits, cores = StabilityConfig(), usable_cores()
    monitors: list[Monitor] = [
        OtherLoad(limits.other_load, cores),
        Stolen(limits.stolen, cores),
        Throttles(),
    ]
    return Watch(limits, [*monitors, gpu_throttling] if on_gpu else monitors)
