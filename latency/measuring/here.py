"""Timing a few networks on this machine in a scenario, as `nas.measure` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from common.types.errors import UserError
from common.types.kind import Kind
from common.types.task import Task
from latency.base import Latencies, Space
from latency.measuring.folder import MeasurementFolder
from latency.measuring.journal import Measurement
from latency.measuring.machine import RUNTIMES, ThisMachine
from latency.measuring.settings import MeasureConfig
from runtime.machine.stability import OnDisturbance
from runtime.machine.timing import Statistic
from runtime.network.backend import Device, Precision

_BACKENDS = {runtime: backend for backend, runtime in RUNTIMES.items()}


def timed_here(
    device: str, scenario: str, space: Space, task: Task, here: Device
) -> Callable[[Statistic, Int64[ndarray, "n D"]], Latencies]:
    """A function that times architectures here, as the device's id says: board/runtime/precision/batch.

    Raises:
      UserError: if the id says too little, or this machine cannot do it.
    """
    config = _config(device, scenario, space, task, here)
    try:
        machine = ThisMachine(config, space, task)
    except UserError as error:
        raise UserError(
            f"latency.confirm_top times networks on this machine, with latency.here={here.value}: {error}"
        ) from error

    def latencies(statistic: Statistic, architectures: Int64[ndarray, "n D"]) -> Latencies:
        texts = [space.text(architecture) for architecture in architectures]
        with TemporaryDirectory() as place:
            folder = MeasurementFolder(replace(config, out=place), machine.device_id, {})
            _, rounds = machine.rounds(texts, folder)
            timed = [measurement for _, measured in rounds for measurement in measured]
        return Latencies(
            np.array([statistic.of(each.samples.ms) for each in timed], np.float64),
            np.array([_kind(each) for each in timed], np.int8),
        )

    return latencies


def _kind(measurement: Measurement) -> Kind:
    is_disturbed = measurement.drift or measurement.disturbances
    return Kind.disturbed if is_disturbed else Kind.measured


def _config(device: str, scenario: str, space: Space, task: Task, here: Device) -> MeasureConfig:
    try:
        board, runtime, precision, batch = device.split("/")
        return MeasureConfig(
            board=board,
            device=here.value,
            backend=_BACKENDS[runtime],
            precision=Precision(precision),
            batch_size=int(batch.removeprefix("b")),
            space=space.name,
            dataset=task.name,
            scenario=scenario,
            on_disturbance=OnDisturbance.flag,
        )
    except (ValueError, KeyError) as error:
        raise UserError(
            f"latency.confirm_top times networks here, and device={device} does not say how: it is "
            f"not board/runtime/precision/batch with a runtime of {', '.join(_BACKENDS)}"
        ) from error
