"""A new device as a few timed architectures show it, and what is said of that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from latency.devices.registry import find
from latency.models.process import HeldOut, Transfer, unlike
from latency.models.regression import Quality, judge
from latency.models.sheet import Probes
from nas.spaces.nas_bench_201.known_devices import known_latency
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError
from runtime.shell.keyed_table import HIGH, LOW, PREDICTED, header, is_whole, write_csv_table


@final
@dataclass(frozen=True)
class Transferred:
    """A new device as its probes show it: predictions of the space, and how good they are."""

    device: str
    probes: Probes
    transfer: Transfer
    held_out: HeldOut
    of_known: Float64[ndarray, " devices"]  # the held-out error of each known device, likewise

    @property
    def is_unlike(self) -> bool:
        """Whether the probes of hardly any known device are predicted so badly."""
        return unlike(self.held_out.rms, self.of_known)

    @property
    def quality(self) -> Quality:
        """Of the probes, each predicted from the others."""
        return judge(self.held_out.predicted_ms, self.held_out.latency_ms)

    @cached_property
    def latency_ms(self) -> Float64[ndarray, "15625"]:
        """In official order: the probes as measured, the rest as predicted."""
        latency_ms: Float64[ndarray, "15625"] = self.transfer.latency_ms.copy()
        latency_ms[self.probes.index] = self.probes.latency_ms
        return latency_ms

    @property
    def summary(self) -> str:
        """How good the predictions are, in one clause."""
        quality, inside = self.quality, int(self.held_out.inside.sum())
        return (
            f"{len(self.probes.index)} probes, each predicted from the others: Spearman "
            f"{quality.spearman:.2f}, {quality.within_10_percent:.0%} within 10 %, median error "
            f"{quality.median_error:.1%}, {inside} inside their 90 % interval"
        )

    @property
    def comparison(self) -> str:
        """Whether the device is like the known ones, in one line."""
        worse = float((self.of_known >= self.held_out.rms).mean())
        numbers = (
            f"held-out error {self.held_out.rms:.2f} (root mean square of the logarithm), against "
            f"{np.median(self.of_known):.2f} in the median of {len(self.of_known)} known devices "
            f"predicted as if their boards were new, {worse:.0%} of which are no better"
        )
        if self.is_unlike:
            return (
                f"warning: this device is unlike the known ones: {numbers}; time more probes, and "
                f"do not trust the intervals"
            )
        return f"this device is like the known ones: {numbers}"

    @property
    def told(self) -> str:
        """What a user is to know of the predictions, in lines."""
        width = float(np.median(np.sqrt(self.transfer.high_ms / self.transfer.low_ms))) - 1
        return (
            f"{self.summary}\n"
            f"probes are chosen to be unlike each other, so most other cells are predicted better\n"
            f"{self.comparison}\n"
            f"{len(self.transfer.latency_ms):,} architectures predicted, 90 % intervals of about "
            f"{width:.0%} to either side"
        )


def choose_probes(count: int, setting: str = "choose") -> Int64[ndarray, " probes"]:
    """Official numbers of the architectures to time, the most telling first.

    `setting` is what the user calls their number.

    Raises:
      UserError: if there are not as many distinct networks with a path.
    """
    try:
        return _most_telling(count)
    except ValueError as error:
        raise UserError(f"{setting}={count}: {error}") from error


@cache
def _most_telling(count: int) -> Int64[ndarray, " probes"]:
    return known_latency().choose(count)


def require_new(device: str, setting: str = "device") -> None:
    """Refuse a device that is among those that are predicted from.

    Raises:
      UserError: if it is; it names the `setting` that would call it otherwise.
    """
    if find(device) is not None:
        raise UserError(
            f"device {device} is known already, so its probes would be predicted from itself; "
            f"name a new one, as in {setting}=my-board, or search with latency=auto"
        )


def transfer_from(device: str, probes: Probes) -> Transferred:
    """Predict the space for a new device.

    Raises:
      UserError: if the device is one whose latencies are known.
    """
    require_new(device)
    known = known_latency()
    return Transferred(
        device,
        probes,
        known.transfer(probes.index, probes.latency_ms),
        known.held_out(probes.index, probes.latency_ms),
        known.held_out_of_known(probes.index),
    )


def write_transferred(
    path: Path, found: Transferred, taken: Mapping[str, Any] | None = None
) -> Path:
    """Write the table and, beside it, its origin; returns the path of that.

    `taken` is the origin of the probes' times, where that is known. The device's own column holds the probes alone, so that no prediction passes for a measurement.

    Raises:
      UserError: if a file is there that is no prediction for this device.
      OSError: if a file cannot be written.
    """
    name = f"{found.device}{PREDICTED}"
    if path.exists() and name not in header(path):
        raise UserError(
            f"{path} is there already and holds no predictions for {found.device}; "
            f"name another file with out="
        )
    if is_whole(path, SPACE) or path.suffix != ".csv":
        raise UserError(
            f"out={path}: name a file *.csv that does not start with {SPACE.table_prefix}, which is "
            f"kept for benchmark tables"
        )
    measured = np.full(NAS_BENCH_201.size, np.nan)
    measured[found.probes.index] = found.probes.latency_ms
    columns = {
        found.device: measured,
        name: found.transfer.latency_ms,
        f"{found.device}{LOW}": found.transfer.low_ms,
        f"{found.device}{HIGH}": found.transfer.high_ms,
    }
    write_csv_table(path, SPACE, {n: _rounded(values) for n, values in columns.items()})
    sidecar = path.with_suffix(".json")
    with replacing(sidecar) as file:
        file.write((json.dumps(_origin(found, taken), indent=2) + "\n").encode())
    return sidecar


def _rounded(values: Float64[ndarray, "15625"]) -> Float64[ndarray, "15625"]:
    """To a nanosecond, as a measurement would be written."""
    return np.asarray(np.round(values, 6))


def _origin(found: Transferred, taken: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "device": found.device,
        "columns": {
            found.device: "the probes, as they were given",
            f"{found.device}{PREDICTED}": "predicted, of every architecture",
            f"{found.device}{LOW}, {found.device}{HIGH}": "90 % interval of a single time",
        },
        "probes": {
            NAS_BENCH_201.strings[index]: latency_ms
            for index, latency_ms in zip(
                found.probes.index.tolist(), found.probes.latency_ms.tolist(), strict=True
            )
        },
        "held_out": {
            **asdict(found.quality),
            "inside_90_percent_interval": float(found.held_out.inside.mean()),
            "rms_of_logarithm": found.held_out.rms,
            "rms_of_known_devices": sorted(found.of_known.tolist()),
        },
        "is_unlike_known_devices": found.is_unlike,
        "known_devices": len(found.of_known),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in ("edgenas", "numpy")},
        **({} if taken is None else {"measured": dict(taken)}),
    }
