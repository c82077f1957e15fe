"""Python source of a network, which needs torch alone."""

from __future__ import annotations

import inspect

from common.types.task import Task
from nas.spaces.mobilenet_v3.layers import Block, Widths


def network_source(blocks: list[Block], channels: Widths, task: Task) -> str:
    """Source of a module that defines `Network`."""
    from nas.spaces.mobilenet_v3 import network  # noqa: PLC0415 - imports torch

    settings = "\n".join(f"                {block.setting!r}," for block in blocks)
    return f"""{inspect.getsource(network)}

class Network(MobileNet):
    \"\"\"Images (n, {task.channels}, h, w) to logits (n, {task.num_classes}).\"\"\"

    def __init__(self) -> None:
        super().__init__(
            {task.channels},
            [
                # inputs, hidden, outputs, kernel, stride, squeeze, hard_swish
{settings}
            ],
            final={channels.final},
            features={channels.features},
            classes={task.num_classes},
        )
"""
