"""The journal of a search: what was asked and what was answered, a line an event.

It is flushed at every answer, so that a killed run keeps what it learned; the finished run keeps the
Parquet file of `nas.report.samples` instead. The first line says which space the rows belong to. Every
line ends with its checksum, which tells damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, final
from zlib import crc32

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.files.atomic_file import naming
from edgenas_core.files.lines import complete_lines, cut_lines
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies
from nas.spaces.base import SearchSpace
from nas.spaces.function import complete_rows
from nas.trials.problem import SearchProblem
from nas.trials.trial import State, Trials

VERSION = 4
_ASKED, _TOLD, _NOTED = "asked", "told", "noted"
_ENCODER = json.JSONEncoder(separators=(",", ":"))


@final
@dataclass(frozen=True)
class Asked:
    """A batch of one replica, before there was an answer."""

    first: int
    architectures: Int64[ndarray, "1 B D"]


@final
@dataclass(frozen=True)
class JournalNote:
    """A decision of the search, such as the candidates that it drew: JSON under a name."""

    name: str
    value: dict[str, Any]


Event: TypeAlias = Asked | Trials | JournalNote


@final
class Journal:
    """Appends events; `asked` and the call itself are consumers of a loop of one replica."""

    def __init__(self, path: Path, space: SearchSpace) -> None:
        """Open a journal at its end, or begin it."""
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
        search = trials if trials.state.ndim == 1 else trials.replica(0)
        self._write([_TOLD, *(getattr(search, name).tolist() for name in _STORED)])
        self._flush()

    def note(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a decision, and hand it to the operating system."""
        self._write([_NOTED, name, value])
        self._flush()

    def _write(self, event: Any) -> None:
        text = _ENCODER.encode(event)
        with naming(self._path):
            self._file.write(f"{text}\t{_checksum(text)}\n")

    def _flush(self) -> None:
        with naming(self._path):
            self._file.flush()


def read_journal(path: Path, problem: SearchProblem) -> list[Event]:
    """The complete events of a journal; a line cut off by a kill is left out.

    Raises:
      UserError: if the file cannot be read, is damaged, or is no journal of this version and space.
    """
    try:
        return list(_events(path, problem))
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
        name = problem.space.name
        raise UserError(
            f"{path} is not the journal of a search of space={name}: {error}"
        ) from error


def cut_journal(path: Path, events: int) -> None:
    """Keep the first events of a journal, after its first line; a line that a kill cut off goes too."""
    cut_lines(path, events + 1)


def _events(path: Path, problem: SearchProblem) -> Iterator[Event]:
    for number, line in enumerate(complete_lines(path)):
        text, _, checksum = line.decode().rstrip("\n").rpartition("\t")
        if number == 0:
            _check_header(text, problem.space)
        if _checksum(text) != checksum:
            raise ValueError(
                f"line {number + 1} is damaged; keep the lines before it to go on from there"
            )
        if number:
            yield _event(text, problem)


def _checksum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"


def _check_header(text: str, space: SearchSpace) -> None:
    header = json.loads(text or "null")
    if not isinstance(header, dict) or header.get("journal") != VERSION:
        raise ValueError(
            "it was begun by another version; finish it with that one, or begin the search anew"
        )
    if header.get("space") != space.name:
        raise ValueError(f"it begins with {text[:80]}")


_STORED: dict[str, type[Any]] = {
    "number": np.int64,
    "architectures": np.int64,
    "state": np.int8,
    "accuracy": np.float64,
    "accuracy_kind": np.int8,
    "latency_ms": np.float64,
    "latency_kind": np.int8,
    "costs": np.float64,
    "rewards": np.float64,
    "fidelity": np.int8,
    "seconds": np.float64,
    "error": object,
}
"""Columns of an answer and their types: all of a trial but the ratios, which follow from them."""


def _event(line: str, problem: SearchProblem) -> Event:
    name, *values = json.loads(line)
    if name == _ASKED:
        first, rows = values
        return Asked(int(first), _in_space(np.array(rows, np.int64), problem)[None])
    if name == _TOLD:
        return _trials(values, problem)
    if name == _NOTED:
        title, value = values
        return JournalNote(str(title), dict(value))
    raise ValueError(f"{name!r} is no event")


def _trials(values: Sequence[Any], problem: SearchProblem) -> Trials:
    stored: dict[str, ndarray] = {
        name: np.array(value, dtype)
        for (name, dtype), value in zip(_STORED.items(), values, strict=True)
    }
    n = len(stored["number"])
    stored["architectures"] = _in_space(stored["architectures"], problem)
    stored["costs"] = stored["costs"].reshape(n, len(problem.limits.each))
    if any(len(column) != n for column in stored.values()):
        raise ValueError("its columns differ in length")
    for name, values_of in (("state", State), ("accuracy_kind", Kind), ("latency_kind", Kind)):
        if not np.isin(stored[name], list(values_of)).all():
            raise ValueError(f"it holds a {name} that is none")
    further = stored["costs"] / problem.limits.bounds
    latencies = Latencies(stored["latency_ms"], stored["latency_kind"])
    ratios = problem.ratios(problem.compared_ms(latencies), further)
    return Trials(ratios=ratios, **stored)


def _in_space(rows: Int64[ndarray, "n d"], problem: SearchProblem) -> Int64[ndarray, "n D"]:
    rows = complete_rows(rows, problem.space)
    if rows.shape[1:] != (len(problem.space.num_choices),) or not problem.space.valid(rows).all():
        raise ValueError("it holds a row that is no architecture; begin the search anew")
    return rows
