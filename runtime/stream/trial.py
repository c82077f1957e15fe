"""A choice of residents, for which rings are sought."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import final

from runtime.stream.capacities import Capacities
from runtime.stream.recurrence import Timeline, Waits, is_streamed, pipelined
from runtime.stream.ring import PAGE_BYTES, places
from runtime.stream.stages import Architecture, Stages, StreamedLayer, StreamPlan


@final
class Trial:
    """A network of which some layers, but not all with weights, are resident."""

    def __init__(
        self,
        layers: Sequence[StreamedLayer],
        resident: tuple[bool, ...],
        stages: Stages,
        alignment: int = PAGE_BYTES,
    ) -> None:
        self._layers = layers
        self._resident = resident
        self._stages = stages
        self._alignment = alignment
        self._streams = is_streamed(layers, resident)
        self._lengths = [
            layer.weight_bytes for layer, goes in zip(layers, self._streams, strict=True) if goes
        ]
        self._waits: dict[int, Waits] = {}
        self.sizes = Capacities(self._lengths, alignment)
        self.resident_bytes: int = sum(layer.weight_bytes for layer in layers) - sum(self._lengths)
        self.smallest_bytes: int = self.resident_bytes + self.sizes.smallest * (
            stages.reads + stages.copies
        )

    @cached_property
    def bound_ms(self) -> float:
        """With rings as large as the network."""
        endless: Waits = [None] * len(self._lengths)
        return self._run(endless, endless).makespan_ms

    def growing(self) -> Iterator[StreamPlan]:
        """Rings that grow step by step, each time the one that helps most, until nothing does."""
        rungs = self.sizes.ladder()
        last = len(rungs) - 1
        host = device = 0
        one = self.plan(rungs[0], rungs[0])
        yield one
        while one.predicted_ms > self.bound_ms * (1 + 1e-12) and (host, device) != (last, last):
            steps = {(min(host + 1, last), min(device + 1, last))}
            if self._stages is Stages.READ_COPY_KERNEL:
                steps |= {(min(host + 1, last), device), (host, min(device + 1, last))}
                steps.discard((host, device))
            tried = {step: self.plan(rungs[step[0]], rungs[step[1]]) for step in sorted(steps)}
            yield from tried.values()
            host, device = min(tried, key=lambda step: (tried[step].predicted_ms, -sum(step)))
            one = tried[host, device]

    def filling(self, budget_bytes: int, beside: StreamPlan) -> Iterator[StreamPlan]:
        """Rings that fill a budget; of two, either is left about as it is in another plan."""
        spare = budget_bytes - self.resident_bytes
        if self._stages is not Stages.READ_COPY_KERNEL:
            ring = self.sizes.floor(spare)
            if ring:
                yield self.plan(ring, ring)
            return
        host = self.sizes.floor(max(beside.host_ring_bytes, self.sizes.smallest))
        device = self.sizes.floor(max(beside.device_ring_bytes, self.sizes.smallest))
        for one, other in (
            (host, self.sizes.floor(spare - host)),
            (self.sizes.floor(spare - device), device),
        ):
            if one and other:
                yield self.plan(one, other)

    def plan(self, host_bytes: int, device_bytes: int) -> StreamPlan:
        """With these rings, as far as the stages have them."""
        host = host_bytes * self._stages.reads
        device = device_bytes * self._stages.copies
        return StreamPlan(
            Architecture.PLANNED,
            self._resident,
            host,
            device,
            self._run(self._placed(host), self._placed(device)).makespan_ms,
            self.resident_bytes + host + device,
        )

    def _run(self, host: Waits, device: Waits) -> Timeline:
        return pipelined(
            self._layers,
            self._streams,
            host if self._stages.reads else None,
            device if self._stages.copies else None,
        )

    def _placed(self, ring_bytes: int) -> Waits:
        if ring_bytes and ring_bytes not in self._waits:
            found = places(self._lengths, ring_bytes, self._alignment)
            self._waits[ring_bytes] = [one.after for one in found]
        return self._waits.get(ring_bytes, ())
