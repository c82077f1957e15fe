"""Delays to compare a plan with: in lockstep, without overlap, and with unbounded rings."""

from __future__ import annotations

from collections.abc import Sequence

from edgenas_runtime.weight_streaming.planning.bundles import bundled
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan
from edgenas_runtime.weight_streaming.planning.recurrence import (
    Span,
    Timeline,
    first_and_steady,
    is_streamed,
    unbounded_ring,
)


def lockstep(layers: Sequence[StreamedLayer], resident: Sequence[bool]) -> Timeline:
    """Timeline of the synchronous architecture: three stages start together, cycle by cycle."""
    streams = is_streamed(layers, resident)
    count = len(layers)
    read: list[Span | None] = [None] * count
    copy: list[Span | None] = [None] * count
    kernel: list[Span] = []
    begin = 0.0
    for cycle in range(count + 2):
        lasts_ms = 0.0
        if cycle < count and streams[cycle]:
            lasts_ms = layers[cycle].read_ms
            read[cycle] = (begin, begin + lasts_ms)
        if 1 <= cycle <= count and streams[cycle - 1]:
            copy_ms = layers[cycle - 1].copy_ms
            copy[cycle - 1] = (begin, begin + copy_ms)
            lasts_ms = max(lasts_ms, copy_ms)
        if cycle >= 2:
            kernel_ms = layers[cycle - 2].kernel_ms
            kernel.append((begin, begin + kernel_ms))
            lasts_ms = max(lasts_ms, kernel_ms)
        begin += lasts_ms
    return Timeline(tuple(read), tuple(copy), tuple(kernel))


def bound_ms(layers: Sequence[StreamedLayer], plan: StreamPlan) -> float:
    """Delay with unbounded rings: a lower bound for these resident layers and stages."""
    layers, resident = bundled(layers, plan.resident, plan.bundle_bytes)
    streams = is_streamed(layers, resident)
    reads, copies = stages_of(plan)
    free, own = (
        unbounded_ring(sum(streams), ahead=False),
        unbounded_ring(sum(streams), ahead=plan.ahead),
    )
    host = own if reads else None
    device = (free if reads else own) if copies else None
    _, run = first_and_steady(layers, streams, host, device, ahead=plan.ahead)
    return run.makespan_ms


def least_ms(layers: Sequence[StreamedLayer], plan: StreamPlan) -> float:
    """Delay that no plan of this memory and these stages can fall below.

    While some consecutive layers run, their weights arrive, less those that memory can hold before,
    at no more than the highest rate of any large layer (the times of small ones are mostly delays
    of the start, which leave no rate). The partition of the layers that needs longest counts.
    """
    reads, copies = stages_of(plan)
    large = max((layer.weight_bytes for layer in layers), default=0) / 10
    ms_per_byte = min(
        (
            max(
                reads * (layer.read_ms - layer.read_start_ms),
                copies * (layer.copy_ms - layer.copy_start_ms),
            )
            / layer.weight_bytes
            for layer in layers
            if layer.weight_bytes > large
        ),
        default=0.0,
    )
    ends_ms = [0.0]
    for end in range(1, len(layers) + 1):
        kernels_ms, needed, latest_ms = 0.0, -plan.memory_bytes, 0.0
        for begin in reversed(range(end)):
            kernels_ms += layers[begin].kernel_ms
            needed += layers[begin].weight_bytes
            latest_ms = max(latest_ms, ends_ms[begin] + max(kernels_ms, needed * ms_per_byte))
        ends_ms.append(latest_ms)
    return ends_ms[-1]


def stages_of(plan: StreamPlan) -> tuple[bool, bool]:
    """Return whether a plan reads, and whether it copies."""
    return plan.host_ring_bytes > 0, plan.device_ring_bytes > 0
