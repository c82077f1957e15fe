"""Every architecture that one search sampled, in order: in memory, as a journal, as Parquet.

The journal is a CSV that grows by a line a sample and is flushed at every step, so that a
killed run keeps what it sampled; the finished run keeps the Parquet file instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.loop import Step
from runtime.shell.atomic_file import naming, replacing
from runtime.shell.errors import UserError

_HEADER = "index,accuracy,latency_ms,reward\n"


@final
@dataclass(frozen=True)
class Samples:
    """The samples of one replica."""

    architectures: Int64[ndarray, "n 6"]
    accuracy: Float64[ndarray, "n"]  # on the split that was searched on, a fraction
    latency_ms: Float64[ndarray, "n"]
    rewards: Float64[ndarray, "n"]

    def __len__(self) -> int:
        return len(self.accuracy)


@final
class Journal:
    """Appends steps to the journal; a consumer of the loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] = path.open("a", encoding="ascii")
        if self._file.tell() == 0:
            self._file.write(_HEADER)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with naming(self._path):
            self._file.close()

    def __call__(self, step: Step) -> None:
        """Write the step's samples and hand them to the operating system."""
        rows = zip(
            NAS_BENCH_201.numbers(step.architectures[0]).tolist(),
            step.accuracy[0].tolist(),
            step.latency_ms[0].tolist(),
            step.rewards[0].tolist(),
            strict=True,
        )
        # repr of a float reads back as the same float
        lines = "".join(f"{i},{a!r},{t!r},{r!r}\n" for i, a, t, r in rows)
        with naming(self._path):
            self._file.write(lines)
            self._file.flush()


def read_journal(path: Path) -> Samples:
    """The complete lines of a journal; a line cut off by a kill is left out.

    Raises:
      UserError: if the file cannot be read or is no journal.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines(keepends=True)
        rows = [line.split(",") for line in _after_header(lines) if line.endswith("\n")]
        indices = np.array([int(row[0]) for row in rows], np.int64)
        numbers = np.array([[float(x) for x in row[1:]] for row in rows]).reshape(-1, 3)
        architectures = NAS_BENCH_201.rows[_in_space(indices)]
        _finite(numbers)
    except (OSError, ValueError, IndexError) as error:
        raise UserError(f"{path} is not the journal of a run: {error}") from error
    return Samples(architectures, *numbers.T)


def _after_header(lines: Sequence[str]) -> Sequence[str]:
    if lines and lines[0] != _HEADER:
        raise ValueError(f"its first line is {lines[0][:40]!r}")
    return lines[1:]


def _in_space(indices: Int64[ndarray, " n"]) -> Int64[ndarray, " n"]:
    if (indices < 0).any():
        raise ValueError(f"index {indices.min()} is negative")
    return indices


def _finite(numbers: Float64[ndarray, "n 3"]) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError("it holds a number that is not finite")


def cut_journal(path: Path, count: int) -> None:
    """Keep the first samples of a journal.

    A line that a kill cut off goes too.
    """
    lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    with replacing(path) as file:
        file.write("".join(lines[: count + 1]).encode("ascii"))


def write_parquet(
    path: Path,
    samples: Samples,
    *,
    accuracy_test: Float64[ndarray, "n"],
    accuracy_predicted: bool,
    latency_predicted: Bool[ndarray, "n"],
    feasible: Bool[ndarray, "n"],
    costs: Mapping[str, Float64[ndarray, "n"]] | None = None,
) -> None:
    """Write one row a sample, in order: `index` is the architecture's official number.

    `costs` are further columns, by name: those that have a limit beside the latency.
    """
    import pyarrow as pa  # noqa: PLC0415 - a run's first sample does not wait for it
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and not always needed

    indices = NAS_BENCH_201.numbers(samples.architectures)
    table = pa.table(
        {
            "sample": np.arange(len(samples)),
            "index": indices,
            "arch": [NAS_BENCH_201.strings[i] for i in indices],
            "accuracy": samples.accuracy,
            "accuracy_test": accuracy_test,
            "accuracy_predicted": np.full(len(samples), accuracy_predicted),
            "latency_ms": samples.latency_ms,
            "latency_predicted": latency_predicted,
            "feasible": feasible,
            "reward": samples.rewards,
            **(costs or {}),
        }
    )
    with replacing(path) as file:
        pq.write_table(table, file)


def read_parquet(path: Path) -> Samples:
    """The samples of a finished run.

    Raises:
      UserError: if the file cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - a run's first sample does not wait for it
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and not always needed

    try:
        table = pq.read_table(path, columns=["index", "accuracy", "latency_ms", "reward"])
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    index, *numbers = (column.to_numpy() for column in table.columns)
    return Samples(NAS_BENCH_201.rows[index], *numbers)


def read_parquet_row(path: Path, index: int) -> dict[str, Any] | None:
    """All columns of the first sample of an official number; NaN is None. None if there is none.

    Raises:
      UserError: if the file cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - as above
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    try:
        rows = pq.read_table(path, filters=[("index", "=", index)]).slice(0, 1).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not rows:
        return None
    return {name: None if _is_nan(value) else value for name, value in rows[0].items()}


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
