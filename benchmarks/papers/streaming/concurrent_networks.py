"""Concurrent streamed networks within one memory budget."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from threading import Barrier
from typing import final

import torch
from torch import Tensor, nn

from benchmarks.papers.streaming.sharing import Share, Tenant, check_budget, share
from common.types.closeable import Closeable
from common.types.units import parse_bytes
from runtime.weight_streaming.files.readers import Tier
from runtime.weight_streaming.memory_use import MemoryUse
from runtime.weight_streaming.planning.plan import Stages
from runtime.weight_streaming.profiling import unmeasured
from runtime.weight_streaming.streamable import StreamableNetwork, open_streamable
from runtime.weight_streaming.streamed import StreamedNetwork


@final
@dataclass(frozen=True)
class NetworkRequest:
    """A network and its deadline."""

    name: str
    model: nn.Module
    """A model as in `runtime.stream`."""
    example: Tensor
    deadline_ms: float
    """Time limit of one inference after its request."""


@final
@dataclass(frozen=True)
class TimedOutput:
    """Output of one inference, with its duration."""

    output: Tensor
    took_ms: float
    deadline_ms: float

    @property
    def is_in_time(self) -> bool:
        """Whether the deadline was met."""
        return self.took_ms <= self.deadline_ms


@final
class ConcurrentNetworks(Closeable):
    """Networks that share one budget; each may be called from its own thread."""

    def __init__(
        self, shares: Sequence[Share], networks: Sequence[StreamedNetwork], processors: int
    ) -> None:
        """Take over initialised networks; `processors` is the number used for their shares."""
        self.processors = processors
        self.shares: Mapping[str, Share] = {one.tenant.name: one for one in shares}
        self._networks = dict(zip(self.shares, networks, strict=True))

    @property
    def memory(self) -> dict[str, MemoryUse]:
        """Current memory use of the weights, by network.

        Raises:
          RuntimeError: after `close`.
        """
        return {name: network.memory for name, network in self._networks.items()}

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """Run one inference of one network, beside those in progress.

        Raises:
          KeyError: if there is no such network.
          BaseException: as `StreamedNetwork`; the other networks continue.
        """
        return self._networks[name](x)

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, TimedOutput]:
        """Run one inference of each named network, all started at the same time.

        Raises:
          KeyError: if there is no such network.
          BaseException: the first error, after all have ended.
        """
        networks = {name: self._networks[name] for name in inputs}
        start = Barrier(max(1, len(inputs)))

        def answer(name: str) -> TimedOutput:
            start.wait()
            begin = time.perf_counter()
            output = networks[name](inputs[name])
            took_ms = 1e3 * (time.perf_counter() - begin)
            return TimedOutput(output, took_ms, self.shares[name].tenant.deadline_ms)

        with ThreadPoolExecutor(max(1, len(inputs))) as threads:
            return dict(zip(inputs, threads.map(answer, inputs), strict=True))

    def close(self) -> None:
        """Release all memory."""
        for network in self._networks.values():
            network.close()


def stream_concurrently(
    requests: Sequence[NetworkRequest],
    *,
    budget: str | int,
    tier: str | Tier = Tier.SSD,
    device: torch.device | None = None,
    processors: int | None = None,
) -> ConcurrentNetworks:
    """Stream several networks within one budget, divided by `planning.sharing.share`.

        with stream_concurrently([NetworkRequest("detect", ...), NetworkRequest("classify", ...)], budget="64MB") as both:
            answers = both.run({"detect": frame, "classify": frame})

    Each network is profiled once, alone. A network with a strain of at most 1 meets its deadline even if
    the others use disk, bus and processors all the time; above 1 it may miss it.

    The budget counts bytes of all rings and resident layers together; `tier` stores the other
    weights. Up to `processors` networks run their kernels without slowing each other: by default 1
    on a GPU, and on a CPU the number of cores divided by torch's threads.

    Raises:
      ValueError: if names are not unique or the budget is too small; the message names the smallest
        that works.
      BaseException: as `runtime.stream`.
    """
    names = [one.name for one in requests]
    if len({*names}) < len(names) or not names:
        raise ValueError(f"networks need unique names, not {names}")
    budget_bytes = parse_bytes(budget)
    with ExitStack() as closed:
        opened = [
            closed.enter_context(
                closing(open_streamable(one.model, one.example, tier=tier, device=device))
            )
            for one in requests
        ]
        devices = {one.device for one in opened}
        if len(devices) > 1:
            raise ValueError(f"networks must be on one device, not on {devices}; pass device=")
        if processors is None:
            on_gpu = opened[0].device.type == "cuda"
            processors = 1 if on_gpu else max(1, _cores() // torch.get_num_threads())
        stages = opened[0].stages
        shares = share(
            _profiled(requests, opened, budget_bytes, stages),
            budget_bytes,
            stages=stages,
            processors=processors,
        )
        networks = [
            closed.enter_context(StreamedNetwork(_opening(network), one.example, plan=given.plan))
            for one, network, given in zip(requests, opened, shares, strict=True)
        ]
        closed.pop_all()  # closed with the result
        return ConcurrentNetworks(shares, networks, processors)


def _profiled(
    requests: Sequence[NetworkRequest],
    opened: Sequence[StreamableNetwork],
    budget_bytes: int,
    stages: Stages,
) -> list[Tenant]:
    """Profile each network alone."""
    layers = {
        one.name: unmeasured(network.layered) for one, network in zip(requests, opened, strict=True)
    }
    check_budget(layers, budget_bytes, stages=stages)
    each_bytes = budget_bytes // len(requests)
    return [
        Tenant(one.name, network.profile(one.example, each_bytes), one.deadline_ms)
        for one, network in zip(requests, opened, strict=True)
    ]


def _opening(opened: StreamableNetwork) -> Callable[[Tensor], StreamableNetwork]:
    return lambda _: opened


def _cores() -> int:
    return len(os.sched_getaffinity(0))
