"""The journal of a measurement: a line a network with all its times, written before the next.

Statistics are computed from the times when a line is read; those that earlier versions wrote are not.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from edgenas_core.files.lines import append_lines, complete_lines
from edgenas_core.files.safe_file import opened
from edgenas_core.machine.stability import drifted, quiet_control_ms
from edgenas_core.machine.timing import Samples, Statistic
from edgenas_core.types.errors import UserError
from edgenas_core.types.units import require_ms
from latency.probe.layer_times import LayerTime

_FIELDS = (
    "arch",
    "warm_up_calls",
    "is_stable",
    "control_ms",
    "clock_mhz",
    "disturbances",
    "samples_ms",
    "beside_gb_per_s",
    "layers",
)

_NEEDED = {*_FIELDS} - {"beside_gb_per_s", "layers"}
"""Columns that the journals of all versions have, which are continued as they are."""

_LARGEST = 2**28  # bytes
_LONGEST_HEADER = 2**12


@final
@dataclass(frozen=True)
class Measurement:
    """One network, timed once."""

    arch: str  # text of the architecture
    samples: Samples
    control_ms: float  # median of the reference network, timed in turns with this one
    clock_mhz: float | None  # of the processor or GPU, right after; None if unknown
    drift: tuple[str, ...]  # of the reference network, as known then; judged again when read
    disturbances: tuple[str, ...]  # other disturbances
    beside_gb_per_s: tuple[float, ...] = ()  # bandwidth of each process beside, meanwhile
    layers: tuple[LayerTime, ...] = ()  # in the order they run

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
          UserError: if one is impossible.
        """
        require_ms([*self.samples.ms, self.control_ms], f"an inference of {self.arch} took")

    @property
    def is_undisturbed(self) -> bool:
        """Whether the machine was quiet, as far as is known."""
        return not (self.drift or self.disturbances)

    def fields(self) -> dict[str, object]:
        """One line of the journal."""
        values = (
            self.arch,
            self.samples.warm_up_calls,
            int(self.samples.is_stable),
            self.control_ms,
            self.clock_mhz,
            "; ".join(self.disturbances),
            " ".join(
                f"{each:.5f}" for each in self.samples.ms
            ),  # to 10 ns; in the order they were taken
            " ".join(f"{each:.3f}" for each in self.beside_gb_per_s),
            "; ".join(f"{layer} = {us:.2f}" for layer, us in self.layers),
        )
        return dict(zip(_FIELDS, values, strict=True))


def append(path: Path, measurements: list[Measurement]) -> None:
    """Add lines to a journal, in one write, and hand them to the operating system."""
    if not measurements:
        return
    text = io.StringIO(newline="")
    names = _names(path)
    writer = csv.DictWriter(
        text, names or _FIELDS, extrasaction="ignore", restval="", lineterminator="\n"
    )
    if names is None:
        writer.writeheader()
    writer.writerows(each.fields() for each in measurements)
    append_lines(path, text.getvalue())


def _names(path: Path) -> tuple[str, ...] | None:
    """The columns of a journal; None if it has none yet: a kill may have cut off its first line."""
    if not path.exists():
        return None
    with opened(path) as file:
        first = file.readline(_LONGEST_HEADER).decode("utf-8", "replace")
    return tuple(first.strip().split(",")) if first else None


def read(path: Path) -> list[dict[str, str]]:
    """The complete lines of a journal, each with `median_ms` and the other statistics of its times.

    A line cut off by a kill is left out.

    Raises:
      UserError: if the file is no journal, or a line of it makes no sense.
    """
    if not path.exists():
        return []
    way_out = "name another folder with out="
    try:
        lines = [line.decode() for line in complete_lines(path, _LARGEST)]
        rows = list(csv.DictReader(lines, strict=True))
    except (UserError, ValueError, csv.Error) as error:
        raise UserError(f"{path} is no journal: {error}; {way_out}") from error
    names = tuple(lines[0].strip().split(",")) if lines else _FIELDS
    if not _NEEDED.issubset(names):
        raise UserError(f"{path} is not the journal of a measurement; {way_out}")
    for number, row in enumerate(rows, start=2):
        if {*row} != {*names} or not _is_sound(row):
            raise UserError(
                f"{path}, line {number} is not that of a measurement; remove the line, or {way_out}"
            )
        row.update((f"{each.value}_ms", str(float(each.of(_ms(row))))) for each in Statistic)
    return rows


def _is_sound(row: dict[str, str]) -> bool:
    """Whether a line has all its fields, and numbers where they belong."""
    if None in row.values():
        return False
    try:
        require_ms([*_ms(row), float(row["control_ms"])], "")
        clock_mhz = float(row["clock_mhz"] or 1.0)
        beside = [float(each) for each in row.get("beside_gb_per_s", "").split()]
    except (UserError, ValueError):
        return False
    is_timed = bool(row["arch"] and row["samples_ms"].split())
    return is_timed and 0 < clock_mhz < math.inf and all(0 <= each < math.inf for each in beside)


def _ms(row: dict[str, str]) -> Float64[ndarray, " n"]:
    """Times of a line, in the order they were taken."""
    return np.array(row["samples_ms"].split(), np.float64)


def layers_of(row: dict[str, str]) -> list[LayerTime]:
    """The layers of a line with their microseconds; [] if they were not timed.

    Raises:
      UserError: if they make no sense.
    """
    pairs = [each.rpartition(" = ") for each in row.get("layers", "").split("; ") if each]
    try:
        return [(layer, float(us)) for layer, _, us in pairs]
    except ValueError as error:
        raise UserError(
            f"the layers of {row['arch']} are those of no measurement: {error}"
        ) from error


def judged(rows: list[dict[str, str]], control_drift: float) -> list[dict[str, str]]:
    """The lines of one journal; a line whose reference network deviates from its quiet time was taken under load.

    The quiet time is known only from all lines. A field `control_drift` is added: the relative deviation.
    """
    control_ms = {float(row["control_ms"]) for row in rows if not row["disturbances"]}
    if not control_ms:
        return rows
    quiet_ms = quiet_control_ms(control_ms)
    verdicts = []
    for row in rows:
        now_ms = float(row["control_ms"])
        compared = {**row, "control_drift": f"{now_ms / quiet_ms - 1:.5f}"}
        reasons = [*drifted(now_ms, quiet_ms, control_drift), row["disturbances"]]
        verdicts.append({**compared, "disturbances": "; ".join(filter(None, reasons))})
    return verdicts


def measured_ms(rows: list[dict[str, str]], statistic: Statistic) -> dict[str, float]:
    """Milliseconds of every architecture that was measured on a quiet machine, by its text.

    One that was measured several times has the median of them. Architectures that are the same network
    do not share a time: no runtime here finds out that they are (docs/explanation/timing.md).
    """
    taken: dict[str, list[float]] = {}
    for row in rows:
        if not row["disturbances"]:
            taken.setdefault(row["arch"], []).append(float(row[f"{statistic.value}_ms"]))
    return {arch: float(np.median(times)) for arch, times in taken.items()}


def repeat_differences(rows: list[dict[str, str]], statistic: Statistic) -> Float64[ndarray, " n"]:
    """Relative difference of each later valid measurement of a network to its first."""
    first: dict[str, float] = {}
    differences = []
    for row in rows:
        if row["disturbances"]:
            continue
        ms = float(row[f"{statistic.value}_ms"])
        if first.get(row["arch"], 0) > 0:
            differences.append(ms / first[row["arch"]] - 1)
        else:
            first[row["arch"]] = ms
    return np.array(differences)


def taken_beside(rows: list[dict[str, str]]) -> list[float] | None:
    """Mean GB/s of each process beside, over valid rows; None if none is recorded."""
    recorded = [row.get("beside_gb_per_s", "").split() for row in rows if not row["disturbances"]]
    most = max(map(len, recorded), default=0)
    taken = np.array([[float(each) for each in row] for row in recorded if len(row) == most])
    return taken.mean(0).round(3).tolist() if most else None
