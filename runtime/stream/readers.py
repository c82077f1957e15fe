"""Where weights come from: the disk itself, the system's page cache, or memory of the CPU."""

from __future__ import annotations

import ctypes
import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol, final

import numpy as np
from torch import Tensor

from runtime.stream.errors import WeightFileError
from runtime.stream.host_memory import HostMemory
from runtime.stream.layers import Layered
from runtime.stream.ring import PAGE_BYTES
from runtime.stream.weight_file import Extent, Identity, check_layer, read_extents

_CHUNK_BYTES = 32 * 2**20
"""Read at once; between two of them a reader can be stopped."""

_NO_STOP = bool


class Tier(Enum):
    """Where weights are kept that are not in a ring."""

    SSD = "ssd"
    """The disk, past the system's cache; the disk's own host may still have one."""
    PAGE_CACHE = "page_cache"
    """The system's cache of the file, which is memory too."""
    HOST = "host"
    """Memory of this process, pinned where a GPU copies from it."""


class Reader(Protocol):
    """Gives layers, to several threads at once if they ask."""

    @property
    @abstractmethod
    def tier(self) -> Tier:
        """Where the bytes come from."""

    @property
    @abstractmethod
    def said(self) -> str:
        """How they come, in words for the result."""

    @property
    @abstractmethod
    def held_bytes(self) -> int:
        """Memory that keeps weights outside of all rings: the page cache's or its own."""

    @abstractmethod
    def read(self, layer: int, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP) -> None:
        """Fills `into`, which begins at a page, with the layer's bytes.

        Args:
          layer: its place in the network.
          into: as long as the layer.
          is_stopped: asked now and then; if so, it returns early.

        Raises:
          OSError: if it cannot; WeightFileError if the bytes would not be those that were packed.
        """

    @abstractmethod
    def start_cold(self) -> None:
        """Before an inference: puts out of memory what its tier does not allow there.

        Raises:
          OSError: WeightFileError if the weights are no longer those that were packed, though some
            of them may have been read before that.
        """

    @abstractmethod
    def close(self) -> None:
        """Lets go of file and memory."""


@final
class FileReader(Reader):
    """Reads a packed file, past the page cache (O_DIRECT) or through it.

    A layer is compared with its checksum when it is read for the first time, or each time if
    `always_checked`; at each reading the file must be the one it was (size, inode, time of writing).
    """

    def __init__(
        self,
        path: Path,
        layered: Layered,
        values: Mapping[str, Tensor],
        *,
        direct: bool = True,
        always_checked: bool = False,
    ) -> None:
        """Opens the file and compares its header.

        A file system that refuses O_DIRECT is read through the page cache, which is emptied of the
        file after each layer; `said` tells.

        Raises:
          OSError: as `read_extents`.
        """
        self._path = path
        self._layered = layered
        self._always_checked = always_checked
        self._checked: set[int] = set()
        self._direct: int | None = None
        self._file = os.open(path, os.O_RDONLY)
        try:
            self._extents = read_extents(self._file, str(path), layered, values)
            self._identity = Identity.of(self._file)
            self._tier = Tier.SSD if direct else Tier.PAGE_CACHE
            self._refused = ""
            if direct:
                self._open_direct()
        except BaseException:
            os.close(self._file)
            raise

    @property
    def tier(self) -> Tier:
        """The disk or the page cache."""
        return self._tier

    @property
    def said(self) -> str:
        """How it is read."""
        if self._tier is Tier.PAGE_CACHE:
            return "buffered reads; the file may stay in the page cache"
        if self._direct is not None:
            return "O_DIRECT, and posix_fadvise(DONTNEED) before each cold run"
        return f"posix_fadvise(DONTNEED) after each layer: O_DIRECT was refused ({self._refused})"

    @property
    def held_bytes(self) -> int:
        """What of the file is in the page cache now, whoever brought it there."""
        return cached_bytes(self._file)

    def read(self, layer: int, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP) -> None:
        """Fills `into`."""
        extent = self._extents[layer]
        file = self._file if self._direct is None else self._direct
        done = 0
        while done < extent.nbytes and not is_stopped():
            got = os.preadv(file, [into[done : done + _CHUNK_BYTES]], extent.offset + done)
            if got == 0:
                self._check_identity()
                raise WeightFileError(f"{self._path} ended in layer {self._name(layer)}")
            done += got
        if done < extent.nbytes:
            return
        self._check_identity()
        if self._always_checked or layer not in self._checked:
            check_layer(into, extent, str(self._path), self._name(layer))
            self._checked.add(layer)
        if self._tier is Tier.SSD and self._direct is None:
            self._forget(extent)

    def start_cold(self) -> None:
        """Empties the page cache of the file, unless that is where it is read from.

        Raises:
          WeightFileError: if somebody wrote to the file.
          OSError: if it was closed.
        """
        self._check_identity()
        if self._tier is Tier.SSD:
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """Closes the file."""
        for file in (self._file, self._direct):
            if file is not None and file >= 0:
                os.close(file)
        self._file, self._direct = -1, None

    def _open_direct(self) -> None:
        """Tries it with the first page, for some file systems refuse only then."""
        flag = getattr(os, "O_DIRECT", None)
        if flag is None:
            self._refused = "this system has none"
            return
        try:
            self._direct = os.open(f"/proc/self/fd/{self._file}", os.O_RDONLY | flag)
            with mmap.mmap(-1, PAGE_BYTES) as page:
                os.preadv(self._direct, [page], 0)
        except OSError as error:
            self._refused = error.strerror or str(error)
            if self._direct is not None:
                os.close(self._direct)
                self._direct = None

    def _check_identity(self) -> None:
        now = Identity.of(self._file)
        if now != self._identity:
            what = "was truncated" if now.size < self._identity.size else "was changed"
            raise WeightFileError(
                f"{self._path} {what} while it was open; the inference was stopped before it used "
                "the weights: make the file whole and open the network again"
            )

    def _forget(self, extent: Extent) -> None:
        os.posix_fadvise(self._file, extent.offset, extent.nbytes, os.POSIX_FADV_DONTNEED)

    def _name(self, layer: int) -> str:
        return self._layered.layers[layer].name


@final
class HostReader(Reader):
    """Keeps all weights in memory of the CPU and copies from there."""

    def __init__(
        self, layered: Layered, fill: Callable[[int, memoryview], None], *, pinned: bool
    ) -> None:
        """Takes the memory and fills it, layer by layer.

        Raises:
          BaseException: what `fill` does; OSError if there is not so much memory.
        """
        self._layers = layered.layers
        begins = [0]
        for layer in layered.layers:
            begins.append(begins[-1] + layer.nbytes)
        self._begins = begins
        self._memory = HostMemory(begins[-1], pinned=pinned)
        try:
            for i in range(len(self._layers)):
                fill(i, self._window(i))
        except BaseException:
            self._memory.close()
            raise

    @property
    def tier(self) -> Tier:
        """Memory of this process."""
        return Tier.HOST

    @property
    def said(self) -> str:
        """How it is kept."""
        return "pinned memory of the CPU" if self._memory.pinned else "memory of the CPU"

    @property
    def held_bytes(self) -> int:
        """All weights."""
        return self._memory.nbytes

    def read(self, layer: int, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP) -> None:
        """Copies the layer."""
        if not is_stopped():  # by NumPy, which frees Python's lock meanwhile
            np.copyto(np.frombuffer(into, np.uint8), np.frombuffer(self._window(layer), np.uint8))

    @property
    def bytes(self) -> Tensor:
        """All weights, layer after layer."""
        return self._memory.bytes

    def begin(self, layer: int) -> int:
        """The first byte of a layer."""
        return self._begins[layer]

    def place(self, layer: int) -> Tensor:
        """The layer itself, to be copied by a GPU or used where it lies."""
        return self.bytes[self._begins[layer] : self._begins[layer + 1]]

    def start_cold(self) -> None:
        """Its tier is memory."""

    def close(self) -> None:
        """Gives the memory back."""
        self._memory.close()

    def _window(self, layer: int) -> memoryview:
        return self._memory.window(self._begins[layer], self._layers[layer].nbytes)


def cached_bytes(file: int) -> int:
    """What of an open file is in the page cache; mapping it does not bring it there."""
    size = os.fstat(file).st_size
    if not size:
        return 0
    count = -(-size // mmap.PAGESIZE)
    found = (ctypes.c_ubyte * count)()
    libc = ctypes.CDLL(None, use_errno=True)
    with mmap.mmap(file, size, flags=mmap.MAP_PRIVATE) as mapped:
        begin = ctypes.c_char.from_buffer(mapped)
        code = libc.mincore(ctypes.byref(begin), ctypes.c_size_t(size), found)
        del begin
    if code:
        raise OSError(ctypes.get_errno(), "the page cache does not tell what it holds")
    return mmap.PAGESIZE * sum(one & 1 for one in bytes(found))
