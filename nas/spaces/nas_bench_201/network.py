"""From an architecture to its network: where a row of choices becomes a torch module."""

from __future__ import annotations

from jaxtyping import Float, Int64
from numpy import ndarray
from torch import Tensor

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.network.models import nas_bench_201
from runtime.network.task import Task


def build_network(architecture: Int64[ndarray, "6"], task: Task) -> nas_bench_201.CellNetwork:
    """The untrained network that the benchmark trained on a data set."""
    return nas_bench_201.CellNetwork(
        NAS_BENCH_201.operations(architecture), num_classes=task.num_classes
    )


def example_images(task: Task, *, batch_size: int = 1) -> Float[Tensor, "n 3 size size"]:
    """Noise in the shape of a data set's images."""
    return nas_bench_201.example_input(task.image_side, batch_size=batch_size)
