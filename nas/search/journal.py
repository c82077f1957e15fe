"""The journal of a search: what was asked and what was answered, a line an event.

It is flushed at every answer, so that a killed run keeps what it learned; the finished run keeps the
Parquet file of `nas.search.record` instead. The first line says which space the rows belong to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from latency.base import Latencies
from nas.spaces.base import SearchSpace
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials
from runtime.shell.atomic_file import naming, replacing
from runtime.shell.errors import UserError

VERSION = 2
_ASKED, _TOLD = "asked", "told"
_ENCODER = json.JSONEncoder(separators=(",", ":"))


@final
@dataclass(frozen=True)
class Asked:
    """A batch of one replica, before there was an answer."""

    first: int
    architectures: Int64[ndarray, "1 B D"]


Event: TypeAlias = Asked | Trials


@final
class Journal:
    """Appends events; `asked` and the call itself are consumers of a loop of one replica."""

    def __init__(self, path: Path, space: SearchSpace) -> None:
        self._path = path
        self._file: IO[str] = path.open("a", encoding="utf-8")
        if self._file.tell() == 0:
            self._write({"journal": VERSION, "space": space.name})

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        with naming(self._path):
            self._file.close()

    def asked(self, first: int, architectures: Int64[ndarray, "R B D"]) -> None:
        """Note what is asked; it reaches the disk with the next answer at the latest."""
        self._write([_ASKED, first, architectures[0].tolist()])

    def __call__(self, trials: Trials) -> None:
        """Write answers, and hand them to the operating system."""
        one = trials if trials.state.ndim == 1 else trials.replica(0)
        self._write([_TOLD, *(column.tolist() for column in _columns(one))])
        with naming(self._path):
            self._file.flush()

    def _write(self, event: Any) -> None:
        with naming(self._path):
            self._file.write(f"{_ENCODER.encode(event)}\n")


def read_journal(path: Path, problem: SearchProblem) -> list[Event]:
    """The complete events of a journal; a line cut off by a kill is left out.

    Raises:
      UserError: if the file cannot be read, or is no journal of this version and space.
    """
    try:
        lines = _complete_lines(path)
        if not lines:
            return []
        _check_header(lines[0], problem.space)
        return [_event(line, problem) for line in lines[1:]]
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise UserError(
            f"{path} is not the journal of a search of space={problem.space.name}: {error}"
        ) from error


def cut_journal(path: Path, events: int) -> None:
    """Keep the first events of a journal; a line that a kill cut off goes too."""
    lines = _complete_lines(path)[: events + 1]
    with replacing(path) as file:
        file.write("".join(lines).encode())


def _complete_lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return lines if not lines or lines[-1].endswith("\n") else lines[:-1]


def _check_header(line: str, space: SearchSpace) -> None:
    header = json.loads(line)
    if header["journal"] != VERSION or header["space"] != space.name:
        raise ValueError(f"it begins with {line.strip()[:60]}")


def _columns(trials: Trials) -> Iterator[ndarray]:
    for name in _STORED:
        yield getattr(trials, name)


_STORED = (
    "number",
    "architectures",
    "state",
    "accuracy",
    "accuracy_kind",
    "latency_ms",
    "latency_kind",
    "costs",
    "rewards",
    "fidelity",
    "seconds",
    "error",
)
_TYPES = {
    **dict.fromkeys(("number", "architectures"), np.int64),
    **dict.fromkeys(("state", "accuracy_kind", "latency_kind", "fidelity"), np.int8),
    "error": object,
}


def _event(line: str, problem: SearchProblem) -> Event:
    name, *values = json.loads(line)
    if name == _ASKED:
        first, rows = values
        return Asked(int(first), _in_space(np.array(rows, np.int64), problem)[None])
    if name == _TOLD:
        return _trials(values, problem)
    raise ValueError(f"{name!r} is no event")


def _trials(values: Sequence[Any], problem: SearchProblem) -> Trials:
    stored = {
        name: np.array(value, _TYPES.get(name, np.float64))
        for name, value in zip(_STORED, values, strict=True)
    }
    n = len(stored["number"])
    stored["architectures"] = _in_space(stored["architectures"], problem)
    stored["costs"] = stored["costs"].reshape(n, len(problem.limits.each))
    if any(len(column) != n for column in stored.values()):
        raise ValueError("its columns differ in length")
    further = stored["costs"] / problem.limits.bounds
    latencies = Latencies(stored["latency_ms"], stored["latency_kind"])
    ratios = problem.reward.ratios(problem.compared_ms(latencies), further)
    return Trials(ratios=ratios, **stored)


def _in_space(rows: Int64[ndarray, "n D"], problem: SearchProblem) -> Int64[ndarray, "n D"]:
    if rows.shape[1:] != (len(problem.space.num_choices),) or not problem.space.valid(rows).all():
        raise ValueError("it holds a row that is no architecture")
    return rows
