"""The supernet of NAS-Bench-201: every edge of every cell holds all five operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import final

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor, nn

from edgenas_core.inference.models.nas_bench_201 import NODES, Cell, CellNetwork
from nas.fit.starts.supernet.training import with_batch_statistics
from nas.fit.training.recipe import Recipe
from nas.spaces.nas_bench_201.space import EDGES, NAS_BENCH_201, OPERATIONS

_EDGE = re.compile(r"(cells\.\d+\.edges)\.(\d)\.(\d)\.(.*)")


@final
class SharedCell(nn.Module):
    """A cell that computes the operation that is chosen on each edge."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        whole = [Cell([name] * len(EDGES), channels) for name in OPERATIONS]
        self.edges = nn.ModuleList(
            nn.ModuleList(cell.layers[edge] for cell in whole) for edge in range(len(EDGES))
        )
        self.chosen = [0] * len(EDGES)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        """The last node, of the input's shape."""
        nodes = [x]
        layers = iter(
            [edge[choice] for edge, choice in zip(self._edges(), self.chosen, strict=True)]
        )
        for _ in range(NODES):
            nodes.append(reduce(add, [next(layers)(node) for node in nodes]))
        return nodes[-1]

    def _edges(self) -> Iterable[nn.ModuleList]:
        return (edge for edge in self.edges if isinstance(edge, nn.ModuleList))


@final
class SharedCellNetwork(nn.Module):
    """The network of the benchmark around shared cells; a step trains one path.

    Batch normalisation has neither parameters nor a memory. The recipe is that of Ning et al. (NeurIPS
    2021): SGD with learning rate 0.05, gradients clipped at 5; the last weights are averaged.
    """

    recipe = Recipe("supernet", lr=0.05, ema=0.02, clip=5.0)
    shapes_vary = False

    def __init__(self, num_classes: int, *, cells_per_stage: int = 5, channels: int = 16) -> None:
        super().__init__()
        self.network = CellNetwork(
            ["skip_connect"] * len(EDGES),
            cells_per_stage=cells_per_stage,
            channels=channels,
            num_classes=num_classes,
        )
        self.shared: list[SharedCell] = []
        for i, cell in enumerate(self.network.cells):
            if isinstance(cell, Cell):
                stage = i // (cells_per_stage + 1)
                self.shared.append(SharedCell(channels * 2**stage))
                self.network.cells[i] = self.shared[-1]
        with_batch_statistics(self)

    def of_step(self, rng: np.random.Generator) -> Int64[ndarray, "1 6"]:
        """One path, uniform over distinct networks."""
        return distinct_networks(rng, 1)

    def choose(self, architecture: Int64[ndarray, "6"]) -> None:
        """Compute this architecture from now on."""
        for cell in self.shared:
            cell.chosen = architecture.tolist()

    def weights(self, architecture: Int64[ndarray, "6"]) -> Mapping[str, Tensor]:
        """Convolutions and classifier of a path; those of normalisation stay as they are initialised."""
        weights = {}
        for name, tensor in self.network.state_dict().items():
            edge = _EDGE.fullmatch(name)
            if edge is None:
                weights[name] = tensor
            elif int(edge[3]) == architecture[int(edge[2])]:
                weights[f"{edge[1].replace('edges', 'layers')}.{edge[2]}.{edge[4]}"] = tensor
        return weights

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes"]:
        """Logits of the chosen architecture."""
        logits: Tensor = self.network(images)
        return logits


def distinct_networks(rng: np.random.Generator, n: int) -> Int64[ndarray, "n 6"]:
    """Draw uniformly over the 6,466 networks, each as its first cell."""
    classes = np.unique(NAS_BENCH_201.network_class)
    rows: Int64[ndarray, "n 6"] = NAS_BENCH_201.rows[rng.choice(classes, n)]
    return rows
