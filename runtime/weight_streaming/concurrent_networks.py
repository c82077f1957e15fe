"""Several streamed networks that run beside each other in one budget of memory."""

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

from runtime.shell.closeable import Closes
from runtime.weight_streaming.byte_size import parse_bytes
from runtime.weight_streaming.files.readers import Tier
from runtime.weight_streaming.memory_use import MemoryUse
from runtime.weight_streaming.planning.interference import Interference
from runtime.weight_streaming.planning.plan import Stages
from runtime.weight_streaming.planning.sharing import Share, Tenant, check_budget, share
from runtime.weight_streaming.profiling import unmeasured
from runtime.weight_streaming.streamable import StreamableNetwork, open_streamable
from runtime.weight_streaming.streamed import StreamedNetwork


@final
@dataclass(frozen=True)
class NetworkRequest:
    """A network and when its output is needed."""

    name: str
    model: nn.Module
    """As `runtime.stream` takes it."""
    example: Tensor
    deadline_ms: float
    """After an inference was asked for."""


@final
@dataclass(frozen=True)
class TimedOutput:
    """One inference."""

    output: Tensor
    took_ms: float
    deadline_ms: float

    @property
    def is_in_time(self) -> bool:
        """Whether the deadline was met."""
        return self.took_ms <= self.deadline_ms


@final
class ConcurrentNetworks(Closes):
    """Networks by the plans they were given; each may be called from a thread of its own."""

    def __init__(
        self, shares: Sequence[Share], networks: Sequence[StreamedNetwork], processors: int
    ) -> None:
        """Of networks that are ready; `processors` is what their shares were made for."""
        self.processors = processors
        self.shares: Mapping[str, Share] = {one.tenant.name: one for one in shares}
        self._networks = dict(zip(self.shares, networks, strict=True))

    @property
    def memory(self) -> dict[str, MemoryUse]:
        """What keeps weights now, by network.

        Raises:
          RuntimeError: after it was closed.
        """
        return {name: network.memory for name, network in self._networks.items()}

    def __call__(self, name: str, x: Tensor) -> Tensor:
        """One inference of one network, beside whatever else is under way.

        Raises:
          KeyError: if there is no such network.
          BaseException: as `Streamed`; the others go on.
        """
        return self._networks[name](x)

    def run(self, inputs: Mapping[str, Tensor]) -> dict[str, TimedOutput]:
        """One inference of each network named, all begun at the same moment.

        Raises:
          KeyError: if there is no such network.
          BaseException: the first error; all have ended.
        """
        networks = {name: self._networks[name] for name in inputs}
        together = Barrier(max(1, len(inputs)))

        def answer(name: str) -> TimedOutput:
            together.wait()
            begin = time.perf_counter()
            output = networks[name](inputs[name])
            took_ms = 1e3 * (time.perf_counter() - begin)
            return TimedOutput(output, took_ms, self.shares[name].tenant.deadline_ms)

        with ThreadPoolExecutor(max(1, len(inputs))) as threads:
            return dict(zip(inputs, threads.map(answer, inputs), strict=True))

    def close(self) -> None:
        """Gives all memory back."""
        for network in self._networks.values():
            network.close()


def stream_concurrently(
    wanted: Sequence[NetworkRequest],
    *,
    budget: str | int,
    tier: str | Tier = Tier.SSD,
    device: torch.device | None = None,
    processors: int | None = None,
    interference: Interference | None = None,
) -> ConcurrentNetworks:
    """Networks that share a budget by `runtime.weight_streaming.planning.sharing.share`, and what they share with it.

        with stream_concurrently([NetworkRequest("detect", ...), NetworkRequest("classify", ...)], budget="64MB") as both:
            answers = both.run({"detect": frame, "classify": frame})

    Each is measured once, alone. A share whose `strain` is at most 1 meets its deadline even if the
    others use disk, bus and processors all the time; one that is above may miss it.

    Args:
      wanted: the networks; their names differ.
      budget: of all rings and resident layers together.
      tier: where the rest of the weights is.
      device: of all kernels; the models' if not given.
      processors: kernels of so many networks run beside each other without slowing each other; on a
        CPU as many as torch's threads go into its cores, if not given, and one on a GPU.
      interference: measured slowdown, if it is known.

    Raises:
      ValueError: if names are not unique or the budget is too small; it names the smallest workable.
      BaseException: as `runtime.stream`.
    """
    names = [one.name for one in wanted]
    if len({*names}) < len(names) or not names:
        raise ValueError(f"networks need names of their own, not {names}")
    budget_bytes = parse_bytes(budget)
    with ExitStack() as closed:
        opened = [
            closed.enter_context(
                closing(open_streamable(one.model, one.example, tier=tier, device=device))
            )
            for one in wanted
        ]
        devices = {one.device for one in opened}
        if len(devices) > 1:
            raise ValueError(f"networks must be on one device, not on {devices}; give device=")
        if processors is None:
            on_gpu = opened[0].device.type == "cuda"
            processors = 1 if on_gpu else max(1, _cores() // torch.get_num_threads())
        stages = opened[0].stages
        shares = share(
            _profiled(wanted, opened, budget_bytes, stages),
            budget_bytes,
            stages=stages,
            processors=processors,
            interference=interference,
        )
        networks = [
            closed.enter_context(StreamedNetwork(_opening(network), one.example, plan=given.plan))
            for one, network, given in zip(wanted, opened, shares, strict=True)
        ]
        closed.pop_all()  # they are closed with what is returned
        return ConcurrentNetworks(shares, networks, processors)


def _profiled(
    wanted: Sequence[NetworkRequest],
    opened: Sequence[StreamableNetwork],
    budget_bytes: int,
    stages: Stages,
) -> list[Tenant]:
    """The networks with their layers' times, each measured alone."""
    layers = {
        one.name: unmeasured(network.layered) for one, network in zip(wanted, opened, strict=True)
    }
    check_budget(layers, budget_bytes, stages=stages)
    each_bytes = budget_bytes // len(wanted)
    return [
        Tenant(one.name, network.profile(one.example, each_bytes), one.deadline_ms)
        for one, network in zip(wanted, opened, strict=True)
    ]


def _opening(opened: StreamableNetwork) -> Callable[[Tensor], StreamableNetwork]:
    return lambda _: opened


def _cores() -> int:
    return len(os.sched_getaffinity(0))
