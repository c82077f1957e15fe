"""NAS-Bench-201 as the search space `space=nas_bench_201`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.task import Task
from nas.accuracy.base import Accuracy, Split
from nas.spaces.base import ChoiceSpace, Layer
from nas.spaces.nas_bench_201.costs import graph, layers, memory, mflops, parameters
from nas.spaces.nas_bench_201.features import FEATURES, cell_descriptions, cell_features
from nas.spaces.nas_bench_201.space import (
    ACCURACY_TABLE,
    EDGES,
    OPERATIONS,
    TASKS,
    NasBench201,
)
from nas.spaces.public_data import PublicData

if TYPE_CHECKING:
    from torch import nn

    from edgenas_core.page.parts import PagePart
    from nas.spaces.microcontroller import MicroGraph


@final
class NasBench201Space(NasBench201, ChoiceSpace):
    """The benchmark's cells in its own order, with their networks, costs, models and data."""

    name = "nas_bench_201"
    tasks: Mapping[str, Task] = TASKS
    default_task = "cifar100"
    default_device = "jetson-nano/fp32/b1"
    accuracy_table = ACCURACY_TABLE
    feature_names = FEATURES
    resources: Path | None = Path(__file__).parent
    table_prefix = "nb201_"
    expected_loss: Mapping[str, tuple[float, float]] = {  # python -m benchmarks.predicted_optimum
        "cifar10": (0.7, 0.5),
        "cifar100": (1.6, 1.0),
        "imagenet16": (1.9, 1.3),
    }
    choices: Mapping[str, Sequence[str]] = {f"{start} → {end}": OPERATIONS for start, end in EDGES}

    def describe(self, architecture: Int64[ndarray, "D"]) -> tuple[str, ...]:
        """Operation of each edge; an edge on no path from input to output is marked idle."""
        live = self.live_edges(architecture)
        return tuple(
            name if is_live or name == "none" else f"{name}, idle"
            for name, is_live in zip(self.operations(architecture), live, strict=True)
        )

    def features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        """Counts of operations by place and of live ones; see `features.py`."""
        return cell_features(architectures)

    def descriptions(
        self, architectures: Int64[ndarray, "n D"]
    ) -> tuple[Float64[ndarray, "n _"], ...]:
        """Paths, counts and costs that accuracy varies with; see `features.py`."""
        numbers = self.numbers(architectures)
        return tuple(description[numbers] for description in cell_descriptions())

    def groups(self, architectures: Int64[ndarray, "n D"]) -> Int64[ndarray, "n"]:
        """Number of the first cell that computes the same function."""
        return np.asarray(self.function_class[self.numbers(architectures)])

    def costs(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Mapping[str, Float64[ndarray, "*n"]]:
        """`parameters` and `flops`, as the official archive counts."""
        return {
            "parameters": np.asarray(parameters(architectures, task), np.float64),
            "flops": mflops(architectures, task) * 1e6,
        }

    def same_files(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """The rows themselves: of equal cells, some compute with zeros what others leave out."""
        return architectures

    def memory(self, architecture: Int64[ndarray, "D"], task: Task) -> tuple[int, int]:
        """RAM and flash on a microcontroller, from the operations of the cell."""
        return memory(self.operations(architecture), task)

    def micro_graphs(self, architecture: Int64[ndarray, "D"], task: Task) -> list[MicroGraph]:
        """Operations on a microcontroller, from those of the cell."""
        return [graph(self.operations(architecture), task)]

    def layer_list(self, architecture: Int64[ndarray, "D"], task: Task) -> list[Layer]:
        """The stem, the cells of each stage and the head."""
        return layers(architecture, task)

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The untrained network that the benchmark trained."""
        from edgenas_core.inference.models.nas_bench_201 import CellNetwork  # noqa: PLC0415 - imports torch

        return CellNetwork(self.operations(architecture), num_classes=task.num_classes)

    def control(self) -> Int64[ndarray, "D"]:
        """The slowest network: six 3x3 convolutions."""
        return self.from_operations(["nor_conv_3x3"] * len(EDGES))

    def source(self, architecture: Int64[ndarray, "D"], task: Task) -> str:
        """Python source of the network, with the class that it is an object of."""
        from edgenas_core.inference.models.nas_bench_201 import CellNetwork  # noqa: PLC0415 - loaded when needed
        from nas.spaces.source import class_source  # noqa: PLC0415 - exports only

        operations = self.operations(architecture)
        return class_source(CellNetwork, operations=operations, num_classes=task.num_classes)

    def drawing(self, architecture: Int64[ndarray, "D"], title: str) -> PagePart:
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
