"""A network that is called like a module while its weights are streamed from a disk."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import final

import torch
from torch import Tensor, nn

from edgenas_core.types.closeable import Closeable
from edgenas_core.types.units import parse_bytes
from edgenas_runtime.network.engine import CPU
from edgenas_runtime.weight_streaming.files.readers import Tier
from edgenas_runtime.weight_streaming.pipeline.pipeline import Pipeline
from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan
from edgenas_runtime.weight_streaming.streamable import (
    MemoryUse,
    StreamableNetwork,
    open_streamable,
    require_streamable,
)


@final
class StreamedNetwork(Closeable):
    """A network under a streaming plan; initialised by its example or its first call.

    Calls from several threads take turns. An error in an inference, including Ctrl-C, closes the
    network. An error of prefetching between two calls is raised by the next call.
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
        """Create the network from a budget or a plan.

        `opening` is called once and then released, with its model.

        Raises:
          BaseException: as `stream`.
        """
        self._budget_bytes = budget_bytes
        self._plan = plan
        self._ahead = ahead
        self._opening: Callable[[Tensor], StreamableNetwork] | None = opening
        self._lock = RLock()
        self._is_calling = False
        self._closed_by: str | None = None
        self._opened: StreamableNetwork | None = None
        self._pipeline: Pipeline | None = None
        self._layers: tuple[StreamedLayer, ...] = ()
        self._example: tuple[torch.Size, torch.dtype] | None = None
        if example is not None:
            with self._closing():
                self._initialise(example)

    @property
    def plan(self) -> StreamPlan:
        """The plan in use.

        Raises:
          RuntimeError: before initialisation, or after `close`.
        """
        if self._pipeline is None or self._plan is None:
            raise RuntimeError(
                "there is no plan: the network was closed, or not called yet; example= plans at once"
            )
        return self._plan

    @property
    def profile(self) -> tuple[StreamedLayer, ...]:
        """Measured layers; empty if the plan was given or all layers are resident."""
        return self._layers

    @property
    def memory(self) -> MemoryUse:
        """Current memory use of the weights.

        Raises:
          RuntimeError: before initialisation, or after `close`.
        """
        if self._opened is None or self._pipeline is None:
            raise RuntimeError(
                "no weights are in memory: the network was closed, or not called yet"
            )
        return self._opened.memory(self._pipeline)

    @property
    def source(self) -> str:
        """Tier of the weights and how they are read, in words.

        Raises:
          RuntimeError: before initialisation, or after `close`.
        """
        if self._opened is None:
            raise RuntimeError("no weights are open: the network was closed, or not called yet")
        return f"{self._opened.reader.tier.value}: {self._opened.reader.description}"

    def __call__(self, x: Tensor, *others: object) -> Tensor:
        """Return the output: the resident network's, bit for bit unless the plan has tiles.

        A tile is a matrix product of another shape. Where the library computes it in another order,
        outputs differ by rounding: in single precision by less than 1e-6 of the largest.

        Raises:
          ValueError: if the input differs from the first one in shape or type.
          TypeError: if the input is not one tensor.
          RuntimeError: after `close`, or within a call of its own.
          BaseException: any error of the inference, which closes the network.
        """
        if others:
            raise TypeError(
                f"the network was called with {1 + len(others)} inputs; it takes one tensor"
            )
        with self._lock:
            if self._is_calling:
                raise RuntimeError("the network was called within a call of its own")
            self._is_calling = True
            try:
                return self._called(x)
            finally:
                self._is_calling = False

    def _called(self, x: Tensor) -> Tensor:
        if self._closed_by is not None:
            raise RuntimeError(f"the network was closed {self._closed_by}".rstrip())
        if not isinstance(x, Tensor):
            raise TypeError(f"the input must be one tensor, not {type(x).__name__}")
        if self._example is not None and self._example != (x.shape, x.dtype):
            shape, dtype = self._example
            raise ValueError(
                f"the input is {tuple(x.shape)} of {x.dtype}, but the network was initialised "
                f"for {tuple(shape)} of {dtype}; call edgenas_runtime.stream again for another shape"
            )
        with self._closing():
            if self._pipeline is None:
                self._initialise(x)
            assert self._pipeline is not None
            assert self._opened is not None
            self._opened.reader.start_cold()
            return self._pipeline.run(x)

    def __del__(self) -> None:
        with suppress(AttributeError):  # the constructor failed
            self._release()

    def close(self) -> None:
        """Release all memory and the file, after an inference in progress has ended.

        Raises:
          RuntimeError: within a call of its own, as from a hook.
        """
        with self._lock:
            if self._is_calling:
                raise RuntimeError("the network cannot be closed within a call of its own")
            self._release()

    def _release(self) -> None:
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

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Close the network if the body raises."""
        try:
            yield
        except BaseException as error:
            self._closed_by = f"after {type(error).__name__}: {error}".removesuffix(": ")
            self._release()
            raise

    def _initialise(self, x: Tensor) -> None:
        opening, self._opening = self._opening, None
        assert opening is not None
        self._opened = opened = opening(x)
        if self._plan is None:
            assert self._budget_bytes is not None
            self._plan, layers = opened.plan(x, self._budget_bytes, ahead=self._ahead)
            self._layers = tuple(layers) if self._budget_bytes < opened.layered.weight_bytes else ()
        self._pipeline = opened.pipeline(self._plan, x)
        self._example = (x.shape, x.dtype)


def stream(
    model: nn.Module,
    example: Tensor | None = None,
    *,
    budget: str | int | None = None,
    tier: str | Tier = Tier.SSD,
    weights: str | Path | None = None,
    plan: StreamPlan | None = None,
    device: str | torch.device | None = None,
    ahead: bool = True,
) -> StreamedNetwork:
    """Run a network in less memory than its weights take; the result is called like the model.

        with edgenas_runtime.stream(model, budget="64MB") as small:
            y = small(x)

    The first call decomposes the network, packs its weights into a file, profiles the stages of each
    layer and plans. The model is not kept: delete yours, or its memory remains in use.

    Args:
      model: a chain or graph of layers in evaluation mode, with one input and one output tensor; on the
        meta device if `weights` is a file with its values, written by `edgenas_runtime.stream.pack`.
      example: an input; if given, the network is initialised now instead of at the first call.
      budget: bytes of rings and resident layers together: 64MB, 1.5GiB, a number. Linear and
        convolution layers that are too large for it are streamed in tiles.
      tier: storage of the other weights: `ssd` (bypassing the page cache), or `host` (all weights in
        memory of the CPU, for a GPU with too little memory; on a CPU it saves nothing).
      weights: the weight file; written if it does not exist, else it must be this model's.
      plan: a plan instead of a budget, from the planner or an earlier `.plan`.
      device: device of the kernels; the model's by default.
      ahead: whether to prefetch the first layers of the next inference while this one ends; otherwise
        the disk is idle between inferences. A `plan` has its own setting.

    Raises:
      TypeError: if the model is not a module, or the example not a tensor.
      ValueError: if not exactly one of budget and plan is given, or the budget is too small; the
        message names the smallest that works.
      OSError: if the file cannot be written or read, or is not this model's.
    """
    if (budget is None) == (plan is None):
        raise ValueError('give either a budget, as budget="64MB", or a plan')
    tier = Tier(tier)
    require_streamable(model, example)
    if weights is not None and not Path(weights).parent.is_dir():
        raise FileNotFoundError(
            f"weights={weights}: the folder {Path(weights).parent} does not exist"
        )
    opening = partial(
        open_streamable,
        model,
        tier=tier,
        weights=None if weights is None else Path(weights),
        device=None if device is None else _checked_device(device),
    )
    budget_bytes = None if budget is None else parse_bytes(budget)
    return StreamedNetwork(opening, example, budget_bytes=budget_bytes, plan=plan, ahead=ahead)


def streamed_inference(network: nn.Module, images: Tensor, budget: str) -> Callable[[], object]:
    """Return a callable that runs one inference of `stream(network, budget=budget)` on `images`.

    The weight file and the memory are released when the callable is garbage-collected.

    Raises:
      ValueError: if the budget is too small for the largest layer or tile.
    """
    network_in_budget = stream(network.eval(), images, budget=budget)
    inference = partial(network_in_budget, images)
    weakref.finalize(inference, network_in_budget.close)
    return inference


def _checked_device(name: str | torch.device) -> torch.device:
    """Return the device after checking that it exists.

    Raises:
      ValueError: if it does not exist, or is neither cpu nor cuda.
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
        raise ValueError(f"device={name}, but torch finds no CUDA device here; use device=cpu")
    if (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"device={name}, but torch finds {torch.cuda.device_count()} CUDA devices here"
        )
    return device
