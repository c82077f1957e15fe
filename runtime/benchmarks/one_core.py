"""Pinning of the measuring thread to one core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from edgenas_core.machine.description import usable_cores


@contextmanager
def on_one_core(core: int) -> Iterator[None]:
    """Pin this thread to one core, where that is possible, and torch to one thread; both are restored."""
    cores, threads = usable_cores(), torch.get_num_threads()
    can_pin = hasattr(os, "sched_setaffinity")
    if can_pin:
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        if can_pin:
            os.sched_setaffinity(0, cores)
