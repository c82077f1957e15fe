"""`python -m nas.measure`: Hydra composes, the networks are timed, a table and its origin remain."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import hydra
from hydra.core.config_store import ConfigStore
from jaxtyping import Int64
from numpy import ndarray
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from nas.config import CONF
from nas.errors import UserError
from nas.file_lock import held
from nas.hydra_errors import one_line_hydra_errors
from nas.measure import MeasureConfig, measure, plan
from nas.measured_table import write_measured_table
from nas.measurement_folder import MeasurementFolder
from nas.measurements import append, judged, mend, read
from nas.search_space import NAS_BENCH_201
from runtime.backend import Device
from runtime.quiet import Sense, Watch
from runtime.senses import OtherLoad, Stolen, Throttles, cpu_mhz, gpu_mhz, gpu_throttling
from runtime.timing import Stopwatch


def main() -> None:
    """Run the command line's measurement."""
    ConfigStore.instance().store(name="measure_schema", node=MeasureConfig)
    with one_line_hydra_errors("nas.measure"):
        _hydra_main()


@hydra.main(version_base="1.3", config_path=CONF, config_name="measure")
def _hydra_main(composed: DictConfig) -> None:
    with one_line_hydra_errors("nas.measure"):
        for name in sorted(OmegaConf.missing_keys(composed)):
            raise UserError(f"{name} is not set; write {name}=<value>")
        config = OmegaConf.to_object(composed)
        if not isinstance(config, MeasureConfig):
            raise TypeError(f"composed a {type(config).__name__}, not a MeasureConfig")
        _measure(config, Console(highlight=False))


def _measure(config: MeasureConfig, console: Console) -> None:
    order = plan(config)
    folder = MeasurementFolder(config)
    folder.require_same()
    with held(folder.settings):
        mend(folder.journal)
        _measure_pending(config, folder, order, console)
        write_measured_table(config, folder, console)


def _measure_pending(
    config: MeasureConfig, folder: MeasurementFolder, order: Int64[ndarray, " n"], console: Console
) -> None:
    rows = judged(read(folder.journal), config.quiet.control_drift)
    quiet = [int(row["index"]) for row in rows if not row["disturbances"]]
    pending = _pending(order.tolist(), quiet)  # what was disturbed is measured again
    console.print(
        f"{config.device_id}: {len(order):,} measurements of {len(set(order.tolist())):,} networks, "
        f"{len(pending):,} to go -> {folder.journal}",
        soft_wrap=True,
    )
    if pending:
        cores = _pin(config.core, config.threads)
        inference, stopwatch, clock_mhz = _on_this_machine(config)
        watch = Watch(
            config.quiet,
            _senses(config, cores),
            control_ms={float(row["control_ms"]) for row in rows},
            clock_mhz=float(rows[0]["clock_mhz"]) if rows and rows[0]["clock_mhz"] else None,
        )
        rounds = measure(pending, config, inference, stopwatch, watch, clock_mhz=clock_mhz)
        total = -(-len(pending) // config.together)
        for measured in track(rounds, "measuring", total=total, console=console):
            append(folder.journal, measured)
            for line in (*measured[0].drift, *measured[0].disturbances):
                console.print(f"flagged: {line}", soft_wrap=True)


def _pending(order: list[int], measured: list[int]) -> list[int]:
    """What is left of the order: each number as often as it has not been measured yet."""
    left = Counter(order) - Counter(measured)
    pending = []
    for index in reversed(order):
        if left[index] > 0:
            left[index] -= 1
            pending.append(index)
    return pending[::-1]


def _pin(core: int, threads: int) -> set[int]:
    """Keep this process on as many processors as threads, which do not spin for work."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is imported, later
    cores, allowed = set(range(core, core + threads)), os.sched_getaffinity(0)
    for one in sorted(cores - allowed):
        because = f" (core={core} threads={threads})" if threads > 1 else ""
        raise UserError(f"core={one} is not one of {', '.join(map(str, sorted(allowed)))}{because}")
    os.sched_setaffinity(0, cores)
    return cores


def _senses(config: MeasureConfig, cores: set[int]) -> list[Sense]:
    _, parts = config.part
    senses: list[Sense] = [
        OtherLoad(config.quiet.other_load, cores, expected=config.threads * (parts - 1)),
        Stolen(config.quiet.stolen, cores),
        Throttles(),
    ]
    return [*senses, gpu_throttling] if config.device is Device.cuda else senses


def _on_this_machine(
    config: MeasureConfig,
) -> tuple[Callable[[int], Callable[[], object]], Stopwatch, Callable[[], float | None]]:
    import torch  # noqa: PLC0415 - after its threads have been told how to wait

    from nas.network import build_network, example_images  # noqa: PLC0415 - imports torch
    from runtime.inference import prepare  # noqa: PLC0415 - imports torch

    torch.set_num_threads(config.threads)
    images = example_images(config.dataset, batch_size=config.batch_size)

    def inference(index: int) -> Callable[[], object]:
        network = build_network(NAS_BENCH_201.architectures[index], config.dataset)
        try:
            return prepare(
                network,
                images,
                config.device,
                config.backend,
                config.precision,
                threads=config.threads,
            )
        except ValueError as error:
            raise UserError(str(error)) from error

    if config.device is not Device.cuda:
        return inference, Stopwatch(), lambda: cpu_mhz(config.core)
    if torch.cuda.is_available():
        return inference, Stopwatch(torch.cuda.synchronize), gpu_mhz
    return inference, Stopwatch(), gpu_mhz  # ONNX Runtime waits for the GPU itself
