"""Offloading by the package `accelerate`, the baseline, if it is installed."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import final

import torch
from torch import Tensor, nn

OFFLOADS = ("cpu", "disk warm", "disk cold")
"""Weights in CPU memory, or in files, cached by the system or not."""


def is_importable() -> bool:
    """True if the package is installed."""
    return find_spec("accelerate") is not None


@final
class Offloaded:
    """A copy of a network whose weights are loaded layer by layer when they are needed."""

    def __init__(self, module: nn.Module, how: str, device: torch.device) -> None:
        """Make the copy; its files are in a temporary folder.

        Raises:
          BaseException: any error of the package.
        """
        from accelerate import (  # noqa: PLC0415 - it need not be there
            cpu_offload,
            disk_offload,
        )

        self._is_cold = how == "disk cold"
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.is_exact = True
        self._network: Callable[[Tensor], Tensor]
        copied = deepcopy(module).to("cpu")
        where = torch.device("cuda", 0) if device.type == "cuda" else device
        if how == "cpu":
            self.tier = "host"
            self._network = cpu_offload(copied, execution_device=where)
        else:
            self.tier = "ssd" if self._is_cold else "page_cache"
            disk = Path("/var/tmp")  # noqa: S108 - in a folder of its own
            self._folder = tempfile.TemporaryDirectory(
                prefix="edgenas-", dir=disk if os.access(disk, os.W_OK) else None
            )
            self._network = disk_offload(copied, self._folder.name, execution_device=where)
        self._is_on_gpu = where.type == "cuda"

    def once_ms(self, x: Tensor, reference: Tensor) -> float:
        """One inference."""
        if self._is_cold:
            self._forget()
        with torch.no_grad():
            self._wait()
            began_s = time.perf_counter()
            y = self._network(x)
            self._wait()
            taken_ms = 1e3 * (time.perf_counter() - began_s)
        self.is_exact = self.is_exact and torch.equal(y, reference)
        return taken_ms

    def close(self) -> None:
        """Remove its files."""
        if self._folder is not None:
            self._folder.cleanup()

    def _wait(self) -> None:
        if self._is_on_gpu:
            torch.cuda.synchronize()

    def _forget(self) -> None:
        assert self._folder is not None
        for path in Path(self._folder.name).iterdir():
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)
