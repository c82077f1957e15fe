"""Managed memory of CUDA with a limit: never more than the device has free.

Over-subscribed managed memory can hang a GPU that others use, so that it is refused here.
"""

from __future__ import annotations

import ctypes
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from edgenas_core.inference.cuda.sm_slices import checked

MOST_BYTES = 256 * 2**20
"""Limit of all managed buffers of this process together, bytes."""

_ATTACH_GLOBAL = 1
"""CU_MEM_ATTACH_GLOBAL: any stream may touch it."""

_taken = 0


def check_managed(nbytes: int, taken: int, free: int) -> None:
    """Refuse an allocation beyond the limit.

    Raises:
      ValueError: naming the limit.
    """
    if nbytes < 1 or taken + nbytes > MOST_BYTES:
        raise ValueError(
            f"{nbytes:,} bytes of managed memory beside {taken:,} are not between 1 and "
            f"{MOST_BYTES:,} together; use another policy"
        )
    if 2 * nbytes > free:
        raise ValueError(
            f"{nbytes:,} bytes of managed memory are more than half of the {free:,} that the device "
            "has free: it must never be over-subscribed"
        )


@final
class ManagedMemory:
    """A float32 buffer whose pages migrate to the side that touches them."""

    def __init__(self, nbytes: int, device: torch.device) -> None:
        """Allocate the buffer.

        Raises:
          ValueError: if it is beyond the limit.
          RuntimeError: if cuda-bindings is not installed, or the driver refuses.
        """
        global _taken  # noqa: PLW0603 - the limit is of the process
        try:
            from cuda.bindings import driver  # noqa: PLC0415 - only who has a GPU needs it
        except ImportError as error:
            raise RuntimeError(
                "managed memory needs the package cuda-bindings, of the CUDA version of torch"
            ) from error
        torch.zeros(1, device=device)  # makes torch's context current
        check_managed(nbytes, _taken, torch.cuda.mem_get_info(device)[0])
        self._driver = driver
        self._pointer: int | None = int(checked(driver.cuMemAllocManaged(nbytes, _ATTACH_GLOBAL)))
        self._nbytes = nbytes
        _taken += nbytes
        self.device: Tensor = torch.as_tensor(_Managed(self._pointer, nbytes // 4), device=device)
        """The buffer as the GPU sees it."""
        raw: Any = (ctypes.c_float * (nbytes // 4)).from_address(self._pointer)
        self.host: Tensor = torch.from_numpy(np.frombuffer(raw, dtype=np.float32))
        """The buffer as the CPU sees it."""

    def close(self) -> None:
        """Free it; its tensors must not be used afterwards."""
        global _taken  # noqa: PLW0603 - the limit is of the process
        if self._pointer is not None:
            checked((*self._driver.cuMemFree(self._pointer), None))
            self._pointer = None
            _taken -= self._nbytes


@final
class _Managed:
    """The part of the CUDA array interface that torch needs."""

    def __init__(self, pointer: int, elements: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (elements,),
            "typestr": "<f4",
            "data": (pointer, False),
            "version": 3,
        }
