"""The trials of a finished run as `samples.parquet`: a row a trial, in the order of the answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgenas_core.files.atomic_file import replacing
from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from nas.spaces.base import SearchSpace
from nas.trials.problem import SearchProblem
from nas.trials.trial import State, Trials

if TYPE_CHECKING:
    import pyarrow as pa


def write_record(path: Path, trials: Trials, problem: SearchProblem) -> None:
    """Write the record.

    Raises:
      OSError: if it cannot be written.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and not always needed

    with replacing(path) as file:
        pq.write_table(record(trials, problem), file)


def record(trials: Trials, problem: SearchProblem) -> pa.Table:
    """A row for each trial; `index` is there where the space numbers its architectures."""
    import pyarrow as pa  # noqa: PLC0415 - a run's first trial does not wait for it

    space, limits = problem.space, problem.limits
    numbers = {}
    if isinstance(space, Enumerable):
        numbers = {"index": space.numbers(trials.architectures)}
    return pa.table(
        {
            "sample": trials.number,
            **numbers,
            "arch": _texts(trials, space),
            "state": [State(value).name for value in trials.state.tolist()],
            "accuracy": trials.accuracy,
            "accuracy_kind": [Kind(value).name for value in trials.accuracy_kind.tolist()],
            "latency_ms": trials.latency_ms,
            "latency_kind": [Kind(value).name for value in trials.latency_kind.tolist()],
            "feasible": problem.feasible(trials),
            "reward": trials.rewards,
            "fidelity": trials.fidelity,
            "seconds": trials.seconds,
            "error": trials.error.tolist(),
            **{limit.name: costs for limit, costs in zip(limits.each, trials.costs.T, strict=True)},
        }
    )


def read_row(path: Path, text: str) -> dict[str, Any] | None:
    """All columns of the first finished trial of an architecture; NaN is None. None without one.

    Raises:
      UserError: if the file cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415 - loaded when needed
    import pyarrow.parquet as pq  # noqa: PLC0415 - loaded when needed

    try:
        wanted = [("arch", "=", text), ("state", "=", State.done.name)]
        require_regular(path)
        rows = pq.read_table(path, filters=wanted).slice(0, 1).to_pylist()
    except (OSError, pa.ArrowException, ValueError, LookupError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    if not rows:
        return None
    return {name: None if _is_nan(value) else value for name, value in rows[0].items()}


def _texts(trials: Trials, space: SearchSpace) -> list[str]:
    """Each distinct architecture is written once."""
    rows, which = np.unique(trials.architectures, axis=0, return_inverse=True)
    texts = [space.text(row) for row in rows]
    return [texts[position] for position in which.reshape(-1).tolist()]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
