"""Commands that are killed at each of their file operations go on, and lose nothing that was answered."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import nas.measure.command
from latency.measuring.journal import read

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"}
"""Audit events of operations that change files, besides opening one to write."""

MEASURE = (
    *("board=here", "dataset=imagenet16", "networks=4", "repeats=1", "timing.samples=3"),
    *("timing.settle_s=0.01", "on_disturbance=flag", "tolerance=20000"),
)
TIMEOUT_S = 600


class Killer:
    """Kills this process at the n-th operation on files of a folder; a write is cut off in its middle."""

    def __init__(self, folder, last, count):
        self._folder, self._last, self._count = str(folder), last, count
        self._made = 0
        self._open = Path.open
        sys.addaudithook(self._heard)
        Path.open = lambda *args, **options: self._opened(*args, **options)  # noqa: PLW0108 - gets the path

    def operation(self):
        """Count an operation that is about to be made; whether it is the last."""
        self._made += 1
        self._count.seek(0)
        self._count.write(f"{self._made}")
        self._count.flush()
        return self._made == self._last

    def _heard(self, event, arguments):
        is_change = event in CHANGES or (
            event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        if is_change and str(arguments[0]).startswith(self._folder) and self.operation():
            os.kill(os.getpid(), signal.SIGKILL)

    def _opened(self, path, mode="r", *arguments, **options):
        file = self._open(path, mode, *arguments, **options)
        if "r" not in mode and str(path).startswith(self._folder) and isinstance(file, io.IOBase):
            return Writing(file, self)
        return file


class Writing:
    """A file whose writes are operations."""

    def __init__(self, file, killer):
        self._file, self._killer = file, killer

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self._file.close()

    def write(self, content):
        if self._killer.operation():
            self._file.write(content[: len(content) // 2])
            self._file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return self._file.write(content)


def run_in_child(main, words, folder, last=0):
    """Status of a command in a child of this process, what it printed, and how many operations it made."""
    printed, count = folder.with_name("printed.txt"), folder.with_name("count.txt")
    child = os.fork()
    if not child:  # the libraries are imported already
        with printed.open("w") as output:
            for number in (1, 2):
                os.dup2(output.fileno(), number)
        status = 1
        try:
            sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))
            signal.alarm(TIMEOUT_S)  # instead of hanging
            Killer(folder, last, count.open("w"))
            main(words)
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(ended), printed.read_text(), int(count.read_text() or 0)


def points(operations, many):
    """Numbers of so many operations, spread evenly over all."""
    return sorted({*np.linspace(1, operations, many).round().astype(int).tolist()})


@pytest.mark.parametrize("many", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_a_measurement_killed_at_any_operation_measures_the_same_networks(tmp_path, many):
    def measured(name, last=0):
        folder = tmp_path / name / "out"
        folder.parent.mkdir(exist_ok=True)
        words = [*MEASURE, f"out={folder}"]
        return folder, *run_in_child(nas.measure.command.main, words, folder, last)

    whole, status, printed, operations = measured("whole")
    assert status == 0, printed
    journal = "here-torch-fp32-b1.journal.csv"
    expected = [row["arch"] for row in read(whole / journal)]

    for last in points(operations, many):
        folder, killed, *_ = measured(str(last), last)
        kept = (
            [row["arch"] for row in read(folder / journal)] if (folder / journal).exists() else []
        )
        _, status, printed, _ = measured(str(last))

        assert killed == -signal.SIGKILL
        assert status == 0, f"{last}: {printed}"
        after = [row["arch"] for row in read(folder / journal)]
        assert after[: len(kept)] == kept
        assert Counter(after) == Counter(expected)
        assert (
            (folder / "here-torch-fp32-b1_ms.csv").read_text().splitlines()[0].startswith("index")
        )
