"""Which network of a finished run is meant, and what the run knows of it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, final

from jaxtyping import Int64
from numpy import ndarray

from nas.export.docstring import plain
from nas.search.folder import RunFolder
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from nas.trials.trial import read_parquet_row
from runtime.network.task import Task
from runtime.shell.errors import UserError

_NO_SUMMARY = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""What it raises to take another file for one."""


class Which(Enum):
    """The networks that a summary names."""

    best = "best"
    mode = "mode"
    optimum = "optimum"


@final
@dataclass(frozen=True)
class Found:
    """A network of a run; its numbers are those of the run's sources, not of this machine."""

    run: Path
    named: str  # best, mode, optimum, or sample
    architecture: Int64[ndarray, "6"]
    task: Task
    split: str
    epochs: int
    accuracy: float  # a fraction, on the split that was searched on
    accuracy_test: float | None
    accuracy_predicted: bool
    accuracy_source: str
    device: str
    limit_ms: float
    latency_ms: float
    latency_again_ms: float | None  # of a live device, timed again at the end of the run
    latency_predicted: bool
    latency_source: str

    @property
    def cell(self) -> str:
        """The benchmark's string."""
        return NAS_BENCH_201.text(self.architecture)

    @property
    def index(self) -> int:
        """The official number."""
        return int(NAS_BENCH_201.numbers(self.architecture))

    @property
    def accuracy_text(self) -> str:
        """The accuracy with all that belongs to it, for readers."""
        searched = f"{self.accuracy:.2%} on the {self.split} split after {self.epochs} epochs"
        test = "" if self.accuracy_test is None else f", {self.accuracy_test:.2%} on the test split"
        return f"{searched}{test}, {_kind(predicted=self.accuracy_predicted)}"

    @property
    def latency_text(self) -> str:
        """The latency with all that belongs to it, for readers."""
        again = self.latency_again_ms
        timed_again = "" if again is None else " (timed again at the end of the run)"
        kind = _kind(predicted=self.latency_predicted)
        return f"{self.latency_ms:.3f} ms{timed_again} on {self.device}, {kind}"


def _kind(*, predicted: bool) -> str:
    return "PREDICTED by a model" if predicted else "measured"


def find(run: Path, which: Which | None, cell: str | None) -> Found:
    """The network that a finished run found, or another one of its networks.

    `cell` is a benchmark string or an official number.

    Raises:
      UserError: if there is no finished run, it has no such network, or its files are corrupt.
    """
    if cell is not None and which is not None:
        raise UserError(f"which={which.value} and cell={cell} name two networks; leave out one")
    folder = RunFolder(run)
    if not folder.config.is_file():
        raise UserError(f"run={run} is not the folder of a run: it has no {folder.config.name}")
    if not folder.summary.is_file():
        raise UserError(
            f"run={run} has not finished; go on with python -m nas.search resume={run}, then export"
        )
    try:
        summary = json.loads(folder.summary.read_text(encoding="utf-8"))
        if cell is None:
            which = which or Which.best
            row, named = _named(summary, which, run), which.value
        else:
            row, named = _of_cell(summary, _architecture(cell), folder)
        return _found(summary, row, run, named)
    except _NO_SUMMARY as error:
        raise UserError(
            f"{folder.summary} is not the summary of a search: {type(error).__name__}, {error}"
        ) from error


def _named(summary: dict[str, Any], which: Which, run: Path) -> dict[str, Any]:
    row: dict[str, Any] | None = summary[which.value]
    if row is not None:
        return row
    others = [f"which={other.value}" for other in Which if summary[other.value] is not None]
    offer = ", ".join([*others, "cell=<one of its samples>"])
    why = {
        Which.best: f"found no network within T = {float(summary['T_ms']):g} ms",
        Which.mode: "knows no mode: its controller has no policy, or no source knows it",
        Which.optimum: "knows no exact optimum: nothing is within T, or asking for all is not free",
    }[which]
    raise UserError(f"run={run} {why}; export another network with {offer}")


def _architecture(cell: str) -> Int64[ndarray, "6"]:
    if not cell.isascii() or not cell.isdigit():
        return NAS_BENCH_201.parse(cell)
    if int(cell) >= NAS_BENCH_201.size:
        raise UserError(f"cell={cell} is not between 0 and {NAS_BENCH_201.size - 1:,}")
    architecture: Int64[ndarray, "6"] = NAS_BENCH_201.rows[int(cell)]
    return architecture


def _of_cell(
    summary: dict[str, Any], architecture: Int64[ndarray, "6"], folder: RunFolder
) -> tuple[dict[str, Any], str]:
    index = int(NAS_BENCH_201.numbers(architecture))
    for which in Which:
        row = summary[which.value]
        if row is not None and row["index"] == index:
            return row, which.value
    sampled = read_parquet_row(folder.samples, index)
    if sampled is None:
        raise UserError(
            f"cell {NAS_BENCH_201.text(architecture)} (number {index}) was not sampled in "
            f"run={folder.path}, which knows nothing of it; its samples are in {folder.samples}"
        )
    return {**sampled, "accuracy_searched": sampled["accuracy"]}, "sample"


def _found(summary: dict[str, Any], row: dict[str, Any], run: Path, named: str) -> Found:
    test, again = row["accuracy_test"], row.get("latency_again_ms")
    device, limit_ms, latency_ms = _where(summary, row)
    if not (0 <= float(row["accuracy_searched"]) <= 1 and 0 < latency_ms < math.inf):
        raise ValueError("an accuracy is within 0 and 1, a latency is positive")
    return Found(
        run=run,
        named=named,
        architecture=NAS_BENCH_201.parse(row["arch"]),
        task=TASKS[summary["dataset"]],
        split=plain(str(summary["split"])),
        epochs=int(summary["epochs"]),
        accuracy=float(row["accuracy_searched"]),
        accuracy_test=None if test is None else float(test),
        accuracy_predicted=bool(row["accuracy_predicted"]),
        accuracy_source=plain(str(summary["accuracy_description"])),
        device=plain(device),
        limit_ms=limit_ms,
        latency_ms=latency_ms,
        latency_again_ms=None if again is None else float(again),
        latency_predicted=bool(row["latency_predicted"]),
        latency_source=plain(str(summary["latency_description"])),
    )


def _where(summary: dict[str, Any], row: dict[str, Any]) -> tuple[str, float, float]:
    """Device, T and latency there: of several devices, of the one with most room for the network."""
    if row.get("on"):
        on = row["on"][0]
        return str(on["device"]), float(on["T_ms"]), float(on["latency_ms"])
    device = str(summary["device"])
    if summary.get("latency_source") == "mapped":  # a sample, of which only the scaled time is kept
        device = f"the best of {device}, as milliseconds of the first"
    return device, float(summary["T_ms"]), float(row["latency_ms"])
