"""The part of this machine that one of several workers trains on."""

from __future__ import annotations

import psutil
import torch

from edgenas_core.machine.description import usable_cores

_WATCHED_S = 0.3
_MOST_THREADS = torch.get_num_threads()  # as OMP_NUM_THREADS says


def take_share(slot: int, slots: int) -> None:
    """Let this thread or process train on one GPU of those that there are, in turn, or on the CPU.

    Several workers take a core each: one small network gains little from a second core.

    Args:
      slot: number of the worker, from 0.
      slots: number of workers on this machine.
    """
    if torch.cuda.is_available():
        torch.cuda.set_device(slot % torch.cuda.device_count())
    else:
        torch.set_num_threads(1 if slots > 1 else _idle_cores())


def _idle_cores() -> int:
    """Cores that have nothing else to do now, one at least.

    Threads that wait for each other lose much where the machine has other work: beside it, two threads
    on two cores train a small network a quarter as fast as one.
    """
    busy = psutil.cpu_percent(interval=_WATCHED_S, percpu=True)
    idle = sum(1 - busy[core] / 100 for core in usable_cores())
    return max(1, min(round(idle - 0.25), _MOST_THREADS))
