"""Predictions for a new device from a few timed networks: quality, description and files.

The latencies of the known devices of a space are the input of `latency.models.process`. Features named
`<operation> on <position>` are summed over the positions: `... written` are operations of the architecture as
it is written, `... needed` and `... live` those that a runtime may have to run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.files.atomic_file import require_writable, write_whole
from edgenas_core.files.keyed_table import (
    HIGH,
    LOW,
    PREDICTED,
    header,
    is_whole,
    origin_beside,
    write_csv_table,
)
from edgenas_core.machine.description import versions
from edgenas_core.types.architectures import Enumerable, Keys
from edgenas_core.types.errors import UserError
from latency.base import EnumerableSpace, Space, every_architecture
from latency.devices.registry import TimedDevice
from latency.models.calibration import Calibration
from latency.models.process import HeldOut, Known, Transfer, unlike
from latency.models.regression import LEAST_R2, Quality, disconnected, judge

_WRITTEN_SD, _FLOPS_SD = 0.15, 0.085  # of one operation more, and of FLOPs, both standardised


def known_from(
    space: Space,
    devices: Sequence[TimedDevice],
    latency_ms: Float64[ndarray, "devices size"],
    rows: Int64[ndarray, "size D"] | None = None,
    sampled: int | None = None,
) -> Known:
    """Combine the latencies of known devices with the features of the architectures.

    Args:
      space: where the architectures are of.
      devices: known devices.
      latency_ms: theirs.
      rows: the architectures, of a space that cannot be listed; None: all.
      sampled: so many of the rows, the first ones, stand for the space.

    Some devices have near-zero times of architectures whose output does not depend on the input, which
    say nothing about another device: no architecture counts with less than the fastest of the others.
    """
    if rows is None:
        assert isinstance(space, Enumerable)
        rows = every_architecture(space)
        canonical = space.numbers(space.canonical(rows))
    else:
        canonical = np.arange(len(rows))
    features = space.features(rows)
    connected = np.logical_not(disconnected(space, features))
    among = connected & (np.arange(len(rows)) < (sampled or len(rows)))
    fastest = latency_ms[:, among].min(axis=1, keepdims=True)
    task = next(iter(space.tasks.values()))
    flops = np.log(space.costs(rows, task)["flops"])[:, None]
    written = _summed(space, features, "written")
    linear = np.concatenate(
        [
            _WRITTEN_SD / np.sqrt(max(1, written.shape[1])) * _standardised(written, among),
            _FLOPS_SD * _standardised(flops, among),
        ],
        axis=1,
    )
    live, needed = (_summed(space, features, form) for form in ("live", "needed"))
    return Known(
        boards=tuple(device.board for device in devices),
        runtimes=tuple(device.runtime or device.source for device in devices),
        log_ms=np.log(np.maximum(latency_ms, fastest)),
        linear=linear,
        counts=np.concatenate([live, needed], axis=1),
        canonical=canonical,
        wanted=connected,
        sampled=sampled,
    )


def _summed(
    space: Space, features: Float64[ndarray, "size F"], form: str
) -> Float64[ndarray, "size operations"]:
    """Each operation of one form, counted over all positions."""
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(space.feature_names):
        operation, on, _ = name.partition(" on ")
        if on and operation.endswith(f" {form}"):
            columns.setdefault(operation, []).append(column)
    counts = [features[:, places].sum(axis=1) for places in columns.values()]
    return np.stack(counts, axis=1) if counts else np.empty((len(features), 0))


def _standardised(
    values: Float64[ndarray, "size n"], among: Bool[ndarray, "size"]
) -> Float64[ndarray, "size n"]:
    spread = values[among].std(axis=0)
    return np.asarray((values - values[among].mean(axis=0)) / np.where(spread > 0, spread, 1.0))


@final
@dataclass(frozen=True)
class HeldOutQuality:
    """Quality for the calibration networks, each predicted from the others."""

    held_out: HeldOut
    of_known: Float64[ndarray, " devices"]  # held-out error of each known device

    @property
    def is_unlike(self) -> bool:
        """Whether the held-out error is larger than that of nearly all known devices."""
        return unlike(self.held_out.rms, self.of_known)

    @property
    def measures(self) -> Quality:
        """Spearman, R2 and errors."""
        return judge(self.held_out.predicted_ms, self.held_out.latency_ms)

    @property
    def summary(self) -> str:
        """Held-out quality, in one clause."""
        quality, inside = self.measures, int(self.held_out.inside.sum())
        return (
            f"{len(self.held_out.latency_ms)} calibration networks, each predicted from the others: Spearman "
            f"{quality.spearman:.2f}, {quality.within_10_percent:.0%} within 10 %, median error "
            f"{quality.median_error:.1%}, {inside} inside their 90 % interval"
        )

    @property
    def comparison(self) -> str:
        """Comparison with the known devices, in one line."""
        worse = float((self.of_known >= self.held_out.rms).mean())
        numbers = (
            f"held-out error {self.held_out.rms:.2f} (root mean square of the logarithm), against "
            f"{np.median(self.of_known):.2f} in the median of {len(self.of_known)} known devices "
            f"predicted as if their boards and runtimes were new, {worse:.0%} of which are no better"
        )
        if self.is_unlike:
            return (
                f"warning: this device is unlike the known ones: {numbers}; time more "
                f"calibration networks, and do not trust the intervals"
            )
        return f"as far as its calibration networks tell, this device is like the known ones: {numbers}"

    @property
    def doubt(self) -> str:
        """Advice in place of a search, where the predictions are too bad for one; else empty."""
        if self.measures.r2 >= LEAST_R2:
            return ""
        return (
            f"this is too little for a search: held-out R2 {self.measures.r2:.2f} of at least {LEAST_R2:g}; time more "
            f"networks, on a quieter board"
        )


@final
@dataclass(frozen=True)
class Transferred:
    """Predictions for every architecture on a new device, and their quality."""

    device: str
    space: EnumerableSpace
    calibration: Calibration
    transfer: Transfer
    quality: HeldOutQuality

    @cached_property
    def latency_ms(self) -> Float64[ndarray, "size"]:
        """Latency by number: the calibration networks as measured, the others as predicted."""
        latency_ms: Float64[ndarray, "size"] = self.transfer.latency_ms.copy()
        latency_ms[self.calibration.index] = self.calibration.latency_ms
        return latency_ms

    @property
    def report(self) -> str:
        """Quality of the predictions for the user, in lines."""
        width = float(np.median(np.sqrt(self.transfer.high_ms / self.transfer.low_ms))) - 1
        return (
            f"{self.quality.summary}\n"
            f"calibration networks are chosen to differ, so most other architectures are predicted better\n"
            f"{self.quality.comparison}\n"
            f"{len(self.transfer.latency_ms):,} architectures predicted, 90 % intervals of about "
            f"{width:.0%} to either side; of known devices, left out with their board and runtime, "
            f"45 of 46 have 90 % of their times inside, and each has 88 %"
        )


def write_transferred(
    path: Path, transferred: Transferred, taken: Mapping[str, Any] | None = None
) -> Path:
    """Write the table and, beside it, its origin; returns the path of the origin.

    `taken` is the origin of the measured times, if it is known. The device's own column holds the
    calibration networks alone, so that no prediction passes for a measurement.

    Raises:
      UserError: if a file is there that is no prediction for this device.
      OSError: if a file cannot be written.
    """
    require_ours(path, transferred.device, transferred.space)
    name = f"{transferred.device}{PREDICTED}"
    measured = np.full(transferred.space.size, np.nan)
    measured[transferred.calibration.index] = transferred.calibration.latency_ms
    columns = {
        transferred.device: measured,
        name: transferred.transfer.latency_ms,
        f"{transferred.device}{LOW}": transferred.transfer.low_ms,
        f"{transferred.device}{HIGH}": transferred.transfer.high_ms,
    }
    sidecar = path.with_suffix(".json")  # first: beside a table without it nothing is written
    write_whole(sidecar, json.dumps(_origin(transferred, taken), indent=2) + "\n")
    write_csv_table(path, transferred.space, {n: _rounded(values) for n, values in columns.items()})
    return sidecar


def require_ours(path: Path, device: str, space: Keys) -> None:
    """Check, before the work, that a table of predictions may be written there.

    Raises:
      UserError: if the table, or the origin beside it, is there and of something else.
      OSError: if the folder cannot be written.
    """
    if is_whole(path, space) or path.suffix != ".csv":
        raise UserError(
            f"out={path}: name a file *.csv, and none of the names of tables with every architecture"
        )
    origin = origin_beside(path)
    is_origin = origin.get("device") == device and "held_out" in origin
    for file, is_ours in (
        (path, f"{device}{PREDICTED}" in header(path)),
        (path.with_suffix(".json"), is_origin),
    ):
        if file.exists() and not is_ours:
            raise UserError(
                f"{file} is there already and holds no predictions for {device}; name another file "
                f"with out="
            )
    require_writable(path.parent)


def _rounded(values: Float64[ndarray, "size"]) -> Float64[ndarray, "size"]:
    """Round to a nanosecond, the resolution of measured tables."""
    return np.asarray(np.round(values, 6))


def _origin(transferred: Transferred, taken: Mapping[str, Any] | None) -> dict[str, Any]:
    held_out = transferred.quality
    return {
        "device": transferred.device,
        "space": transferred.space.name,
        "columns": {
            transferred.device: "the calibration networks, as measured",
            f"{transferred.device}{PREDICTED}": "predicted, of every architecture",
            f"{transferred.device}{LOW}, {transferred.device}{HIGH}": "90 % interval of a single time",
        },
        "probes": {
            transferred.space.text(row): latency_ms
            for row, latency_ms in zip(
                transferred.space.architectures(transferred.calibration.index),
                transferred.calibration.latency_ms.tolist(),
                strict=True,
            )
        },
        "held_out": {
            **asdict(held_out.measures),
            "inside_90_percent_interval": float(held_out.held_out.inside.mean()),
            "rms_of_logarithm": held_out.held_out.rms,
            "rms_of_known_devices": sorted(held_out.of_known.tolist()),
        },
        "is_unlike_known_devices": held_out.is_unlike,
        "known_devices": len(held_out.of_known),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions(),
        **({} if taken is None else {"measured": dict(taken)}),
    }
