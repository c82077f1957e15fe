"""From plain modules to results and a report, on whatever this machine has."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from runtime.lanes.cpu import CpuLane, RealLane
from runtime.lanes.executor import Network, execute
from runtime.lanes.profile import measured_chain
from runtime.lanes.report import Report, report_of
from runtime.network.compiled import Compiled
from runtime.network.decompose import Rule, decompose
from runtime.network.default_input import default_input
from runtime.network.engine import OnnxEngine
from runtime.scheduling.arrivals import closed, periodic
from runtime.scheduling.chain import Request, check_requests
from runtime.scheduling.order import Order
from runtime.scheduling.policies.base import Policy
from runtime.scheduling.policies.look_ahead import LookAhead
from runtime.scheduling.policies.rules import ByNetwork, EarliestFinish, OneLane, QueueTime

POLICIES: dict[str, Policy] = {
    "earliest_finish": EarliestFinish(),
    "queue_time": QueueTime(),
    "look_ahead": LookAhead(),
    "by_network": ByNetwork(),
    "one_lane": OneLane(),
}


def run(
    models: Sequence[nn.Module],
    inputs: Sequence[Tensor] | None = None,
    *,
    policy: str | Policy = "earliest_finish",
    inferences: int = 20,
    fps: float | None = None,
    deadline_ms: float | None = None,
    requests: Sequence[Request] | None = None,
    order: str = "first_come",
    rule: str = "whole",
    gpu: bool | None = None,
) -> Report:
    """Runs networks together on the cores of this machine, and on its GPU if it has one.

    Cores compute with ONNX Runtime, the GPU with captured graphs. Each network is made ready and
    measured on each kind of lane first, which takes a moment.

    Args:
      models: in evaluation mode, of one tensor, giving one tensor.
      inputs: an input of each, with its batch first; None for random images of a size that each
        takes (`default_input.py`), which the report names.
      policy: earliest_finish, queue_time, look_ahead, by_network, one_lane, or an object of your
        own.
      inferences: of each network.
      fps: of each network's camera; None to ask for all inferences at once.
      deadline_ms: after each arrival; None for the next arrival, or none if all come at once.
      requests: arrivals of your own (`runtime/scheduling/arrivals.py`), with deadlines and priorities, in place
        of `inferences`, `fps` and `deadline_ms`.
      order: who comes first of those who wait: first_come, priority, deadline.
      rule: where networks are cut into jobs: whole, fused, unfolded or layer.
      gpu: whether one takes part; None if there is one.

    Raises:
      ValueError: if an argument is not as said, or a model cannot be cut or cannot take its input.
      RuntimeError: if a model cannot be written as ONNX, or there is no GPU but one was asked for.
    """
    given = [*_assumed(models)] if inputs is None else inputs
    _check_networks(models, given)
    _check_load(inferences, fps, deadline_ms)
    cut, chosen = _rule(rule), _policy(policy)
    if requests is None:
        asked = _requests(len(models), inferences, fps, deadline_ms)
    elif fps is None and deadline_ms is None and len(requests) > 0:
        check_requests(requests, len(models))
        asked = tuple(requests)
    else:
        raise ValueError("requests has arrivals and deadlines of its own, and one request at least")
    orders = [one.value for one in Order]
    if order not in orders:
        raise ValueError(f"order={order!r} must be one of {', '.join(orders)}")
    if gpu and not torch.cuda.is_available():
        raise RuntimeError("gpu=True, but torch finds no CUDA device here; gpu=False is there")
    with ExitStack() as opened:
        lanes = _lanes(opened, gpu=torch.cuda.is_available() if gpu is None else gpu)
        networks = []
        for i, (model, x) in enumerate(zip(models, given, strict=True)):
            try:
                program = decompose(model, x, cut)
            except (RuntimeError, TypeError) as error:
                told = " ".join(str(error).split())
                raise ValueError(
                    f"model {i} cannot be run with its input of shape {tuple(x.shape)}: {told}"
                ) from error
            compiled = Compiled(program, x, [lane.engine for lane in lanes])
            name = f"{type(model).__name__}#{i}"
            networks.append(
                Network(compiled, x, measured_chain(name, compiled, x, lanes, repeats=3))
            )
        schedule, results = execute(networks, asked, lanes, chosen, order=Order(order))
    return report_of(schedule, results, given if inputs is None else ())


def _assumed(models: Sequence[nn.Module]) -> Iterator[Tensor]:
    for i, model in enumerate(models if isinstance(models, Sequence) else ()):
        if not isinstance(model, nn.Module):
            return  # as is told of it
        try:
            yield default_input(model)
        except ValueError as error:
            raise ValueError(f"model {i}: {error}") from error


def _check_networks(models: Sequence[nn.Module], inputs: Sequence[Tensor]) -> None:
    for of, given in (("models", models), ("inputs", inputs)):
        if isinstance(given, nn.Module | Tensor):
            raise ValueError(f"{of} is a {type(given).__name__}; give a list, as {of}=[...]")  # noqa: TRY004 - one kind of error for all arguments
    if not models or len(models) != len(inputs):
        raise ValueError(
            f"{len(models)} models and {len(inputs)} inputs: give one input a model, and a model"
        )
    for i, (model, x) in enumerate(zip(models, inputs, strict=True)):
        if not isinstance(model, nn.Module):
            raise ValueError(f"model {i} is {model!r:.60}, not a torch.nn.Module")  # noqa: TRY004 - likewise
        if not isinstance(x, Tensor) or x.numel() == 0:
            raise ValueError(f"input {i} must be a tensor that is not empty, with its batch first")
        if model.training:
            raise ValueError(f"model {i} is in training mode; call .eval() first")


def _check_load(inferences: int, fps: float | None, deadline_ms: float | None) -> None:
    if not isinstance(inferences, int):
        raise ValueError(f"inferences={inferences!r} must be a whole number above 0")  # noqa: TRY004 - likewise
    for name, value in (("inferences", inferences), ("fps", fps), ("deadline_ms", deadline_ms)):
        if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ValueError(f"{name}={value!r} must be above 0 and finite")
    if fps is not None and not 1e3 / fps * inferences < math.inf:
        raise ValueError(f"fps={fps} lets no second frame arrive")


def _rule(rule: str) -> Rule:
    rules = [one.value for one in Rule if one is not Rule.CELL]
    if rule not in rules:
        raise ValueError(f"rule={rule!r} must be one of {', '.join(rules)}")
    return Rule(rule)


def _policy(policy: str | Policy) -> Policy:
    if isinstance(policy, str):
        found = POLICIES.get(policy)
        if found is None:
            raise ValueError(f"policy={policy!r} must be one of {', '.join(POLICIES)}")
        return found
    if isinstance(policy, type) or not callable(getattr(policy, "place", None)):
        raise ValueError(  # noqa: TRY004 - likewise
            f"policy={policy!r} must be one of {', '.join(POLICIES)}, "
            "or an object with a `place` method"
        )
    return policy


def _lanes(opened: ExitStack, *, gpu: bool) -> list[RealLane]:
    lanes: list[RealLane] = []
    if gpu:
        from runtime.lanes.gpu import GpuLane  # noqa: PLC0415 - for those who have a GPU

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
            Request(one.network, one.arrival_ms, deadline_ms)
            for one in closed(networks, inferences)
        )
    return tuple(
        request
        for network in range(networks)
        for request in periodic(network, 1e3 / fps, inferences, deadline_ms=deadline_ms)
    )
