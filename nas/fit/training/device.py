"""What a training takes of its device: kernels of convolutions, its share of GPUs and cores, and memory.

For each new shape of a convolution, cuDNN guesses a kernel and builds it, or first tries all it has:
about 0.1 and 0.5 seconds on an H200. That is nothing in a long training of a network, and most of
what a supernet of thousands of shapes would do.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from enum import Enum
from typing import Any, final

import psutil
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from edgenas_core.machine.description import usable_cores

_FEW = 20
"""Different convolutions of which kernels are tried in seconds."""

_LONG = 50
"""Epochs after which trying has paid for any number of them."""


class Kernels(Enum):
    """Choice of the kernel for a shape."""

    tried = "tried"  # the fastest of all: those that are guessed are slow for few channels
    guessed = "guessed"
    without_cudnn = "without_cudnn"  # 1x1 and first ones as matrix products, others by torch's own


def kernels_for(network: nn.Module, epochs: int, *, shapes_vary: bool = False) -> Kernels:
    """Try kernels of networks of few different convolutions, and in trainings of 50 epochs and more.

    Trying takes about 0.5 s for each convolution. With two networks of MobileNetV3 side by side, at 96
    pixels on an H200, the first epoch took 83 and 38 s instead of 33 and 18 s, later ones about 1.2 s
    less than the 7 s by kernels that are guessed. With `shapes_vary` there are thousands of shapes, and
    cuDNN is left out where other layers compute quickly without it.
    """
    if shapes_vary:
        layers = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
        is_quick = [layer.kernel_size == (1, 1) or layer.groups > 1 for layer in layers]
        is_safe = all(is_quick[1:]) and not has_overlapping_pools(
            network
        )  # products are channels last
        return Kernels.without_cudnn if is_safe else Kernels.guessed
    return Kernels.guessed if has_many_shapes(network) and epochs < _LONG else Kernels.tried


def has_many_shapes(network: nn.Module) -> bool:
    """Whether a network has so many different convolutions that choosing kernels takes longer than the work."""
    different = {
        (conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.groups)
        for conv in network.modules()
        if isinstance(conv, nn.Conv2d)
    }
    return len(different) > _FEW


def has_overlapping_pools(network: nn.Module) -> bool:
    """Whether an average pool has overlapping windows, whose CUDA gradient is wrong in channels last.

    Measured with torch 2.11 (CUDA 13, H200): the relative error of the gradient is 1, in float32 as in
    bfloat16. The forward kernel, both kernels of pools without overlap, and both in the contiguous format
    are right.
    """
    return any(
        size > step
        for pool in network.modules()
        if isinstance(pool, nn.AvgPool2d)
        for size, step in zip(_pair(pool.kernel_size), _pair(pool.stride), strict=True)
    )


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


@contextmanager
def computed_by(kernels: Kernels, device: torch.device) -> Iterator[None]:
    """Compute convolutions on a GPU by such kernels while the block runs.

    The settings of cuDNN are the process's: one thread may use this at a time.
    """
    if device.type != "cuda":
        yield
        return
    cudnn = torch.backends.cudnn
    usual = cudnn.benchmark, cudnn.enabled
    cudnn.benchmark = kernels is Kernels.tried
    cudnn.enabled = kernels is not Kernels.without_cudnn and cudnn.enabled
    try:
        with Products() if kernels is Kernels.without_cudnn else nullcontext():
            yield
    finally:
        cudnn.benchmark, cudnn.enabled = usual


@final
class Products(TorchFunctionMode):
    """Computes 1x1 convolutions and convolutions of images as matrix products while the block runs.

    Torch's own convolution would take the images of a batch one after another.
    """

    def __torch_function__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Replace such a convolution by `linear` over channels or patches; call any other function as it is."""
        if function is functional.conv2d and len(args) == 7:  # as `nn.Conv2d` calls it
            images, weights, bias, stride, padding, dilation, groups = args
            is_pointwise = tuple(weights.shape[2:]) == (1, 1) and groups == 1
            if is_pointwise and images.dim() == 4 and (stride, padding) == ((1, 1), (0, 0)):
                pixels = images.permute(0, 2, 3, 1)
                return functional.linear(pixels, weights.flatten(1), bias).permute(0, 3, 1, 2)
            is_plain = isinstance(padding, tuple) and (groups, dilation) == (1, (1, 1))
            if is_plain and images.dim() == 4 and images.shape[1] <= 4 and not images.requires_grad:
                padded = functional.pad(images, (padding[1], padding[1], padding[0], padding[0]))
                height, width = weights.shape[2:]
                patches = padded.unfold(2, height, stride[0]).unfold(3, width, stride[1])
                patches = patches.permute(0, 2, 3, 1, 4, 5).flatten(3)
                return functional.linear(patches, weights.flatten(1), bias).permute(0, 3, 1, 2)
        return function(*args, **(kwargs or {}))


_WATCHED_S = 0.3
_MOST_THREADS = torch.get_num_threads()  # as OMP_NUM_THREADS says


def take_share(slot: int, slots: int) -> None:
    """Assign this thread or process one of the GPUs, in turn, or the CPU.

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
    """Number of idle cores now, at least one.

    Threads that wait for each other lose much where the machine has other work: beside it, two threads
    on two cores train a small network a quarter as fast as one.
    """
    busy = psutil.cpu_percent(interval=_WATCHED_S, percpu=True)
    idle = sum(1 - busy[core] / 100 for core in usable_cores())
    return max(1, min(round(idle - 0.25), _MOST_THREADS))


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3), in bytes: free memory that glibc keeps, and what is mapped by itself."""

_LARGEST_BYTES = (1 << 30, 32 << 20)
"""Of what is not mapped by itself; glibc before 2.35 refuses more than the second."""

_AFTER_BYTES = {_TRIM_THRESHOLD: 64 << 20, _MMAP_THRESHOLD: 32 << 20}
"""The most that glibc sets them to by itself."""

_changing = threading.Lock()
_running: list[None] = []  # an item for each block, of any thread


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Let glibc keep what is freed while the block runs, and give it back after the last one that runs.

    Otherwise the system clears the pages of all activations anew in each step: on one core, trainings of
    MobileNets are 1.14 to 1.43 times as fast with it, passes up to 1.5 times (benchmarks/results/performance.md).
    Afterwards the thresholds stay as high as glibc sets them by itself. With another C library nothing changes.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        yield
        return
    with _changing:
        _running.append(None)
        # the first that it takes; alone, the other threshold would freeze this one as it is
        any(libc.mallopt(_MMAP_THRESHOLD, size) for size in _LARGEST_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, -1)  # none is given back
    try:
        yield
    finally:
        with _changing:
            _running.pop()
            if not _running:
                for parameter, size in _AFTER_BYTES.items():
                    libc.mallopt(parameter, size)
                libc.malloc_trim(0)
