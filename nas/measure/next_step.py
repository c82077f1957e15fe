"""The command to run after a measurement: a search, or a measurement that a search needs first."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.machine.timing import Statistic
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from latency.base import Space
from latency.devices.measured import open_table
from latency.devices.registry import SCENARIO_MARK, solo_id
from latency.measuring.folder import MeasurementFolder
from latency.measuring.settings import MeasureConfig
from latency.models.regression import FEWEST_MEASURED, LEAST_R2, cross_validate
from latency.models.slowdown import FEWEST_BOTH_WAYS
from nas.measure.plan import distinct


def next_step(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    architectures: Int64[ndarray, "n D"],
    latency_ms: Float64[ndarray, " n"],
    *,
    words: Sequence[str],
) -> str:
    """The next commands, after `next:`; each has all that it needs.

    Args:
      config: of the measurement.
      space: of the measured networks.
      folder: of the measurement.
      architectures: the measured networks.
      latency_ms: of each.
      words: settings as the user wrote them, `name=value`.
    """
    in_scenario = SCENARIO_MARK in folder.device_id
    fewest = FEWEST_BOTH_WAYS if in_scenario else FEWEST_MEASURED
    is_whole = isinstance(space, Enumerable) and len(latency_ms) >= len(distinct(space))
    if len(latency_ms) < fewest and not is_whole:
        return (
            f"next: measure more; a search predicts what was not measured from {fewest} architectures "
            f"on, and here are {len(latency_ms)}:\n  {_again(words, config, 2 * fewest)}"
        )
    if not in_scenario and not is_whole:
        groups = space.groups(architectures)
        quality, _ = cross_validate(space.features(architectures), latency_ms, groups)
        if quality.r2 < LEAST_R2:
            return (
                f"this is too little for a search, which predicts what was not measured: held-out R2 {quality.r2:.2f} of "
                f"at least {LEAST_R2:g}; measure more, on a quieter board:\n  "
                f"{_again(words, config, 2 * len(latency_ms))}"
            )
    tables = [folder.table]
    if in_scenario and folder.table_alone.exists():
        tables.insert(0, folder.table_alone)
    elif in_scenario and not _is_known(space, solo_id(folder.device_id), config.statistic):
        alone = [word for word in words if not word.startswith("scenario=")]
        return (
            f"next: measure the same networks without the scenario, from which a search predicts the "
            f"others:\n  {_again(alone, config, 2 * FEWEST_MEASURED)}"
        )
    return search_by(config, space, folder, latency_ms, tables)


def _is_known(space: Space, name: str, statistic: Statistic) -> bool:
    try:
        return open_table(space, name, statistic)[1] is not None
    except UserError:
        return False  # no table of it, or none that can be used


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


def _again(words: Sequence[str], config: MeasureConfig, least: int) -> str:
    """The same command for so many networks at least."""
    setting, count = (
        ("networks", config.networks) if config.probes is None else ("probes", config.probes)
    )
    kept = [word for word in words if word.partition("=")[0] != setting]
    more = [] if count is None else [f"{setting}={max(count, least)}"]
    return shlex.join(["python", "-m", "nas.measure", *kept, *more])
