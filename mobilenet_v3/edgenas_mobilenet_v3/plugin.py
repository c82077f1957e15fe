"""MobileNetV3 as the search spaces `space=mobilenet_v3` and `space=mobilenet_v3_w1.0`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.costs import (
    block_multiply_accumulates,
    block_parameters,
    block_text,
    multiply_accumulates,
    outside_stages,
    parameters,
    sum_of_blocks,
    texts_outside,
)
from edgenas_mobilenet_v3.features import FEATURES, architecture_features
from edgenas_mobilenet_v3.layers import BlockShape, blocks_of, image_side, widths
from edgenas_mobilenet_v3.predictor import NAME, WIDTH, OfaAccuracyConfig
from edgenas_mobilenet_v3.space import (
    IMAGENET,
    MOST_BLOCKS,
    STAGES,
    MobileNetV3,
    side_of,
    stages_of,
)
from nas.accuracy.base import Accuracy, SharedNetwork, Split
from nas.spaces.base import Layer
from nas.spaces.public_data import PublicData

if TYPE_CHECKING:
    from torch import Tensor, nn

    from edgenas_core.page.parts import PagePart
    from nas.spaces.microcontroller import MicroGraph

CONTROL = "r176 k5e4-k5e4-k5e4 k5e4-k5e4-k5e4 k5e4-k5e4-k5e4 k5e4-k5e4-k5e4 k5e4-k5e4-k5e4"


class MobileNetV3Space(MobileNetV3):
    """Networks of one width multiplier, with their costs, supernet and drawings.

    A width is a space of its own: supernets, look-ups and predictors are made for one width.
    """

    tasks: Mapping[str, Task] = {IMAGENET.name: IMAGENET}
    feature_names = FEATURES

    def __init__(self, name: str, multiplier: float, resources: Path | None) -> None:
        self.name = name
        self.resources = resources
        self.multiplier = multiplier
        self.widths = widths(multiplier)

    def features(self, architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
        """Counts of blocks by their place and settings; see `features.py`."""
        return architecture_features(architectures)

    def costs(
        self, architectures: Int64[ndarray, "*n D"], task: Task
    ) -> Mapping[str, Float64[ndarray, "*n"]]:
        """`parameters` and `flops`, as the public implementation counts."""
        return {
            "parameters": parameters(architectures, self.widths, task),
            "flops": multiply_accumulates(architectures, self.widths, task),
        }

    def memory(self, architecture: Int64[ndarray, "D"], task: Task) -> tuple[int, int]:
        """RAM and flash on a microcontroller, from the blocks."""
        from edgenas_mobilenet_v3.memory import memory  # noqa: PLC0415 - imports torch

        image = self.image_side(architecture, task)
        return memory(self.layers(architecture, task), self.widths, image, task)

    def micro_graphs(self, architecture: Int64[ndarray, "D"], task: Task) -> list[MicroGraph]:
        """Operations on a microcontroller, of each block."""
        from edgenas_mobilenet_v3.memory import graphs  # noqa: PLC0415 - loaded when needed

        image = self.image_side(architecture, task)
        return graphs(self.layers(architecture, task), self.widths, image, task)

    def sum_of_blocks(
        self,
        architectures: Int64[ndarray, "*n D"],
        task: Task,
        cost: Callable[[int, str], float],
    ) -> Float64[ndarray, "*n"]:
        """Sum of a cost over the blocks of each network; see `costs.py`."""
        return sum_of_blocks(architectures, self.widths, task, cost)

    def layers(self, architecture: Int64[ndarray, "D"], task: Task) -> list[BlockShape]:
        """Blocks of a network in order, with the one before the stages."""
        return blocks_of(architecture, self.widths, self.image_side(architecture, task))

    def layer_list(self, architecture: Int64[ndarray, "D"], task: Task) -> list[Layer]:
        """The stem, each block, and the head."""
        image = self.image_side(architecture, task)
        stem, *head = [Layer(*layer) for layer in outside_stages(self.widths, image, task)]
        layers = [stem]
        for block in self.layers(architecture, task):
            squeeze = ", squeeze" if block.squeeze else ""
            layers.append(
                Layer(
                    f"{block.kernel}x{block.kernel} block, {block.hidden} hidden{squeeze}",
                    block.outputs,
                    block.output_side,
                    block_parameters(block),
                    block_multiply_accumulates(block),
                )
            )
        return layers + head

    def layer_texts(self, architecture: Int64[ndarray, "D"], task: Task) -> list[str]:
        """Keys of `layer_list` in published look-ups."""
        stem, _, *head = texts_outside(self.widths, self.image_side(architecture, task), task)
        return [stem, *map(block_text, self.layers(architecture, task)), *head]

    def image_side(self, architecture: Int64[ndarray, "D"], task: Task) -> int:
        """Side in pixels of the images that a network takes."""
        return image_side(side_of(architecture), task)

    def network(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The untrained network."""
        from edgenas_mobilenet_v3.network import MobileNet  # noqa: PLC0415 - imports torch

        return MobileNet(**self._arguments(architecture, task))

    def _arguments(self, architecture: Int64[ndarray, "D"], task: Task) -> dict[str, Any]:
        """Arguments of `MobileNet` for an architecture."""
        return {
            "channels": task.channels,
            "blocks": [block.setting for block in self.layers(architecture, task)],
            "final": self.widths.final,
            "features": self.widths.features,
            "classes": task.num_classes,
        }

    def example_input(
        self, architecture: Int64[ndarray, "D"], task: Task, batch_size: int
    ) -> Tensor:
        """Noise in the shape of the network's images."""
        side = self.image_side(architecture, task)
        return super().example_input(architecture, replace(task, image_side=side), batch_size)

    def control(self) -> Int64[ndarray, "D"]:
        """A network of the middle, so that timing it between others takes no longer than they do."""
        return self.parse(CONTROL)

    def source(self, architecture: Int64[ndarray, "D"], task: Task) -> str:
        """Python source of the network, with the class that it is an object of."""
        from edgenas_mobilenet_v3.network import MobileNet  # noqa: PLC0415 - exports only
        from nas.spaces.source import class_source  # noqa: PLC0415 - loaded when needed

        return class_source(MobileNet, **self._arguments(architecture, task))

    def drawing(self, architecture: Int64[ndarray, "D"], title: str) -> PagePart:
        """The blocks of each stage, for a whole image of the default task."""
        from edgenas_mobilenet_v3.drawing import draw_network  # noqa: PLC0415 - pages only

        task = self.tasks[self.default_task]
        blocks = iter(self.layers(architecture, task)[1:])
        stages = [[next(blocks) for _ in stage] for stage in stages_of(architecture)]
        side = self.image_side(architecture, task)
        return draw_network(title, side, stages, self.widths, self.text(architecture))

    def with_argument(self, argument: str) -> PublishedMobileNetV3Space:
        """The same networks, which inherit from Once-for-All's supernet: `FILE,DIGEST`.

        Raises:
          UserError: if it is another file.
        """
        return PublishedMobileNetV3Space(self, argument)


@final
class PublishedMobileNetV3Space(MobileNetV3Space):
    """Networks that inherit weights of Once-for-All's supernet."""

    default_device = "here"
    pretrained_normalisation = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

    def __init__(self, space: MobileNetV3Space, argument: str) -> None:
        super().__init__(f"{space.name}:{argument}", space.multiplier, None)
        file, _, digest = argument.partition(",")
        self._file, self._digest = Path(file), digest or None
        self.origin = "Once-for-All's supernet (han-cai/files, MIT licence)"

    def supernet(self, task: Task) -> SharedNetwork:
        """The published supernet; its classifier is new where the task has other classes.

        Raises:
          UserError: if the file is another one.
        """
        from edgenas_mobilenet_v3.once_for_all import published_weights  # noqa: PLC0415 - loaded when needed
        from edgenas_mobilenet_v3.supernet import SharedMobileNet  # noqa: PLC0415 - loaded when needed

        weights = published_weights(self._file, self.multiplier, self._digest)
        try:
            return SharedMobileNet(self.network, self.layers, self.sample, task, weights)
        except (RuntimeError, KeyError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise UserError(f"weights={self._file} are of another network: {reason}") from error

    def original(self, task: Task) -> nn.Module | None:  # noqa: ARG002 - it is of ImageNet
        """None, because the network with its original classes is not available."""
        return None

    def smallest(self) -> Int64[ndarray, "D"]:
        """Network with the first option of every choice."""
        return self.normal(np.zeros(len(self.num_choices), np.int64))

    def baselines(self) -> Int64[ndarray, "n D"]:
        """Baselines with the same depth, kernel and expansion in all blocks, at every eighth side."""
        sides = range(0, len(self.choices["side"]), 8)
        alike = [
            [side, *[depth, *[kernel, expansion] * MOST_BLOCKS] * STAGES]
            for side, depth, kernel, expansion in product(sides, *[range(3)] * 3)
        ]
        return self.normal(np.array(alike))


@final
class WideMobileNetV3Space(MobileNetV3Space):
    """Networks of width 1.2, with the published predictor and look-ups."""

    default_device = "h200/torch-graph/fp32/b1"

    def __init__(self) -> None:
        super().__init__(NAME, WIDTH, Path(__file__).parent)

    def surrogate(self, task: Task, split: Split, epochs: int) -> Accuracy:
        """Accuracies predicted by the published predictor.

        Raises:
          UserError: if it is not in the data folder, or is of another task or split.
        """
        return OfaAccuracyConfig().build(self, task, split, epochs)

    def public_data(self) -> PublicData:
        """HELP's latencies, the look-ups and the predictor."""
        from edgenas_mobilenet_v3.public import MobileNetV3Data  # noqa: PLC0415 - `nas.data` only

        return MobileNetV3Data()


@final
class NarrowMobileNetV3Space(MobileNetV3Space):
    """The networks of width 1.0."""

    def __init__(self) -> None:
        super().__init__("mobilenet_v3_w1.0", 1.0, None)

    def public_data(self) -> PublicData:
        """Once-for-All's supernets."""
        from edgenas_mobilenet_v3.public import SupernetData  # noqa: PLC0415 - `nas.data` only

        return SupernetData()


SPACE = WideMobileNetV3Space()

NARROW = NarrowMobileNetV3Space()
