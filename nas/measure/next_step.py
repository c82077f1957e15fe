"""The command to run after a measurement: a search, or a measurement that a search needs first."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.files.keyed_table import read_csv_table
from common.types.errors import UserError
from latency.base import Space
from latency.devices.measured import device_named, measured_on
from latency.devices.registry import SCENARIO_MARK, id_of_statistic, solo_id
from latency.measuring.folder import MeasurementFolder
from latency.measuring.journal import measured_ms
from latency.measuring.settings import MeasureConfig
from latency.models.regression import FEWEST_MEASURED
from latency.models.slowdown import FEWEST_BOTH_WAYS
from runtime.machine.timing import Statistic


def next_step(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    latency_ms: Float64[ndarray, " n"],
    words: Sequence[str],
) -> str:
    """The next commands, after `next:`; each has all that it needs.

    Args:
      config: of the measurement.
      space: of the measured networks.
      folder: of the measurement.
      latency_ms: of each measured network.
      words: settings as the user wrote them, `name=value`.
    """
    if SCENARIO_MARK in folder.device_id:
        return _in_a_scenario(config, space, folder, latency_ms, words)
    if len(latency_ms) >= FEWEST_MEASURED:
        return search_by(config, space, folder, latency_ms, [folder.table])
    return (
        f"next: measure more; a search predicts what was not measured from {FEWEST_MEASURED} "
        f"architectures on, and here are {len(latency_ms)}:\n"
        f"  {_again(words, config, 2 * FEWEST_MEASURED)}"
    )


def search_by(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    latency_ms: Float64[ndarray, " n"],
    tables: Sequence[Path],
) -> str:
    """The command that searches with these tables. T is the median latency."""
    limit = f"{np.median(latency_ms):.3g}"  # ms
    settings = [f"space={space.name}", f"device={folder.device_id}", f"T={limit}ms"]
    if float(limit) <= 1:
        settings.append("reward=constrained")  # the default's logarithm needs T > 1 ms
    if config.statistic is not Statistic.median:
        settings.append(f"latency.statistic={config.statistic.value}")
    files = [str(path) for table in tables for path in (table, table.with_suffix(".json"))]
    return (
        f"next: copy them: cp {shlex.join(files)} <your folder of tables>, then search: "
        f"NAS_DATA=<that folder> python -m nas.search {shlex.join(settings)}"
    )


def _in_a_scenario(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    latency_ms: Float64[ndarray, " n"],
    words: Sequence[str],
) -> str:
    timed = set(measured_ms(folder.rows(), config.statistic))
    alone, tables, is_filled = _alone(config, space, folder)
    both = len(timed & alone)
    commands = []
    if (len(alone) < FEWEST_MEASURED and not is_filled) or both < FEWEST_BOTH_WAYS <= len(timed):
        commands.append(_again(words, config, 2 * FEWEST_MEASURED, alone=True))
    if len(timed) < FEWEST_BOTH_WAYS:
        commands.append(_again(words, config, 2 * FEWEST_BOTH_WAYS))
    if not commands:
        return search_by(config, space, folder, latency_ms, [*tables, folder.table])
    missing = (
        f"next: measure more; a search predicts what was not measured in a scenario from "
        f"{FEWEST_BOTH_WAYS} architectures timed both in it and alone (here are {both}), and alone from "
        f"{FEWEST_MEASURED} (here are {len(alone)}):"
    )
    return "\n  ".join([missing, *commands])


def _alone(
    config: MeasureConfig, space: Space, folder: MeasurementFolder
) -> tuple[set[str], list[Path], bool]:
    """Architectures measured without the scenario, the table to copy, and if it predicts the others."""
    name = id_of_statistic(solo_id(folder.device_id), config.statistic)
    try:
        if folder.table_alone.exists():
            table = read_csv_table(folder.table_alone, space)
            found = table.architectures[np.isfinite(table.column(name))]
            return {space.text(one) for one in found}, [folder.table_alone], False
        device = device_named(space, solo_id(folder.device_id), config.statistic)
        measured = measured_on(space, device)
    except (KeyError, UserError):
        measured = None  # no table of it, or none that can be used
    if measured is None:
        return set(), [], False
    found = measured.architectures[np.isfinite(measured.values_ms)]
    return {space.text(one) for one in found}, [], measured.predicted_ms is not None


def _again(words: Sequence[str], config: MeasureConfig, least: int, *, alone: bool = False) -> str:
    """The same command for so many networks at least, of all parts; or the same without a scenario."""
    what, count = (
        ("networks", config.networks) if config.probes is None else ("probes", config.probes)
    )
    left_out = {what, "shard", *(["scenario"] if alone else [])}
    kept = [word for word in words if word.partition("=")[0] not in left_out]
    more = [] if count is None else [f"{what}={max(count, least)}"]
    return shlex.join(["python", "-m", "nas.measure", *kept, *more])
