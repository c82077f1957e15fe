"""Measuring this machine: the process is pinned and watched, and runs the networks itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np

from edgenas_core.command.plug_ins import INFERENCE, optional, require_extra
from edgenas_core.contention.contention import Contention
from edgenas_core.contention.scenario import SOLO, scenario_named
from edgenas_core.inference.backend import Backend, Device, Precision
from edgenas_core.machine.description import machine_facts
from edgenas_core.machine.monitors import (
    OtherLoad,
    Stolen,
    Throttles,
    cpu_mhz,
    gpu_mhz,
    gpu_throttling,
)
from edgenas_core.machine.stability import Monitor, StabilityConfig, Watch
from edgenas_core.machine.timing import Stopwatch, settle, time_interleaved
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.base import Space
from latency.measuring.folder import MeasurementFolder, settings_of
from latency.measuring.journal import Measurement, judged, read
from latency.measuring.settings import MeasureConfig
from latency.probe.config import BoardsConfig
from latency.probe.layer_times import LayerTime
from latency.probe.settings import Runtime

BACKENDS = {
    Runtime.auto: Backend.torch,
    Runtime.torch: Backend.torch,
    Runtime.graph: Backend.graph,
    Runtime.onnxruntime: Backend.onnxruntime,
}
"""Runtimes of this machine."""

RUNTIMES = {
    Backend.torch: "torch",
    Backend.graph: "torch-graph",
    Backend.onnxruntime: "onnxruntime",
}
"""Name of each backend in device ids."""

_OF_BOARDS = [each.name for each in fields(BoardsConfig)]

_FREE = (
    *("networks", "repeats", "probes", "transfer", "minutes", "layers"),
    *("statistic", "on_disturbance", "out"),
    *(each.name for each in fields(StabilityConfig)),
    *_OF_BOARDS,
    "scenario",  # all of it is in the device id
)
"""Settings that no time depends on; they may change when a measurement is continued."""


@final
class ThisMachine:
    """Measures networks in this process, pinned to its processors and watched."""

    keeps_order = True

    def __init__(
        self,
        config: MeasureConfig,
        space: Space,
        task: Task,
        tell: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Complete the settings; `tell` prints notes for the user.

        Raises:
          UserError: if the board has no name, or the device is none.
        """
        if config.board is None:
            raise UserError("board is not set; write board=<what this machine is called>")
        try:
            self._device = Device(config.addresses)
        except ValueError as error:
            raise UserError(
                f"device={config.addresses} is none of {', '.join(device.value for device in Device)}, "
                f"nor the address of a board, as in device=ssh://jetson"
            ) from error
        self._space, self._task, self._tell = space, task, tell
        self._core = config.core or 0
        self._allowed = os.sched_getaffinity(0)
        if config.runtime not in BACKENDS:
            raise UserError(
                f"runtime={config.runtime.name} is of boards; this machine, device={config.addresses}, has "
                f"{', '.join(runtime.name for runtime in BACKENDS)}"
            )
        self._backend = BACKENDS[config.runtime]
        self._config = replace(config, core=self._core)
        self._scenario = SOLO if config.scenario is None else scenario_named(config.scenario)
        self._require_runnable()
        if self._scenario.memory_budget is not None and (
            (self._device, self._backend, config.precision)
            != (Device.cpu, Backend.torch, Precision.fp32)
        ):
            raise UserError(
                f"scenario={config.scenario} streams weights through {self._scenario.memory_budget} "
                f"of memory: take device=cpu runtime=torch precision=fp32"
            )
        runtime = RUNTIMES[self._backend]
        threads = "" if config.threads == 1 else f"-t{config.threads}"
        self.device_id = (
            f"{config.board}/{runtime}{threads}/{config.precision.value}/b{config.batch_size}"
            f"{self._scenario.suffix}"
        )

    def _require_runnable(self) -> None:
        """Refuse a scenario that this device cannot be in, before a folder is made for it."""
        named, scenario = f"scenario={self._config.scenario}", self._scenario
        if scenario.needs_gpu and self._device is not Device.cuda:
            raise UserError(
                f"{named} uses functions of a GPU; take device=cuda, or another scenario "
                f"(docs/how-to/when-the-board-is-busy.md)"
            )
        if scenario.needs_stream and self._backend is Backend.onnxruntime:
            raise UserError(
                f"{named} gives the network a stream of its own, which ONNX Runtime does not take: "
                f"runtime=graph and runtime=torch do"
            )
        if scenario.memory_budget is not None:
            require_extra(INFERENCE, "streamed", named)

    @property
    def deciding(self) -> dict[str, Any]:
        """The settings that a time depends on."""
        values = {k: v for k, v in settings_of(self._config).items() if k not in _FREE}
        return {**values, "backend": self._backend.value}

    def facts(self) -> dict[str, Any]:
        """Facts about this machine, for the origin of the table."""
        return {
            **({"scenario": self._scenario.facts()} if self._scenario.suffix else {}),
            **machine_facts(self._core, gpu=self._device is Device.cuda),
            "threads": self._config.threads,
            "settings": {k: v for k, v in settings_of(self._config).items() if k not in _OF_BOARDS},
            "backend": self._backend.value,
        }

    def journals(self, folder: MeasurementFolder) -> list[Path]:
        """The one journal."""
        return [folder.journal]

    def rounds(
        self, pending: Sequence[str], folder: MeasurementFolder
    ) -> tuple[int, Generator[tuple[Path, list[Measurement]], None, None]]:
        """Number of rounds, and each round as it ends: its journal and its measurements.

        Raises:
          UserError: if the machine is not quiet and the settings say to stop, or it cannot run a
            network.
          OSError: if the clock goes back.
        """
        config = self._config
        rows = judged(read(folder.journal), config.control_drift)
        cores = self._pin()
        watch = Watch(
            config,
            self._monitors(cores),
            control_ms={float(row["control_ms"]) for row in rows},
            clock_mhz=float(rows[0]["clock_mhz"]) if rows and rows[0]["clock_mhz"] else None,
        )
        spare = sorted(self._allowed - cores)
        crowding = self._scenario.crowding(spare)
        if crowding is not None:
            self._tell(f"note: {crowding}")
        rounds = self._in_scenario(pending, watch, spare)
        return len(pending), ((folder.journal, measured) for measured in rounds)

    def _in_scenario(
        self, pending: Sequence[str], watch: Watch, spare: Sequence[int]
    ) -> Iterator[list[Measurement]]:
        """Measured while the scenario's hogs and networks run beside, on the spare processors."""
        beside: Contention | None = None
        with ExitStack() as opened:
            if self._scenario.suffix:
                try:
                    contention = self._scenario.contention(spare, gpu=self._device is Device.cuda)
                    beside = opened.enter_context(contention)
                except ValueError as error:
                    raise UserError(f"scenario={self._config.scenario}: {error}") from error
            inference, stopwatch, clock_mhz = self._prepared(beside)
            yield from measure(
                pending,
                config=self._config,
                control=self._space.text(self._space.control()),
                inference=inference,
                stopwatch=stopwatch,
                watch=watch,
                clock_mhz=clock_mhz,
                beside_gb_per_s=tuple if beside is None else partial(self._taken, beside),
                layers=(lambda _text: ()) if self._config.layers is None else self._layers,
            )

    def _layers(self, text: str) -> list[LayerTime]:
        """Operations of a network inside a captured graph, whose caches are as warm as the run before left them."""
        from edgenas_core.inference.operations import operation_times  # noqa: PLC0415 - imports torch

        architecture = self._space.parse(text)
        network = self._space.network(architecture, self._task).eval().cuda()
        images = self._space.example_input(architecture, self._task, self._config.batch_size)
        return operation_times(network, images.cuda(), self._config.timing.samples)

    def _taken(self, beside: Contention) -> list[float]:
        try:
            return beside.gb_per_s()
        except RuntimeError as error:
            raise UserError(
                f"scenario={self._config.scenario}: {error}; what was measured before is kept, run the "
                f"same command again to go on"
            ) from error

    def _pin(self) -> set[int]:
        """Keep this process on as many processors as threads, which do not spin for work."""
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is imported, later
        core, threads = self._core, self._config.threads
        cores, allowed = set(range(core, core + threads)), self._allowed
        for missing in sorted(cores - allowed):
            because = f" (core={core} threads={threads})" if threads > 1 else ""
            raise UserError(
                f"core={missing} is not one of {', '.join(map(str, sorted(allowed)))}{because}"
            )
        os.sched_setaffinity(0, cores)
        return cores

    def _monitors(self, cores: set[int]) -> list[Monitor]:
        config = self._config
        monitors: list[Monitor] = [
            OtherLoad(
                config.other_load,
                cores,
                expected=min(self._scenario.processors, len(self._allowed - cores)),
            ),
            Stolen(config.stolen, cores),
            Throttles(),
        ]
        return [*monitors, gpu_throttling] if self._device is Device.cuda else monitors

    def _prepared(
        self, beside: Contention | None
    ) -> tuple[Callable[[str], Callable[[], object]], Stopwatch, Callable[[], float | None]]:
        import torch  # noqa: PLC0415 - after the environment of its threads is set

        from edgenas_core.inference.inference import prepare  # noqa: PLC0415 - imports torch

        config, device, core = self._config, self._device, self._core
        if config.layers is not None and not torch.cuda.is_available():
            raise UserError(
                f"layers={config.layers}: torch finds no GPU for device=cuda here; device=cmd:// times layers of "
                f"this machine's processor"
            )
        budget, streamed = self._scenario.memory_budget, None
        if budget is not None:
            streamed = optional(INFERENCE, "streamed", f"scenario={config.scenario}")
        torch.set_num_threads(config.threads)
        stream = beside.stream if beside is not None and device is Device.cuda else None

        def inference(text: str) -> Callable[[], object]:
            architecture = self._space.parse(text)
            network = self._space.network(architecture, self._task)
            images = self._space.example_input(architecture, self._task, config.batch_size)
            try:
                if streamed is not None:
                    prepared = streamed(network, images, budget)
                else:
                    prepared = prepare(
                        network,
                        images,
                        device,
                        self._backend,
                        config.precision,
                        threads=config.threads,
                        stream=stream,
                    )
            except ValueError as error:
                raise UserError(str(error)) from error
            return prepared if beside is None else beside.during(prepared)

        if stream is not None:  # each call waits for it: the device is never idle
            return inference, Stopwatch(), gpu_mhz
        if device is not Device.cuda:
            return inference, Stopwatch(), lambda: cpu_mhz(core)
        if torch.cuda.is_available():
            return inference, Stopwatch(torch.cuda.synchronize), gpu_mhz
        return inference, Stopwatch(), gpu_mhz  # ONNX Runtime waits for the GPU itself


def measure(
    pending: Sequence[str],
    *,
    config: MeasureConfig,
    control: str,
    inference: Callable[[str], Callable[[], object]],
    stopwatch: Stopwatch,
    watch: Watch,
    clock_mhz: Callable[[], float | None] = lambda: None,
    beside_gb_per_s: Callable[[], Sequence[float]] = tuple,
    layers: Callable[[str], Sequence[LayerTime]] = lambda _text: (),
) -> Iterator[list[Measurement]]:
    """Time networks, each in turns with the reference network.

    Args:
      pending: texts of the architectures.
      config: of the measurement.
      control: text of the architecture that is timed throughout.
      inference: makes the inference of an architecture.
      stopwatch: for the device.
      watch: finds disturbances.
      clock_mhz: reads the clock of the device; None if unknown.
      beside_gb_per_s: bandwidth of each process beside since its last call.
      layers: times the layers of an architecture.

    Raises:
      UserError: if the machine is not quiet and the settings say to stop; nothing that was yielded
        before is lost.
      OSError: if the clock goes back.
    """
    generator = np.random.default_rng(config.seed)
    infer_control = inference(control)
    timing = config.timing.config()
    settle(infer_control, timing, stopwatch)
    for text in pending:
        inferences = [infer_control, inference(text)]
        beside_gb_per_s()  # counts from here: networks were built before
        control_samples, samples = time_interleaved(inferences, timing, generator, stopwatch)
        taken = tuple(beside_gb_per_s())
        of_network = tuple(layers(text))
        mhz = clock_mhz()
        control_ms = float(np.median(control_samples.ms))
        drift, disturbances = tuple(watch.drift(control_ms)), tuple(watch.disturbances(mhz))
        config.require_quiet(drift, disturbances, "the machine")
        yield [Measurement(text, samples, control_ms, mhz, drift, disturbances, taken, of_network)]
