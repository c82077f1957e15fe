"""Memory of the CPU that begins at a page and goes back to the system when it is closed."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import final

import torch
from torch import Tensor

from runtime.weight_streaming.planning.ring import aligned

_MAPPED_AND_PORTABLE = 3
"""Flags of cudaHostRegister: kernels may read it in place, whatever the context."""

_HUGE_BYTES = 2 * 2**20
"""A large page: direct input has to hold it while it writes there, or 512 small ones instead."""


@final
class HostMemory:
    """Bytes that direct input can be read into; pinned, a GPU copies from them by itself.

    Torch's own pinned memory comes in powers of two, nearly twice what was asked for at worst.
    """

    def __init__(self, nbytes: int, *, pinned: bool) -> None:
        """Takes the memory, every page of it: slow, and never to be done while a network runs.

        Raises:
          OSError: if there is not so much; RuntimeError if it cannot be pinned.
        """
        self.nbytes = aligned(max(nbytes, 1))
        self.pinned = pinned
        # what is before the first large page is never touched, so takes addresses and no memory
        self._map: mmap.mmap | None = mmap.mmap(
            -1, self.nbytes + _HUGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        )
        with torch.inference_mode(mode=False):
            addresses = torch.frombuffer(self._map, dtype=torch.uint8)
            begin = -addresses.data_ptr() % _HUGE_BYTES
            self._bytes: Tensor | None = addresses[begin : begin + self.nbytes]
        self._ask_for_large_pages(begin)
        self._bytes.zero_()
        if pinned:
            code = torch.cuda.cudart().cudaHostRegister(
                self._bytes.data_ptr(), self.nbytes, _MAPPED_AND_PORTABLE
            )
            if int(code) != 0:
                raise RuntimeError(f"{self.nbytes:,} bytes of memory cannot be pinned: {code}")

    @property
    def bytes(self) -> Tensor:
        """All of them.

        Raises:
          RuntimeError: after `close`.
        """
        if self._bytes is None:
            raise RuntimeError("the memory was given back")
        return self._bytes

    def window(self, offset: int, nbytes: int) -> memoryview:
        """Some of them, to be written to."""
        return self.bytes.numpy().data[offset : offset + nbytes]

    def _ask_for_large_pages(self, begin: int) -> None:
        """Of whole ones, so that no byte more is taken; without them it is slower, not wrong."""
        whole = self.nbytes // _HUGE_BYTES * _HUGE_BYTES
        if whole and self._map is not None and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE, begin, whole)

    def close(self) -> None:
        """Gives it back at once; who still holds a tensor of it finds zeros."""
        if self._bytes is None or self._map is None:
            return
        if self.pinned:
            torch.cuda.cudart().cudaHostUnregister(self._bytes.data_ptr())
        self._bytes = None
        self._map.madvise(mmap.MADV_DONTNEED)
        with suppress(BufferError):  # its addresses go with the last who holds them
            self._map.close()
        self._map = None
