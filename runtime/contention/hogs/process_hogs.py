"""Hogs that are processes: of the CPU's memory, of nothing (spinners), of a disk."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import psutil

import runtime
from runtime.contention.hogs.compiled_hog import compiled_hog
from runtime.contention.hogs.hog import Hog, Place, RunningHog
from runtime.contention.isolation.caches import last_level_bytes

TIMES_THE_CACHE = 8
"""The source's ratio of the array to the last-level cache."""
LEAST_TIMES_THE_CACHE = 2
SPINNER_BYTES = 2**14
_READY_S = 30.0


@final
@dataclass(frozen=True)
class MemoryHog(Hog):
    """Of the CPU's memory, on one core."""

    core: int | None = None
    gb_per_s: float = float("inf")
    bytes: int | None = None  # of its array; None: 8 times the last-level cache
    numpy: bool = False  # even where there is a compiler

    @property
    def name(self) -> str:
        """For tables."""
        return "memory"

    def start(self, place: Place, number: int) -> RunningHog:
        """Compiled where there is a compiler, else by NumPy, which is slower."""
        size = self.bytes if self.bytes is not None else _array_bytes(self.core or 0)
        return _start_of_memory(place, number, size, self.core, numpy=self.numpy)


@final
@dataclass(frozen=True)
class Spinner(Hog):
    """The control: it keeps a core as busy as a hog does, but in the core's own cache."""

    core: int | None = None

    @property
    def name(self) -> str:
        """For tables."""
        return "spin"

    @property
    def gb_per_s(self) -> float:
        """As much as the core can."""
        return float("inf")

    def start(self, place: Place, number: int) -> RunningHog:
        """Compiled, or by NumPy with the smallest of arrays."""
        return _start_of_memory(place, number, SPINNER_BYTES, self.core, numpy=False)


@final
@dataclass(frozen=True)
class DiskHog(Hog):
    """Of a disk: direct reads of 1 MB, past the page cache."""

    where: Path | None = None  # a folder on the disk; None: of temporary files
    core: int | None = None
    gb_per_s: float = float("inf")
    bytes: int = 2**28  # of the file it reads, which has no name and goes with it

    @property
    def name(self) -> str:
        """For tables."""
        return "disk"

    def start(self, place: Place, number: int) -> RunningHog:
        """Writes its file first."""
        where = self.where if self.where is not None else Path(tempfile.gettempdir())
        if not where.is_dir():
            raise ValueError(f"a disk's hog needs a folder to write to, and {where} is none")
        command = [*_PYTHON, "disk", *_arguments(place, number, self.bytes, self.core), str(where)]
        try:
            return _HogProcess(command, place)
        except ValueError as error:
            raise ValueError(
                f"{error}; {where} may lie on no disk that can be read directly: name another folder"
            ) from error


def start_network(place: Place, number: int, network: str, core: int | None) -> RunningHog:
    """A network of `runtime.contention.hogs.victims` in a process of its own, again and again.

    Raises:
      ValueError: if it does not start.
    """
    arguments = _arguments(place, number, 0, core)
    return _HogProcess([*_PYTHON, "network", *arguments, network], place)


_PYTHON = [sys.executable, "-m", "runtime.contention.hogs.python_hog"]


def _start_of_memory(
    place: Place, number: int, size: int, core: int | None, *, numpy: bool
) -> RunningHog:
    program = None if numpy else compiled_hog()
    arguments = _arguments(place, number, size, core)
    if program is not None:
        return _HogProcess([str(program), *arguments], place)
    return _HogProcess([*_PYTHON, "memory", *arguments, "."], place)


def _arguments(place: Place, number: int, size: int, core: int | None) -> list[str]:
    told = (place.page.file, number, size, -1 if core is None else core, os.getpid())
    return [str(one) for one in told]


def _array_bytes(core: int) -> int:
    cache = last_level_bytes(core)
    spare = psutil.virtual_memory().available // 8
    if spare < LEAST_TIMES_THE_CACHE * cache:
        raise ValueError(
            f"a hog needs an array of {LEAST_TIMES_THE_CACHE} x {cache / 2**20:.0f} MiB of last-level "
            f"cache, and may take {spare / 2**20:.0f} MiB of what memory is free; end other programs"
        )
    return min(TIMES_THE_CACHE * cache, spare)


@final
class _HogProcess(RunningHog):
    def __init__(self, command: Sequence[str], place: Place) -> None:
        here = str(Path(runtime.__file__).resolve().parents[1])
        places = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._guardian = place.guardian
        self._process = subprocess.Popen(  # noqa: S603 - a program of our own
            command,
            stdin=subprocess.PIPE,  # it ends when this closes
            stdout=subprocess.PIPE,
            pass_fds=[place.page.file],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            text=True,
        )
        self._key = self._guardian.kill_later(self._process.pid)
        said = self._first_line()
        if said != "ready":
            self.close()
            raise ValueError(f"a hog did not start: {said or 'its process ended'}")

    @property
    def process_id(self) -> int:
        return self._process.pid

    @property
    def fault(self) -> str | None:
        status = self._process.poll()
        return None if status is None else f"its process ended with status {status}"

    def close(self) -> None:
        self._process.kill()  # a stopped process, too
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._guardian.forget(self._key)

    def _first_line(self) -> str:
        told = self._process.stdout
        assert told is not None
        if not select.select([told], [], [], _READY_S)[0]:
            return f"nothing was heard of it in {_READY_S:.0f} s"
        return told.readline().strip()
