"""A network that is called like a module while its weights come from a disk."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import final

import torch
from torch import Tensor, nn

from runtime.network.engine import CPU
from runtime.shell.closeable import Closes
from runtime.weight_streaming.byte_size import parse_bytes
from runtime.weight_streaming.files.readers import Tier
from runtime.weight_streaming.memory_use import MemoryUse
from runtime.weight_streaming.pipeline.pipeline import Pipeline
from runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.planner import BudgetTooSmallError, smallest_budget
from runtime.weight_streaming.planning.planner import plan as planned
from runtime.weight_streaming.profiling import unmeasured
from runtime.weight_streaming.streamable import (
    StreamableNetwork,
    open_streamable,
    require_streamable,
)


@final
class StreamedNetwork(Closes):
    """A network by a plan; made ready by its first call, or by the example.

    One inference at a time: calls from several threads take turns. After an error in an inference,
    Ctrl-C included, it is closed, for nobody knows what else the disk will do. An error in what is
    brought ahead, between two calls, is the next call's.
    """

    def __init__(
        self,
        opening: Callable[[Tensor], StreamableNetwork],
        example: Tensor | None,
        *,
        budget_bytes: int | None = None,
        plan: StreamPlan | None = None,
        ahead: bool = True,
    ) -> None:
        """With a budget or a plan.

        Args:
          opening: gives the network for an input, and then is let go, with the model it may hold.
          example: as of `stream`.
          budget_bytes: of which a plan is made.
          plan: in its place.
          ahead: whether the plan that is made goes on into the next inference.

        Raises:
          BaseException: as `stream`.
        """
        self._budget_bytes = budget_bytes
        self._plan = plan
        self._ahead = ahead
        self._opening: Callable[[Tensor], StreamableNetwork] | None = opening
        self._lock = RLock()  # a signal's handler may close amid a call of its own thread
        self._is_calling = False
        self._is_close_asked = False
        self._closed_by: str | None = None
        self._opened: StreamableNetwork | None = None
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
    def source(self) -> str:
        """Where the weights come from, and how.

        Raises:
          RuntimeError: before it is ready, or after it was closed.
        """
        if self._opened is None:
            raise RuntimeError("nothing is open: the network is not ready, or closed")
        return f"{self._opened.reader.tier.value}: {self._opened.reader.description}"

    def __call__(self, x: Tensor, *others: object) -> Tensor:
        """The network's output, bit for bit that of the resident network.

        Raises:
          ValueError: if the input differs from the first one in shape or type.
          TypeError: if it is not one tensor.
          RuntimeError: after it was closed.
          BaseException: whatever goes wrong on the way; it is closed then.
        """
        if others:
            raise TypeError(
                f"the network was given {1 + len(others)} inputs; one tensor goes in, and one comes out"
            )
        with self._lock:
            if self._is_calling:
                raise RuntimeError("the network is called within a call of its own")
            self._is_calling = True
            try:
                return self._called(x)
            finally:
                self._is_calling = False
                if self._is_close_asked:
                    self._let_go()

    def _called(self, x: Tensor) -> Tensor:
        if self._closed_by is not None:
            raise RuntimeError(f"the network was closed {self._closed_by}".rstrip())
        if not isinstance(x, Tensor):
            raise TypeError(f"the input must be one tensor, not {type(x).__name__}")
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

    def __del__(self) -> None:
        with suppress(AttributeError):  # its construction failed
            self._let_go()

    def close(self) -> None:
        """Gives all memory back, and the file; after the inference that is under way.

        Within a call, as a signal's handler or a hook may ask for it, it is done at the call's end.
        """
        with self._lock:
            if self._is_calling:
                self._is_close_asked = True
            else:
                self._let_go()

    def _let_go(self) -> None:
        self._closed_by = self._closed_by or ""
        pipeline, self._pipeline = self._pipeline, None
        opened, self._opened = self._opened, None
        self._opening = None
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
                self._closed_by = f"after {type(error).__name__}: {error}".removesuffix(": ")
                self._let_go()
            return False

        stack.push(leave)
        return stack

    def _make_ready(self, x: Tensor) -> None:
        opening, self._opening = self._opening, None
        assert opening is not None
        self._opened = opened = opening(x)
        if self._plan is None:
            self._plan = self._made_plan(opened, x)
        self._pipeline = opened.pipeline(self._plan, x)
        self._example = (x.shape, x.dtype)

    def _made_plan(self, opened: StreamableNetwork, x: Tensor) -> StreamPlan:
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
) -> StreamedNetwork:
    """A network that runs in less memory than its weights take; called like the model.

        with runtime.stream(model, budget="64MB") as small:
            y = small(x)

    Its first call cuts the network, packs its weights into a file, measures the stages of each
    layer once and plans. The model is not kept: delete yours, or its memory stays taken.

    Args:
      model: a chain or graph of layers, in evaluation mode, of one tensor, giving one tensor; on
        the meta device if `weights` holds its values, as `runtime.stream.pack` writes them.
      example: an input; if given, everything is made ready now and not at the first call.
      budget: bytes of rings and resident layers together: 64MB, 1.5GiB, a number.
      tier: where the rest is: `ssd`, read past the page cache; `page_cache`; `host`, all weights in
        memory of the CPU, for a GPU that is too small for them; on a CPU it saves nothing.
      weights: a file to keep them in; one that is there must hold this model's.
      plan: in place of a budget, of `runtime.weight_streaming.planning.planner` or an earlier `.plan`.
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
    tier = Tier(tier)
    require_streamable(model, example)
    if weights is not None and not Path(weights).parent.is_dir():
        raise FileNotFoundError(f"weights={weights}: there is no folder {Path(weights).parent}")
    opening = partial(
        open_streamable,
        model,
        tier=tier,
        weights=None if weights is None else Path(weights),
        device=None if device is None else _known(device),
        always_checked=always_checked,
    )
    budget_bytes = None if budget is None else parse_bytes(budget)
    return StreamedNetwork(opening, example, budget_bytes=budget_bytes, plan=plan, ahead=ahead)


def streamed_inference(network: nn.Module, images: Tensor, budget: str) -> Callable[[], object]:
    """Return a callable that runs one inference of `stream(network, budget=budget)` on `images`.

    The weight file and the memory are released when the callable is garbage-collected.

    Raises:
      ValueError: if the budget is too small for the largest layer.
    """
    network_in_budget = stream(network.eval(), images, budget=budget)
    inference = partial(network_in_budget, images)
    weakref.finalize(inference, network_in_budget.close)
    return inference


def _known(name: str | torch.device) -> torch.device:
    """The device, if kernels can run there.

    Raises:
      ValueError: if not.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name!r} must be cpu or cuda") from error
    if device.type == "cpu":
        return CPU
    if device.type != "cuda":
        raise ValueError(f"device={name} must be cpu or cuda")
    if not torch.cuda.is_available():
        raise ValueError(f"device={name}, but torch finds no CUDA device here; device=cpu is there")
    if (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={name}, but torch finds {torch.cuda.device_count()} here")
    return device
