"""Simulation of streamed networks that run concurrently and slow each other down.

Each active stage progresses at a rate: concurrent reads share the disk, copies the bus and kernels the
processors. With one network the result equals the recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import final

from runtime.weight_streaming.planning.plan import StreamArchitecture, StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.recurrence import Span, Timeline, waits
from runtime.weight_streaming.planning.ring import PAGE_BYTES


@final
@dataclass(frozen=True)
class StreamedInference:
    """One inference of a network under a plan."""

    layers: Sequence[StreamedLayer]
    plan: StreamPlan


def simulate_concurrent(
    networks: Sequence[StreamedInference],
    *,
    processors: int = 1,
    alignment: int = PAGE_BYTES,
) -> list[Timeline]:
    """Return the timeline of each network, all started together, with one disk and one bus.

    The kernels of up to `processors` networks run at full speed; more share them evenly.

    Raises:
      ValueError: if a plan does not fit its layers or is synchronous, which is not supported.
    """
    if processors < 1:
        raise ValueError(f"processors={processors} must be at least 1")
    running = [_Network(network, alignment) for network in networks]
    now_ms = 0.0
    while True:
        for one in running:
            one.start(now_ms)
        active = [stage for one in running for stage in one.stages if stage.active]
        if not active:
            return [one.timeline() for one in running]
        rates = _rates([stage.kind for stage in active], processors)
        ends_ms = [
            now_ms + stage.remaining_ms / rate for stage, rate in zip(active, rates, strict=True)
        ]
        then_ms = min(ends_ms)
        for stage, rate, end_ms in zip(active, rates, ends_ms, strict=True):
            stage.remaining_ms -= rate * (then_ms - now_ms)
            if end_ms <= then_ms:
                stage.end(then_ms)
        now_ms = then_ms


class _Kind(Enum):
    READ = 0
    COPY = 1
    KERNEL = 2


def _rates(active: Sequence[_Kind], processors: int) -> list[float]:
    """Return the progress rate of each active stage, relative to running alone."""
    reads, copies, kernels = (active.count(kind) for kind in _Kind)
    by_kind = {
        _Kind.READ: 1 / max(1, reads),
        _Kind.COPY: 1 / max(1, copies),
        _Kind.KERNEL: min(1.0, processors / max(1, kernels)),
    }
    return [by_kind[kind] for kind in active]


@final
class _Stage:
    """A stage of one network; its jobs run one after another."""

    def __init__(self, kind: _Kind, times_ms: Sequence[float]) -> None:
        self.kind = kind
        self._times_ms = times_ms
        self.spans: list[Span] = []
        """Spans of the jobs that have ended."""
        self.active = False
        self.remaining_ms = 0.0
        self._begin_ms = 0.0

    @property
    def done(self) -> int:
        """Number of jobs that have ended."""
        return len(self.spans)

    @property
    def is_free(self) -> bool:
        """Whether another job may start."""
        return not self.active and self.done < len(self._times_ms)

    def begin(self, now_ms: float) -> None:
        """Start the next job."""
        self.active = True
        self._begin_ms = now_ms
        self.remaining_ms = self._times_ms[self.done]

    def end(self, now_ms: float) -> None:
        """End the active job."""
        self.active = False
        self.spans.append((self._begin_ms, now_ms))


@final
class _Network:
    def __init__(self, streaming: StreamedInference, alignment: int) -> None:
        layers, plan = streaming.layers, streaming.plan
        if plan.architecture is StreamArchitecture.SYNCHRONOUS:
            raise ValueError("a synchronous plan cannot be simulated concurrently")
        self._streams, self._host, self._device = waits(layers, plan, alignment)
        streamed = [layer for layer, goes in zip(layers, self._streams, strict=True) if goes]
        self._read = _Stage(
            _Kind.READ, [one.read_ms for one in streamed] if self._host is not None else []
        )
        self._copy = _Stage(
            _Kind.COPY, [one.copy_ms for one in streamed] if self._device is not None else []
        )
        self._kernel = _Stage(
            _Kind.KERNEL,
            [
                layer.kernel_ms + goes * layer.sync_ms
                for layer, goes in zip(layers, self._streams, strict=True)
            ],
        )
        self._last = self._copy if self._device is not None else self._read
        """The stage before the kernel."""
        self.stages = (self._read, self._copy, self._kernel)

    def start(self, now_ms: float) -> None:
        """Start all stages that can start."""
        used = sum(self._streams[: self._kernel.done])
        if self._host is not None and self._read.is_free:
            left = self._copy.done if self._device is not None else used
            if _is_free(left, self._host[self._read.done]):
                self._read.begin(now_ms)
        if self._device is not None and self._copy.is_free:
            there = self._host is None or self._read.done > self._copy.done
            if there and _is_free(used, self._device[self._copy.done]):
                self._copy.begin(now_ms)
        if self._kernel.is_free and (
            not self._streams[self._kernel.done] or self._last.done > used
        ):
            self._kernel.begin(now_ms)

    def timeline(self) -> Timeline:
        """Return the timeline, in ms after the common start."""
        return Timeline(
            self._by_layer(self._read), self._by_layer(self._copy), tuple(self._kernel.spans)
        )

    def _by_layer(self, stage: _Stage) -> tuple[Span | None, ...]:
        spans = iter(stage.spans)
        return tuple(next(spans, None) if goes else None for goes in self._streams)


def _is_free(count: int, after: int | None) -> bool:
    return after is None or count > after
