"""When each stage of each layer begins and ends, as predicted from the time each takes alone.

With R, C and K the times of read, copy and kernel, and r, c and k their ends, layer i of a network
whose buffers hold S_host and S_device layers has

    r[i] = max(r[i-1], c[i-S_host]) + R[i]
    c[i] = max(c[i-1], r[i], k[i-S_device]) + C[i]
    k[i] = max(k[i-1], c[i]) + H[i] + K[i]

and H what it takes to wait for weights that are there; 0 of a resident layer. In a ring of bytes, i-S is the last layer whose bytes layer i needs (`runtime.weight_streaming.planning.ring.places`).

An inference begins with empty rings, r[-1] = c[-1] = k[-1] = 0, or in a row: k[-1] = 0 is then the end of
the one before it, during which the first stage went on into this one as far as the ring let it
(`runtime.weight_streaming.planning.ring.cyclic_places`), so that r[-1] and what a layer waits for may be below 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from runtime.weight_streaming.planning.plan import Architecture, StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.ring import PAGE_BYTES, cyclic_places, places

Span = tuple[float, float]
"""Begin and end in milliseconds since the inference was asked for; below 0 while the one before ran."""

Waits = Sequence[int | None]
"""By streamed layer: the streamed layer that must have left the buffer; None: it need not wait.

Below 0, one of the inference before this one, counted from its end.
"""

_MOST_IN_A_ROW = 32
"""Inferences after which one is taken for as good as all that follow, if none was like the last."""


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
    """One inference by a plan, in a row if the plan is `ahead`; what it predicts is not used.

    Raises:
      ValueError: if the plan is of another number of layers, or a layer does not fit into a ring.
    """
    _, run = _both(layers, plan, alignment)
    return run


def waits(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> tuple[list[bool], Waits | None, Waits | None]:
    """Which layers go through the rings, and what waits for what in the host's and the device's.

    None for a ring that the plan does not have. Of a plan that is `ahead` what its first stage fills
    waits for layers of the inference before.

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
        placed(lengths, host, alignment, ahead=plan.ahead) if host else None,
        placed(lengths, device, alignment, ahead=plan.ahead and not host) if device else None,
    )


def placed(
    lengths: Sequence[int], ring_bytes: int, alignment: int = PAGE_BYTES, *, ahead: bool
) -> Waits:
    """What waits for what in a ring, if `ahead` in one that goes on into the next inference.

    Raises:
      ValueError: if a length does not fit into the ring.
    """
    if not lengths:
        return []
    find = cyclic_places if ahead else places
    return [place.after for place in find(lengths, ring_bytes, alignment)]


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
    """Each stage goes on as soon as its input, its predecessor and its buffer allow; from empty rings.

    Args:
      layers: the network.
      streams: by layer, whether it goes through the buffers.
      host: what waits for what in the host's buffer; None: nothing is read.
      device: the same of the device's; None: nothing is copied, kernels use the host's buffer.
    """
    run, _ = _inference(layers, streams, host, device, _Ends.none(sum(streams)))
    return run


def first_and_steady(
    layers: Sequence[StreamedLayer],
    streams: Sequence[bool],
    host: Waits | None,
    device: Waits | None,
    *,
    ahead: bool,
) -> tuple[Timeline, Timeline]:
    """An inference from empty rings, and one of many that are asked for as soon as the last has ended.

    Only the first stage goes on into the next inference: reading, or copying where nothing is read.
    The other of two begins when the inference is asked for.

    Args:
      layers: the network.
      streams: as `pipelined` takes them.
      host: as there; if the first stage fills it and goes on, of a ring in rounds.
      device: the same.
      ahead: whether it goes on; else all inferences are like the first.
    """
    first, ends = _inference(layers, streams, host, device, _Ends.none(sum(streams)))
    run = first
    if not ahead:
        return first, run
    for _ in range(_MOST_IN_A_ROW):
        run, later = _inference(layers, streams, host, device, ends)
        if later.is_near(ends):
            break
        ends = later
    return first, run


@final
@dataclass(frozen=True)
class _Ends:
    """When what came before an inference has ended, since that was asked for."""

    read_ms: float
    copy_ms: float
    left_host_ms: Sequence[float]
    """By streamed layer, when it had left the host's buffer."""
    left_device_ms: Sequence[float]

    @classmethod
    def none(cls, streamed: int) -> _Ends:
        """Nothing did: the stages begin at 0."""
        return cls(0.0, 0.0, [0.0] * streamed, [0.0] * streamed)

    def is_near(self, other: _Ends) -> bool:
        """Whether the next inference would be alike."""
        return all(
            abs(one - two) < 1e-9 for one, two in zip(self._all(), other._all(), strict=True)
        )

    def _all(self) -> list[float]:
        return [self.read_ms, self.copy_ms, *self.left_host_ms, *self.left_device_ms]


def _inference(
    layers: Sequence[StreamedLayer],
    streams: Sequence[bool],
    host: Waits | None,
    device: Waits | None,
    before: _Ends,
) -> tuple[Timeline, _Ends]:
    """One inference that is asked for at 0, and what it leaves to one asked for at its end."""
    read: list[Span | None] = []
    copy: list[Span | None] = []
    kernel: list[Span] = []
    copied_ms: list[float] = []  # by streamed layer
    used_ms: list[float] = []
    r, c, k = before.read_ms, before.copy_ms, 0.0
    if host is not None:
        c = max(c, 0.0)  # only the first stage has begun
    left_host_ms = copied_ms if device is not None else used_ms
    for layer, goes in zip(layers, streams, strict=True):
        ready = -math.inf
        reading = copying = None
        if goes and host is not None:
            after = host[len(used_ms)]
            begin = r if after is None else max(r, _of(after, left_host_ms, before.left_host_ms))
            ready = r = begin + layer.read_ms
            reading = (begin, r)
        if goes and device is not None:
            after = device[len(used_ms)]
            begin = max(c, ready)
            if after is not None:
                begin = max(begin, _of(after, used_ms, before.left_device_ms))
            ready = c = begin + layer.copy_ms
            copying = (begin, c)
            copied_ms.append(c)
        begin = max(k, ready) + goes * layer.sync_ms
        k = begin + layer.kernel_ms
        if goes:
            used_ms.append(k)
        read.append(reading)
        copy.append(copying)
        kernel.append((begin, k))
    ends = _Ends(
        r - k if host else 0.0,
        c - k if device else 0.0,
        [one - k for one in left_host_ms],
        [one - k for one in used_ms],
    )
    return Timeline(tuple(read), tuple(copy), tuple(kernel)), ends


def _of(after: int, own_ms: Sequence[float], before_ms: Sequence[float]) -> float:
    return own_ms[after] if after >= 0 else before_ms[after]


def lockstep(layers: Sequence[StreamedLayer], resident: Sequence[bool]) -> Timeline:
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
        layer.kernel_ms + goes * (layer.sync_ms + reads * layer.read_ms + copies * layer.copy_ms)
        for layer, goes in zip(layers, streams, strict=True)
    )


def bound_ms(layers: Sequence[StreamedLayer], plan: StreamPlan) -> float:
    """No rings with these residents and stages are faster: rings as large as the network."""
    streams = is_streamed(layers, plan.resident)
    reads, copies = stages_of(plan)
    free, own = endless(sum(streams), ahead=False), endless(sum(streams), ahead=plan.ahead)
    host = own if reads else None
    device = (free if reads else own) if copies else None
    _, run = first_and_steady(layers, streams, host, device, ahead=plan.ahead)
    return run.makespan_ms


def endless(streamed: int, *, ahead: bool) -> Waits:
    """A ring as large as the network; in rounds each layer waits for itself."""
    return [i - streamed if ahead else None for i in range(streamed)]


def overlap(sequential: float, makespan: float, bound: float) -> float:
    """What part of the time that stages can spend beside each other they do; 1 if there is none."""
    return (sequential - makespan) / (sequential - bound) if sequential > bound else 1.0


def stages_of(plan: StreamPlan) -> tuple[bool, bool]:
    """Whether a plan reads, and whether it copies."""
    return plan.host_ring_bytes > 0, plan.device_ring_bytes > 0


def predicted(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> StreamPlan:
    """The plan with the makespans that these layers give it."""
    first, run = _both(layers, plan, alignment)
    return replace(plan, predicted_ms=run.makespan_ms, first_ms=first.makespan_ms)


def _both(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int
) -> tuple[Timeline, Timeline]:
    if len(layers) != len(plan.resident):
        raise ValueError(f"a plan of {len(plan.resident)} layers for {len(layers)}")
    if plan.architecture is Architecture.SYNCHRONOUS:
        return (lockstep(layers, plan.resident),) * 2
    streams, host, device = waits(layers, plan, alignment)
    return first_and_steady(layers, streams, host, device, ahead=plan.ahead)
