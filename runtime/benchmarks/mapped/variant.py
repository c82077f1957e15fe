"""Variants of a network: device, share of the device, execution, precision and layout.

The name of a variant encodes all of them:

    cpu/t2/onnxruntime/int8             two threads
    cuda/sm32/graph/tf32/channels_last  32 multiprocessors of the GPU
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import final

from edgenas_core.inference.backend import Device


class Execution(Enum):
    """Way of calling the kernels."""

    eager = "eager"
    torchscript = "torchscript"  # traced, frozen and optimised
    onnxruntime = "onnxruntime"
    graph = "graph"  # a CUDA graph, captured once


class VariantPrecision(Enum):
    """Number format of multiplications; on a GPU all but fp32 use tensor cores."""

    fp32 = "fp32"
    tf32 = "tf32"  # stored as fp32
    bf16 = "bf16"
    fp16 = "fp16"
    int8 = "int8"  # weights and activations, calibrated


_UNITS = {Device.cpu: "t", Device.cuda: "sm"}

_NAME = re.compile(r"(\w+)/([a-z]+)([1-9]\d*)/(\w+)/(\w+)(/channels_last)?")


@final
@dataclass(frozen=True)
class Variant:
    """One way to run a network."""

    device: Device
    share: int
    """Number of CPU threads, or of GPU multiprocessors."""
    execution: Execution
    precision: VariantPrecision
    channels_last: bool = False

    @property
    def name(self) -> str:
        """Name in a timing table."""
        share = f"{_UNITS[self.device]}{self.share}"
        parts = [self.device.value, share, self.execution.value, self.precision.value]
        return "/".join(parts + ["channels_last"] * self.channels_last)


def parse_variant(name: str) -> Variant:
    """Parse the name of a variant.

    Raises:
      ValueError: if it is not the name of a variant.
    """
    match = _NAME.fullmatch(name)
    parts = () if match is None else match.groups()
    try:
        device, unit, share, execution, precision, last = parts
        device_of = {letter: kind for kind, letter in _UNITS.items() if kind.value == device}
        return Variant(
            device_of[unit],
            int(share),
            Execution(execution),
            VariantPrecision(precision),
            bool(last),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{name} is not a variant; write cpu/t<threads>/<execution>/<precision> or "
            "cuda/sm<multiprocessors>/<execution>/<precision>, optionally with /channels_last; "
            f"execution: {', '.join(kind.value for kind in Execution)}; precision: "
            f"{', '.join(kind.value for kind in VariantPrecision)}"
        ) from error
