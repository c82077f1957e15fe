"""Where weights come from: the disk itself, the system's page cache, or memory of the CPU."""

from __future__ import annotations

import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import NoReturn, Protocol, final

import numpy as np
from torch import Tensor

from runtime.weight_streaming.files.host_memory import HostMemory
from runtime.weight_streaming.files.layers import LayeredNetwork
from runtime.weight_streaming.files.page_cache import cached_bytes, is_residency_known
from runtime.weight_streaming.files.weight_file import (
    Extent,
    Identity,
    WeightFileError,
    check_layer,
    read_extents,
)
from runtime.weight_streaming.planning.ring import PAGE_BYTES

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

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise ValueError(f"tier={value!r} must be one of {', '.join(one.value for one in cls)}")


class Reader(Protocol):
    """Gives layers, to several threads at once if they ask."""

    @property
    @abstractmethod
    def tier(self) -> Tier:
        """Where the bytes come from."""

    @property
    @abstractmethod
    def description(self) -> str:
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
        layered: LayeredNetwork,
        values: Mapping[str, Tensor],
        *,
        direct: bool = True,
        always_checked: bool = False,
        file: int | None = None,
    ) -> None:
        """Opens the file and compares its header.

        A file system that refuses O_DIRECT is read through the page cache, which is emptied of the
        file after each layer; `said` tells.

        Args:
          path: the file; what errors call it.
          layered: the network.
          values: as `read_extents`.
          direct: past the page cache.
          always_checked: as above.
          file: open already, and closed with this; the path is not looked for then.

        Raises:
          OSError: as `read_extents`; WeightFileError if it is a folder, a pipe or the like.
        """
        self._name = str(path)
        self._layered = layered
        self._always_checked = always_checked
        self._checked: set[int] = set()
        self._direct: int | None = None
        self._file = open_for_reading(path) if file is None else file
        try:
            self._extents = read_extents(self._file, self._name, layered, values)
            self._identity = Identity.of(self._file)
            self._tier = Tier.SSD if direct else Tier.PAGE_CACHE
            self._refused = ""
            self._stays_cached = False
            if direct:
                self._open_direct()
                self._stays_cached = self._is_never_cold()
        except BaseException:
            self.close()
            raise

    @property
    def tier(self) -> Tier:
        """The disk or the page cache."""
        return self._tier

    @property
    def description(self) -> str:
        """How it is read."""
        if self._tier is Tier.PAGE_CACHE:
            return "buffered reads; the file may stay in the page cache"
        if self._stays_cached and is_residency_known(self._file):
            return "not from a disk: the file stays in the page cache, as on a tmpfs"
        if self._direct is None:
            how = (
                f"posix_fadvise(DONTNEED) after each layer: O_DIRECT was refused ({self._refused})"
            )
        else:
            how = "O_DIRECT, and posix_fadvise(DONTNEED) before each cold run"
        if is_residency_known(self._file):
            return how
        return f"{how}; counted as if in the page cache, for only who may write to it is told"

    @property
    def held_bytes(self) -> int:
        """What of the file is in the page cache now, whoever brought it there.

        All of it, where the system does not tell.
        """
        return cached_bytes(self._file)

    def read(self, layer: int, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP) -> None:
        """Fills `into`."""
        extent = self._extents[layer]
        file = self._file if self._direct is None else self._direct
        done = 0
        while done < extent.nbytes and not is_stopped():
            got = self._read_some(
                file, into[done : done + _CHUNK_BYTES], extent.offset + done, layer
            )
            if got == 0:
                self._check_identity()
                raise WeightFileError(f"{self._name} ended in layer {self._layer_name(layer)}")
            done += got
        if done < extent.nbytes:
            return
        self._check_identity()
        if self._always_checked or layer not in self._checked:
            check_layer(into, extent, self._name, self._layer_name(layer))
            self._checked.add(layer)
        if self._tier is Tier.SSD and self._direct is None:
            self._forget(extent)

    def _read_some(self, file: int, into: memoryview, offset: int, layer: int) -> int:
        try:
            return os.preadv(file, [into], offset)
        except OSError as error:
            self._check_identity()  # amid a page direct input is refused, and no end of the file
            raise OSError(
                error.errno,
                f"layer {self._layer_name(layer)} cannot be read from {self._name}: "
                f"{error.strerror or error}",
            ) from error

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

    def _is_never_cold(self) -> bool:
        """Whether the page cache keeps the file, written back or not."""
        with suppress(OSError):
            os.fsync(self._file)
        self.start_cold()
        return 2 * self.held_bytes > self._identity.size

    def _check_identity(self) -> None:
        now = Identity.of(self._file)
        if now != self._identity:
            what = "was truncated" if now.size < self._identity.size else "was changed"
            raise WeightFileError(
                f"{self._name} {what} while it was open; the inference was stopped before it used "
                "the weights: make the file whole and open the network again"
            )

    def _forget(self, extent: Extent) -> None:
        os.posix_fadvise(self._file, extent.offset, extent.nbytes, os.POSIX_FADV_DONTNEED)

    def _layer_name(self, layer: int) -> str:
        return self._layered.layers[layer].name


@final
class HostReader(Reader):
    """Keeps all weights in memory of the CPU and copies from there."""

    def __init__(
        self, layered: LayeredNetwork, fill: Callable[[int, memoryview], None], *, pinned: bool
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
    def description(self) -> str:
        """How it is kept."""
        if self._memory.pinned:
            return "pinned memory of the CPU, which keeps all weights"
        return "memory of the CPU, which keeps all weights: on a CPU that saves nothing"

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


def open_for_reading(path: Path) -> int:
    """A file descriptor for reading.

    Raises:
      OSError: if it cannot be opened; WeightFileError if it is a folder, a pipe or the like.
    """
    if path.exists() and not path.is_file():  # to open a pipe is to wait for its writer
        raise WeightFileError(
            f"{path} is no file; name one that holds the weights, or is to be written"
        )
    return os.open(path, os.O_RDONLY)
