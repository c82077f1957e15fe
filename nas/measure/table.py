"""The result of a measurement: a table in the open layout, and its origin.

After a few calibration networks it is a table whose other times are predicted, and marked so.

Times that the other networks contradict are taken again before they are believed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray
from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.files.atomic_file import remove_unfinished, write_whole
from edgenas_core.files.file_lock import held
from edgenas_core.files.keyed_table import write_csv_table
from edgenas_core.machine.stability import StabilityConfig
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from latency.base import Space
from latency.devices.registry import id_of_statistic
from latency.measuring.folder import MeasurementFolder
from latency.measuring.journal import layers_of, measured_ms, repeat_differences, taken_beside
from latency.measuring.settings import MeasureConfig
from latency.models.calibration import Calibration
from latency.models.layer_table import ProfiledNetwork, has_layers, layer_table, write_layer_table
from latency.models.plausibility import faster_than_others_say
from latency.models.regression import LEAST_R2
from latency.models.transferred import write_transferred
from latency.sources.transfer import require_known_devices, transfer_from
from nas.measure.next_step import next_step, search_by
from nas.measure.plan import chosen_in_words, distinct

FAST = "implausibly fast"

Rows = list[dict[str, str]]


def doubted(rows: Rows, space: Space) -> Rows:
    """Leave implausibly fast times out, unless every time of the network is that fast.

    A network that was timed once has not confirmed its time; `confirmed_fast` lists those that have.
    """
    fast, times = _fast(rows, space)
    of_arch = Counter(rows[at]["arch"] for at in fast)
    doubtful = {
        at
        for at in fast
        if times[rows[at]["arch"]] == 1 or of_arch[rows[at]["arch"]] < times[rows[at]["arch"]]
    }
    return [{**row, "disturbances": FAST} if at in doubtful else row for at, row in enumerate(rows)]


def confirmed_fast(rows: Rows, space: Space) -> list[str]:
    """Networks whose times are implausibly fast whenever they are taken."""
    fast, times = _fast(rows, space)
    of_arch = Counter(rows[at]["arch"] for at in fast)
    return sorted(arch for arch, count in of_arch.items() if 1 < count == times[arch])


def _fast(rows: Rows, space: Space) -> tuple[list[int], Counter[str]]:
    """Positions of valid times that are implausibly fast, and how often each network was timed."""
    quiet = [at for at, row in enumerate(rows) if not row["disturbances"]]
    times = Counter(rows[at]["arch"] for at in quiet)
    if not quiet:
        return [], times
    architectures = np.stack([space.parse(rows[at]["arch"]) for at in quiet])
    latency_ms = np.array([float(rows[at][f"{Statistic.median.value}_ms"]) for at in quiet])
    fast = faster_than_others_say(space, architectures, latency_ms)
    return [quiet[at] for at in np.flatnonzero(fast)], times


def write_measured_table(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    *,
    facts: dict[str, Any],
    words: Sequence[str],
    console: Console,
) -> None:
    """Write the table of all that was measured so far, and its origin.

    `facts` describe the device, `words` are the settings as the user wrote them.

    Raises:
      UserError: if every time was taken under load.
    """
    lock = folder.path / f"{folder.slug}.lock"
    lock.touch()
    with held(lock, wait=True):  # two commands that end together
        architectures, latency_ms, origin = _measured(config, space, folder, facts)
        column = {str(origin["device"]): latency_ms}
        remove_unfinished(folder.path, folder.origin.name)
        write_csv_table(folder.table, space, column, architectures)
        write_whole(folder.origin, json.dumps(origin, indent=2) + "\n")
    say(console, f"{_in_words(origin)} -> {folder.table}, {folder.origin}")
    say(console, next_step(config, space, folder, architectures, latency_ms, words=words))


def write_predicted_table(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    *,
    order: Int64[ndarray, "n D"],
    facts: dict[str, Any],
    console: Console,
) -> None:
    """Predict the space from the ordered networks that were measured on a quiet machine.

    Raises:
      UserError: if these are too few.
    """
    listed = require_known_devices(space)
    architectures, latency_ms, origin = _measured(config, space, folder, facts)
    wanted, timed = np.unique(listed.numbers(order)), listed.numbers(architectures)
    ordered = np.isin(timed, wanted)
    calibration = Calibration(timed[ordered], latency_ms[ordered])
    transferred = transfer_from(listed, str(origin["device"]), calibration)
    sidecar = write_transferred(folder.transferred, transferred, origin)
    lost = len(wanted) - len(calibration.index)
    if lost:
        say(
            console,
            f"{lost} of {len(wanted)} calibration networks are missing, see the flagged lines; the same "
            f"command measures them again",
        )
    say(
        console,
        f"{_in_words(origin)}; all others are predicted from these\n"
        f"{transferred.report} -> {folder.transferred}, {sidecar}\n"
        + (
            transferred.quality.doubt
            or search_by(config, space, folder, latency_ms, [folder.transferred])
        ),
    )


def write_layers(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    *,
    facts: dict[str, Any],
    console: Console,
) -> Path:
    """Write the layers of all networks that were measured on a quiet machine, and their model's quality.

    If these networks are too few as the time is over, nothing is written but the journal.

    Raises:
      UserError: if they are too few otherwise.
    """
    networks = [
        ProfiledNetwork(row["arch"], float(row["median_ms"]), layers_of(row))
        for row in doubted(folder.rows(), space)
        if not row["disturbances"] and row.get("layers")
    ]
    if config.minutes is not None and not has_layers([each.layers for each in networks], 0):
        say(console, f"{len(networks)} networks are too few for a model of their layers yet")
        return folder.path
    table = layer_table(folder.device_id, networks)
    path = folder.path / f"{folder.slug}_layers.csv.gz"
    write_layer_table(path, table, {"space": config.space, "date": _now(), **facts})
    say(
        console,
        f"{len(table.layers):,} distinct layers of {config.layers:,} asked for, in {table.networks:,} networks -> {path}; "
        f"networks are predicted with {table.quality}\n"
        + (
            f"next: NAS_DATA={folder.path} python -m nas.search latency=layers device={folder.device_id} space="
            if table.quality.r2 >= LEAST_R2
            else f"this is too little for a search (R2 of at least {LEAST_R2:g}): time more layers, with a larger "
            f"layers=, on a quieter board"
        ),
    )
    return path


def _measured(
    config: MeasureConfig, space: Space, folder: MeasurementFolder, facts: dict[str, Any]
) -> tuple[Int64[ndarray, "n D"], Float64[ndarray, " n"], dict[str, Any]]:
    """Architectures that were measured, their milliseconds, and the origin of these.

    Raises:
      UserError: if every time was taken under load.
    """
    rows = doubted(folder.rows(), space)
    times_ms = measured_ms(rows, config.statistic)
    if not times_ms:
        raise UserError(
            f"every one of the {len(rows)} measurements in {folder.path} was taken under load, according to "
            f"the journals there; stop other work on the machine, or allow more with tolerance= "
            f"(docs/how-to/measure-a-machine.md)"
        )
    architectures = np.stack([space.parse(arch) for arch in times_ms])
    latency_ms = np.array(list(times_ms.values()))
    if isinstance(space, Enumerable):  # the table is in the order of the numbers
        order = np.argsort(space.numbers(architectures))
        architectures, latency_ms = architectures[order], latency_ms[order]
    return (
        architectures,
        latency_ms,
        {
            "space": space.name,
            "device": id_of_statistic(folder.device_id, config.statistic),
            "statistic": config.statistic.value,
            "networks_measured": len(times_ms),
            "networks_distinct": len(distinct(space)) if isinstance(space, Enumerable) else None,
            "chosen": chosen_in_words(config, space, set(times_ms)),
            **_quality(rows, config),
            "implausibly_fast_but_confirmed": confirmed_fast(rows, space),
            "control": space.text(space.control()),
            "date": _now(),
            **facts,
        },
    )


def _in_words(origin: dict[str, Any]) -> str:
    """Number of measured networks and their noise, in one clause."""
    spread = origin["repeats_median_relative_difference"]
    noise = "" if spread is None else f", repeats differ by {spread:.1%} (median)"
    distinct_networks = origin["networks_distinct"]
    of_all = "" if distinct_networks is None else f" of {distinct_networks:,}"
    fast = len(origin["implausibly_fast_but_confirmed"])
    doubt = f", {fast} of them implausibly fast whenever they were timed" if fast else ""
    tolerance = origin["settings"]["tolerance"]
    by = "" if tolerance == StabilityConfig().tolerance else f" by tolerance={tolerance:g}"
    return (
        f"{origin['networks_measured']:,}{of_all} networks measured without load{by}{noise}{doubt}"
    )


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _quality(rows: Rows, config: MeasureConfig) -> dict[str, Any]:
    """Quality of the times in the journal: repeats, spread and disturbances."""
    kept = [row for row in rows if not row["disturbances"]]
    signed = {statistic.value: repeat_differences(rows, statistic) for statistic in Statistic}
    differences = np.abs(signed[config.statistic.value])
    beside = taken_beside(rows)
    control_ms = np.array([float(row["control_ms"]) for row in kept])
    return {
        "measurements": len(rows),
        "measurements_disturbed": len(rows) - len(kept),
        "measurements_not_settled": sum(row["is_stable"] == "0" for row in kept),
        "samples_of_each": config.timing.samples,
        "repeats": len(differences),
        "repeats_median_relative_difference": _quantile(differences, 0.5),
        "repeats_p90_relative_difference": _quantile(differences, 0.9),
        "repeats_relative_differences": {
            name: each.round(5).tolist() for name, each in signed.items()
        },
        "control_ms": _quantile(control_ms, 0.5),
        "control_largest_drift": max(abs(float(row["control_drift"])) for row in kept),
        "control_ms_range": [float(control_ms.min()), float(control_ms.max())],
        "clock_mhz_range": _range([row["clock_mhz"] for row in kept]),
        **({} if beside is None else {"taken_by_each_beside_gb_per_s": beside}),
    }


def _quantile(values: Float64[ndarray, " n"], q: float) -> float | None:
    return round(float(np.quantile(values, q)), 6) if values.size else None


def _range(texts: list[str]) -> list[float] | None:
    numbers = [float(text) for text in texts if text]
    return [min(numbers), max(numbers)] if numbers else None
