"""`import`: files that the user has, converted into the open layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from nas.accuracy.base import Split
from nas.data.storing import store_accuracy, store_latency
from nas.spaces.nas_bench_201.archive import NatsArchive
from nas.spaces.nas_bench_201.public.help_latency import TABLE_FILE, read_help_files
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, NAS_BENCH_201, TASKS
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS, SHORT_EPOCHS
from runtime.network.task import Task
from runtime.shell.errors import UserError

_Columns = dict[str, Float64[ndarray, "15625"]]


WHOLE_LATENCY_FILE = "nb201_latency_nats_ms.csv"
PARTIAL_LATENCY_FILE = "partial_latency_nats_ms.csv"


def import_paths(paths: Sequence[Path], folder: Path, *, partial: bool) -> Iterator[str]:
    """Convert one folder of the official archive, or HELP's latency files.

    Yields:
      a line for each thing done.

    Raises:
      UserError: if the paths are neither, or what they hold is not what it should be.
      OSError: if something cannot be read or written.
    """
    if len(paths) == 1 and paths[0].is_dir():
        yield from _import_archive(NatsArchive(paths[0]), folder, partial=partial)
        return
    for path in paths:
        if path.suffix != ".pt" or path.is_dir():
            raise UserError(
                f"{path} is neither a folder of the NATS-Bench archive nor a .pt file of HELP; "
                f"give one such folder (a .tar is to be unpacked first), or .pt files"
            )
    columns = read_help_files(paths)
    if not columns:
        raise UserError(f"{paths[0]} is only HELP's index; give latency files too")
    yield store_latency(folder / TABLE_FILE, columns)


def latency_column(task: Task) -> str:
    """Name of the archive's own latency: a GTX 1080 Ti, batch 256."""
    return f"nats-gtx1080ti-{task.name}"


def _import_archive(archive: NatsArchive, folder: Path, *, partial: bool) -> Iterator[str]:
    held = [index for index in range(NAS_BENCH_201.size) if archive.has(index)]
    missing = NAS_BENCH_201.size - len(held)
    if missing and not (partial and held):
        raise UserError(
            f"{archive.folder} holds {len(held):,} of {NAS_BENCH_201.size:,} cells, "
            f"{missing:,} are missing; unpack the whole archive"
            + (", or make a latency table of what there is with --partial" if held else "")
        )
    if missing:
        _, latency = _read(archive, held, with_accuracy=False)
        yield store_latency(folder / PARTIAL_LATENCY_FILE, latency)
        yield f"wrote no accuracy table: it needs the whole space, {missing:,} cells are missing"
        return
    accuracy, latency = _read(archive, held, with_accuracy=True)
    yield store_accuracy(folder, accuracy)
    (folder / PARTIAL_LATENCY_FILE).unlink(missing_ok=True)  # it has the same columns
    yield store_latency(folder / WHOLE_LATENCY_FILE, latency)


def _read(
    archive: NatsArchive, indices: Sequence[int], *, with_accuracy: bool
) -> tuple[_Columns, _Columns]:
    """Accuracy in percent and latency in ms; NaN for cells that are not asked for."""
    accuracy: _Columns = {}
    latency: _Columns = {}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        for index in progress.track(indices, description="read cells"):
            for task in TASKS.values():
                _put(latency, latency_column(task), index, archive.latency_ms(index, task))
                if not with_accuracy:
                    continue
                valid, test = archive.accuracy(index, task, FULL_EPOCHS)
                short, _ = archive.accuracy(index, task, SHORT_EPOCHS)
                for split, epochs, fraction in (
                    (Split.valid, FULL_EPOCHS, valid),
                    (Split.test, FULL_EPOCHS, test),
                    (Split.valid, SHORT_EPOCHS, short),
                ):
                    column = ACCURACY_TABLE.column(task, split, epochs)
                    _put(accuracy, column, index, 100 * fraction)
    return accuracy, latency


def _put(columns: _Columns, name: str, index: int, number: float) -> None:
    if name not in columns:
        columns[name] = np.full(NAS_BENCH_201.size, np.nan)
    columns[name][index] = number
