"""Single layers that are measured beside hogs, like the networks of `edgenas_core.contention.networks`."""

from __future__ import annotations

from functools import partial

from torch import nn

from edgenas_core.contention.networks import BUILDERS


def add_layers() -> None:
    """Add conv<n>, 64 channels on n x n pixels, and fc8192, a layer with 256 MB of weights."""
    for side in (32, 64, 256):
        BUILDERS[f"conv{side}"] = partial(_convolution, side)
    BUILDERS["fc8192"] = lambda: (nn.Linear(8192, 8192, bias=False), (1, 8192))


def _convolution(side: int) -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Conv2d(64, 64, 3, padding=1, bias=False), (1, 64, side, side)
