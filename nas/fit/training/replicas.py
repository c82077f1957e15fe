"""One training in several processes: each computes a part of every batch, and gradients are summed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed

_LONGEST_WAIT = timedelta(minutes=10)
"""Time that a process waits for the others, who may be reading images or capturing nothing yet."""


def join(rank: int, count: int, meeting: Path) -> None:
    """Join the process group of this machine through a new file; uses NCCL on GPUs and gloo on CPUs.

    Raises:
      RuntimeError: if they do not come.
    """
    on_gpus = torch.cuda.is_available()
    if on_gpus:
        torch.cuda.set_device(rank)
    distributed.init_process_group(
        "nccl" if on_gpus else "gloo",
        init_method=meeting.absolute().as_uri(),
        rank=rank,
        world_size=count,
        timeout=_LONGEST_WAIT,
    )


def leave() -> None:
    """Leave the process group."""
    distributed.destroy_process_group()


def place() -> tuple[int, int]:
    """Rank of this process and number of processes; (0, 1) without a group."""
    if not distributed.is_available() or not distributed.is_initialized():
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def part_of_batch(*tensors: Tensor) -> tuple[Tensor, ...]:
    """This process's part of each tensor along its first axis."""
    rank, count = place()
    return tensors if count == 1 else tuple(part.tensor_split(count)[rank] for part in tensors)


def sum_over_processes(tensors: Iterable[Tensor]) -> None:
    """Replace tensors, in place, by their sums over all processes."""
    if place()[1] == 1:
        return
    kept = list(tensors)
    flat = torch.cat([tensor.flatten() for tensor in kept])
    distributed.all_reduce(flat)
    totals = flat.split([tensor.numel() for tensor in kept])
    for tensor, total in zip(kept, totals, strict=True):
        tensor.copy_(total.view_as(tensor))


def average_statistics(state: Mapping[str, Tensor]) -> None:
    """Average the floating-point state over all processes, such as statistics of batch normalisation.

    Weights are the same everywhere already; statistics of batch normalisation are not.
    """
    count = place()[1]
    if count == 1:
        return
    with torch.no_grad():
        floats = [tensor for tensor in state.values() if tensor.is_floating_point()]
        sum_over_processes(floats)
        for tensor in floats:
            tensor.div_(count)


def broadcast_first(value: float) -> float:
    """Value of the first process, so that all processes decide the same."""
    if place()[1] == 1:
        return value
    values = [value]
    distributed.broadcast_object_list(values)
    return values[0]
