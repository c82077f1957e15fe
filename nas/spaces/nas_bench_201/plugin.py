"""NAS-Bench-201 as the search space `space=nas_bench_201`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.accuracy.base import Accuracy, Split
from nas.spaces.nas_bench_201.costs import mflops, parameters
from nas.spaces.nas_bench_201.features import FEATURES, cell_features
from nas.spaces.nas_bench_201.space import (
    ACCURACY_TABLE,
    EDGES,
    NAS_BENCH_201,
    OPERATIONS,
    TASKS,
)
from nas.spaces.public_data import PublicData
from runtime.network.task import Task

if TYPE_CHECKING:
    from torch import Tensor, nn

    from runtime.page.parts import Part

_BYTES_PER_WEIGHT = 4


@final
class NasBench201Space:
    """The benchmark's cells in its own order, with the networks and models that belong to them."""

    name = "nas_bench_201"
    num_choices = NAS_BENCH_201.num_choices
    size = NAS_BENCH_201.size
    tasks: Mapping[str, Task] = TASKS
    default_task = "cifar100"
    accuracy_table = ACCURACY_TABLE
    feature_names = FEATURES
    resources: Path | None = Path(__file__).parent
    table_prefix = "nb201_"
    positions = tuple(f"{start} → {end}" for start, end in EDGES)

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Return the rows as they are: cells of one network were trained and timed each."""
        return architectures

    def canonical(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """The first cell, in official order, that is the same network."""
        return NAS_BENCH_201.canonical(architectures)

    def valid(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Return True where every choice is one of the five operations."""
        return np.asarray(((architectures >= 0) & (architectures < len(OPERATIONS))).all(-1))

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw each edge's operation uniformly."""
        rows: Int64[ndarray, "n D"] = (rng.random((n, len(EDGES))) * self.num_choices).astype(
            np.int64
        )
        return rows

    def neighbours(self, architecture: Int64[ndarray, "D"]) -> Int64[ndarray, "n D"]:
        """The 24 cells that differ on exactly one edge."""
        return NAS_BENCH_201.neighbours(architecture)

    def architectures(self, numbers: Int64[ndarray, "*n"]) -> Int64[ndarray, "*n D"]:
        """Cell of each official number."""
        return np.asarray(NAS_BENCH_201.rows[numbers])

    def numbers(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n"]:
        """Official number of each cell.

        Raises:
          IndexError: if a choice lies outside the space.
        """
        return NAS_BENCH_201.numbers(architectures)

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """The benchmark's string."""
        return NAS_BENCH_201.text(architecture)

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read a benchmark string.

        Raises:
          UserError: if the text is no such string.
        """
        return NAS_BENCH_201.parse(text)

    def describe(self, architecture: Int64[ndarray, "D"]) -> tuple[str, ...]:
        """Operation of each edge; an edge on no path from input to output is marked idle."""
        live = NAS_BENCH_201.live_edges(architecture)
        return tuple(
            name if is_live or name == "none" else f"{name}, idle"
            for name, is_live in zip(NAS_BENCH_201.operations(architecture), live, strict=True)
        )

    def options(self, position: int) -> tuple[str, ...]:  # noqa: ARG002 - the same on every edge
        """The five operations."""
        return OPERATIONS

    def features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        """Counts of operations by place and of live ones; see `features.py`."""
        return cell_features(architectures)

    def groups(self, architectures: Int64[ndarray, "n D"]) -> Int64[ndarray, "n"]:
        """Number of the first cell that computes the same function."""
        return np.asarray(NAS_BENCH_201.function_class[NAS_BENCH_201.numbers(architectures)])

    def costs(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Mapping[str, Float64[ndarray, "*n"]]:
        """`parameters`, `flops` and `weight_bytes`, as the official archive counts."""
        count = np.asarray(parameters(architectures, task), np.float64)
        return {
            "parameters": count,
            "flops": mflops(architectures, task) * 1e6,
            "weight_bytes": count * _BYTES_PER_WEIGHT,
        }

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The untrained network that the benchmark trained."""
        from nas.spaces.nas_bench_201.network import build_network  # noqa: PLC0415 - imports torch

        return build_network(architecture, task)

    def example_input(
        self,
        architecture: Int64[ndarray, "D"],  # noqa: ARG002 - every cell takes the same images
        task: Task,
        batch_size: int,
    ) -> Tensor:
        """Noise in the shape of the task's images."""
        from nas.spaces.nas_bench_201.network import example_images  # noqa: PLC0415 - as above

        return example_images(task, batch_size=batch_size)

    def control(self) -> Int64[ndarray, "D"]:
        """The slowest network: six 3x3 convolutions."""
        return NAS_BENCH_201.from_operations(["nor_conv_3x3"] * len(EDGES))

    def source(self, architecture: Int64[ndarray, "D"], task: Task) -> str:
        """Python source of the network."""
        from nas.spaces.nas_bench_201.source import network_source  # noqa: PLC0415 - exports only

        return network_source(NAS_BENCH_201.operations(architecture), task.num_classes)

    def drawing(self, architecture: Int64[ndarray, "D"], title: str) -> Part:
        """The cell's graph."""
        from nas.spaces.nas_bench_201.drawing import draw_cell  # noqa: PLC0415 - pages only

        return draw_cell(title, architecture)

    def surrogate(self, task: Task, split: Split, epochs: int) -> Accuracy:
        """Accuracies predicted by the embedded ensemble.

        Raises:
          UserError: if it was not fitted for this split or length of training.
        """
        from nas.spaces.nas_bench_201.surrogate import surrogate  # noqa: PLC0415 - reads weights

        return surrogate(self, task, split, epochs)

    def public_data(self) -> PublicData:
        """The official archive, published accuracies, and HELP's latencies."""
        from nas.spaces.nas_bench_201.public.data import NasBench201Data  # noqa: PLC0415 - `nas.data` only

        return NasBench201Data()


SPACE = NasBench201Space()
