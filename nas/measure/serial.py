"""Times that the sketch of an export's `board/` printed, from a serial port or a pasted log, as calibration networks.

The lines are read as text; nothing that a board or a file sends is executed.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import select
import shlex
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.files.atomic_file import write_whole
from edgenas_core.files.safe_file import read_bytes
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.models.calibration import read_timed
from latency.models.microcontrollers import is_chip
from latency.models.process import FEWEST_NETWORKS
from latency.sources.published import PublishedLatencyConfig
from nas.spaces.base import SearchSpace

PROBES = "probes.csv"
"""File in the folder of results that the times are added to."""

_OURS = re.compile(r"edgenas (?:us=|failed)")
"""What a line of the sketch begins with; a pasted prompt or command has other words after the name."""
_TIME = re.compile(
    r"edgenas us=(?P<us>\d{1,10}) arena=(?P<arena>\d{1,12}) runs=\d+ largest_difference=(?P<apart>\d{1,3}) network=(?P<arch>.+)",
    re.ASCII,
)
_NOISE = re.compile("\x1b\\[[0-9;]*[A-Za-z]|[\x00-\x1f\x7f\ufffd]")
"""Colours of terminals, control characters, and what is no text: a board's start-up and its line leave them."""
_MOST_BYTES = 1 << 20
_WAIT_S = 60.0
_SLOWEST_US = 100_000_000
_APART = 8
"""Steps of 255 that other kernels may round away from LiteRT's; real networks differed by 1 to 4."""


@final
@dataclass(frozen=True)
class BoardTime:
    """A line of the sketch."""

    arch: str
    ms: float
    arena: int  # bytes
    apart: int  # largest difference of an int8 output from LiteRT's


def measure_serial(  # noqa: PLR0917 - called in one place
    serial: str, device: str, space: SearchSpace, task: Task, folder: Path, console: Console
) -> Path:
    """Add the times of a board to the folder's calibration networks; returns their file.

    Raises:
      UserError: if there are none, a line is no time, or a network is none of the space.
      OSError: if the port or a file cannot be used.
    """
    times, others = read_times(_lines(serial), serial)
    for each in times:
        space.parse(each.arch)
        say(console, f"{each.arch}: {each.ms:.3f} ms, arena {each.arena:,} bytes")
        if each.apart > _APART:
            say(
                console,
                f"warning: its outputs are up to {each.apart} of 255 steps from LiteRT's: other kernels, or a damaged file",
            )
    if others:
        say(console, f"{others} other lines of {serial} are no results and were left out")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PROBES
    known = _known(path, space) | {space.text(space.parse(each.arch)): each.ms for each in times}
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["arch", "latency_ms"])
    writer.writerows([arch, f"{ms:.6g}"] for arch, ms in known.items())
    write_whole(path, text.getvalue())
    if is_chip(device):
        rows = np.stack([space.parse(arch) for arch in known])
        predicted = PublishedLatencyConfig().build(device, space, task).answer(rows).ms
        ratios = np.array([*known.values()]) / predicted
        say(
            console,
            f"this board takes {np.median(ratios):.2f} times the published prediction of {device}, from {ratios.min():.2f} to "
            f"{ratios.max():.2f}",
        )
    left = FEWEST_NETWORKS - len(known)
    named = device if is_chip(device) else "my-board"
    then = (
        f"next: repeat the search or the fit of these networks with device={named} latency=transfer "
        f"{shlex.quote(f'latency.probes={path}')}"
    )
    more = f"next: {left} more networks; a correction takes {FEWEST_NETWORKS}"
    say(console, f"{len(known)} networks -> {path}\n{more if left > 0 else then}")
    return path


def read_times(lines: Iterable[str], named: str) -> tuple[list[BoardTime], int]:
    """Results among the lines, the last one of each network, and the number of other lines.

    Raises:
      UserError: if there is none, or a line of the sketch has no time.
    """
    times: dict[str, BoardTime] = {}
    others = 0
    for number, received in enumerate(lines, 1):
        line = _NOISE.sub("", received)
        begun = _OURS.search(line)
        if begun is None:
            others += bool(line.strip())
            continue
        at = begun.start()
        match = _TIME.fullmatch(line[at:].strip())
        if match is None or not 0 < int(match["us"]) <= _SLOWEST_US:
            raise UserError(
                f"{named} line {number}: {line[at:].strip()[:80]!r} is no time; the sketch prints `edgenas us=94312 arena=241234 "
                f"runs=21 largest_difference=0 network=...` (us=0: its processor has no cycle counter)"
            )
        times[match["arch"]] = BoardTime(
            match["arch"], int(match["us"]) / 1e3, int(match["arena"]), int(match["apart"])
        )
    if not times:
        raise UserError(
            f"serial={named}: no line of {others} begins with 'edgenas us='; upload board/board.ino of an export, and paste "
            f"what it prints"
        )
    return [*times.values()], others


def _known(path: Path, space: SearchSpace) -> dict[str, float]:
    if not path.exists():
        return {}
    rows, latency_ms = read_timed(path, space, None)
    return {space.text(row): float(ms) for row, ms in zip(rows, latency_ms, strict=True)}


def _lines(serial: str) -> Iterator[str]:
    """Lines of a file; of a serial port until the sketch has printed a result, a minute at most."""
    path = Path(serial).expanduser()
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise UserError(
            f"serial={serial}: there is no such port or file; a port is as /dev/ttyACM0, elsewhere paste the log into a file"
        ) from error
    if not stat.S_ISCHR(mode):
        content = read_bytes(path, _MOST_BYTES)
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        yield from content.decode("utf-16" if is_utf16 else "utf-8", "replace").splitlines()
        return
    with _port(path) as port:
        yield from lines_of_port(port)


def lines_of_port(port: int) -> Iterator[str]:
    """Lines of an open port until the sketch has printed a result, the board is unplugged or a minute is over."""
    ends_s, text = time.monotonic() + _WAIT_S, ""
    while (left_s := ends_s - time.monotonic()) > 0 and len(text) < _MOST_BYTES:
        if not select.select([port], [], [], left_s)[0]:
            return
        received = os.read(port, 4096)
        if not received:  # the board was unplugged
            return
        text += received.decode("utf-8", "replace")
        *whole, text = text.split("\n")
        for line in whole:
            yield line
            if _OURS.search(line):
                return


@contextmanager
def _port(path: Path) -> Iterator[int]:
    """A serial port at 115200 baud, raw, without becoming this process's terminal."""
    try:
        import termios  # noqa: PLC0415 - not on Windows
        import tty  # noqa: PLC0415 - loaded when needed
    except ImportError as error:
        raise UserError(
            f"serial={path}: ports are read on Linux and macOS; paste the log into a file"
        ) from error
    port = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        tty.setraw(port)
        settings = termios.tcgetattr(port)
        settings[4] = settings[5] = termios.B115200
        termios.tcsetattr(port, termios.TCSANOW, settings)
        yield port
    except termios.error as error:
        raise UserError(f"serial={path} is no serial port: {error}") from error
    finally:
        os.close(port)
