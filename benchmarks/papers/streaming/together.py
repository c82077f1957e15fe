"""Two streamed networks in one budget: predicted and measured delays, and deadlines met."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.papers.config import BenchConfig
from benchmarks.papers.results import Row, summary
from benchmarks.papers.steps import interleaved
from benchmarks.papers.streaming.concurrent_networks import (
    ConcurrentNetworks,
    NetworkRequest,
    stream_concurrently,
)
from benchmarks.papers.streaming.interference import StreamedInference, simulate_concurrent
from runtime.weight_streaming.files.readers import Tier

_BUDGETS = (0.15, 0.4)
"""Budgets as shares of the weights of both networks."""

_DEADLINES = ((3.0, 12.0), (12.0, 3.0), (6.0, 6.0))
"""Deadlines of each network, relative to its time alone and resident."""


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
    device = torch.device(config.device.value)
    tier = Tier.HOST if config.on_gpu else Tier.SSD
    batch = 16384 if config.on_gpu else 128
    dtype = torch.float16 if config.on_gpu else torch.float32
    with torch.device(device):
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
    weights = sum(one.nbytes for model in models.values() for one in model.parameters())
    for share in _BUDGETS:
        for factors in _DEADLINES:
            wanted = [
                NetworkRequest(name, model, inputs[name], factor * resident_ms[name])
                for (name, model), factor in zip(models.items(), factors, strict=True)
            ]
            processors = 1 if config.on_gpu else None
            with stream_concurrently(
                wanted, budget=int(share * weights), tier=tier, processors=processors
            ) as both:
                for row in _rows(both, inputs, outputs, config):
                    yield {
                        "batch": batch,
                        "tier": tier.value,
                        "budget_bytes": int(share * weights),
                        "budget": share,
                        "resident_ms": round(resident_ms[row["network"]], 4),
                        **row,
                    }


def _rows(
    both: ConcurrentNetworks,
    inputs: dict[str, Tensor],
    outputs: dict[str, Tensor],
    config: BenchConfig,
) -> Iterator[Row]:
    shares = both.shares
    simulated = simulate_concurrent(
        [StreamedInference(one.tenant.layers, one.plan) for one in shares.values()],
        processors=both.processors,
    )
    both.run(inputs)
    answers = [both.run(inputs) for _ in range(config.repeats)]
    for (name, given), run in zip(shares.items(), simulated, strict=True):
        own = [answer[name] for answer in answers]
        yield {
            "network": name,
            "together": "+".join(shares),
            "share_bytes": given.plan.memory_bytes,
            "deadline_ms": round(given.tenant.deadline_ms, 4),
            "promised_ms": round(given.plan.predicted_ms, 4),
            "strain": round(given.strain, 4),
            "simulated_ms": round(run.makespan_ms, 4),
            **summary([one.took_ms for one in own]),
            "missed": sum(not one.is_in_time for one in own),
            "above_promise": sum(one.took_ms > given.plan.predicted_ms for one in own),
            "bit_exact": all(torch.equal(one.output, outputs[name]) for one in own),
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
