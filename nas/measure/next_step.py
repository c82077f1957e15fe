"""What to do with a table that was measured: search by it, or first measure what a search needs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from latency.devices.measured import device_named, measured_on
from latency.devices.registry import SITUATED, id_of_statistic, solo_id
from latency.measuring.folder import MeasurementFolder
from latency.models.cell_regression import FEWEST_CELLS
from latency.models.slowdown import FEWEST_CELLS as FEWEST_BOTH_WAYS
from nas.measure.plan import MeasureConfig
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.machine.timing import Statistic
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import read_csv_table


def next_step(
    config: MeasureConfig,
    folder: MeasurementFolder,
    latency_ms: Float64[ndarray, "15625"],
    words: Sequence[str],
) -> str:
    """Commands that can do their work, after `next:`.

    Args:
      config: of the measurement.
      folder: of the measurement.
      latency_ms: what was measured, NaN elsewhere.
      words: settings as the user wrote them, `name=value`.
    """
    known = np.isfinite(latency_ms)
    if SITUATED in folder.device_id:
        return _in_a_situation(config, folder, latency_ms, words)
    if known.sum() >= FEWEST_CELLS:
        return search_by(config, folder, latency_ms, [folder.table])
    return (
        f"next: measure more; a search predicts what was not measured from {FEWEST_CELLS} cells on, and "
        f"here are {known.sum()}:\n  {_again(words, config, 2 * FEWEST_CELLS)}"
    )


def search_by(
    config: MeasureConfig,
    folder: MeasurementFolder,
    latency_ms: Float64[ndarray, "15625"],
    tables: Sequence[Path],
) -> str:
    """How tables are used; each has its origin beside it. T is what half of the cells are within."""
    told = [f"device={folder.device_id}", f"T={np.nanmedian(latency_ms):.3g}ms"]
    if config.statistic is not Statistic.median:
        told.append(f"latency.statistic={config.statistic.value}")
    files = [str(path) for table in tables for path in (table, table.with_suffix(".json"))]
    return (
        f"next: copy them: cp {shlex.join(files)} <your folder of tables>, then search: "
        f"NAS_DATA=<that folder> python -m nas.search {shlex.join(told)}"
    )


def _in_a_situation(
    config: MeasureConfig,
    folder: MeasurementFolder,
    latency_ms: Float64[ndarray, "15625"],
    words: Sequence[str],
) -> str:
    known = np.isfinite(latency_ms)
    alone, tables, is_filled = _alone(config, folder)
    both = int((known & alone).sum())
    commands = []
    if (alone.sum() < FEWEST_CELLS and not is_filled) or both < FEWEST_BOTH_WAYS <= known.sum():
        commands.append(_again(words, config, 2 * FEWEST_CELLS, alone=True))
    if known.sum() < FEWEST_BOTH_WAYS:
        commands.append(_again(words, config, 2 * FEWEST_BOTH_WAYS))
    if not commands:
        return search_by(config, folder, latency_ms, [*tables, folder.table])
    missing = (
        f"next: measure more; a search predicts what was not measured in a situation from "
        f"{FEWEST_BOTH_WAYS} cells timed both in it and alone (here are {both}), and alone from "
        f"{FEWEST_CELLS} (here are {alone.sum()}):"
    )
    return "\n  ".join([missing, *commands])


def _alone(
    config: MeasureConfig, folder: MeasurementFolder
) -> tuple[Bool[ndarray, "15625"], list[Path], bool]:
    """Which cells were measured alone, in which table to be copied, and if it foretells the others."""
    name = id_of_statistic(solo_id(folder.device_id), config.statistic)
    try:
        if folder.table_alone.exists():
            found = np.isfinite(read_csv_table(folder.table_alone, SPACE).column(name))
            return found, [folder.table_alone], False
        measured = measured_on(device_named(solo_id(folder.device_id), config.statistic))
    except (KeyError, UserError):
        measured = None  # no table of it, or none that can be used
    if measured is None:
        return np.zeros(NAS_BENCH_201.size, bool), [], False
    return np.isfinite(measured.values_ms), [], measured.predicted_ms is not None


def _again(words: Sequence[str], config: MeasureConfig, least: int, *, alone: bool = False) -> str:
    """The same command for so many networks at least, of all parts; or the same without a scenario."""
    what, count = (
        ("networks", config.networks) if config.probes is None else ("probes", config.probes)
    )
    left_out = {what, "shard", *(["scenario"] if alone else [])}
    kept = [word for word in words if word.partition("=")[0] not in left_out]
    more = [] if count is None else [f"{what}={max(count, least)}"]
    return shlex.join(["python", "-m", "nas.measure", *kept, *more])
