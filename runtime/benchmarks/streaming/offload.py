"""Offloading to CPU memory by the package `accelerate`, the baseline, if it is installed."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from importlib.util import find_spec
from typing import final

import torch
from torch import Tensor, nn


def is_importable() -> bool:
    """True if the package is installed."""
    return find_spec("accelerate") is not None


@final
class Offloaded:
    """A copy of a network whose weights are loaded layer by layer when they are needed."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        """Make the copy.

        Raises:
          BaseException: any error of the package.
        """
        from accelerate import cpu_offload  # noqa: PLC0415 - it need not be there

        self.is_exact = True
        self._is_on_gpu = device.type == "cuda"
        where = torch.device("cuda", 0) if self._is_on_gpu else device
        copied = deepcopy(module).to("cpu")
        self._network: Callable[[Tensor], Tensor] = cpu_offload(copied, execution_device=where)

    def once_ms(self, x: Tensor, reference: Tensor) -> float:
        """One inference."""
        with torch.no_grad():
            self._wait()
            began_s = time.perf_counter()
            y = self._network(x)
            self._wait()
            taken_ms = 1e3 * (time.perf_counter() - began_s)
        self.is_exact = self.is_exact and torch.equal(y, reference)
        return taken_ms

    def _wait(self) -> None:
        if self._is_on_gpu:
            torch.cuda.synchronize()
