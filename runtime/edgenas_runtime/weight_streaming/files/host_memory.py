"""Page-aligned memory of the CPU that is returned to the system when it is closed."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import final

import torch
from torch import Tensor

from edgenas_runtime.weight_streaming.planning.ring import aligned

_MAPPED_AND_PORTABLE = 3
"""Flags of cudaHostRegister: mapped into the GPU's addresses, in every context."""

_HUGE_BYTES = 2 * 2**20
"""Size of a huge page; direct I/O pins one huge page instead of 512 small ones."""


@final
class HostMemory:
    """A block of memory for direct I/O; if pinned, a GPU copies from it asynchronously.

    torch's own pinned memory is rounded up to a power of two, at worst nearly twice the size.
    """

    def __init__(self, nbytes: int, *, pinned: bool) -> None:
        """Allocate all pages, which is slow: not to be done while a network runs.

        Raises:
          OSError: if there is too little memory; RuntimeError if it cannot be pinned.
        """
        self.nbytes = aligned(max(nbytes, 1))
        self.pinned = pinned
        # the part before the first huge page is never touched, so it uses no memory
        self._map: mmap.mmap | None = mmap.mmap(
            -1, self.nbytes + _HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        with torch.inference_mode(mode=False):
            addresses = torch.frombuffer(self._map, dtype=torch.uint8)
            begin = -addresses.data_ptr() % _HUGE_BYTES
            self._bytes: Tensor | None = addresses[begin : begin + self.nbytes]
        self._request_huge_pages(begin)
        self._bytes.zero_()
        if pinned:
            code = torch.cuda.cudart().cudaHostRegister(
                self._bytes.data_ptr(), self.nbytes, _MAPPED_AND_PORTABLE
            )
            if int(code) != 0:
                raise RuntimeError(f"{self.nbytes:,} bytes of memory cannot be pinned: {code}")

    @property
    def bytes(self) -> Tensor:
        """The whole block, as bytes.

        Raises:
          RuntimeError: after `close`.
        """
        if self._bytes is None:
            raise RuntimeError("the memory was released")
        return self._bytes

    def window(self, offset: int, nbytes: int) -> memoryview:
        """Return a writable part of the block."""
        return self.bytes.numpy().data[offset : offset + nbytes]

    def _request_huge_pages(self, begin: int) -> None:
        """Request huge pages for the whole ones in the block; without them reads are slower."""
        whole = self.nbytes // _HUGE_BYTES * _HUGE_BYTES
        if whole and self._map is not None and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE, begin, whole)

    def close(self) -> None:
        """Release the memory at once; tensors that still refer to it read zeros."""
        if self._bytes is None or self._map is None:
            return
        if self.pinned:
            torch.cuda.cudart().cudaHostUnregister(self._bytes.data_ptr())
        self._bytes = None
        self._map.madvise(mmap.MADV_DONTNEED)
        with suppress(BufferError):  # the addresses are freed with the last tensor
            self._map.close()
        self._map = None
