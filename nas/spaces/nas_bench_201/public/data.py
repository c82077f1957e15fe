"""Public data of NAS-Bench-201 as columns: the official archive, HELP's files, a published CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from rich.console import Console

from edgenas_core.command.progress import progress_bar
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.accuracy.base import Split
from nas.spaces.nas_bench_201.public.archive import NatsArchive
from nas.spaces.nas_bench_201.public.files import (
    FILES,
    HELP_INDEX,
    HELP_LATENCIES,
    MIRROR,
    PUBLISHED_ACCURACY,
)
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, NAS_BENCH_201, TASKS
from nas.spaces.public_data import NewTable, RemoteFile, load_torch_file

_Columns = dict[str, Float64[ndarray, "15625"]]

HELP_FILE = "nb201_latency_help_ms.csv"
NATS_FILE = "nb201_latency_nats_ms.csv"

_MOST_HELP_BYTES = 16 * 2**20  # of one file; the largest that HELP published is 1.5 MB

_FULL_EPOCHS, _SHORT_EPOCHS = ACCURACY_TABLE.epochs
_PUBLISHED_NAMES = {
    "cifar10": "CIFAR10TestAccuracy200Epochs",
    "cifar100": "CIFAR100TestAccuracy200Epochs",
    "imagenet16": "ImageNetTestAccuracy200Epochs",
}
"""Column of the published CSV by task."""


def latency_column(task: Task) -> str:
    """Name of the column with the archive's own latency: a GTX 1080 Ti, batch 256."""
    return f"nats-gtx1080ti-{task.name}"


_REFERENCE_NUMBERS = (0, 11, 284)
_REFERENCES = {
    "cifar10_valid": (81.9827, 87.9400, 86.0467),
    "cifar10_test": (85.8633, 91.5833, 88.7900),
    "cifar100_valid": (52.7000, 67.4533, 61.6800),
    "cifar100_test": (52.9133, 67.6067, 62.1400),
    "imagenet16_valid": (28.2111, 30.4111, 33.4000),
    "imagenet16_test": (26.6333, 30.1667, 32.4667),
    latency_column(TASKS["cifar100"]): (13.1829, 16.1389, 11.1450),
}
"""Three cells of NATS-Bench's official archive, v1.0: percent, and milliseconds."""


@final
class NasBench201Data:
    """Accuracies of all cells, HELP's latencies on 25 devices, and the official archive."""

    mirror: str = MIRROR
    files: tuple[RemoteFile, ...] = FILES
    importable: str = "the unpacked NATS-Bench archive (a folder), or .pt latency files of HELP"
    reference_values: Mapping[str, Mapping[int, float]] = {
        column: dict(zip(_REFERENCE_NUMBERS, values, strict=True))
        for column, values in _REFERENCES.items()
    }

    def fetched(self, folder: Path) -> Iterator[NewTable]:
        """Convert the published test accuracies, and HELP's latencies.

        Raises:
          UserError: if a file is not as published.
        """
        accuracy = _published_accuracy(folder / PUBLISHED_ACCURACY.name)
        yield NewTable(ACCURACY_TABLE.file, accuracy)
        help_files = [folder / file.name for file in (HELP_INDEX, *HELP_LATENCIES)]
        yield NewTable(HELP_FILE, _help_latencies(help_files))

    def imported(self, paths: Sequence[Path]) -> Iterator[NewTable]:
        """Convert one folder of the official archive, or HELP's latency files.

        Raises:
          UserError: if the paths are neither, their content is malformed, or cells are missing.
          OSError: if a file cannot be read.
        """
        if len(paths) == 1 and paths[0].is_dir():
            yield from _from_archive(NatsArchive(paths[0]))
            return
        for path in paths:
            if path.suffix != ".pt" or path.is_dir():
                raise UserError(
                    f"{path} is neither a folder of the NATS-Bench archive nor a .pt file of HELP; "
                    f"give one such folder (unpack a .tar first), or .pt files"
                )
        columns = _help_latencies(paths)
        if not columns:
            raise UserError(f"{paths[0]} is only HELP's index; give latency files too")
        yield NewTable(HELP_FILE, columns)


def _published_accuracy(path: Path) -> _Columns:
    """Test accuracies in percent after the full training."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if tuple(row.get("ArchitectureString") for row in rows) != NAS_BENCH_201.strings:
        raise UserError(f"{path} does not list the 15,625 architectures in official order")
    return {
        ACCURACY_TABLE.column(task, Split.test, _FULL_EPOCHS): np.array(
            [float(row[_PUBLISHED_NAMES[name]]) for row in rows]
        )
        for name, task in TASKS.items()
    }


def _from_archive(archive: NatsArchive) -> Iterator[NewTable]:
    size = NAS_BENCH_201.size
    held = sum(archive.has(index) for index in range(size))
    if held < size:
        raise UserError(
            f"{archive.folder} holds {held:,} of {size:,} cells, {size - held:,} are missing; "
            f"unpack the whole archive"
        )
    accuracy, latency = _read(archive)
    yield NewTable(ACCURACY_TABLE.file, accuracy)
    yield NewTable(NATS_FILE, latency)


def _read(archive: NatsArchive) -> tuple[_Columns, _Columns]:
    """Accuracy in percent and latency in ms of every cell."""
    accuracy: _Columns = {}
    latency: _Columns = {}
    with progress_bar(Console(stderr=True)) as progress:
        for index in progress.track(range(NAS_BENCH_201.size), description="read cells"):
            for task in TASKS.values():
                _put(latency, latency_column(task), index, archive.latency_ms(index, task))
                valid, test = archive.accuracy(index, task, _FULL_EPOCHS)
                short, _ = archive.accuracy(index, task, _SHORT_EPOCHS)
                for split, epochs, fraction in (
                    (Split.valid, _FULL_EPOCHS, valid),
                    (Split.test, _FULL_EPOCHS, test),
                    (Split.valid, _SHORT_EPOCHS, short),
                ):
                    column = ACCURACY_TABLE.column(task, split, epochs)
                    _put(accuracy, column, index, 100 * fraction)
    return accuracy, latency


def _put(columns: _Columns, name: str, index: int, number: float) -> None:
    columns.setdefault(name, np.empty(NAS_BENCH_201.size))[index] = number


def _help_latencies(paths: Sequence[Path]) -> dict[str, Float64[ndarray, "15625"]]:
    """Milliseconds of each device, by column name.

    A file may also be HELP's `str_arch2idx.pt`, the row of each architecture; it makes no column,
    but must agree with the official order.

    Raises:
      UserError: if a file cannot be read safely, or holds no latency of all 15,625 cells.
    """
    columns = {}
    for path in paths:
        content = load_torch_file(path, _MOST_HELP_BYTES)
        if isinstance(content, dict):
            _check_index(path, content)
        else:
            columns[f"help-{path.stem.replace('_', '-')}"] = _milliseconds(path, content)
    return columns


def _check_index(path: Path, row_of: dict[object, object]) -> None:
    if row_of != {text: row for row, text in enumerate(NAS_BENCH_201.strings)}:
        raise UserError(f"{path} is not an index of the 15,625 architectures in official order")


def _milliseconds(path: Path, content: object) -> Float64[ndarray, "15625"]:
    size = NAS_BENCH_201.size
    if not isinstance(content, list) or len(content) != size:
        held = f"{type(content).__name__} of {len(content) if hasattr(content, '__len__') else 1}"
        raise UserError(f"{path} holds a {held}, HELP's files hold a list of {size:,} latencies")
    for row, number in enumerate(content):
        if type(number) not in {int, float} or not 0 < number < float("inf"):
            raise UserError(f"{path}: latency of cell {row} is {number!r}, not a positive number")
    return np.array(content, np.float64)
