"""Residency of a file in the system's page cache."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np

_MAPPED_BYTES = 2**30
"""Bytes mapped at once; a system may refuse to map a whole file larger than memory."""


def cached_bytes(file: int) -> int:
    """Return the bytes of an open file in the page cache, without loading any."""
    size = os.fstat(file).st_size
    return sum(
        _cached_bytes(file, begin, min(_MAPPED_BYTES, size - begin))
        for begin in range(0, size, _MAPPED_BYTES)
    )


def is_residency_known(file: int) -> bool:
    """Return whether this user may query the residency; otherwise mincore reports all pages."""
    user = os.geteuid()
    if user in {0, os.fstat(file).st_uid}:
        return True
    return os.access(f"/proc/self/fd/{file}", os.W_OK, effective_ids=True)


def _cached_bytes(file: int, begin: int, nbytes: int) -> int:
    found = np.empty(-(-nbytes // mmap.PAGESIZE), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(file, nbytes, prot=mmap.PROT_READ, offset=begin) as mapped:
        content = np.frombuffer(mapped, np.uint8)
        code = libc.mincore(
            ctypes.c_void_p(content.ctypes.data),
            ctypes.c_size_t(nbytes),
            ctypes.c_void_p(found.ctypes.data),
        )
        del content  # else it could not be unmapped
    if code:
        raise OSError(ctypes.get_errno(), "the residency in the page cache cannot be queried")
    return mmap.PAGESIZE * int(np.count_nonzero(found & 1))
