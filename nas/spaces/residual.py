"""`space=residual`: small ResNets and plain networks of 3 to 9 blocks, quick to train on a CPU.

With stride 1, kernel 3, width 16, growth 2 and 3 blocks the ResNet is ResNet-8 of MLPerf Tiny
(Banbury et al., NeurIPS Datasets and Benchmarks 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from torch import nn

from edgenas_core.types.task import Task
from nas.spaces.function import choice, space

_MOST_WIDTH, _MOST_PLAIN_WIDTH = 64, 128


@final
class _Block(nn.Module):
    """Two convolutions and a shortcut; the shortcut is a convolution if the shape changes."""

    def __init__(self, inputs: int, width: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(inputs, width, kernel, stride, kernel // 2, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, kernel, padding=kernel // 2, bias=False),
            nn.BatchNorm2d(width),
        )
        self.shortcut = (
            nn.Identity()
            if inputs == width and stride == 1
            else nn.Conv2d(inputs, width, 1, stride, bias=False)
        )
        self.relu = nn.ReLU()

    def forward(self, features: Any) -> Any:  # tensors, or what traces them
        return self.relu(self.convolutions(features) + self.shortcut(features))


def residual(
    task: Task,
    *,
    stride: int,
    kernel: int,
    width: int,
    growth: float,
    blocks: int,
    kind: str = "residual",
) -> nn.Module:
    """A network of three stages, each but the first of half the side and `growth` times the width.

    Stages have as many blocks each; what is left over goes to the last ones. Those of a plain network are two
    convolutions; it has no stem, and the maximum of 2 x 2 pixels after each stage.
    """
    if kind == "plain":
        widths = [min(_MOST_PLAIN_WIDTH, int(width * growth**stage)) for stage in range(3)]
        return _plain(task, widths, kernel=kernel, stride=stride, blocks=blocks)
    network = nn.Sequential(
        nn.Conv2d(task.channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
    )
    inputs = width
    for stage in range(3):
        outputs = min(_MOST_WIDTH, int(width * growth**stage))
        for block in range((blocks + stage) // 3):
            network.append(_Block(inputs, outputs, kernel, 1 + (stage > 0 and block == 0)))
            inputs = outputs
    return network.extend(
        (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, task.num_classes))
    )


def _plain(
    task: Task, widths: Sequence[int], *, kernel: int, stride: int, blocks: int
) -> nn.Module:
    network, inputs = nn.Sequential(), task.channels
    for stage, outputs in enumerate(widths):
        for number in range(2 * ((blocks + stage) // 3)):
            step = stride if stage == number == 0 else 1
            network.append(nn.Conv2d(inputs, outputs, kernel, step, kernel // 2, bias=False))
            network.extend((nn.BatchNorm2d(outputs), nn.ReLU()))
            inputs = outputs
        network.append(nn.MaxPool2d(2, ceil_mode=True))
    return network.extend(
        (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, task.num_classes))
    )


SPACE = space(
    residual,
    default_device="here",
    default_network="stride=1 kernel=3 width=32 growth=2.0 blocks=3 kind=plain",
    stride=[1, 2],
    kernel=[3, 5],
    width=[8, 16, 32],
    growth=[1.0, 1.5, 2.0],
    blocks=range(3, 10),
    kind=choice(["residual", "plain"], is_first_written=False),
)
