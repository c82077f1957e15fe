"""When each stage of each layer begins and ends, as predicted from the time each takes alone.

With R, C and K the times of read, copy and kernel, and r, c and k their ends, layer i of a network
whose buffers hold S_host and S_device layers has

    r[i] = max(r[i-1], c[i-S_host]) + R[i]
    c[i] = max(c[i-1], r[i], k[i-S_device]) + C[i]
    k[i] = max(k[i-1], c[i]) + H[i] + K[i]

and H what it takes to wait for weights that are there; 0 of a resident layer. In a ring of bytes, i-S is the last layer whose bytes layer i needs (`runtime.stream.ring.places`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from runtime.stream.ring import PAGE_BYTES, places
from runtime.stream.stages import Architecture, StreamedLayer, StreamPlan

Span = tuple[float, float]
"""Begin and end in milliseconds since the first stage began."""

Waits = Sequence[int | None]
"""By streamed layer: the streamed layer that must have left the buffer; None: it need not wait."""


@final
@dataclass(frozen=True)
class Timeline:
    """The stages of one inference, by layer; None where a layer does not have the stage."""

    read: tuple[Span | None, ...]
    copy: tuple[Span | None, ...]
    kernel: tuple[Span, ...]

    @property
    def makespan_ms(self) -> float:
        """Until the last kernel ends; 0 of no layers."""
        return self.kernel[-1][1] if self.kernel else 0.0

    @property
    def stall_ms(self) -> tuple[float, ...]:
        """How long each kernel waited for its weights after the kernel before it."""
        ends = (0.0, *(end for _, end in self.kernel))
        return tuple(begin - end for (begin, _), end in zip(self.kernel, ends, strict=False))


def timeline(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> Timeline:
    """One inference by a plan; what the plan predicts of itself is not used.

    Raises:
      ValueError: if the plan is of another number of layers, or a layer does not fit into a ring.
    """
    if len(layers) != len(plan.resident):
        raise ValueError(f"a plan of {len(plan.resident)} layers for {len(layers)}")
    if plan.architecture is Architecture.SYNCHRONOUS:
        return in_step(layers, plan.resident)
    streams, host, device = waits(layers, plan, alignment)
    return pipelined(layers, streams, host, device)


def waits(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> tuple[list[bool], Waits | None, Waits | None]:
    """Which layers go through the rings, and what waits for what in the host's and the device's.

    None for a ring that the plan does not have.

    Raises:
      ValueError: if a layer does not fit into a ring, or there is none.
    """
    streams = is_streamed(layers, plan.resident)
    lengths = [layer.weight_bytes for layer, one in zip(layers, streams, strict=True) if one]
    host, device = plan.host_ring_bytes, plan.device_ring_bytes
    if lengths and not host and not device:
        raise ValueError(f"no ring for {len(lengths)} layers that are not resident")
    return (
        streams,
        _placed(lengths, host, alignment) if host else None,
        _placed(lengths, device, alignment) if device else None,
    )


def is_streamed(layers: Sequence[StreamedLayer], resident: Sequence[bool]) -> list[bool]:
    """Which layers go through the rings: those with weights that are not resident."""
    return [
        layer.weight_bytes > 0 and not stays for layer, stays in zip(layers, resident, strict=True)
    ]


def slots(
    layers: Sequence[StreamedLayer], host_slots: int | None, device_slots: int | None
) -> Timeline:
    """Nothing resident, buffers that hold so many layers of whatever size; None: no such stage.

    Raises:
      ValueError: if there is a buffer without slots, or no buffer.
    """
    counts = [one for one in (host_slots, device_slots) if one is not None]
    if not counts or min(counts) < 1:
        raise ValueError(f"buffers of {counts or 'no'} slots")
    streams = is_streamed(layers, [False] * len(layers))
    count = sum(streams)

    def held(slots: int | None) -> Waits | None:
        if slots is None:
            return None
        return [i - slots if i >= slots else None for i in range(count)]

    return pipelined(layers, streams, held(host_slots), held(device_slots))


def pipelined(
    layers: Sequence[StreamedLayer],
    streams: Sequence[bool],
    host: Waits | None,
    device: Waits | None,
) -> Timeline:
    """Each stage goes on as soon as its input, its predecessor and its buffer allow.

    Args:
      layers: the network.
      streams: by layer, whether it goes through the buffers.
      host: what waits for what in the host's buffer; None: nothing is read.
      device: the same of the device's; None: nothing is copied, kernels use the host's buffer.
    """
    read: list[Span | None] = []
    copy: list[Span | None] = []
    kernel: list[Span] = []
    copied_ms: list[float] = []  # by streamed layer
    used_ms: list[float] = []
    r = c = k = 0.0
    left_host_ms = copied_ms if device is not None else used_ms
    for layer, goes in zip(layers, streams, strict=True):
        ready = 0.0
        reading = copying = None
        if goes and host is not None:
            after = host[len(used_ms)]
            begin = r if after is None else max(r, left_host_ms[after])
            ready = r = begin + layer.read_ms
            reading = (begin, r)
        if goes and device is not None:
            after = device[len(used_ms)]
            begin = max(c, ready) if after is None else max(c, ready, used_ms[after])
            ready = c = begin + layer.copy_ms
            copying = (begin, c)
            copied_ms.append(c)
        begin = max(k, ready) + goes * layer.handover_ms
        k = begin + layer.kernel_ms
        if goes:
            used_ms.append(k)
        read.append(reading)
        copy.append(copying)
        kernel.append((begin, k))
    return Timeline(tuple(read), tuple(copy), tuple(kernel))


def in_step(layers: Sequence[StreamedLayer], resident: Sequence[bool]) -> Timeline:
    """Read, copy and kernel of three neighbours, all of which end before the next three begin."""
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


def sequential_ms(layers: Sequence[StreamedLayer], plan: StreamPlan) -> float:
    """The plan's stages one after another, nothing beside anything."""
    reads, copies = stages_of(plan)
    streams = is_streamed(layers, plan.resident)
    return math.fsum(
        layer.kernel_ms
        + goes * (layer.handover_ms + reads * layer.read_ms + copies * layer.copy_ms)
        for layer, goes in zip(layers, streams, strict=True)
    )


def bound_ms(layers: Sequence[StreamedLayer], plan: StreamPlan) -> float:
    """No rings with these residents and stages are faster: rings as large as the network."""
    streams = is_streamed(layers, plan.resident)
    free: Waits = [None] * sum(streams)
    reads, copies = stages_of(plan)
    return pipelined(layers, streams, free if reads else None, free if copies else None).makespan_ms


def overlap(sequential: float, makespan: float, bound: float) -> float:
    """What part of the time that stages can spend beside each other they do; 1 if there is none."""
    return (sequential - makespan) / (sequential - bound) if sequential > bound else 1.0


def stages_of(plan: StreamPlan) -> tuple[bool, bool]:
    """Whether a plan reads, and whether it copies."""
    return plan.host_ring_bytes > 0, plan.device_ring_bytes > 0


def predicted(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> StreamPlan:
    """The plan with the makespan that these layers give it."""
    return replace(plan, predicted_ms=timeline(layers, plan, alignment).makespan_ms)


def _placed(lengths: Sequence[int], ring_bytes: int, alignment: int) -> Waits:
    if not lengths:
        return []
    return [place.after for place in places(lengths, ring_bytes, alignment)]
