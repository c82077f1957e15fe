"""Readers of weights: from the disk, through the page cache, or from memory of the CPU."""

from __future__ import annotations

import ctypes
import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from itertools import accumulate
from pathlib import Path
from typing import NoReturn, Protocol, final

import numpy as np
from torch import Tensor

from runtime.weight_streaming.files.host_memory import HostMemory
from runtime.weight_streaming.files.layers import LayeredNetwork
from runtime.weight_streaming.files.weight_file import (
    WeightFileError,
    check_layer,
    open_for_reading,
    read_extents,
)
from runtime.weight_streaming.planning.ring import PAGE_BYTES

_CHUNK_BYTES = 32 * 2**20
"""Maximum size of one read call; a reader can be stopped between two calls."""

_MAPPED_BYTES = 2**30
"""Bytes mapped at once; a system may refuse to map a whole file larger than memory."""

_NO_STOP = bool


class Tier(Enum):
    """Storage tier of the weights that are not resident."""

    SSD = "ssd"
    """The disk, bypassing the page cache; in a virtual machine the host may still cache it."""
    PAGE_CACHE = "page_cache"
    """The system's page cache of the file, which is memory too."""
    HOST = "host"
    """Memory of this process, pinned for copies to a GPU."""

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"tier={value!r} must be one of {', '.join(tier.value for tier in cls)}")


class WeightReader(Protocol):
    """Reads layers; thread-safe."""

    tier: Tier
    """Storage tier."""

    @property
    @abstractmethod
    def description(self) -> str:
        """Method of reading the weights, for reports."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Bytes of weights in the page cache or in the reader's own memory."""

    @abstractmethod
    def read(self, layer: int, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP) -> None:
        """Read the bytes of a layer.

        `into` is page-aligned and of the layer's size. The read ends early once `is_stopped`
        returns True.

        Raises:
          OSError: if the layer cannot be read; WeightFileError if it differs from what was packed.
        """

    @abstractmethod
    def start_cold(self) -> None:
        """Prepare an inference: evict the file from the page cache if the tier requires it.

        Raises:
          OSError: if the file was closed.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file and release the memory."""


@final
class FileReader(WeightReader):
    """Reads a packed file, bypassing the page cache (O_DIRECT) or through it.

    A layer's checksum is verified at its first read.
    """

    def __init__(
        self,
        path: Path,
        layered: LayeredNetwork,
        values: Mapping[str, Tensor],
        *,
        direct: bool = True,
        file: int | None = None,
    ) -> None:
        """Open the file and validate its header.

        A file system without O_DIRECT is read through the page cache, and each layer is evicted after
        its read; `description` states which.

        `path` is also used in messages; an open descriptor `file` is used instead of it, and closed
        with the reader. `direct` bypasses the page cache.

        Raises:
          OSError: as `read_extents`; WeightFileError if the path is not a regular file.
        """
        self._name = str(path)
        self._layered = layered
        self._checked: set[int] = set()
        self._direct: int | None = None
        self._file = open_for_reading(path) if file is None else file
        try:
            self._extents = read_extents(self._file, self._name, layered, values)
            self.tier = Tier.SSD if direct else Tier.PAGE_CACHE
            self._direct_error = ""
            self._stays_cached = False
            if direct:
                self._open_direct()
                self._stays_cached = self._is_never_cold()
        except BaseException:
            self.close()
            raise

    @property
    def description(self) -> str:
        """Method of reading the file."""
        if self.tier is Tier.PAGE_CACHE:
            return "buffered reads; the file may remain in the page cache"
        if self._stays_cached:
            return "not from a disk: the file always remains in the page cache, as on a tmpfs"
        if self._direct is None:
            return (
                f"posix_fadvise(DONTNEED) after each layer; O_DIRECT failed ({self._direct_error})"
            )
        return "O_DIRECT, with posix_fadvise(DONTNEED) before each inference"

    @property
    def held_bytes(self) -> int:
        """Bytes of the file in the page cache, by any process; all if only its owner may know."""
        return cached_bytes(self._file)

    def read(self, layer: int, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP) -> None:
        """Read the bytes of a layer and verify them."""
        extent = self._extents[layer]
        file = self._file if self._direct is None else self._direct
        done = 0
        while done < extent.nbytes and not is_stopped():
            got = self._read_some(
                file, into[done : done + _CHUNK_BYTES], extent.offset + done, layer
            )
            if got == 0:
                raise WeightFileError(f"{self._name} ends within layer {self._layer_name(layer)}")
            done += got
        if done < extent.nbytes:
            return
        if layer not in self._checked:
            check_layer(into, extent, self._name, self._layer_name(layer))
            self._checked.add(layer)
        if self.tier is Tier.SSD and self._direct is None:
            os.posix_fadvise(self._file, extent.offset, extent.nbytes, os.POSIX_FADV_DONTNEED)

    def _read_some(self, file: int, into: memoryview, offset: int, layer: int) -> int:
        try:
            return os.preadv(file, [into], offset)
        except OSError as error:
            raise OSError(
                error.errno,
                f"layer {self._layer_name(layer)} cannot be read from {self._name}: "
                f"{error.strerror or error}",
            ) from error

    def start_cold(self) -> None:
        """Evict the file from the page cache, unless that is its tier.

        Raises:
          OSError: if it was closed.
        """
        if self.tier is Tier.SSD:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Close the file."""
        for file in (self._file, self._direct):
            if file is not None and file >= 0:
                os.close(file)
        self._file, self._direct = -1, None

    def _open_direct(self) -> None:
        """Open with O_DIRECT and read the first page, where some file systems fail."""
        flag = getattr(os, "O_DIRECT", None)
        if flag is None:
            self._direct_error = "not supported by this system"
            return
        try:
            self._direct = os.open(f"/proc/self/fd/{self._file}", os.O_RDONLY | flag)
            with mmap.mmap(-1, PAGE_BYTES) as page:
                os.preadv(self._direct, [page], 0)
        except OSError as error:
            self._direct_error = error.strerror or str(error)
            if self._direct is not None:
                os.close(self._direct)
                self._direct = None

    def _is_never_cold(self) -> bool:
        """Return whether the page cache keeps the file even after it was evicted."""
        with suppress(OSError):
            os.fsync(self._file)
        self.start_cold()
        return 2 * self.held_bytes > os.fstat(self._file).st_size

    def _layer_name(self, layer: int) -> str:
        return self._layered.layers[layer].name


@final
class HostReader(WeightReader):
    """Keeps all weights in memory of the CPU and copies them from there."""

    def __init__(
        self, layered: LayeredNetwork, fill: Callable[[int, memoryview], None], *, pinned: bool
    ) -> None:
        """Allocate the memory and fill it layer by layer.

        Raises:
          BaseException: whatever `fill` raises; OSError if there is too little memory.
        """
        self._begins = [0, *accumulate(layer.nbytes for layer in layered.layers)]
        self._memory = HostMemory(self._begins[-1], pinned=pinned)
        try:
            for i in range(len(layered.layers)):
                fill(i, self._window(i))
        except BaseException:
            self._memory.close()
            raise

    tier = Tier.HOST

    @property
    def description(self) -> str:
        """Kind of memory."""
        if self._memory.pinned:
            return "pinned memory of the CPU, which holds all weights"
        return "memory of the CPU, which holds all weights: on a CPU this saves nothing"

    @property
    def held_bytes(self) -> int:
        """Bytes of all weights."""
        return self._memory.nbytes

    def read(self, layer: int, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP) -> None:
        """Copy the bytes of a layer."""
        if not is_stopped():  # NumPy releases the GIL
            np.copyto(np.frombuffer(into, np.uint8), np.frombuffer(self._window(layer), np.uint8))

    @property
    def bytes(self) -> Tensor:
        """All weights, layer by layer, as bytes."""
        return self._memory.bytes

    def begin(self, layer: int) -> int:
        """Return the offset of a layer."""
        return self._begins[layer]

    def place(self, layer: int) -> Tensor:
        """Return the bytes of a layer in place."""
        return self.bytes[self._begins[layer] : self._begins[layer + 1]]

    def start_cold(self) -> None:
        """No effect: the tier is memory."""

    def close(self) -> None:
        """Release the memory."""
        self._memory.close()

    def _window(self, layer: int) -> memoryview:
        begin, end = self._begins[layer : layer + 2]
        return self._memory.window(begin, end - begin)


def cached_bytes(file: int) -> int:
    """Return the bytes of an open file in the page cache, without loading any."""
    size = os.fstat(file).st_size
    return sum(
        _cached_bytes(file, begin, min(_MAPPED_BYTES, size - begin))
        for begin in range(0, size, _MAPPED_BYTES)
    )


def _cached_bytes(file: int, begin: int, nbytes: int) -> int:
    pages = np.empty(-(-nbytes // mmap.PAGESIZE), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(file, nbytes, prot=mmap.PROT_READ, offset=begin) as mapped:
        content = np.frombuffer(mapped, np.uint8)
        code = libc.mincore(
            ctypes.c_void_p(content.ctypes.data),
            ctypes.c_size_t(nbytes),
            ctypes.c_void_p(pages.ctypes.data),
        )
        del content  # else it could not be unmapped
    if code:
        raise OSError(ctypes.get_errno(), "the residency in the page cache cannot be queried")
    return mmap.PAGESIZE * int(np.count_nonzero(pages & 1))
