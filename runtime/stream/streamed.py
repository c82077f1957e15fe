"""A network that is called like a module while its weights come from a disk."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import final

import torch
from torch import Tensor, fx, nn

from runtime.decompose import Rule, decompose
from runtime.program import Program
from runtime.stream.cpu_pipeline import CpuPipeline
from runtime.stream.layers import (
    MERGED_BYTES,
    MERGED_COPIES_BYTES,
    Layered,
    layered,
    named_weights,
)
from runtime.stream.pipeline import Pipeline
from runtime.stream.planner import BudgetTooSmallError, smallest_budget
from runtime.stream.planner import plan as planned
from runtime.stream.profiling import profiled, profiling_plan, unmeasured
from runtime.stream.readers import FileReader, HostReader, Reader, Tier
from runtime.stream.sizes import parse_bytes, told_bytes
from runtime.stream.stages import Stages, StreamedLayer, StreamPlan
from runtime.stream.weight_file import fill_layer, pack

SETTLE_S = 0.2
"""How long a GPU works before its times are believed: after idling it exceeds for about 0.1 s the
clock that its power allows (an H200, 24 against 27 ms for the same kernels)."""


@final
@dataclass(frozen=True)
class MemoryUse:
    """What keeps weights, in bytes; activations are as in any network."""

    weights: int
    """Of the network, for comparison."""
    host: int
    """Rings and residents in plain memory of the CPU."""
    pinned: int
    """The ring in pinned memory of the CPU."""
    device: int
    """The ring and the residents in a GPU's memory."""
    kept: int
    """All weights, where they are kept in the CPU's memory (tier=host)."""
    page_cache: int
    """What of the file the system keeps in memory."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.host + self.pinned + self.device + self.kept + self.page_cache

    @property
    def saved(self) -> float:
        """Against the weights counted once, as a share."""
        return 1 - self.total / self.weights

    @property
    def saved_of_two(self) -> float:
        """Against a copy in host memory and one in device memory, as the source counts."""
        return 1 - self.total / (2 * self.weights)

    def __str__(self) -> str:
        parts = [
            f"{told_bytes(value)} {name}"
            for name, value in (
                ("host", self.host),
                ("pinned", self.pinned),
                ("device", self.device),
                ("kept in memory", self.kept),
                ("page cache", self.page_cache),
            )
            if value
        ]
        return (
            f"{' + '.join(parts)} for {told_bytes(self.weights)} of weights ({-self.saved:+.1%}; "
            f"{-self.saved_of_two:+.1%} against two copies)"
        )


@final
class Opened:
    """A network's structure and where its weights are: what plans are tried on."""

    def __init__(self, layers: Layered, reader: Reader, device: torch.device) -> None:
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
            from runtime.stream.gpu_pipeline import (  # noqa: PLC0415 - for those who have a GPU
                GpuPipeline,
            )

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
            weights=self.layered.weight_bytes,
            host=own.host_bytes,
            pinned=own.pinned_bytes,
            device=own.device_bytes,
            kept=held * is_kept,
            page_cache=held * (not is_kept),
        )

    def close(self) -> None:
        """Lets go of the weights."""
        self.reader.close()


def open_layers(
    model: nn.Module,
    example: Tensor,
    *,
    tier: Tier = Tier.SSD,
    weights: Path | None = None,
    device: torch.device | None = None,
    always_checked: bool = False,
) -> Opened:
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
    own = {weight.device for _, weight in named_weights(model)}
    if not own:
        raise ValueError("the network has no weights: there is nothing to stream")
    if len(own) > 1:
        raise ValueError(f"the model's weights must be on one device, not on {own}")
    (home,) = own
    if device is None:
        device = torch.device("cpu") if home.type == "meta" else home
    program = _cut(model, example.to(home))
    pinned = device.type == "cuda"
    in_memory = tier is Tier.HOST and weights is None
    # a file's layers are the same whatever uses it
    merged_bytes = MERGED_COPIES_BYTES if pinned and in_memory else MERGED_BYTES
    layers, values = layered(program, model, merged_bytes)
    if in_memory:
        fill = [partial(fill_layer, layer, values) for layer in layers.layers]
        return Opened(
            layers, HostReader(layers, lambda i, into: fill[i](into), pinned=pinned), device
        )
    with ExitStack() as temporary:
        path = weights
        if path is None:
            path = _nameless(temporary)
        if weights is None or not path.exists():
            pack(layers, values, path)
            values = {}  # nobody else's
        file = FileReader(
            path,
            layers,
            values,
            direct=tier is Tier.SSD,
            always_checked=always_checked,
        )
    if tier is not Tier.HOST:
        return Opened(layers, file, device)
    try:
        return Opened(layers, HostReader(layers, file.read, pinned=pinned), device)
    finally:
        file.close()


def _cut(model: nn.Module, example: Tensor) -> Program:
    try:
        return decompose(model, example, Rule.UNFOLDED)
    except (fx.proxy.TraceError, RuntimeError, TypeError) as error:
        raise ValueError(f"the network cannot be cut into layers: {error}") from error


def _nameless(opened: ExitStack) -> Path:
    """A file on a disk, not in a /tmp that is memory; its name goes when it has been opened."""
    disk = Path("/var/tmp")  # noqa: S108 - in a folder of its own, made by mkdtemp
    folder = disk if os.access(disk, os.W_OK) else None
    made = opened.enter_context(tempfile.TemporaryDirectory(prefix="edgenas-", dir=folder))
    return Path(made) / "weights.safetensors"


@final
class Streamed:
    """A network by a plan; made ready by its first call, or by the example.

    One inference at a time: calls from several threads take turns. After an error in an inference,
    Ctrl-C included, it is closed, for nobody knows what else the disk will do. An error in what is
    brought ahead, between two calls, is the next call's.
    """

    def __init__(
        self,
        model: nn.Module,
        example: Tensor | None,
        *,
        budget: str | int | None,
        tier: Tier,
        weights: Path | None,
        plan: StreamPlan | None,
        device: torch.device | None,
        always_checked: bool,
        ahead: bool,
    ) -> None:
        """As `stream`."""
        self._budget_bytes = None if budget is None else parse_bytes(budget)
        self._plan = plan
        self._ahead = ahead
        self._open = partial(
            open_layers,
            tier=tier,
            weights=weights,
            device=device,
            always_checked=always_checked,
        )
        self._model: nn.Module | None = model
        self._lock = Lock()
        self._closed_by: str | None = None
        self._opened: Opened | None = None
        self._pipeline: Pipeline | None = None
        self._layers: tuple[StreamedLayer, ...] = ()
        self._example: tuple[torch.Size, torch.dtype] | None = None
        if example is not None:
            with self._closing():
                self._make_ready(example)

    @property
    def plan(self) -> StreamPlan:
        """Where its weights are.

        Raises:
          RuntimeError: before it is ready.
        """
        if self._pipeline is None or self._plan is None:
            raise RuntimeError("there is no plan before the first call, if no example was given")
        return self._plan

    @property
    def profile(self) -> tuple[StreamedLayer, ...]:
        """The layers as they were measured; empty if the plan was given or everything fits."""
        return self._layers

    @property
    def memory(self) -> MemoryUse:
        """What keeps weights now.

        Raises:
          RuntimeError: before it is ready, or after it was closed.
        """
        if self._opened is None or self._pipeline is None:
            raise RuntimeError("nothing is in memory: the network is not ready, or closed")
        return self._opened.memory(self._pipeline)

    @property
    def said(self) -> str:
        """Where the weights come from, and how.

        Raises:
          RuntimeError: before it is ready, or after it was closed.
        """
        if self._opened is None:
            raise RuntimeError("nothing is open: the network is not ready, or closed")
        return f"{self._opened.reader.tier.value}: {self._opened.reader.said}"

    def __call__(self, x: Tensor) -> Tensor:
        """The network's output, bit for bit that of the resident network.

        Raises:
          ValueError: if the input differs from the first one in shape or type.
          RuntimeError: after it was closed.
          BaseException: whatever goes wrong on the way; it is closed then.
        """
        with self._lock:
            if self._closed_by is not None:
                raise RuntimeError(f"the network was closed {self._closed_by}".rstrip())
            if self._example is not None and self._example != (x.shape, x.dtype):
                shape, dtype = self._example
                raise ValueError(
                    f"the input is {tuple(x.shape)} of {x.dtype}, but the network was made ready "
                    f"for {tuple(shape)} of {dtype}; stream the model once more for another"
                )
            with self._closing():
                if self._pipeline is None:
                    self._make_ready(x)
                assert self._pipeline is not None
                assert self._opened is not None
                self._opened.reader.start_cold()
                return self._pipeline.run(x)

    def __enter__(self) -> Streamed:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # its construction failed
            self.close()

    def close(self) -> None:
        """Gives all memory back, and the file."""
        self._closed_by = self._closed_by or ""
        pipeline, self._pipeline = self._pipeline, None
        opened, self._opened = self._opened, None
        self._model = None
        try:
            if pipeline is not None:
                pipeline.close()
        finally:
            if opened is not None:
                opened.close()

    def _closing(self) -> ExitStack:
        """Closes it if the body raises."""
        stack = ExitStack()

        def leave(
            _kind: type[BaseException] | None,
            error: BaseException | None,
            _traceback: TracebackType | None,
        ) -> bool:
            if error is not None:
                self._closed_by = f"after {type(error).__name__}: {error}"
                self.close()
            return False

        stack.push(leave)
        return stack

    def _make_ready(self, x: Tensor) -> None:
        model, self._model = self._model, None
        assert model is not None
        self._opened = opened = self._open(model, x)
        if self._plan is None:
            self._plan = self._made_plan(opened, x)
        self._pipeline = opened.pipeline(self._plan, x)
        self._example = (x.shape, x.dtype)

    def _made_plan(self, opened: Opened, x: Tensor) -> StreamPlan:
        assert self._budget_bytes is not None
        layers, stages = unmeasured(opened.layered), opened.stages
        smallest = smallest_budget(layers, stages=stages)
        if self._budget_bytes < smallest:
            largest = max(layers, key=lambda layer: layer.weight_bytes)
            raise BudgetTooSmallError(self._budget_bytes, smallest, largest)
        if self._budget_bytes < opened.layered.weight_bytes:
            self._layers = tuple(layers := opened.profile(x, self._budget_bytes))
        return planned(layers, self._budget_bytes, stages=stages, ahead=self._ahead)


def stream(
    model: nn.Module,
    example: Tensor | None = None,
    *,
    budget: str | int | None = None,
    tier: str | Tier = Tier.SSD,
    weights: str | Path | None = None,
    plan: StreamPlan | None = None,
    device: str | torch.device | None = None,
    always_checked: bool = False,
    ahead: bool = True,
) -> Streamed:
    """A network that runs in less memory than its weights take; called like the model.

        with runtime.stream(model, budget="64MB") as small:
            y = small(x)

    Its first call cuts the network, packs its weights into a file, measures the stages of each
    layer once and plans. The model is not kept: delete yours, or its memory stays taken.

    Args:
      model: a chain or graph of layers, in evaluation mode, of one tensor, giving one tensor; on
        the meta device if `weights` holds its values.
      example: an input; if given, everything is made ready now and not at the first call.
      budget: bytes of rings and resident layers together: 64MB, 1.5GiB, a number.
      tier: where the rest is: `ssd`, read past the page cache; `page_cache`; `host`, all weights in
        memory of the CPU, for a GPU that is too small for them.
      weights: a file to keep them in; one that is there must hold this model's.
      plan: in place of a budget, of `runtime.stream.planner` or an earlier `.plan`.
      device: of the kernels; the model's if not given.
      always_checked: whether checksums are compared at each reading, not only at the first.
      ahead: whether the first layers of the next inference are brought into the ring as soon as this
        one leaves it, before the next is asked for; without it the disk rests between inferences. A
        `plan` says that itself.

    Raises:
      ValueError: if there is neither budget nor plan, or the budget is too small for the largest
        layer: it names the smallest that works.
      OSError: if the file cannot be written or read, or is not this model's.
    """
    if (budget is None) == (plan is None):
        raise ValueError('give a budget, as budget="64MB", or a plan, and not both')
    names = [one.value for one in Tier]
    if not isinstance(tier, Tier) and tier not in names:
        raise ValueError(f"tier={tier!r} must be one of {', '.join(names)}")
    if model.training:
        raise ValueError("the model is in training mode; call .eval() first")
    if device is not None and torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device}, but torch finds no CUDA device here; device=cpu is there"
        )
    if weights is not None and not Path(weights).parent.is_dir():
        raise FileNotFoundError(f"weights={weights}: there is no folder {Path(weights).parent}")
    return Streamed(
        model,
        example,
        budget=budget,
        tier=Tier(tier),
        weights=None if weights is None else Path(weights),
        plan=plan,
        device=None if device is None else torch.device(device),
        always_checked=always_checked,
        ahead=ahead,
    )
