"""Memory of the CPU that a GPU reads and writes in place: pinned, and mapped into its addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor


def pinned_like(example: Tensor) -> Tensor:
    """Uninitialised memory of the example's shape, strides and type; slow, 3 GB/s, to come by."""
    return torch.empty_like(example, device="cpu", pin_memory=True)


def on_gpu(pinned: Tensor, device: torch.device) -> Tensor:
    """The same memory as a tensor of the GPU; each access crosses the bus.

    What either side writes, the other sees once the writing job has ended.
    """
    dense = torch.as_tensor(_Bytes(pinned), device=device).view(pinned.dtype)
    return dense.as_strided(pinned.size(), pinned.stride())


@final
@dataclass(frozen=True)
class _Bytes:
    pinned: Tensor
    """The tensor made of this keeps this, and so the memory."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        nbytes = self.pinned.untyped_storage().nbytes()
        return {
            "shape": (nbytes,),
            "typestr": "|u1",
            "data": (self.pinned.data_ptr(), False),
            "version": 3,
        }
