"""Predicted timeline of an inference, from the duration of each stage of each layer.

With R, C and K the durations of read, copy and kernel, and r, c and k their ends, layer i of a network
whose buffers hold S_host and S_device layers has

    r[i] = max(r[i-1], c[i-S_host]) + R[i]
    c[i] = max(c[i-1], r[i], k[i-S_device]) + C[i]
    k[i] = max(k[i-1], c[i]) + H[i] + K[i]

with H the synchronisation overhead of a streamed layer. In a ring of bytes, i-S is the last layer whose
bytes layer i needs (`ring.places`).

An inference starts with empty rings, r[-1] = c[-1] = k[-1] = 0, or in a steady state: then k[-1] = 0 is
the end of the previous inference, during which the first stage prefetched for this one as far as the ring
allowed (`ring.cyclic_places`), so r[-1] and the ends that a layer waits for may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from edgenas_runtime.weight_streaming.planning.bundles import bundled
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES, cyclic_places, places

Span = tuple[float, float]
"""Begin and end, ms after the inference was requested; negative during the previous inference."""

Waits = Sequence[int | None]
"""By streamed layer: the streamed layer that must have left the buffer before; None if it need not wait.

A negative index refers to the previous inference, counted from its end.
"""

_MAX_ITERATIONS = 32
"""Inferences after which the steady state is assumed if it has not been reached exactly."""


@final
@dataclass(frozen=True)
class Timeline:
    """Stages of one inference, by layer; None where a layer lacks the stage."""

    read: tuple[Span | None, ...]
    copy: tuple[Span | None, ...]
    kernel: tuple[Span, ...]

    @property
    def makespan_ms(self) -> float:
        """End of the last kernel; 0 without layers."""
        return self.kernel[-1][1] if self.kernel else 0.0

    @property
    def stall_ms(self) -> tuple[float, ...]:
        """Time that each kernel waited for its weights after the previous kernel."""
        ends = (0.0, *(end for _, end in self.kernel))
        return tuple(begin - end for (begin, _), end in zip(self.kernel, ends, strict=False))


def timeline(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> Timeline:
    """Return the timeline of one inference by bundle: steady state if the plan is `ahead`, else the first.

    Raises:
      ValueError: if the plan has another number of layers, or a layer does not fit into a ring.
    """
    _, run = _timelines(layers, plan, alignment)
    return run


def waits(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> tuple[list[bool], Waits | None, Waits | None]:
    """Return which layers are streamed, and the dependencies in the host and the device ring.

    A ring that the plan lacks gives None. If the plan is `ahead`, the ring of the first stage has
    dependencies on the previous inference.

    Raises:
      ValueError: if a layer does not fit into a ring, or there is no ring.
    """
    streams = is_streamed(layers, plan.resident)
    lengths = [layer.weight_bytes for layer, goes in zip(layers, streams, strict=True) if goes]
    host, device = plan.host_ring_bytes, plan.device_ring_bytes
    if lengths and not host and not device:
        raise ValueError(f"the plan has no ring for {len(lengths)} layers that are not resident")
    return (
        streams,
        ring_waits(lengths, host, alignment, ahead=plan.ahead) if host else None,
        ring_waits(lengths, device, alignment, ahead=plan.ahead and not host) if device else None,
    )


def ring_waits(
    lengths: Sequence[int], ring_bytes: int, alignment: int = PAGE_BYTES, *, ahead: bool
) -> Waits:
    """Return the dependencies in a ring, across inferences if `ahead`.

    Raises:
      ValueError: if a length does not fit into the ring.
    """
    if not lengths:
        return []
    find = cyclic_places if ahead else places
    return [place.after for place in find(lengths, ring_bytes, alignment)]


def is_streamed(layers: Sequence[StreamedLayer], resident: Sequence[bool]) -> list[bool]:
    """Return by layer whether it has weights and is not resident."""
    return [
        layer.weight_bytes > 0 and not stays for layer, stays in zip(layers, resident, strict=True)
    ]


def first_and_steady(
    layers: Sequence[StreamedLayer],
    streams: Sequence[bool],
    host: Waits | None,
    device: Waits | None,
    *,
    ahead: bool,
) -> tuple[Timeline, Timeline]:
    """Return the timelines of the first inference and of the steady state.

    In the steady state each inference is requested at the end of the previous one. Only the first stage
    prefetches: reading, or copying where nothing is read.

    Dependencies in a ring are None if nothing is read, or copied. Without `ahead` both timelines
    are the same.
    """
    first, ends = _inference(layers, streams, host, device, _Ends.none(sum(streams)))
    run = first
    if not ahead:
        return first, run
    for _ in range(_MAX_ITERATIONS):
        run, later = _inference(layers, streams, host, device, ends)
        if later.is_near(ends):
            break
        ends = later
    return first, run


@final
@dataclass(frozen=True)
class _Ends:
    """Ends of the stages of the previous inference, ms after this one was requested."""

    read_ms: float
    copy_ms: float
    left_host_ms: Sequence[float]
    """Time at which each streamed layer left the host ring."""
    left_device_ms: Sequence[float]

    @classmethod
    def none(cls, streamed: int) -> _Ends:
        """No previous inference: stages start at 0."""
        return cls(0.0, 0.0, [0.0] * streamed, [0.0] * streamed)

    def is_near(self, other: _Ends) -> bool:
        """Return whether both lead to the same next inference."""
        return all(
            abs(mine - theirs) < 1e-9
            for mine, theirs in zip(self._all(), other._all(), strict=True)
        )

    def _all(self) -> list[float]:
        return [self.read_ms, self.copy_ms, *self.left_host_ms, *self.left_device_ms]


def _inference(
    layers: Sequence[StreamedLayer],
    streams: Sequence[bool],
    host: Waits | None,
    device: Waits | None,
    previous: _Ends,
) -> tuple[Timeline, _Ends]:
    """Return one inference requested at 0, and its ends relative to one requested at its end."""
    read: list[Span | None] = []
    copy: list[Span | None] = []
    kernel: list[Span] = []
    copied_ms: list[float] = []  # by streamed layer
    used_ms: list[float] = []
    r, c, k = previous.read_ms, previous.copy_ms, 0.0
    if host is not None:
        c = max(c, 0.0)  # only the first stage prefetches
    left_host_ms = copied_ms if device is not None else used_ms
    for layer, goes in zip(layers, streams, strict=True):
        ready = -math.inf
        reading = copying = None
        if goes and host is not None:
            after = host[len(used_ms)]
            begin = (
                r if after is None else max(r, _end_ms(after, left_host_ms, previous.left_host_ms))
            )
            ready = r = begin + layer.read_ms
            reading = (begin, r)
        if goes and device is not None:
            after = device[len(used_ms)]
            begin = max(c, ready)
            if after is not None:
                begin = max(begin, _end_ms(after, used_ms, previous.left_device_ms))
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
        [left_ms - k for left_ms in left_host_ms],
        [left_ms - k for left_ms in used_ms],
    )
    return Timeline(tuple(read), tuple(copy), tuple(kernel)), ends


def _end_ms(after: int, own_ms: Sequence[float], previous_ms: Sequence[float]) -> float:
    return own_ms[after] if after >= 0 else previous_ms[after]


def unbounded_ring(streamed: int, *, ahead: bool) -> Waits:
    """Dependencies in a ring as large as the network; with `ahead` each layer waits for itself."""
    return [i - streamed if ahead else None for i in range(streamed)]


def predicted(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int = PAGE_BYTES
) -> StreamPlan:
    """Return the plan with the delays predicted for these layers."""
    first, run = _timelines(layers, plan, alignment)
    return replace(plan, predicted_ms=run.makespan_ms, first_ms=first.makespan_ms)


def _timelines(
    layers: Sequence[StreamedLayer], plan: StreamPlan, alignment: int
) -> tuple[Timeline, Timeline]:
    if len(layers) != len(plan.resident):
        raise ValueError(f"the plan has {len(plan.resident)} layers, the network {len(layers)}")
    layers, resident = bundled(layers, plan.resident, plan.bundle_bytes)
    plan = replace(plan, resident=tuple(resident))
    streams, host, device = waits(layers, plan, alignment)
    return first_and_steady(layers, streams, host, device, ahead=plan.ahead)
