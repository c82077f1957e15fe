"""Plans of the architectures of Demand Layering (Ji et al., RTSS 2022) for a given network.

As in the paper, an inference starts with empty rings; only `enlarged` can also prefetch for the next
inference, which the paper does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.streaming.bounds import bound_ms, lockstep
from edgenas_runtime.weight_streaming.planning.bundles import bundled
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
)
from edgenas_runtime.weight_streaming.planning.planner import preloaded
from edgenas_runtime.weight_streaming.planning.recurrence import predicted
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES, RingSizes, aligned


def synchronous(layers: Sequence[StreamedLayer], alignment: int = PAGE_BYTES) -> StreamPlan:
    """Three stages in lockstep; two buffers of the largest layer in host and in device memory.

    Its delay is computed alone: the runtime has no such pipeline.
    """
    plan = _streamed(layers, 2, 2, alignment)
    delay_ms = lockstep(layers, plan.resident).makespan_ms
    return replace(plan, predicted_ms=delay_ms, first_ms=delay_ms)


def asynchronous(layers: Sequence[StreamedLayer], alignment: int = PAGE_BYTES) -> StreamPlan:
    """Three stages; a ring of the largest layer in host and in device memory."""
    return _streamed(layers, 1, 1, alignment)


def zero_copy(layers: Sequence[StreamedLayer], alignment: int = PAGE_BYTES) -> StreamPlan:
    """Two stages; one ring of the largest layer."""
    return _streamed(layers, 1, 0, alignment)


def enlarged(
    layers: Sequence[StreamedLayer],
    *,
    stages: StreamStages = StreamStages.READ_KERNEL,
    tolerance: float = 0.0,
    alignment: int = PAGE_BYTES,
    ahead: bool = False,
    bundle_bytes: int = 0,
) -> StreamPlan:
    """Rings enlarged until the delay stops falling; no resident layers.

    The size grows in steps of a quarter until the plan is fast enough; then the gap below is bisected.
    Because larger rings can be slower (`docs/weight-streaming.md`), a smaller sufficient
    size may be missed.

    Two rings are enlarged equally. The delay may exceed that of unbounded rings by the fraction
    `tolerance`; with `ahead` it is that of the steady state.
    """
    resident = (False,) * len(layers)
    merged, _ = bundled(layers, resident, bundle_bytes)
    lengths = [layer.weight_bytes for layer in merged if layer.weight_bytes]
    if not lengths:
        return preloaded(layers)

    def with_rings(ring_bytes: int) -> StreamPlan:
        host, device = ring_bytes * stages.reads, ring_bytes * stages.copies
        plan = StreamPlan(
            *(resident, host, device, 0.0, host + device, ahead),
            bundle_bytes=bundle_bytes,
        )
        return predicted(layers, plan, alignment)

    sizes = RingSizes(lengths, alignment)
    best = with_rings(sizes.largest)
    near_ms = bound_ms(layers, best) * (1 + max(tolerance, 1e-12))
    slow_bytes, fast_bytes = sizes.smallest - 1, sizes.largest
    for rung in sizes.ladder():
        plan = with_rings(rung)
        if plan.predicted_ms <= near_ms:
            best, fast_bytes = plan, rung
            break
        slow_bytes = rung
    while fast_bytes - slow_bytes > 1:
        middle = (slow_bytes + fast_bytes) // 2
        size = sizes.floor(middle)
        if size > slow_bytes and (plan := with_rings(size)).predicted_ms <= near_ms:
            best, fast_bytes = plan, size
        else:
            slow_bytes = middle
    return best


def _streamed(
    layers: Sequence[StreamedLayer], host_layers: int, device_layers: int, alignment: int
) -> StreamPlan:
    """Return a plan with rings of a multiple of the largest layer."""
    largest = aligned(max((layer.weight_bytes for layer in layers), default=0), alignment)
    host, device = host_layers * largest, device_layers * largest
    plan = StreamPlan((False,) * len(layers), host, device, 0.0, host + device)
    return predicted(layers, plan, alignment)
