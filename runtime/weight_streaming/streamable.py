"""A network cut into layers, with its weights where readers find them."""

from __future__ import annotations

import linecache
import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from traceback import walk_tb
from typing import final

import torch
from torch import Tensor, nn
from torch.fx.proxy import TraceError

from runtime.network.decompose import Rule, decompose
from runtime.weight_streaming.files.layers import (
    MERGED_BYTES,
    MERGED_COPIES_BYTES,
    LayeredNetwork,
    named_weights,
    split_layers,
)
from runtime.weight_streaming.files.readers import FileReader, HostReader, Reader, Tier
from runtime.weight_streaming.files.weight_file import fill_layer, pack, unwritable, write
from runtime.weight_streaming.memory_use import MemoryUse
from runtime.weight_streaming.pipeline.cpu_pipeline import CpuPipeline
from runtime.weight_streaming.pipeline.pipeline import Pipeline
from runtime.weight_streaming.planning.plan import Stages, StreamedLayer, StreamPlan
from runtime.weight_streaming.profiling import profiled, profiling_plan

SETTLE_S = 0.2
"""How long a GPU works before its times are believed: after idling it exceeds for about 0.1 s the
clock that its power allows (an H200, 24 against 27 ms for the same kernels)."""


@final
class StreamableNetwork:
    """A network's structure and where its weights are: what plans are tried on."""

    def __init__(self, layers: LayeredNetwork, reader: Reader, device: torch.device) -> None:
        """Of a reader that is closed with it."""
        self.layered = layers
        self.reader = reader
        self.device = device

    def pipeline(self, plan: StreamPlan, x: Tensor) -> Pipeline:
        """By a plan.

        Raises:
          BaseException: as the pipelines.
        """
        if self.device.type == "cuda":
            from runtime.weight_streaming.pipeline.gpu_pipeline import GpuPipeline  # noqa: PLC0415 - for those who have a GPU

            return GpuPipeline(self.layered, plan, self.reader, x, self.device)
        return CpuPipeline(self.layered, plan, self.reader)

    @property
    def stages(self) -> Stages:
        """Of what is planned here."""
        if self.device.type != "cuda":
            return Stages.READ_KERNEL
        is_kept = self.reader.tier is Tier.HOST
        return Stages.COPY_KERNEL if is_kept else Stages.READ_COPY_KERNEL

    def profile(
        self, x: Tensor, budget_bytes: int, stages: Stages | None = None
    ) -> list[StreamedLayer]:
        """The layers with the times of their stages, measured within a budget.

        Raises:
          BaseException: as the pipeline.
        """
        x = x.clone()  # a network may change its input
        plan = profiling_plan(self.layered, stages or self.stages, budget_bytes)
        pipeline = self.pipeline(plan, x)
        try:
            if self.device.type == "cuda":
                return profiled(
                    self.layered, pipeline, self.reader, x, repeats=7, settle_s=SETTLE_S
                )
            return profiled(self.layered, pipeline, self.reader, x)
        finally:
            pipeline.close()

    def memory(self, pipeline: Pipeline) -> MemoryUse:
        """While a pipeline is there."""
        own, held = pipeline.buffers, self.reader.held_bytes
        is_kept = self.reader.tier is Tier.HOST
        return MemoryUse(
            weights=self.layered.network_bytes,
            host=own.host_bytes,
            pinned=own.pinned_bytes,
            device=own.device_bytes,
            kept=held * is_kept,
            page_cache=held * (not is_kept),
        )

    def close(self) -> None:
        """Lets go of the weights."""
        self.reader.close()


def open_streamable(
    model: nn.Module,
    example: Tensor,
    *,
    tier: str | Tier = Tier.SSD,
    weights: Path | None = None,
    device: torch.device | None = None,
    always_checked: bool = False,
) -> StreamableNetwork:
    """Cuts a network and packs its weights, or opens the file in which they are packed.

    The model itself is not changed and not kept: what it takes of memory is its owner's to free.

    Args:
      model: in evaluation mode, of one tensor, giving one tensor; on the meta device if its weights
        are in the file.
      example: an input of the shape to come.
      tier: where weights are read from.
      weights: the file; written if it is not there, else it must be the model's. Without it there
        is a nameless one, gone with the process.
      device: of the kernels; the model's if not given.
      always_checked: whether checksums are compared at each reading, not only at the first.

    Raises:
      OSError: if the file cannot be written or read; WeightFileError if it is not the model's.
      ValueError: if the network cannot be cut.
    """
    tier = Tier(tier)
    home = home_of(model)
    if device is None:
        device = torch.device("cpu") if home.type == "meta" else home
    pinned = device.type == "cuda"
    in_memory = tier is Tier.HOST and weights is None
    # a file's layers are the same whatever uses it
    merged_bytes = MERGED_COPIES_BYTES if pinned and in_memory else MERGED_BYTES
    layers, values = cut(model, example.to(home, copy=True), merged_bytes)
    if in_memory:
        fill = [partial(fill_layer, layer, values) for layer in layers.layers]
        return StreamableNetwork(
            layers, HostReader(layers, lambda i, into: fill[i](into), pinned=pinned), device
        )
    read = partial(FileReader, direct=tier is Tier.SSD, always_checked=always_checked)
    if weights is None:
        file = _nameless(layers, values, read)
    else:
        if not weights.exists():
            pack(layers, values, weights)  # and somebody else may, before it is opened
        file = read(weights, layers, values)
    if tier is not Tier.HOST:
        return StreamableNetwork(layers, file, device)
    try:
        return StreamableNetwork(layers, HostReader(layers, file.read, pinned=pinned), device)
    finally:
        file.close()


def require_streamable(model: nn.Module, example: Tensor | None) -> None:
    """Refuses what was not built for inference.

    Raises:
      TypeError: if the model is no module, or the example no tensor.
      ValueError: if the model is in training mode.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"the model must be a torch.nn.Module, not {type(model).__name__}")
    if example is not None and not isinstance(example, Tensor):
        raise TypeError(f"the example must be one tensor, not {type(example).__name__}")
    if model.training:
        raise ValueError("the model is in training mode; call .eval() first")


def home_of(model: nn.Module) -> torch.device:
    """The device of all its weights.

    Raises:
      ValueError: if it has none, or they are on several.
    """
    own = {weight.device for _, weight in named_weights(model)}
    if not own:
        raise ValueError("the network has no weights: there is nothing to stream")
    if len(own) > 1:
        raise ValueError(f"the model's weights must be on one device, not on {own}")
    return own.pop()


def cut(
    model: nn.Module, example: Tensor, merged_bytes: int
) -> tuple[LayeredNetwork, dict[str, Tensor]]:
    """The layers, and the weights by the names that these call them.

    Raises:
      ValueError: if the network cannot be cut.
    """
    try:
        return split_layers(decompose(model, example, Rule.UNFOLDED), model, merged_bytes)
    except Exception as error:  # the model's own code ran, with what stands for tensors
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        why = kind + next(iter(str(error).splitlines()), "")
        raise ValueError(f"the network cannot be cut into layers: {why}{_found(error)}") from error


def _found(error: Exception) -> str:
    """The line of a module at which tracing ended, or its own code raised."""
    found = ""
    if isinstance(error, TraceError) or not isinstance(error, ValueError):  # of code that ran
        for frame, line in walk_tb(error.__traceback__):
            code = frame.f_code
            module = frame.f_locals.get(next(iter(code.co_varnames), ""))  # called self, mostly
            if code.co_name == "forward" and isinstance(module, nn.Module):
                text = linecache.getline(code.co_filename, line).strip()
                found = f" ({type(module).__name__}.forward, line {line}: {text})"
    return found


def _nameless(
    layers: LayeredNetwork, values: Mapping[str, Tensor], read: Callable[..., FileReader]
) -> FileReader:
    """A file without a name, on a disk and not in a /tmp that is memory; it ends with the process."""
    disk = Path("/var/tmp")  # noqa: S108 - the file has no name there
    where = disk if os.access(disk, os.W_OK) else Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryFile(dir=where) as file:
            write(layers, values, file)
            descriptor = os.dup(file.fileno())
    except OSError as error:
        raise unwritable(error, layers, str(where)) from error
    return read(where / "(nameless)", layers, {}, file=descriptor)  # {}: they were just written
