"""Average pools with overlapping windows, whose gradient torch's CUDA kernel gets wrong.

In torch 2.11 (CUDA 13, H200) the backward kernel of `avg_pool2d` for channels-last tensors returns
wrong gradients where windows overlap (relative error 1), in float32 as in bfloat16; its forward
kernel, and both for windows that do not overlap, are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

Images = Float[Tensor, "n c h w"]


@contextmanager
def exact_average_pools(network: nn.Module) -> Iterator[None]:
    """Replace the gradient of such pools of a network while the block runs."""
    pools = [m for m in network.modules() if isinstance(m, nn.AvgPool2d) and _overlaps(m)]
    for pool in pools:
        pool.forward = partial(_pooled, pool)  # type: ignore[method-assign]  # for a while
    try:
        yield
    finally:
        for pool in pools:
            del pool.forward


def _overlaps(pool: nn.AvgPool2d) -> bool:
    return any(
        size > step for size, step in zip(_pair(pool.kernel_size), _pair(pool.stride), strict=True)
    )


def _pooled(pool: nn.AvgPool2d, images: Images) -> Float[Tensor, "n c i j"]:
    size = _pair(pool.kernel_size)
    is_same = (
        _pair(pool.stride) == (1, 1)
        and size == tuple(2 * padding + 1 for padding in _pair(pool.padding))
        and pool.divisor_override is None
    )
    if is_same:
        pooled: Images = _SamePool.apply(images, size, pool.count_include_pad)  # type: ignore[no-untyped-call]
        return pooled
    return functional.avg_pool2d(
        images.contiguous(),
        pool.kernel_size,
        pool.stride,
        pool.padding,
        pool.ceil_mode,
        pool.count_include_pad,
        pool.divisor_override,
    ).contiguous(memory_format=torch.channels_last)


@final
class _SamePool(torch.autograd.Function):
    """A pool of stride 1 that keeps the side.

    Its output is the sum over a window, divided by the number of pixels there; the windows are
    symmetric, so its gradient is the sum over the window of the divided gradient.
    """

    @staticmethod
    def forward(ctx: Any, images: Images, size: tuple[int, int], include: bool) -> Images:
        ctx.size, ctx.include = size, include
        return functional.avg_pool2d(images, size, 1, _half(size), count_include_pad=include)

    @staticmethod
    def backward(ctx: Any, gradient: Images) -> tuple[Images, None, None]:
        size = ctx.size
        pixels = size[0] * size[1]
        if ctx.include:
            divided = gradient / pixels
        else:
            ones = torch.ones_like(gradient[:1, :1])
            divided = gradient / _window_sum(ones, size)
        return _window_sum(divided, size), None, None


def _window_sum(images: Images, size: tuple[int, int]) -> Images:
    return functional.avg_pool2d(images, size, 1, _half(size), divisor_override=1)


def _half(size: tuple[int, int]) -> tuple[int, int]:
    return size[0] // 2, size[1] // 2


def _pair(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value
