"""Cache of measured times on disk: a line a network, written when it is measured.

A file holds the times of one device, one space and one set of settings; its name is a hash of these.
A line that a kill has cut off is ignored.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, final

from edgenas_core.files import atomic_file
from edgenas_core.files.lines import append_lines, complete_lines
from edgenas_core.types.errors import UserError
from edgenas_core.types.units import require_ms
from latency.probe.board import Timed

_LARGEST = 2**28
"""Bytes that a file of times may have; a line takes some hundred."""


class CacheError(OSError):
    """A measured time could not be stored."""


def require_writable(folder: Path) -> None:
    """Make the folder of all caches, and try to write there.

    Raises:
      CacheError: if that fails; measuring takes long, and would be lost.
    """
    try:
        atomic_file.require_writable(folder)
    except OSError as error:
        raise CacheError(error.errno, error.strerror, str(folder)) from error


@final
class Cache:
    """Times by the text of the architecture; the last line of an architecture counts."""

    def __init__(self, folder: Path, key: dict[str, Any], about: dict[str, Any]) -> None:
        """Read the cached times.

        Args:
          folder: of all caches.
          key: all that decides a time.
          about: stored beside it in the first line, for a reader.

        Raises:
          CacheError: if the file cannot be read, or is there and cannot be written.
        """
        text = json.dumps(key, sort_keys=True)
        name = "".join(c if c.isalnum() or c in ".-" else "-" for c in str(key["device"]))
        self.path = folder / f"{name}-{sha256(text.encode()).hexdigest()[:16]}.jsonl"
        self._first = {"key": key, "about": about}
        self._found: dict[str, Timed] = {}
        try:
            if self.path.exists():
                with self.path.open("r+b"):  # it will be written to
                    for line in complete_lines(self.path, _LARGEST):
                        self._take(line)
        except (UserError, ValueError) as error:
            raise CacheError(errno.EFBIG, str(error), str(self.path)) from error
        except OSError as error:
            raise CacheError(error.errno, error.strerror, str(self.path)) from error

    def __len__(self) -> int:
        return len(self._found)

    def all(self) -> Iterable[Timed]:
        """Times of every network."""
        return self._found.values()

    def get(self, network: str) -> Timed | None:
        """Times of a network; None if there are none."""
        return self._found.get(network)

    def add(self, network: str, timed: Timed, board: str) -> None:
        """Store times, in memory and on disk.

        Raises:
          OSError: if it cannot be written.
        """
        self._found[network] = timed
        entry = {
            "network": network,
            "ms": timed.ms.tolist(),
            "control_ms": timed.control_ms.tolist(),
            "warm_up_calls": timed.warm_up_calls,
            "is_stable": timed.is_stable,
            "state": timed.report,
            "board": board,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        lines = [self._first, entry] if is_new else [entry]
        # a line begins with its own end of line, so that one cut off by a kill spoils no other
        append_lines(self.path, "".join(f"\n{json.dumps(line)}\n" for line in lines))

    def _take(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            timed = Timed(
                require_ms(entry["ms"], "ms of"),
                require_ms(entry["control_ms"], "ms of"),
                int(entry["warm_up_calls"]),
                bool(entry["is_stable"]),
                dict(entry["state"]),
            )
            network = str(entry["network"])
        except (UserError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return  # empty, the first line, cut off, or of impossible times
        if all(ms.ndim == 1 and ms.size for ms in (timed.ms, timed.control_ms)):
            self._found[network] = timed
