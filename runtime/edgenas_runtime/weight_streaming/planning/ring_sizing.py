"""Ring sizes for a given set of resident layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import final

from edgenas_runtime.weight_streaming.planning.bundles import bundled
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
)
from edgenas_runtime.weight_streaming.planning.recurrence import (
    Timeline,
    Waits,
    first_and_steady,
    is_streamed,
    ring_waits,
    unbounded_ring,
)
from edgenas_runtime.weight_streaming.planning.ring import PAGE_BYTES, RingSizes


@final
class RingSizing:
    """Tries ring sizes for a network with given resident layers and one or more streamed ones."""

    def __init__(
        self,
        layers: Sequence[StreamedLayer],
        resident: tuple[bool, ...],
        stages: StreamStages,
        alignment: int = PAGE_BYTES,
        *,
        ahead: bool,
        bundle_bytes: int = 0,
    ) -> None:
        """Predict the steady state if `ahead`, else an inference that starts with empty rings."""
        self._ahead = ahead
        self._resident = resident
        self._bundle_bytes = bundle_bytes
        layers, stays = bundled(layers, resident, bundle_bytes)
        self._layers = layers
        self._stages = stages
        self._alignment = alignment
        self._streams = is_streamed(layers, stays)
        self._lengths = [
            layer.weight_bytes for layer, goes in zip(layers, self._streams, strict=True) if goes
        ]
        self._waits: dict[tuple[int, bool], Waits] = {}
        self.sizes = RingSizes(self._lengths, alignment)
        self.resident_bytes: int = sum(layer.weight_bytes for layer in layers) - sum(self._lengths)
        self.smallest_bytes: int = self.resident_bytes + self.sizes.smallest * (
            stages.reads + stages.copies
        )

    @cached_property
    def bound_ms(self) -> float:
        """Delay with unbounded rings."""
        _, run = self._run(
            *(unbounded_ring(len(self._lengths), ahead=ahead) for ahead in self._prefetches)
        )
        return run.makespan_ms

    def growing(self) -> Iterator[StreamPlan]:
        """Yield plans with growing rings: each step enlarges the ring that helps most."""
        rungs = self.sizes.ladder()
        last = len(rungs) - 1
        host = device = 0
        plan = self.plan(rungs[0], rungs[0])
        yield plan
        while plan.predicted_ms > self.bound_ms * (1 + 1e-12) and (host, device) != (last, last):
            steps = {(min(host + 1, last), min(device + 1, last))}
            if self._stages is StreamStages.READ_COPY_KERNEL:
                steps |= {(min(host + 1, last), device), (host, min(device + 1, last))}
                steps.discard((host, device))
            tried = {step: self.plan(rungs[step[0]], rungs[step[1]]) for step in sorted(steps)}
            yield from tried.values()
            host, device = min(tried, key=lambda step: (tried[step].predicted_ms, -sum(step)))
            plan = tried[host, device]

    def filling(self, budget_bytes: int, reference: StreamPlan) -> Iterator[StreamPlan]:
        """Yield plans whose rings fill a budget; of two rings one keeps about its size in `reference`."""
        spare = budget_bytes - self.resident_bytes
        if self._stages is not StreamStages.READ_COPY_KERNEL:
            ring = self.sizes.floor(spare)
            if ring:
                yield self.plan(ring, ring)
            return
        host = self.sizes.floor(max(reference.host_ring_bytes, self.sizes.smallest))
        device = self.sizes.floor(max(reference.device_ring_bytes, self.sizes.smallest))
        for host_ring, device_ring in (
            (host, self.sizes.floor(spare - host)),
            (self.sizes.floor(spare - device), device),
        ):
            if host_ring and device_ring:
                yield self.plan(host_ring, device_ring)

    def plan(self, host_bytes: int, device_bytes: int) -> StreamPlan:
        """Return the plan with these ring sizes; sizes of stages that do not exist are ignored."""
        host = host_bytes * self._stages.reads
        device = device_bytes * self._stages.copies
        reads, copies = self._prefetches
        first, run = self._run(self._placed(host, ahead=reads), self._placed(device, ahead=copies))
        return StreamPlan(
            self._resident,
            host,
            device,
            run.makespan_ms,
            self.resident_bytes + host + device,
            self._ahead,
            first.makespan_ms,
            bundle_bytes=self._bundle_bytes,
        )

    @property
    def _prefetches(self) -> tuple[bool, bool]:
        """Whether the host ring and the device ring are filled for the next inference."""
        return self._ahead and self._stages.reads, self._ahead and not self._stages.reads

    def _run(self, host: Waits, device: Waits) -> tuple[Timeline, Timeline]:
        return first_and_steady(
            self._layers,
            self._streams,
            host if self._stages.reads else None,
            device if self._stages.copies else None,
            ahead=self._ahead,
        )

    def _placed(self, ring_bytes: int, *, ahead: bool) -> Waits:
        key = ring_bytes, ahead
        if ring_bytes and key not in self._waits:
            self._waits[key] = ring_waits(self._lengths, ring_bytes, self._alignment, ahead=ahead)
        return self._waits.get(key, ())
