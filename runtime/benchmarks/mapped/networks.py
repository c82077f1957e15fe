"""Networks of the mapping pages, for `networks=[benchmarks.mapped.networks:vgg16]`."""

from __future__ import annotations

from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from benchmarks.mapped.named_networks import scale_weights
from benchmarks.networks.vgg import VGG

_SIDE = 1024
"""Side of the square matrix in `gemm_<N>`, as in figure 4.6 of the source."""

_PRODUCTS = 32
"""Number of products in sequence; a single one is shorter than its launch."""


@final
class MatrixProducts(nn.Module):
    """A sequence of matrix products, each 1024 x 1024 by 1024 x N."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(_SIDE, _SIDE) / _SIDE**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Map shape (1024, N) to (1024, N)."""
        for _ in range(_PRODUCTS):
            x = self.weight @ x
        return x


def gemm(columns: int) -> tuple[nn.Module, Tensor]:
    """Return the matrix products and an input of so many columns."""
    return MatrixProducts(), torch.randn(_SIDE, columns)


gemm_1, gemm_2, gemm_12, gemm_128, gemm_512 = (partial(gemm, n) for n in (1, 2, 12, 128, 512))


def vgg16() -> tuple[nn.Module, Tensor]:
    """Return VGG-16 and an image."""
    module = VGG(16)
    scale_weights(module, torch.randn(8, 3, 224, 224))
    return module, torch.randn(1, 3, 224, 224)
