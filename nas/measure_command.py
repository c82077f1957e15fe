"""`python -m nas.measure`: Hydra composes, the networks are timed, a table and its origin remain."""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from hydra.core.config_store import ConfigStore
from jaxtyping import Int64
from numpy import ndarray
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from nas.atomic_file import replacing
from nas.config import CONF
from nas.csv_writer import write_csv_table
from nas.errors import UserError
from nas.file_lock import held
from nas.hydra_errors import one_line_hydra_errors
from nas.measure import CONTROL, MeasureConfig, measure, plan
from nas.measurements import append, latency_of_space, mend, noise, read
from nas.search_space import NAS_BENCH_201
from runtime.quiet import Watch
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
    folder = Path(config.out)
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", config.device_id)
    journal = folder / f"{slug}.journal.csv"
    settings = folder / f"{slug}.settings.json"
    folder.mkdir(parents=True, exist_ok=True)
    _require_same(config, settings)
    with held(settings):
        mend(journal)
        _measure_pending(config, order, journal, console)
        _write_table(config, folder, slug, console)


def _require_same(config: MeasureConfig, settings: Path) -> None:
    """Keep what decides a time beside the journal, and refuse to mix in times of other settings."""
    container: Any = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    free = {"networks", "repeats", "statistic", "on_disturbance", "out", "quiet"}
    deciding = {name: value for name, value in container.items() if name not in free}
    if not settings.exists():
        with replacing(settings) as file:
            file.write((json.dumps(deciding, indent=2) + "\n").encode())
    try:
        before = json.loads(settings.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{settings} is corrupt ({error}); name another folder with out="
        ) from error
    for name, value in deciding.items():
        if before.get(name) != value:
            raise UserError(
                f"{settings.parent} holds times with {name}={before.get(name)}, not {value}; "
                f"name another folder with out="
            )


def _measure_pending(
    config: MeasureConfig, order: Int64[ndarray, " n"], journal: Path, console: Console
) -> None:
    rows = read(journal)
    pending = _pending(order.tolist(), [int(row["index"]) for row in rows])
    console.print(
        f"{config.device_id}: {len(order):,} measurements of {len(set(order.tolist())):,} networks, "
        f"{len(pending):,} to go -> {journal}",
        soft_wrap=True,
    )
    if pending:
        _pin(config.core)
        inference, stopwatch = _on_this_machine(config)
        watch = Watch(config.quiet, control_ms=float(rows[0]["control_ms"]) if rows else None)
        rounds = measure(pending, config, inference, stopwatch, watch)
        total = -(-len(pending) // config.together)
        for measured in track(rounds, "measuring", total=total, console=console):
            append(journal, measured)
            for line in measured[0].disturbances:
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


def _pin(core: int) -> None:
    """Keep this process on one processor, with threads that do not spin for work."""
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # read when torch is imported, later
    allowed = os.sched_getaffinity(0)
    if core not in allowed:
        raise UserError(f"core={core} is not one of {', '.join(map(str, sorted(allowed)))}")
    os.sched_setaffinity(0, {core})


def _on_this_machine(
    config: MeasureConfig,
) -> tuple[Callable[[int], Callable[[], object]], Stopwatch]:
    import torch  # noqa: PLC0415 - after its threads have been told how to wait

    from nas.network import build_network, example_images  # noqa: PLC0415 - imports torch
    from runtime.inference import Device, prepare  # noqa: PLC0415 - slow to import, and not always needed

    torch.set_num_threads(1)
    images = example_images(config.dataset, batch_size=config.batch_size)

    def inference(index: int) -> Callable[[], object]:
        network = build_network(NAS_BENCH_201.architectures[index], config.dataset)
        try:
            return prepare(network, images, config.device, config.backend, config.precision)
        except ValueError as error:
            raise UserError(str(error)) from error

    if config.device is Device.cuda:
        return inference, Stopwatch(torch.cuda.synchronize)
    return inference, Stopwatch()


def _write_table(config: MeasureConfig, folder: Path, slug: str, console: Console) -> None:
    rows = read(folder / f"{slug}.journal.csv")
    latency_ms = latency_of_space(rows, config.statistic)
    measured = int(np.unique(NAS_BENCH_201.network_class[~np.isnan(latency_ms)]).size)
    if not measured:
        raise UserError(
            f"every one of the {len(rows)} measurements in {folder} was disturbed; see its journal"
        )
    table = folder / f"{slug}_ms.csv"
    write_csv_table(table, {config.device_id: latency_ms})
    spread = noise(rows, config.statistic)
    origin = {
        "device": config.device_id,
        "statistic": config.statistic.value,
        "networks_measured": measured,
        "networks_distinct": int(np.unique(NAS_BENCH_201.network_class).size),
        "measurements_disturbed": sum(bool(row["disturbances"]) for row in rows),
        "repeats_median_relative_difference": spread,
        "control": NAS_BENCH_201.strings[CONTROL],
        **_machine(config),
        "settings": OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True),
    }
    sidecar = folder / f"{slug}_ms.json"
    with replacing(sidecar) as file:
        file.write((json.dumps(origin, indent=2) + "\n").encode())
    noise_text = "" if spread is None else f", repeats differ by {spread:.1%} (median)"
    console.print(
        f"{measured:,} of {origin['networks_distinct']:,} networks measured undisturbed{noise_text} "
        f"-> {table}, {sidecar}",
        soft_wrap=True,
    )
    console.print(
        f"next: copy {table.name} into your folder of tables, then python -m nas.search "
        f"device={config.device_id}",
        soft_wrap=True,
    )


def _machine(config: MeasureConfig) -> dict[str, Any]:
    import torch  # noqa: PLC0415 - imported by now, or not needed before

    facts: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "cpu": _cpu_name(),
        "processors": os.cpu_count(),
        "torch_threads": 1,
        "versions": {name: version(name) for name in ("torch", "numpy", "edgenas")},
    }
    if config.device.value == "cuda" and torch.cuda.is_available():
        facts["gpu"] = torch.cuda.get_device_name()
        facts["cuda"] = torch.version.cuda
    return facts


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
