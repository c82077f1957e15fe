"""Networks larger than their memory: delay against memory for each pipeline architecture.

Variants of a network run in turns on the same input and are compared bit for bit with the resident
network; all memory that holds weights is counted. Weights are random.

Our plans prefetch for the next inference. The recorded delay is that of an inference directly after
another; the delay with empty buffers, as in the first inference, is recorded beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.config import BenchConfig
from benchmarks.networks.vgg import VGG
from benchmarks.results import Row, summary
from benchmarks.steps import ExperimentStep, interleaved, last_of_turn, one_line
from benchmarks.streaming.architectures import (
    asynchronous,
    enlarged,
    zero_copy,
)
from benchmarks.streaming.bounds import bound_ms, least_ms
from benchmarks.streaming.offload import Offloaded, is_importable
from benchmarks.streaming.yolo import YOLOv4
from edgenas_runtime.weight_streaming.files.readers import Tier
from edgenas_runtime.weight_streaming.pipeline.pipeline import LayerTimes, Pipeline
from edgenas_runtime.weight_streaming.planning.bundles import bundle_sizes, bundled
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
)
from edgenas_runtime.weight_streaming.planning.planner import BudgetTooSmallError, preloaded
from edgenas_runtime.weight_streaming.planning.recurrence import predicted
from edgenas_runtime.weight_streaming.streamable import (
    SETTLE_S,
    MemoryUse,
    StreamableNetwork,
    open_streamable,
)

_BUDGETS = (0.1, 0.25, 0.7)
"""Budgets as shares of the weights."""

_TOLERANCE = 0.01
"""Largest relative excess of the planned buffer's delay over that of the resident network."""

_CONFIGURATIONS = 36
"""Random configurations of residents and rings, for the model error; fewer if a run takes long."""

_TILES = 3
"""Tiles of the largest layer in half of the random configurations."""

_CONFIGURATIONS_S = {"cuda": 20.0, "cpu": 100.0}

_OFFLOADED = "accelerate"

_FIRST_RUNS = 3
"""Inferences with empty buffers, for plans that prefetch for the next inference."""


@final
@dataclass(frozen=True)
class Case:
    """A network, its input and the tier of its weights."""

    network: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    tier: Tier
    dtype: torch.dtype = torch.float32
    zero_copies: bool = True
    """True if kernels may also read weights across the bus, which must end within seconds."""
    offloads: bool = True
    """True if offloading by `accelerate` is measured too."""

    @property
    def name(self) -> str:
        """Unique name of the case."""
        return f"{self.network}-b{self.shape[0]}-{self.tier.value}"


def _chain(layers: int, width: int) -> nn.Module:
    return nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(layers)])


def cases(*, on_gpu: bool) -> list[Case]:
    """Cases in the order of measurement."""
    if not on_gpu:
        uniform = partial(_chain, 24, 2048)
        return [
            *(Case("linear24", uniform, (n, 2048), Tier.SSD) for n in (128, 256, 32)),
            Case("yolov4", YOLOv4, (1, 3, 416, 416), Tier.SSD),
            Case("vgg16", VGG, (1, 3, 224, 224), Tier.SSD),
            Case("yolov4-narrow", partial(YOLOv4, width=8), (1, 3, 224, 224), Tier.SSD),
        ]
    uniform = partial(_chain, 32, 4096)
    half = torch.float16
    images = {"vgg16": (VGG, 64, 224), "yolov4": (YOLOv4, 8, 416)}

    def linear(n: int, tier: Tier = Tier.HOST, *, offloads: bool = False) -> Case:
        return Case("linear32", uniform, (n, 4096), tier, half, n < 8192, offloads)

    def convolutional(name: str, tier: Tier, *, one: bool) -> Case:
        build, n, side = images[name]
        shape = (1 if one else n, 3, side, side)
        return Case(name, build, shape, tier, zero_copies=one, offloads=tier is Tier.HOST)

    return [
        linear(16384, offloads=True),
        *(convolutional(name, Tier.HOST, one=False) for name in images),
        linear(4096, offloads=True),
        linear(8192),
        linear(12288),
        linear(16384, Tier.SSD),
        *(convolutional(name, Tier.SSD, one=False) for name in images),
        linear(16),
        *(convolutional(name, Tier.HOST, one=True) for name in images),
    ]


def steps(config: BenchConfig) -> list[ExperimentStep]:
    """One step for each case.

    Raises:
      ValueError: if a case is unknown.
    """
    known: dict[str, Callable[[], Iterator[Row]]] = {
        case.name: partial(_compare, config, case) for case in cases(on_gpu=config.on_gpu)
    }
    return [ExperimentStep(name, known[name]) for name in config.chosen([*known])]


def _compare(config: BenchConfig, case: Case) -> Iterator[Row]:
    threads = torch.get_num_threads()
    if not config.on_gpu:
        torch.set_num_threads(1)  # the other core reads
    try:
        yield from _measured(config, case)
    finally:
        torch.set_num_threads(threads)


def _measured(config: BenchConfig, case: Case) -> Iterator[Row]:
    device = torch.device(config.device.value)
    with torch.random.fork_rng(), torch.no_grad(), torch.device(device):
        torch.manual_seed(0)
        module = case.build().eval().to(case.dtype)
        x = torch.randn(case.shape).to(case.dtype)
    with ExitStack() as opened:
        layers = open_streamable(module, x, tier=case.tier)
        opened.callback(layers.close)
        bench = _Bench(case, layers, x, config.repeats)
        with torch.no_grad():
            bench.reference = module(x)
        offloaded = Offloaded(module, device) if case.offloads and is_importable() else None
        del module
        if config.on_gpu:
            torch.cuda.empty_cache()
        for row in bench.rows(offloaded):
            yield {"network": case.network, "batch": case.shape[0], **row}


@final
class _Bench:
    def __init__(self, case: Case, opened: StreamableNetwork, x: Tensor, repeats: int) -> None:
        self._case = case
        self._opened = opened
        self.x = x
        self._repeats = repeats
        self.reference = x

    def rows(self, offloaded: Offloaded | None) -> Iterator[Row]:
        """Rows of all variants, and of random configurations."""
        opened = self._opened
        three = StreamStages.COPY_KERNEL if self._is_kept else StreamStages.READ_COPY_KERNEL
        whole = opened.layered.weight_bytes
        profile = opened.profile(self.x, whole, three)
        planned = opened.stages
        if planned is StreamStages.READ_KERNEL:
            profiles = {three: profile, planned: opened.profile(self.x, whole, planned)}
        else:
            profiles = {three: profile}
        measured: dict[str, _StreamVariant] = {}
        with ExitStack() as stack:
            variants = self._variants(profiles)
            once: dict[str, Callable[[], float]] = {}
            for name, (wanted, layers) in variants.items():
                try:
                    variant = _StreamVariant(self, opened, wanted, layers)
                except Exception as error:  # noqa: BLE001 - the others have nothing to do with it
                    yield {"variant": name, "tier": self._case.tier.value, "error": one_line(error)}
                    continue
                stack.callback(variant.close)
                measured[name] = variant
                once[name] = variant.once_ms
            if offloaded is not None:
                once[_OFFLOADED] = partial(offloaded.once_ms, self.x, self.reference)
            samples = interleaved(once, self._repeats, turn_s=self._turn_s)
            resident_ms = median(samples["preload"]) if "preload" in samples else None
            for name, variant in measured.items():
                first_ms = variant.first_ms(min(self._repeats, _FIRST_RUNS), self._turn_s)
                yield {
                    "variant": name,
                    **summary(samples[name]),
                    **first_ms,
                    **_against(resident_ms, samples[name]),
                    **variant.facts(median(samples[name])),
                }
            if offloaded is not None:
                yield {
                    "variant": _OFFLOADED,
                    "tier": Tier.HOST.value,
                    **summary(samples[_OFFLOADED]),
                    **_against(resident_ms, samples[_OFFLOADED]),
                    "bit_exact": offloaded.is_exact,
                }
        tile_bytes = opened.layered.largest_bytes // _TILES
        tiles = opened.profile(self.x, whole, tile_bytes=tile_bytes)
        yield from self._configurations({0: profiles[planned], tile_bytes: tiles}, planned)

    def runs_ms(self, pipeline: Pipeline, inferences: int) -> tuple[list[float], float]:
        """Times of successive cold inferences, and the largest difference of an output, relative.

        Nothing goes on when it returns: others are measured then.
        """
        taken_ms, outputs = [], []
        for _ in range(inferences):
            self._opened.reader.start_cold()
            began_s = time.perf_counter()
            outputs.append(pipeline.run(self.x))
            taken_ms.append(1e3 * (time.perf_counter() - began_s))
        pipeline.wait_prefetched()
        largest = self.reference.abs().max()
        return taken_ms, max(float((y - self.reference).abs().max() / largest) for y in outputs)

    def _once_ms(self, pipeline: Pipeline) -> float:
        (taken_ms,), _ = self.runs_ms(pipeline, 1)
        return taken_ms

    @property
    def _turn_s(self) -> float:
        return SETTLE_S if self._opened.device.type == "cuda" else 0.0

    @property
    def _is_kept(self) -> bool:
        return self._opened.reader.tier is Tier.HOST

    def _variants(
        self, profiles: dict[StreamStages, list[StreamedLayer]]
    ) -> dict[str, tuple[StreamPlan, list[StreamedLayer]]]:
        """Plans by name, each with the profile of its prediction."""
        (three, stepped), *_, (planned, layers) = [*profiles.items()] * 2
        whole = self._opened.layered.weight_bytes

        made = asynchronous(stepped)
        if three is StreamStages.COPY_KERNEL:
            made = predicted(stepped, _without_reads(made))
        plans = {"preload": (preloaded(layers), layers), "asynchronous": (made, stepped)}
        if self._case.zero_copies:
            plans["zero-copy"] = (self._zero_copy(layers), layers)
        plans["planned buffer"] = (
            enlarged(
                layers,
                stages=planned,
                tolerance=_TOLERANCE,
                ahead=True,
                bundle_bytes=bundle_sizes(layers)[:2][-1],
            ),
            layers,
        )
        for share in _BUDGETS:
            with suppress(BudgetTooSmallError):
                plans[f"planned {share:.0%}"] = self._opened.plan(self.x, int(share * whole))
        return plans

    def _zero_copy(self, layers: list[StreamedLayer]) -> StreamPlan:
        """The zero-copy plan; without a ring buffer on a GPU whose weights are all in host memory."""
        if self._is_kept and self._opened.device.type == "cuda":
            resident = (False,) * len(layers)
            return StreamPlan(resident, 0, 0, 0.0, 0)
        made = zero_copy(layers)
        # across a bus kernels take longer than they were measured to take
        return made if self._opened.device.type == "cpu" else replace(made, predicted_ms=0.0)

    def _configurations(
        self, profiles: dict[int, list[StreamedLayer]], stages: StreamStages
    ) -> Iterator[Row]:
        """Random residents, rings, tiles and bundles, for the error of the predictions."""
        generator = np.random.default_rng(0)
        until_s = time.monotonic() + _CONFIGURATIONS_S[self._opened.device.type]
        for number in range(_CONFIGURATIONS):
            if number and time.monotonic() > until_s:
                return
            tile_bytes = [*profiles][number % len(profiles)]
            made = _random_plan(profiles[tile_bytes], stages, generator)
            made = replace(made, tile_bytes=tile_bytes)
            pipeline = self._opened.pipeline(made, self.x)
            try:
                last_of_turn(partial(self._once_ms, pipeline), self._turn_s)
                (_, *later_ms), difference = self.runs_ms(pipeline, 4)
                replayed_ms = _replayed_ms(profiles[tile_bytes], made, pipeline.times)
            finally:
                pipeline.close()
            taken_ms = median(later_ms)
            yield {
                "configuration": number,
                "tier": self._case.tier.value,
                "residents": sum(made.resident),
                "memory_bytes": made.memory_bytes,
                "ms": round(taken_ms, 4),
                "predicted_ms": round(made.predicted_ms, 4),
                "error_of_model": round(made.predicted_ms / taken_ms - 1, 5),
                "last_ms": round(later_ms[-1], 4),
                "replayed_ms": round(replayed_ms, 4),
                "tile_bytes": made.tile_bytes,
                "bundle_bytes": made.bundle_bytes,
                "difference": difference,
            }


@final
class _StreamVariant:
    """One plan with its memory allocated."""

    def __init__(
        self,
        bench: _Bench,
        opened: StreamableNetwork,
        wanted: StreamPlan,
        layers: list[StreamedLayer],
    ) -> None:
        self._bench = bench
        self._opened = opened
        self._plan = wanted
        self._layers = layers
        self._pipeline = opened.pipeline(wanted, bench.x)
        self._difference = 0.0

    def once_ms(self) -> float:
        """One cold inference, after another one if the plan prefetches for the next."""
        taken_ms, difference = self._bench.runs_ms(self._pipeline, 1 + self._plan.ahead)
        self._difference = max(self._difference, difference)
        return taken_ms[-1]

    def first_ms(self, runs: int, turn_s: float) -> Row:
        """Delays with empty buffers, for plans that prefetch; each after a turn of other variants."""
        if not self._plan.ahead:
            return {}
        samples = []
        for _ in range(runs):
            last_of_turn(self.once_ms, turn_s)
            self._pipeline.empty_rings()
            (taken_ms,), difference = self._bench.runs_ms(self._pipeline, 1)
            self._difference = max(self._difference, difference)
            samples.append(taken_ms)
        return {
            "first_ms": round(median(samples), 4),
            "predicted_first_ms": round(self._plan.first_ms, 4),
        }

    def facts(self, taken_ms: float) -> Row:
        """Description and memory of the plan, for its row."""
        layers, wanted = self._layers, self._plan
        memory: MemoryUse = self._opened.memory(self._pipeline)
        kernels_ms = sum(layer.kernel_ms for layer in layers)
        reads = wanted.host_ring_bytes > 0
        brings_ms = max(
            sum(layer.read_ms for layer in layers) * reads, sum(layer.copy_ms for layer in layers)
        )
        row: dict[str, Any] = {
            "tier": self._opened.reader.tier.value,
            "said": self._opened.reader.description,
            "bit_exact": self._difference == 0,
            "difference": self._difference,
            "weight_bytes": memory.weights,
            "largest_bytes": self._opened.layered.largest_bytes,
            "plan_bytes": wanted.memory_bytes,
            "total_bytes": memory.total,
            **{
                f"{name}_bytes": getattr(memory, name)
                for name in ("host", "pinned", "device", "kept")
            },
            "saved": memory.saved,
            "saved_of_two": memory.saved_of_two,
            "transfer_to_kernels": brings_ms / kernels_ms,
            "residents": sum(wanted.resident),
            "tile_bytes": wanted.tile_bytes,
            "bundle_bytes": wanted.bundle_bytes,
        }
        if wanted.predicted_ms:
            row |= {
                "predicted_ms": round(wanted.predicted_ms, 4),
                "error_of_model": round(wanted.predicted_ms / taken_ms - 1, 5),
                "bound_ms": round(bound_ms(layers, wanted), 4),
                "least_ms": round(least_ms(layers, wanted), 4),
            }
        return row

    def close(self) -> None:
        """Free the memory."""
        self._pipeline.close()


def _against(resident_ms: float | None, samples_ms: Sequence[float]) -> Row:
    """Delay relative to the resident network; empty if that did not fit."""
    if resident_ms is None:
        return {}
    return {"against_resident": median(samples_ms) / resident_ms - 1}


def _without_reads(made: StreamPlan) -> StreamPlan:
    """The same plan if all weights are in host memory, so that nothing is read."""
    return replace(made, host_ring_bytes=0, memory_bytes=made.device_ring_bytes)


def _replayed_ms(
    layers: list[StreamedLayer], made: StreamPlan, taken: Sequence[LayerTimes]
) -> float:
    """Delay that the recurrence predicts from the times of the run itself instead of the profile."""
    merged, resident = bundled(layers, made.resident, made.bundle_bytes)
    timed = [replace(layer, **vars(times)) for layer, times in zip(merged, taken, strict=True)]
    return predicted(timed, replace(made, resident=tuple(resident), bundle_bytes=0)).predicted_ms


def _random_plan(
    layers: list[StreamedLayer], stages: StreamStages, generator: np.random.Generator
) -> StreamPlan:
    """Random residents and bundles, and a ring of one to four times the largest of those."""
    resident = tuple((generator.random(len(layers)) < generator.uniform(0, 0.8)).tolist())
    if all(resident):
        resident = (*resident[:-1], False)
    bundle_bytes = int(generator.choice(bundle_sizes(layers)))
    streamed = [
        layer.weight_bytes
        for layer, stays in zip(*bundled(layers, resident, bundle_bytes), strict=True)
        if not stays
    ]
    pages = max(streamed) // 4096
    host, device = (4096 * int(pages * generator.uniform(1, 4)) for _ in range(2))
    host, device = host * stages.reads, device * stages.copies
    kept = sum(layer.weight_bytes for layer in layers) - sum(streamed)
    memory_bytes = kept + host + device
    made = StreamPlan(
        *(resident, host, device, 0.0, memory_bytes),
        ahead=True,
        bundle_bytes=bundle_bytes,
    )
    return predicted(layers, made)
