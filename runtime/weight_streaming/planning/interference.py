"""Streamed networks that run beside each other, as predicted: what they share makes them slower.

Where the recurrence gives each stage the time it takes alone, here the time runs on at a rate: reads
that happen at once share the disk, copies the bus, kernels the processors, and a kernel may be slower
while weights arrive. With one network and no such slowdown it is the recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import final

from runtime.weight_streaming.planning.plan import Architecture, StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.recurrence import Span, Timeline, waits
from runtime.weight_streaming.planning.ring import PAGE_BYTES


@final
@dataclass(frozen=True)
class Interference:
    """How many times longer a stage takes while another is under way, of whatever network.

    To be measured; 1 is none.
    """

    kernel_beside_read: float = 1.0
    kernel_beside_copy: float = 1.0
    read_beside_kernel: float = 1.0
    copy_beside_kernel: float = 1.0

    def __post_init__(self) -> None:
        """Checks the factors.

        Raises:
          ValueError: if one is below 1 or not a number.
        """
        for name, factor in vars(self).items():
            if not 1 <= factor < float("inf"):
                raise ValueError(f"{name}={factor} must be 1, for no slowdown, or more")


@final
@dataclass(frozen=True)
class StreamedInference:
    """One inference of a network by a plan."""

    layers: Sequence[StreamedLayer]
    plan: StreamPlan
    begin_ms: float = 0.0


def simulate_concurrent(
    networks: Sequence[StreamedInference],
    *,
    processors: int = 1,
    interference: Interference | None = None,
    alignment: int = PAGE_BYTES,
) -> list[Timeline]:
    """When each stage of each network begins and ends; one disk, one bus.

    Args:
      networks: what runs; of one network all stages keep their order.
      processors: kernels of so many networks run at full speed; more share them evenly.
      interference: between kernels and what brings weights.
      alignment: of the rings.

    Raises:
      ValueError: if a plan does not fit its layers, or is synchronous, which is not predicted here.
    """
    if processors < 1:
        raise ValueError(f"processors={processors} must be 1 or more")
    slower = interference or Interference()
    running = [_Network(one, alignment) for one in networks]
    now_ms = 0.0
    while True:
        for one in running:
            one.start(now_ms)
        active = [stage for one in running for stage in one.stages if stage.active]
        later = [one.begin_ms for one in running if one.begin_ms > now_ms]
        if not active and not later:
            return [one.timeline() for one in running]
        rates = _rates([stage.kind for stage in active], processors, slower)
        ends_ms = [now_ms + stage.left_ms / rate for stage, rate in zip(active, rates, strict=True)]
        then_ms = min([*ends_ms, *later])
        for stage, rate, end_ms in zip(active, rates, ends_ms, strict=True):
            stage.left_ms -= rate * (then_ms - now_ms)
            if end_ms <= then_ms:
                stage.end(then_ms)
        now_ms = then_ms


class _Kind(Enum):
    READ = 0
    COPY = 1
    KERNEL = 2


def _rates(active: Sequence[_Kind], processors: int, slower: Interference) -> list[float]:
    """Of each stage that is under way, in milliseconds alone a millisecond."""
    reads, copies, kernels = (active.count(kind) for kind in _Kind)
    kernel = min(1.0, processors / kernels) if kernels else 0.0
    kernel /= slower.kernel_beside_read if reads else 1.0
    kernel /= slower.kernel_beside_copy if copies else 1.0
    by_kind = {
        _Kind.READ: 1 / max(1, reads) / (slower.read_beside_kernel if kernels else 1.0),
        _Kind.COPY: 1 / max(1, copies) / (slower.copy_beside_kernel if kernels else 1.0),
        _Kind.KERNEL: kernel,
    }
    return [by_kind[kind] for kind in active]


@final
class _Stage:
    """Does its jobs one after another."""

    def __init__(self, kind: _Kind, times_ms: Sequence[float]) -> None:
        self.kind = kind
        self._times_ms = times_ms
        self.spans: list[Span] = []
        """Of those that have ended."""
        self.active = False
        self.left_ms = 0.0
        self._begin_ms = 0.0

    @property
    def done(self) -> int:
        """How many have ended."""
        return len(self.spans)

    @property
    def is_free(self) -> bool:
        """Whether another job may begin."""
        return not self.active and self.done < len(self._times_ms)

    def begin(self, now_ms: float) -> None:
        """Begins the next one."""
        self.active = True
        self._begin_ms = now_ms
        self.left_ms = self._times_ms[self.done]

    def end(self, now_ms: float) -> None:
        """Ends it."""
        self.active = False
        self.spans.append((self._begin_ms, now_ms))


@final
class _Network:
    def __init__(self, streaming: StreamedInference, alignment: int) -> None:
        layers, plan = streaming.layers, streaming.plan
        if plan.architecture is Architecture.SYNCHRONOUS:
            raise ValueError("a synchronous pipeline is not predicted beside others")
        self.begin_ms = streaming.begin_ms
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
                one.kernel_ms + goes * one.sync_ms
                for one, goes in zip(layers, self._streams, strict=True)
            ],
        )
        self._last = self._copy if self._device is not None else self._read
        """The stage that brings a layer to its kernel."""
        self.stages = (self._read, self._copy, self._kernel)

    def start(self, now_ms: float) -> None:
        """Begins what can begin."""
        if now_ms < self.begin_ms:
            return
        used = sum(self._streams[: self._kernel.done])
        if self._host is not None and self._read.is_free:
            left = self._copy.done if self._device is not None else used
            if _has_left(left, self._host[self._read.done]):
                self._read.begin(now_ms)
        if self._device is not None and self._copy.is_free:
            there = self._host is None or self._read.done > self._copy.done
            if there and _has_left(used, self._device[self._copy.done]):
                self._copy.begin(now_ms)
        if self._kernel.is_free and (
            not self._streams[self._kernel.done] or self._last.done > used
        ):
            self._kernel.begin(now_ms)

    def timeline(self) -> Timeline:
        """When all has ended; milliseconds since the first network's begin."""
        return Timeline(
            self._by_layer(self._read), self._by_layer(self._copy), tuple(self._kernel.spans)
        )

    def _by_layer(self, stage: _Stage) -> tuple[Span | None, ...]:
        spans = iter(stage.spans)
        return tuple(next(spans, None) if goes else None for goes in self._streams)


def _has_left(count: int, after: int | None) -> bool:
    return after is None or count > after
