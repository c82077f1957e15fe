"""The part of this machine that one of several workers trains on."""

from __future__ import annotations

import torch


def take_share(slot: int, slots: int) -> None:
    """Let this thread or process train on one GPU of those that there are, in turn, or on the CPU.

    Several workers take a core each: one small network gains little from a second core, and threads
    that wait for each other lose much where the machine has other work.

    Args:
      slot: number of the worker, from 0.
      slots: number of workers on this machine.
    """
    if torch.cuda.is_available():
        torch.cuda.set_device(slot % torch.cuda.device_count())
    elif slots > 1:
        torch.set_num_threads(1)
