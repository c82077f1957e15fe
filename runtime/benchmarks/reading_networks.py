"""A network that does little but read memory, to map beside others: does a time taken alone hold then?

Four products of one 8192 x 8192 matrix and a vector. The matrix has 268 MB in fp32, more than a GPU's
second-level cache, so that each product reads it anew: places of a GPU that are apart in
multiprocessors share the memory's bandwidth all the same.

    $ python -m edgenas_runtime.map profile=reading.csv \
        'profiling.networks=[nb201,resnet50,benchmarks.reading_networks:reader]'
    $ python -m benchmarks experiment=mapped tasks=reading.csv frame_ms=2.5 out=reading \
        'networks=[benchmarks.reading_networks:reader,benchmarks.reading_networks:reader,nb201,resnet50]'
"""

import torch
from torch import nn

SIDE = 8192
PRODUCTS = 4


class Reader(nn.Module):
    """Signals keep their size from product to product."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE) / SIDE**0.5)

    def forward(self, x):
        """Shape (8192, 1) to the same."""
        for _ in range(PRODUCTS):
            x = self.weight @ x
        return x


def reader():
    return Reader(), torch.randn(SIDE, 1)
