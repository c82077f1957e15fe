"""The journal of a search: what was asked and what was answered, a line an event.

It is flushed at every answer, so that a killed run keeps what it learned; the finished run keeps the
Parquet file of `nas.search.record` instead. The first line says which space the rows belong to, and
holds the digest of the run's settings. Every line ends with a digest of itself and all lines before it,
so that a changed, missing or swapped line is found out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeAlias, final

import numpy as np
from jaxtyping import Int64
from numpy import ndarray

from common.files.atomic_file import naming
from common.files.safe_file import opened
from common.types.errors import UserError
from common.types.kind import Kind
from latency.base import Latencies
from nas.spaces.base import SearchSpace
from nas.trials.problem import SearchProblem
from nas.trials.trial import State, Trials

VERSION = 3
_ASKED, _TOLD = "asked", "told"
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_LONGEST_LINE = 2**24  # bytes; a batch of 100,000 architectures has fewer


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

    def __init__(self, path: Path, space: SearchSpace, settings: str = "") -> None:
        """Open the journal of a run with these settings, given as their digest."""
        self._path = path
        self._digest = ""
        for line in _complete_lines(path) if path.exists() else ():
            self._digest = _parted(line)[1]
        self._file: IO[str] = path.open("a", encoding="utf-8")
        if self._file.tell() == 0:
            self._write({"journal": VERSION, "space": space.name, "settings": settings})

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
        text = _ENCODER.encode(event)
        self._digest = _digest(self._digest, text)
        with naming(self._path):
            self._file.write(f"{text}\t{self._digest}\n")


def read_journal(path: Path, problem: SearchProblem, settings: str = "") -> list[Event]:
    """The complete events of a journal; a line cut off by a kill is left out.

    Raises:
      UserError: if the file cannot be read, is no journal of this version and space, or it or the
        settings were changed since they were written.
    """
    try:
        return list(_events(path, problem, settings))
    except (OSError, ValueError, KeyError, TypeError, IndexError, ArithmeticError) as error:
        why = str(error)
    except RecursionError:
        why = "it is nested too deeply"
    raise UserError(f"{path} is not the journal of a search of space={problem.space.name}: {why}")


def cut_journal(path: Path, events: int) -> None:
    """Keep the first events of a journal; a line that a kill cut off goes too."""
    kept = sum(len(line) for line in islice(_complete_lines(path), events + 1))
    os.truncate(path, kept)


def _events(path: Path, problem: SearchProblem, settings: str) -> Iterator[Event]:
    digest = ""
    for number, line in enumerate(_complete_lines(path)):
        text, stored = _parted(line)
        if number == 0:
            _check_header(text, problem.space, settings)
        digest = _digest(digest, text)
        if digest != stored:
            raise ValueError(
                f"line {number + 1} was changed, or one before it is missing; keep the lines before "
                f"it to go on from there"
            )
        if number:
            yield _event(text, problem)


def _complete_lines(path: Path) -> Iterator[bytes]:
    with opened(path) as file:
        while (line := file.readline(_LONGEST_LINE)).endswith(b"\n"):
            yield line
        if len(line) == _LONGEST_LINE:
            raise ValueError("one of its lines has no end")


def _parted(line: bytes) -> tuple[str, str]:
    """Text and digest of a line."""
    text, _, digest = line.decode().rstrip("\n").rpartition("\t")
    return text, digest


def _digest(before: str, text: str) -> str:
    return sha256(f"{before}{text}".encode()).hexdigest()[:16]


def _check_header(text: str, space: SearchSpace, settings: str) -> None:
    header = json.loads(text or "null")
    if not isinstance(header, dict) or header.get("journal") != VERSION:
        raise ValueError("it is of another version")
    if header.get("space") != space.name:
        raise ValueError(f"it begins with {text[:80]}")
    if header.get("settings") != settings:
        raise ValueError("the settings in config.yaml are not those that the run was begun with")


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
    for name, known in (("state", State), ("accuracy_kind", Kind), ("latency_kind", Kind)):
        if not np.isin(stored[name], list(known)).all():
            raise ValueError(f"it holds a {name} that is none")
    further = stored["costs"] / problem.limits.bounds
    latencies = Latencies(stored["latency_ms"], stored["latency_kind"])
    ratios = problem.reward.ratios(problem.compared_ms(latencies), further)
    return Trials(ratios=ratios, **stored)


def _in_space(rows: Int64[ndarray, "n D"], problem: SearchProblem) -> Int64[ndarray, "n D"]:
    if rows.shape[1:] != (len(problem.space.num_choices),) or not problem.space.valid(rows).all():
        raise ValueError("it holds a row that is no architecture")
    return rows
