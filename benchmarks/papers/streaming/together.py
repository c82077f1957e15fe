"""Two streamed networks in one budget: predicted and measured delays, and deadlines met."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import median
from threading import Barrier
from typing import final

import torch
from torch import Tensor, nn

from benchmarks.papers.config import BenchConfig
from benchmarks.papers.results import Row, summary
from benchmarks.papers.steps import interleaved
from benchmarks.papers.streaming.sharing import Share, Tenant, check_budget, share
from runtime.machine.description import usable_cores
from runtime.weight_streaming.files.readers import Tier
from runtime.weight_streaming.profiling import unmeasured
from runtime.weight_streaming.streamable import StreamableNetwork, open_streamable
from runtime.weight_streaming.streamed import StreamedNetwork

_BUDGETS = (0.15, 0.4)
"""Budgets as shares of the weights of both networks."""

_DEADLINES = ((3.0, 12.0), (12.0, 3.0), (6.0, 6.0))
"""Deadlines of each network, relative to its time alone and resident."""


@final
@dataclass(frozen=True)
class Wanted:
    """A network, an input, and the time limit of one inference after its request."""

    model: nn.Module
    x: Tensor
    deadline_ms: float


@contextmanager
def streamed_together(
    wanted: Mapping[str, Wanted], budget_bytes: int, *, tier: Tier, processors: int
) -> Iterator[tuple[dict[str, Share], dict[str, StreamedNetwork]]]:
    """Stream several networks within one budget, divided by `sharing.share`; each is profiled alone.

    The budget counts bytes of all rings and resident layers together; `tier` stores the other weights.
    Up to `processors` networks run their kernels without slowing each other.

    Raises:
      ValueError: if the budget is too small; the message names the smallest that works.
    """
    with ExitStack() as opened:
        streamable = {
            name: opened.enter_context(closing(open_streamable(one.model, one.x, tier=tier)))
            for name, one in wanted.items()
        }
        stages = next(iter(streamable.values())).stages
        layers = {name: unmeasured(network.layered) for name, network in streamable.items()}
        check_budget(layers, budget_bytes, stages=stages)
        tenants = [
            Tenant(name, network.profile(one.x, budget_bytes // len(wanted)), one.deadline_ms)
            for (name, network), one in zip(streamable.items(), wanted.values(), strict=True)
        ]
        shares = {
            given.tenant.name: given
            for given in share(tenants, budget_bytes, stages=stages, processors=processors)
        }
        networks = {
            name: opened.enter_context(
                StreamedNetwork(_opening(network), wanted[name].x, plan=shares[name].plan)
            )
            for name, network in streamable.items()
        }
        yield shares, networks


def _opening(network: StreamableNetwork) -> Callable[[Tensor], StreamableNetwork]:
    return lambda _: network


def run_together(
    networks: Mapping[str, StreamedNetwork], wanted: Mapping[str, Wanted]
) -> dict[str, tuple[Tensor, float]]:
    """Output and milliseconds of one inference of each network, all started at the same time."""
    start = Barrier(len(networks))

    def answer(name: str) -> tuple[Tensor, float]:
        start.wait()
        begin_s = time.perf_counter()
        output = networks[name](wanted[name].x)
        return output, 1e3 * (time.perf_counter() - begin_s)

    with ThreadPoolExecutor(len(networks)) as threads:
        return dict(zip(networks, threads.map(answer, networks), strict=True))


def rows(config: BenchConfig, unit: int | None = None) -> Iterator[Row]:
    """One row for each network, budget and pair of deadlines. Weights are random.

    The narrow network is `unit` wide, by default as wide as keeps the device busy.
    """
    threads = torch.get_num_threads()
    if not config.on_gpu:
        torch.set_num_threads(1)  # a core for each
    try:
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(0)
            yield from _measured(config, unit or (4096 if config.on_gpu else 1024))
    finally:
        torch.set_num_threads(threads)


def _measured(config: BenchConfig, unit: int) -> Iterator[Row]:
    tier = Tier.HOST if config.on_gpu else Tier.SSD
    batch = 16384 if config.on_gpu else 128
    dtype = torch.float16 if config.on_gpu else torch.float32
    processors = 1 if config.on_gpu else max(1, len(usable_cores()))
    with torch.device(config.device.value):
        models = {"wide": _chain(8, 2 * unit, dtype), "deep": _chain(32, unit, dtype)}
        inputs = {
            name: torch.randn(batch, width, dtype=dtype)
            for name, width in (("wide", 2 * unit), ("deep", unit))
        }
    outputs = {name: model(inputs[name]) for name, model in models.items()}
    alone = interleaved(
        {name: partial(_once_ms, models[name], inputs[name]) for name in models}, config.repeats
    )
    resident_ms = {name: median(samples) for name, samples in alone.items()}
    weights = sum(weight.nbytes for model in models.values() for weight in model.parameters())
    for part in _BUDGETS:
        for factors in _DEADLINES:
            wanted = {
                name: Wanted(model, inputs[name], factor * resident_ms[name])
                for (name, model), factor in zip(models.items(), factors, strict=True)
            }
            budget_bytes = int(part * weights)
            with streamed_together(wanted, budget_bytes, tier=tier, processors=processors) as (
                shares,
                networks,
            ):
                run_together(networks, wanted)
                answers = [run_together(networks, wanted) for _ in range(config.repeats)]
            for name, given in shares.items():
                took_ms = [answer[name][1] for answer in answers]
                promised_ms, deadline_ms = given.plan.predicted_ms, given.tenant.deadline_ms
                yield {
                    "batch": batch,
                    "tier": tier.value,
                    "budget_bytes": budget_bytes,
                    "budget": part,
                    "resident_ms": round(resident_ms[name], 4),
                    "network": name,
                    "together": "+".join(shares),
                    "share_bytes": given.plan.memory_bytes,
                    "deadline_ms": round(deadline_ms, 4),
                    "promised_ms": round(promised_ms, 4),
                    "strain": round(given.strain, 4),
                    **summary(took_ms),
                    "missed": sum(ms > deadline_ms for ms in took_ms),
                    "bit_exact": all(
                        torch.equal(answer[name][0], outputs[name]) for answer in answers
                    ),
                }


def _chain(layers: int, width: int, dtype: torch.dtype) -> nn.Module:
    return nn.Sequential(
        *(nn.Linear(width, width, bias=False, dtype=dtype) for _ in range(layers))
    ).eval()


def _once_ms(model: nn.Module, x: Tensor) -> float:
    begin_s = time.perf_counter()
    model(x)
    if x.is_cuda:
        torch.cuda.synchronize(x.device)
    return 1e3 * (time.perf_counter() - begin_s)
