"""A network decomposed into layers, with a reader of its weights."""

from __future__ import annotations

import linecache
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import final

import torch
from torch import Tensor, nn
from torch.fx.proxy import TraceError

from edgenas_core.types.units import format_bytes
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.weight_streaming.files.layers import (
    MERGED_BYTES,
    LayeredNetwork,
    named_weights,
    split_layers,
)
from edgenas_runtime.weight_streaming.files.readers import (
    FileReader,
    HostReader,
    Tier,
    WeightReader,
)
from edgenas_runtime.weight_streaming.files.tiles import tiled
from edgenas_runtime.weight_streaming.files.weight_file import (
    fill_layer,
    unwritable,
    write,
    write_packed,
)
from edgenas_runtime.weight_streaming.pipeline.cpu_pipeline import CpuPipeline
from edgenas_runtime.weight_streaming.pipeline.pipeline import Pipeline
from edgenas_runtime.weight_streaming.planning.bundles import bundles
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan, StreamStages
from edgenas_runtime.weight_streaming.planning.planner import (
    BudgetTooSmallError,
    plans,
    smallest_budget,
)
from edgenas_runtime.weight_streaming.profiling import (
    profiled,
    profiling_plan,
    steady_ms,
    unmeasured,
)

SETTLE_S = 0.2
"""Seconds that a GPU works before its times are used: after idling its clock exceeds for about 0.1 s the
one that its power allows (an H200: 24 instead of 27 ms for the same kernels)."""


_TILES_OF_A_RING = 2, 4
"""Numbers of tiles of the largest layers that a ring is to hold."""


_WORTH = 1.01
"""Factor by which a plan with tiles must be faster: without them outputs are exact."""

_TIMED, _NEAR = 4, 1.03
"""Most plans that are timed, and how much longer than the best one they may be predicted to take.

The model errs by 3 %, and the plan of the least prediction is one that it flatters.
"""


@final
@dataclass(frozen=True)
class MemoryUse:
    """Bytes of memory that hold weights; activations are not counted."""

    weights: int
    """Bytes of the network's weights, each counted once, for comparison."""
    host: int
    """Rings and resident layers in unpinned memory of the CPU."""
    pinned: int
    """Ring in pinned memory of the CPU."""
    device: int
    """Ring and resident layers in a GPU's memory."""
    kept: int
    """All weights, if they are kept in the CPU's memory (tier=host)."""

    @property
    def total(self) -> int:
        """Sum of all memory that holds weights."""
        return self.host + self.pinned + self.device + self.kept

    @property
    def saved(self) -> float:
        """Saving against the weights counted once, as a fraction."""
        return 1 - self.total / self.weights

    @property
    def saved_of_two(self) -> float:
        """Saving against one copy in host and one in device memory, as the paper counts."""
        return 1 - self.total / (2 * self.weights)

    def __str__(self) -> str:
        parts = [
            f"{format_bytes(value)} {name}"
            for name, value in (
                ("host", self.host),
                ("pinned", self.pinned),
                ("device", self.device),
                ("kept in memory", self.kept),
            )
            if value
        ]
        return (
            f"{' + '.join(parts)} for {format_bytes(self.weights)} of weights ({-self.saved:+.1%}; "
            f"{-self.saved_of_two:+.1%} against two copies)"
        )


@final
class StreamableNetwork:
    """A network's layers, reader and device, from which pipelines are made."""

    def __init__(self, layers: LayeredNetwork, reader: WeightReader, device: torch.device) -> None:
        """Take over the reader, which is closed with this object."""
        self.layered = layers
        self._pieces: dict[int, LayeredNetwork] = {}
        self.reader = reader
        self.device = device

    def pipeline(self, plan: StreamPlan, x: Tensor) -> Pipeline:
        """Create the pipeline of a plan.

        Raises:
          ValueError: if the plan has another number of layers.
          BaseException: as `CpuPipeline` and `GpuPipeline`.
        """
        layered = self.pieces(plan.tile_bytes)
        if len(plan.resident) != len(layered.layers):
            raise ValueError(
                f"the plan has {len(plan.resident)} layers, the network {len(layered.layers)}"
            )
        sizes = [layer.nbytes for layer in layered.layers]
        runs = [*bundles(sizes, plan.resident, plan.bundle_bytes)]
        layered = layered.merged(runs)
        plan = replace(plan, resident=tuple(plan.resident[run.start] for run in runs))
        if self.device.type == "cuda":
            from edgenas_runtime.weight_streaming.pipeline.gpu_pipeline import GpuPipeline  # noqa: PLC0415 - only with a GPU

            return GpuPipeline(layered, plan, self.reader, x, self.device)
        return CpuPipeline(layered, plan, self.reader)

    @property
    def stages(self) -> StreamStages:
        """Stages of the plans for this device and tier."""
        if self.device.type != "cuda":
            return StreamStages.READ_KERNEL
        is_kept = self.reader.tier is Tier.HOST
        return StreamStages.COPY_KERNEL if is_kept else StreamStages.READ_COPY_KERNEL

    def pieces(self, tile_bytes: int) -> LayeredNetwork:
        """Return the network with larger layers in tiles."""
        if tile_bytes not in self._pieces:
            self._pieces[tile_bytes] = tiled(self.layered, tile_bytes)
        return self._pieces[tile_bytes]

    def tile_sizes(self, budget_bytes: int) -> list[int]:
        """Return the tile sizes to choose from within a budget; 0 is without tiles.

        Raises:
          BudgetTooSmallError: if the smallest tiles do not fit.
        """
        if budget_bytes >= self.layered.weight_bytes:
            return [0]
        share = budget_bytes // (self.stages.reads + self.stages.copies)
        sizes = {0, *(max(MERGED_BYTES, share // count) for count in _TILES_OF_A_RING)}
        pieces = {len(self.pieces(size).layers): size for size in sorted(sizes, reverse=True)}
        fitting = [size for size in pieces.values() if self._smallest(size) <= budget_bytes]
        if fitting:
            return fitting
        if self._smallest(MERGED_BYTES) > budget_bytes:
            layers = unmeasured(self.pieces(MERGED_BYTES))
            largest = max(layers, key=lambda layer: layer.weight_bytes)
            raise BudgetTooSmallError(budget_bytes, self._smallest(MERGED_BYTES), largest)
        return [MERGED_BYTES]

    def _smallest(self, tile_bytes: int) -> int:
        return smallest_budget(unmeasured(self.pieces(tile_bytes)), stages=self.stages)

    def plan(
        self, x: Tensor, budget_bytes: int, *, ahead: bool = True
    ) -> tuple[StreamPlan, list[StreamedLayer]]:
        """Return the fastest plan within a budget, and the measured layers that it is for.

        Those that are predicted to take about as long as the fastest are timed. Nothing is measured if all
        layers can be resident.

        Raises:
          BudgetTooSmallError: if no plan fits.
          BaseException: as the pipeline.
        """
        made = []
        for tile_bytes in self.tile_sizes(budget_bytes):
            layers = unmeasured(self.pieces(tile_bytes))
            if budget_bytes < self.layered.weight_bytes:
                layers = self.profile(x, budget_bytes, tile_bytes=tile_bytes)
            fastest = plans(layers, budget_bytes, stages=self.stages, ahead=ahead)
            made += [(replace(each, tile_bytes=tile_bytes), layers) for each in fastest]
        made.sort(key=lambda pair: _worth_ms(pair[0], pair[0].predicted_ms))
        most_ms = _NEAR * _worth_ms(made[0][0], made[0][0].predicted_ms)
        near = [pair for pair in made if _worth_ms(pair[0], pair[0].predicted_ms) <= most_ms]
        if len(near) == 1 or budget_bytes >= self.layered.weight_bytes:
            return near[0]
        return min(near[:_TIMED], key=lambda pair: _worth_ms(pair[0], self._taken_ms(pair[0], x)))

    def _taken_ms(self, plan: StreamPlan, x: Tensor) -> float:
        """Measure an inference by a plan, which holds memory meanwhile."""
        pipeline = self.pipeline(plan, x)
        settle_s = SETTLE_S if self.device.type == "cuda" else 0.0
        try:
            return steady_ms(pipeline, self.reader, x.clone(), settle_s=settle_s)
        finally:
            pipeline.close()

    def profile(
        self,
        x: Tensor,
        budget_bytes: int,
        stages: StreamStages | None = None,
        *,
        tile_bytes: int = 0,
    ) -> list[StreamedLayer]:
        """Measure the stage times of the layers, or of their tiles, within a budget.

        Raises:
          BaseException: as the pipeline.
        """
        x = x.clone()  # a network may change its input
        layered = self.pieces(tile_bytes)
        plan = profiling_plan(layered, stages or self.stages, budget_bytes)
        plan = replace(plan, tile_bytes=tile_bytes)
        pipeline = self.pipeline(plan, x)
        try:
            if self.device.type == "cuda":
                return profiled(layered, pipeline, self.reader, x, repeats=7, settle_s=SETTLE_S)
            return profiled(layered, pipeline, self.reader, x)
        finally:
            pipeline.close()

    def memory(self, pipeline: Pipeline) -> MemoryUse:
        """Return the current memory use with a pipeline."""
        buffers = pipeline.buffers
        return MemoryUse(
            weights=self.layered.network_bytes,
            host=buffers.host_bytes,
            pinned=buffers.pinned_bytes,
            device=buffers.device_bytes,
            kept=self.reader.held_bytes,
        )

    def close(self) -> None:
        """Close the reader."""
        self.reader.close()


def _worth_ms(plan: StreamPlan, ms: float) -> float:
    """Time of a plan, longer where it has tiles."""
    return ms * _WORTH ** (plan.tile_bytes > 0)


def open_streamable(
    model: nn.Module,
    example: Tensor,
    *,
    tier: str | Tier = Tier.SSD,
    weights: Path | None = None,
    device: torch.device | None = None,
) -> StreamableNetwork:
    """Decompose a network and pack its weights, or open a file with its packed weights.

    The model is not changed and not kept: the caller may free its memory.

    Args:
      model: a model in evaluation mode, with one input and one output tensor; on the meta device if
        its weights are in the file.
      example: an input of the shape and type to come.
      tier: storage tier of the weights.
      weights: the weight file; written if it does not exist, else it must be the model's. Without it an
        unnamed temporary file is used.
      device: device of the kernels; the model's by default.

    Raises:
      OSError: if the file cannot be written or read; WeightFileError if it is not the model's.
      ValueError: if the network cannot be decomposed.
    """
    tier = Tier(tier)
    model_device = device_of(model)
    if device is None:
        device = torch.device("cpu") if model_device.type == "meta" else model_device
    pinned = device.type == "cuda"
    in_memory = tier is Tier.HOST and weights is None
    layers, values = cut(model, example.to(model_device, copy=True))
    if in_memory:
        fill = partial(fill_layer, values)
        return StreamableNetwork(layers, HostReader(layers, fill, pinned=pinned), device)
    if weights is None:
        file = _write_unnamed(layers, values)
    else:
        if not weights.exists():
            write_packed(
                layers, values, weights
            )  # another process may replace it before it is opened
        file = FileReader(weights, layers, values)
    if tier is not Tier.HOST:
        return StreamableNetwork(layers, file, device)
    try:
        return StreamableNetwork(layers, HostReader(layers, file.read, pinned=pinned), device)
    finally:
        file.close()


def require_streamable(model: nn.Module, example: Tensor | None) -> None:
    """Check that the model can be used for inference.

    Raises:
      TypeError: if the model is not a module, or the example not a tensor.
      ValueError: if the model is in training mode.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    if example is not None and not isinstance(example, Tensor):
        raise TypeError(f"the example must be one tensor, not {type(example).__name__}")
    if model.training:
        raise ValueError("the model is in training mode; call .eval() first")


def device_of(model: nn.Module) -> torch.device:
    """Return the device of the model's weights.

    Raises:
      ValueError: if it has no weights, or they are on several devices.
    """
    devices = {weight.device for _, weight in named_weights(model)}
    if not devices:
        raise ValueError("the network has no weights: there is nothing to stream")
    if len(devices) > 1:
        raise ValueError(f"the model's weights must be on one device, not on {devices}")
    return devices.pop()


def cut(model: nn.Module, example: Tensor) -> tuple[LayeredNetwork, dict[str, Tensor]]:
    """Decompose a network into layers; return them and the weights by name.

    Raises:
      ValueError: if the network cannot be decomposed.
    """
    try:
        return split_layers(decompose(model, example, Rule.UNFOLDED), model)
    except Exception as error:  # the model's own code runs during tracing
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        reason = kind + next(iter(str(error).splitlines()), "")
        raise ValueError(
            f"the network cannot be cut into layers: {reason}{_location(error)}"
        ) from error


def _location(error: Exception) -> str:
    """Return the line of a module's forward at which tracing failed."""
    location = ""
    is_of_model = isinstance(error, TraceError) or not isinstance(error, ValueError)
    if is_of_model:
        for frame, line in walk_tb(error.__traceback__):
            code = frame.f_code
            module = frame.f_locals.get(next(iter(code.co_varnames), ""))  # usually named self
            if code.co_name == "forward" and isinstance(module, nn.Module):
                text = linecache.getline(code.co_filename, line).strip()
                location = f" ({type(module).__name__}.forward, line {line}: {text})"
    return location


def _write_unnamed(layers: LayeredNetwork, values: Mapping[str, Tensor]) -> FileReader:
    """Write an unnamed file, which ends with the process, on a disk rather than a tmpfs."""
    disk = Path("/var/tmp")  # noqa: S108 - the file is unnamed
    where = disk if os.access(disk, os.W_OK) else Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryFile(dir=where) as file:
            write(layers, values, file)
            descriptor = os.dup(file.fileno())
    except OSError as error:
        raise unwritable(error, layers, str(where)) from error
    return FileReader(where / "(unnamed)", layers, values, file=descriptor)
