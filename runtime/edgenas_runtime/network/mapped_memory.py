"""Pinned memory of the CPU that a GPU reads and writes in place (zero copy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor


def pinned_like(example: Tensor) -> Tensor:
    """Return an uninitialised pinned tensor like the example; allocation is slow, 3 GB/s."""
    return torch.empty_like(example, device="cpu", pin_memory=True)


def on_gpu(pinned: Tensor, device: torch.device) -> Tensor:
    """Return the same memory as a tensor of the GPU; each access crosses the bus.

    Writes of either side are visible to the other when the writing job has ended.
    """
    dense = torch.as_tensor(_Bytes(pinned), device=device).view(pinned.dtype)
    return dense.as_strided(pinned.size(), pinned.stride())


@final
@dataclass(frozen=True)
class _Bytes:
    pinned: Tensor
    """Kept alive by the tensor made from this object."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        nbytes = self.pinned.untyped_storage().nbytes()
        return {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (self.pinned.data_ptr(), False),
            "version": 3,
        }
