"""`edgenas_runtime.run`: runs torch modules together on the lanes of this machine and reports the result."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from typing import Any

import onnxruntime
import torch
from torch import Tensor, nn
from torch.func import functional_call

from edgenas_core.inference.formats.tracing import differs
from edgenas_runtime.lanes.base import RealLane
from edgenas_runtime.lanes.cpu import CpuLane
from edgenas_runtime.lanes.executor import ServedNetwork, execute, measured_chain
from edgenas_runtime.lanes.report import Report, report_of
from edgenas_runtime.lanes.watch import watch_disturbances
from edgenas_runtime.network.compiled import Compiled
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.network.engine import EagerEngine, OnnxEngine
from edgenas_runtime.network.packed import ModelInput, Packed, is_plain, tensors_of
from edgenas_runtime.scheduling.arrivals import closed, periodic
from edgenas_runtime.scheduling.chain import Request, check_requests
from edgenas_runtime.scheduling.policies.base import Policy
from edgenas_runtime.scheduling.policies.rules import POLICIES


def run(
    models: Sequence[nn.Module],
    inputs: Sequence[ModelInput] | None = None,
    *,
    policy: str | Policy = "earliest_finish",
    inferences: int = 20,
    fps: float | None = None,
    deadline_ms: float | None = None,
    requests: Sequence[Request] | None = None,
    rule: str = "whole",
    engine: str = "onnxruntime",
    gpu: bool | None = None,
) -> Report:
    """Run networks together on the cores of this machine, and on its GPU if it has one.

    CPU lanes use ONNX Runtime, the GPU lane uses captured CUDA graphs. Each network is first compiled
    for and timed on each kind of lane.

    Args:
      models: modules in evaluation mode, from tensors to tensors.
      inputs: one input per model: a tensor, a tuple of positional arguments or a dict of keyword
        arguments; None for random images of a size that the model accepts, which the report names.
      policy: earliest_finish, queue_time, by_network, one_lane, or a `Policy`.
      inferences: number of inferences of each network.
      fps: arrival rate of each network; None for all inferences at time 0.
      deadline_ms: relative to each arrival; None for the next arrival, or no deadline without `fps`.
      requests: your own arrivals (`edgenas_runtime/scheduling/arrivals.py`), with deadlines,
        instead of `inferences`, `fps` and `deadline_ms`.
      rule: how networks are cut into jobs: whole, fused, unfolded or layer.
      engine: what runs them: onnxruntime on cores and CUDA graphs on a GPU, or torch, eager on both,
        for modules that cannot be compiled.
      gpu: whether to use the GPU; None to use it if there is one.

    Raises:
      ValueError: if an argument is invalid, a model cannot be cut or does not accept its input, or an
        output is not that of the model in eager torch.
      RuntimeError: if a model cannot be compiled, or `gpu=True` and there is no GPU.
    """
    examples = [*_assumed(models)] if inputs is None else inputs
    _check_networks(models, examples)
    _check_load(inferences, fps, deadline_ms)
    _check_engine(engine, gpu=gpu)
    cut, chosen = _rule(rule), _policy(policy)
    asked = _asked(requests, len(models), inferences, fps, deadline_ms)
    prepared = [
        _one_tensor(i, model, x) for i, (model, x) in enumerate(zip(models, examples, strict=True))
    ]
    with ExitStack() as opened:
        lanes = _lanes(opened, gpu=torch.cuda.is_available() if gpu is None else gpu)
        networks = [*_compiled(models, prepared, cut, lanes, is_eager=engine == "torch")]
        watch = watch_disturbances(on_gpu=len(lanes) > 0 and lanes[0].engine.device.type == "cuda")
        schedule, results = execute(networks, asked, lanes, chosen)
        disturbances = watch.disturbances()
    _require_as_eager([module for module, _ in prepared], [x for _, x in prepared], asked, results)
    report = report_of(schedule, results, examples if inputs is None else ())
    outputs = tuple(
        _unpacked(module, output)
        for (module, _), output in zip(prepared, report.outputs, strict=True)
    )
    return replace(report, outputs=outputs, disturbances=tuple(disturbances))


_ENGINES = ("onnxruntime", "torch")


def _check_engine(engine: str, *, gpu: bool | None) -> None:
    if gpu and not torch.cuda.is_available():
        raise RuntimeError("gpu=True, but torch finds no CUDA device; use gpu=False")
    if engine not in _ENGINES:
        raise ValueError(f"engine={engine!r} must be one of {', '.join(_ENGINES)}")


def _asked(
    requests: Sequence[Request] | None,
    count: int,
    inferences: int,
    fps: float | None,
    deadline_ms: float | None,
) -> tuple[Request, ...]:
    """Arrivals at `count` models; ValueError if the caller's own are none, or have other settings beside them."""
    if requests is None:
        return _requests(count, inferences, fps, deadline_ms)
    if fps is not None or deadline_ms is not None or not requests:
        raise ValueError("requests must not be empty, and excludes fps and deadline_ms")
    check_requests(requests, count)
    return tuple(requests)


def _compiled(
    models: Sequence[nn.Module],
    prepared: Sequence[tuple[nn.Module, Tensor]],
    rule: Rule,
    lanes: Sequence[RealLane],
    *,
    is_eager: bool,
) -> Iterator[ServedNetwork]:
    """Each network, compiled for every lane and timed there."""
    engines = [EagerEngine(lane.engine.device) if is_eager else lane.engine for lane in lanes]
    for i, (model, (module, x)) in enumerate(zip(models, prepared, strict=True)):
        with _named(i, model, "take engine='torch' and rule='whole', or change that line"):
            compiled = Compiled(decompose(module, x, rule), x, engines)
        name = f"{type(model).__name__}#{i}"
        yield ServedNetwork(compiled, x, measured_chain(name, compiled, x, lanes, repeats=3))


def _unpacked(module: nn.Module, output: Any) -> Any:
    """An output in the form in which the model returns it."""
    if isinstance(module, Packed) and isinstance(output, Tensor):
        return module.unpack(output)
    return output


def _one_tensor(number: int, model: nn.Module, example: ModelInput) -> tuple[nn.Module, Tensor]:
    """The model as a module from one tensor to one tensor, and its input as one."""
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors_of(example))
    with _named(
        number, model, "call it by itself on an input that it takes", f" of shape {shapes}"
    ):
        if isinstance(example, tuple) and len(example) == 1:
            (example,) = example
        if isinstance(example, Tensor) and is_plain(model, example):
            return model, example
        packed = Packed(model, example)
        return packed, packed.pack(example)


@contextmanager
def _named(number: int, model: nn.Module, way_out: str, of_shape: str = "") -> Iterator[None]:
    """Name the model, the line of code and the way out in an error, in one line."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        if len(reason) > _LONGEST:
            reason = f"{reason[:_LONGEST]} ..."
        where = _line_in_model(error)
        kind = ValueError if of_shape or not isinstance(error, RuntimeError) else RuntimeError
        with_input = f" with its input{of_shape}" if of_shape else ""
        raise kind(
            f"model {number} ({type(model).__name__}){where} cannot be run{with_input}: {reason}; {way_out} "
            f"(runtime/docs/reference.md)"
        ) from error


_LONGEST = 400
"""Characters of a reason; torch's own may have a thousand lines."""

_NOT_THEIRS = (
    *(str(Path(file).parent) for file in (torch.__file__, onnxruntime.__file__)),
    str(Path(__file__).parents[1]),
    contextlib.__file__,
)
"""Folders and files whose lines are not the model's."""


def _line_in_model(error: BaseException) -> str:
    """The innermost line of an error that is neither torch's nor ours, as ` at file:line`."""
    while error.__cause__ is not None and error.__cause__.__traceback__ is not None:
        error = error.__cause__
    lines = [
        f" at {frame.filename}:{frame.lineno}"
        for frame in extract_tb(error.__traceback__)
        if not frame.filename.startswith((*_NOT_THEIRS, "<"))
    ]
    return lines[-1] if lines else ""


def _assumed(models: Sequence[nn.Module]) -> Iterator[Tensor]:
    for i, model in enumerate(models if isinstance(models, Sequence) else ()):
        if not isinstance(model, nn.Module):
            return  # `_check_networks` reports it
        try:
            yield default_input(model)
        except ValueError as error:
            raise ValueError(f"model {i}: {error}") from error


def _check_networks(models: Sequence[nn.Module], inputs: Sequence[ModelInput]) -> None:
    for name, values in (("models", models), ("inputs", inputs)):
        if isinstance(values, nn.Module | Tensor):
            raise ValueError(f"{name} is a {type(values).__name__}; give a list: {name}=[...]")  # noqa: TRY004 - one kind of error for all arguments
    if not models or len(models) != len(inputs):
        raise ValueError(
            f"{len(models)} models and {len(inputs)} inputs: give at least one model, and one input "
            "per model"
        )
    for i, (model, x) in enumerate(zip(models, inputs, strict=True)):
        if not isinstance(model, nn.Module):
            raise ValueError(f"model {i} is {model!r:.60}, not a torch.nn.Module")  # noqa: TRY004 - the caller's value, not its type, is wrong
        if not isinstance(x, Tensor | tuple | dict) or (isinstance(x, Tensor) and x.numel() == 0):
            raise ValueError(
                f"input {i} must be a non-empty tensor, a tuple of positional or a dict of keyword arguments"
            )
        if model.training:
            raise ValueError(f"model {i} is in training mode; call .eval() first")


def _check_load(inferences: int, fps: float | None, deadline_ms: float | None) -> None:
    if not isinstance(inferences, int):
        raise ValueError(f"inferences={inferences!r} must be an integer above 0")  # noqa: TRY004 - the caller's value, not its type, is wrong
    for name, value in (("inferences", inferences), ("fps", fps), ("deadline_ms", deadline_ms)):
        if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ValueError(f"{name}={value!r} must be above 0 and finite")
    if fps is not None and not 1e3 / fps * inferences < math.inf:
        raise ValueError(f"fps={fps} is too low for a second frame to arrive")


def _require_as_eager(
    models: Sequence[nn.Module],
    inputs: Sequence[Tensor],
    requests: Sequence[Request],
    results: Sequence[Tensor | BaseException],
) -> None:
    """Compare every output with eager torch on the same input."""
    for i, (model, x) in enumerate(zip(models, inputs, strict=True)):
        with torch.inference_mode():
            expected = model(x.clone())
        for request, result in zip(requests, results, strict=True):
            if request.network != i or isinstance(result, BaseException):
                continue
            if differs(result, expected.to(result.device)):
                raise ValueError(
                    f"model {i} ({type(model).__name__}) gives another output when it is compiled: its "
                    f"forward depends on values, on chance or on state that a graph does not hold"
                )


def _rule(rule: str) -> Rule:
    rules = [way.value for way in Rule if way is not Rule.CELL]
    if rule not in rules:
        raise ValueError(f"rule={rule!r} must be one of {', '.join(rules)}")
    return Rule(rule)


def _policy(policy: str | Policy) -> Policy:
    if isinstance(policy, str) and policy in POLICIES:
        return POLICIES[policy]()
    if isinstance(policy, str | type) or not callable(getattr(policy, "place", None)):
        raise ValueError(  # noqa: TRY004 - the caller's value, not its type, is wrong
            f"policy={policy!r} must be one of {', '.join(POLICIES)}, "
            "or an object with a `place` method"
        )
    return policy


def _lanes(opened: ExitStack, *, gpu: bool) -> list[RealLane]:
    lanes: list[RealLane] = []
    if gpu:
        from edgenas_runtime.lanes.gpu import GpuLane  # noqa: PLC0415 - needs a GPU

        lanes.append(opened.enter_context(GpuLane()))
    engine = OnnxEngine()
    can_pin = hasattr(os, "sched_getaffinity")
    cores = sorted(os.sched_getaffinity(0)) if can_pin else range(os.cpu_count() or 1)
    for core in cores:
        lane = CpuLane(core if can_pin else None, name=f"cpu{core}", engine=engine)
        lanes.append(opened.enter_context(lane))
    return lanes


def _requests(
    networks: int, inferences: int, fps: float | None, deadline_ms: float | None
) -> tuple[Request, ...]:
    if fps is None:
        if deadline_ms is None:
            return closed(networks, inferences)
        return tuple(
            Request(request.network, request.arrival_ms, deadline_ms)
            for request in closed(networks, inferences)
        )
    return tuple(
        request
        for network in range(networks)
        for request in periodic(network, 1e3 / fps, inferences, deadline_ms=deadline_ms)
    )


_SIDES = (224, 32, 28)
"""Image sides of ImageNet, CIFAR and MNIST; a network with adaptive pooling accepts the first."""


def default_input(module: nn.Module) -> Tensor:
    """Return a random input of batch size 1: the first of 224, 32 and 28 pixels that works.

    The number of channels or values is that of the first convolution or linear layer. Shapes are
    tried on the meta device, without computing anything.

    Raises:
      ValueError: if the module accepts none of these shapes.
    """
    tensors = chain(module.named_parameters(), module.named_buffers())
    weightless = {name: tensor.to("meta") for name, tensor in tensors}
    for shape in _shapes(module):
        try:
            with torch.no_grad():
                functional_call(module, weightless, (torch.empty(shape, device="meta"),))
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            continue
        return torch.randn(shape)
    raise ValueError(
        f"no input shape for {type(module).__name__} was found; pass an example in inputs=[...]"
    )


def _shapes(module: nn.Module) -> Iterator[tuple[int, ...]]:
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            yield from ((1, layer.in_channels, side, side) for side in _SIDES)
            return
        if isinstance(layer, nn.Linear):
            yield 1, layer.in_features
            return
