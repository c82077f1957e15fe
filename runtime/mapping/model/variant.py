"""A way to run a network: by what, on how much of it, in which numbers. Its name says all of it.

cpu/t2/onnxruntime/int8             two threads
cuda/sm32/graph/tf32/channels_last  32 multiprocessors of the GPU
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import final

from runtime.network.backend import Device


class Execution(Enum):
    """What calls the kernels."""

    eager = "eager"
    torchscript = "torchscript"  # traced, frozen and optimised
    onnxruntime = "onnxruntime"
    graph = "graph"  # a CUDA graph, captured once


class Precision(Enum):
    """What is multiplied; on a GPU, only fp32 stays off the tensor cores."""

    fp32 = "fp32"
    tf32 = "tf32"  # stored in 32 bits
    bf16 = "bf16"
    fp16 = "fp16"
    int8 = "int8"  # weights and activations, calibrated


_UNITS = {Device.cpu: "t", Device.cuda: "sm"}

_NAME = re.compile(r"(\w+)/([a-z]+)([1-9]\d*)/(\w+)/(\w+)(/channels_last)?")


@final
@dataclass(frozen=True)
class Variant:
    """One of them."""

    device: Device
    share: int
    """Threads of the CPU, multiprocessors of the GPU."""
    how: Execution
    numbers: Precision
    channels_last: bool = False

    @property
    def name(self) -> str:
        """As in a timing table."""
        share = f"{_UNITS[self.device]}{self.share}"
        parts = [self.device.value, share, self.how.value, self.numbers.value]
        return "/".join(parts + ["channels_last"] * self.channels_last)


def parse_variant(name: str) -> Variant:
    """The variant of a name.

    Raises:
      ValueError: if it is not such a name.
    """
    match = _NAME.fullmatch(name)
    parts = () if match is None else match.groups()
    try:
        device, unit, share, how, numbers, last = parts
        known = {letter: one for one, letter in _UNITS.items() if one.value == device}
        return Variant(known[unit], int(share), Execution(how), Precision(numbers), bool(last))
    except (KeyError, ValueError) as error:
        raise ValueError(
            f"{name} is no variant; write cpu/t<threads>/<how>/<numbers> or "
            f"cuda/sm<multiprocessors>/<how>/<numbers>, perhaps with /channels_last; how: "
            f"{', '.join(one.value for one in Execution)}; numbers: "
            f"{', '.join(one.value for one in Precision)}"
        ) from error
