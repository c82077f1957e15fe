"""Readers of weights: from the disk, or from memory of the CPU."""

from __future__ import annotations

import mmap
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import NoReturn, Protocol, final

import numpy as np
from torch import Tensor

from edgenas_runtime.weight_streaming.files.host_memory import HostMemory
from edgenas_runtime.weight_streaming.files.layers import LayeredNetwork, WeightLayer
from edgenas_runtime.weight_streaming.files.weight_file import (
    WeightFileError,
    open_for_reading,
    require_packed,
    weights_begin,
)
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES

_CHUNK_BYTES = 32 * 2**20
"""Maximum size of one read call; a reader can be stopped between two calls."""

_NO_STOP = bool


class Tier(Enum):
    """Storage tier of the weights that are not resident."""

    SSD = "ssd"
    """The disk, bypassing the page cache; in a virtual machine the host may still cache it."""
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
        """Bytes of weights in the reader's own memory."""

    @abstractmethod
    def read(
        self, layer: WeightLayer, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP
    ) -> None:
        """Read the bytes of a layer.

        `into` is page-aligned and of the layer's size. The read ends early once `is_stopped`
        returns True.

        Raises:
          OSError: if the layer cannot be read; WeightFileError if the file ends within it.
        """

    @abstractmethod
    def start_cold(self) -> None:
        """Prepare an inference: evict the file from the page cache.

        Raises:
          OSError: if the file was closed.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the file and release the memory."""


@final
class FileReader(WeightReader):
    """Reads a packed file, bypassing the page cache (O_DIRECT)."""

    tier = Tier.SSD
    held_bytes = 0

    def __init__(
        self,
        path: Path,
        layered: LayeredNetwork,
        values: Mapping[str, Tensor],
        *,
        file: int | None = None,
    ) -> None:
        """Open the file and check that it is the network's.

        A file system without O_DIRECT is read through the page cache, and each layer is evicted after
        its read; `description` states which.

        `path` is also used in messages; an open descriptor `file`, just written, is used instead of it
        without a check, and closed with the reader.

        Raises:
          OSError: as `require_packed`; WeightFileError if the path is not a regular file.
        """
        if file is None:
            require_packed(path, layered, values)
        self._name = str(path)
        self._begin = weights_begin(layered)
        self._direct: int | None = None
        self._direct_error = ""
        self._file = open_for_reading(path) if file is None else file
        self._open_direct()

    @property
    def description(self) -> str:
        """Method of reading the file."""
        if self._direct is None:
            return (
                f"posix_fadvise(DONTNEED) after each layer; O_DIRECT failed ({self._direct_error})"
            )
        return "O_DIRECT, with posix_fadvise(DONTNEED) before each inference"

    def read(
        self, layer: WeightLayer, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP
    ) -> None:
        """Read the bytes of a layer."""
        file = self._file if self._direct is None else self._direct
        done = 0
        for begin, nbytes in layer.extents:
            offset, end = self._begin + begin - done, done + nbytes
            while done < end and not is_stopped():
                part = into[done : min(end, done + _CHUNK_BYTES)]
                got = self._read_some(file, part, offset + done, layer)
                if got == 0:
                    raise WeightFileError(f"{self._name} ends within layer {layer.name}")
                done += got
            if self._direct is None:
                os.posix_fadvise(self._file, self._begin + begin, nbytes, os.POSIX_FADV_DONTNEED)

    def _read_some(self, file: int, into: memoryview, offset: int, layer: WeightLayer) -> int:
        try:
            return os.preadv(file, [into], offset)
        except OSError as error:
            raise OSError(
                error.errno,
                f"layer {layer.name} cannot be read from {self._name}: {error.strerror or error}",
            ) from error

    def start_cold(self) -> None:
        """Evict the file from the page cache.

        Raises:
          OSError: if it was closed.
        """
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


@final
class HostReader(WeightReader):
    """Keeps all weights in memory of the CPU and copies them from there."""

    def __init__(
        self,
        layered: LayeredNetwork,
        fill: Callable[[WeightLayer, memoryview], None],
        *,
        pinned: bool,
    ) -> None:
        """Allocate the memory and fill it layer by layer.

        Raises:
          BaseException: whatever `fill` raises; OSError if there is too little memory.
        """
        self._memory = HostMemory(layered.weight_bytes, pinned=pinned)
        try:
            for layer in layered.layers:
                ((begin, nbytes),) = layer.extents
                fill(layer, self._memory.window(begin, nbytes))
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

    def read(
        self, layer: WeightLayer, into: memoryview, is_stopped: Callable[[], bool] = _NO_STOP
    ) -> None:
        """Copy the bytes of a layer."""
        at = 0
        for begin, nbytes in layer.extents:
            if is_stopped():
                return
            source = self._memory.window(begin, nbytes)  # NumPy releases the GIL
            np.copyto(
                np.frombuffer(into[at : at + nbytes], np.uint8), np.frombuffer(source, np.uint8)
            )
            at += nbytes

    @property
    def bytes(self) -> Tensor:
        """All weights, layer by layer, as bytes."""
        return self._memory.bytes

    def start_cold(self) -> None:
        """No effect: the tier is memory."""

    def close(self) -> None:
        """Release the memory."""
        self._memory.close()
