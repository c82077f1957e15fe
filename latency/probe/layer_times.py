"""Layers of a network and their times, as ONNX Runtime's profile tells them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from edgenas_core.types.printable import printable

LayerTime = tuple[str, float]
"""A layer in words, as `latency.models.layers` reads it, and its microseconds."""


def layer_times(profiled: Sequence[Sequence[Any]], network: bytes) -> tuple[LayerTime, ...]:
    """The layers of a profile, with kernel and groups of convolutions, whose weights it may leave out.

    Args:
      profiled: name, words and microseconds of each layer; `agent.OnnxRuntime.layers` makes it.
      network: the ONNX file that was profiled.

    Raises:
      ValueError, TypeError: if the profile makes no sense.
    """
    if not profiled:
        return ()
    kernels, layers = dict(_kernels(network)), []
    for name, words, us in profiled:
        original = str(name).rpartition("_token_")[0] or str(name)
        operator, _, tensors = printable(str(words)).partition(" ")
        kernel = kernels.get(original, "") if operator.endswith("Conv") else ""
        layers.append((f"{operator}{kernel} {tensors}", float(us)))
        if not 0 <= float(us) < math.inf or "; " in tensors:
            raise ValueError(f"{words} took {us} us")
    return tuple(layers)


def _kernels(network: bytes) -> Iterable[tuple[str, str]]:
    """Kernel and groups of each convolution, `(3x3:1)`, by its name."""
    import onnx  # noqa: PLC0415 - only where layers are asked for

    for node in onnx.load_from_string(network).graph.node:
        attributes = {each.name: each for each in node.attribute}
        if node.op_type == "Conv" and "kernel_shape" in attributes:
            kernel = "x".join(map(str, attributes["kernel_shape"].ints))
            yield node.name, f"({kernel}:{attributes['group'].i if 'group' in attributes else 1})"
