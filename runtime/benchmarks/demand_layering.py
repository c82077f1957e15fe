"""YOLOv4 on a Jetson AGX Xavier, the example of Demand Layering (Ji et al., RTSS 2022, section I).

Published are the delay of the preloaded network, its size and largest layer, and the memory and delay
of each architecture. Its megabytes are 2**20 bytes: so large are the weights' file of YOLOv4's authors
and the 512 x 1024 x 3 x 3 floats of its largest layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch

from benchmarks.streaming.architectures import asynchronous, enlarged, synchronous, zero_copy
from benchmarks.streaming.yolo import YOLOv4
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan
from edgenas_runtime.weight_streaming.planning.planner import preloaded

MIB = 2**20
PRELOADED_MS = 160.8
WEIGHTS_MIB = 245.8
LARGEST_MIB = 18.0


@final
@dataclass(frozen=True)
class Row:
    """An architecture's memory and delay, as published."""

    name: str
    memory_mib: float
    delay_ms: float


ROWS = (
    Row("synchronous", 72.0, 198.9),
    Row("asynchronous", 36.0, 181.2),
    Row("zero-copy", 18.0, 195.3),
    Row("enlarged", 52.8, PRELOADED_MS + 1.0),  # "near-zero (< 1.0 ms) delay overhead"
)


def yolov4(read_mib_per_ms: float = 4.4, copy_mib_per_ms: float = 15.0) -> list[StreamedLayer]:
    """All operations of YOLOv4, of which 110 have weights, with times that are assumed.

    The kernels share the published delay by their multiplications; those without any take no time.
    They do take a turn of the synchronous pipeline.

    The defaults are not stated: 4.6 GB/s from a disk that the source calls up to 7 GB/s fast, and
    15.7 GB/s from host to device memory, which are one there.
    """
    with torch.device("meta"):
        example = torch.empty(1, 3, 416, 416)  # all layers grow alike with it
        segments = decompose(YOLOv4().eval(), example, Rule.UNFOLDED).segments
    all_flops = sum(segment.flops for segment in segments)
    return [
        StreamedLayer(
            name=segment.name,
            weight_bytes=segment.weight_bytes,
            read_ms=segment.weight_bytes / MIB / read_mib_per_ms,
            copy_ms=segment.weight_bytes / MIB / copy_mib_per_ms,
            kernel_ms=PRELOADED_MS * segment.flops / all_flops,
        )
        for segment in segments
    ]


def simulated(layers: list[StreamedLayer]) -> dict[str, StreamPlan]:
    """The published rows by name, and `preloaded`, as the recurrence has them."""
    return {
        "preloaded": preloaded(layers),
        "synchronous": synchronous(layers),
        "asynchronous": asynchronous(layers),
        "zero-copy": zero_copy(layers),
        "enlarged": enlarged(layers, tolerance=1.0 / PRELOADED_MS),
    }
