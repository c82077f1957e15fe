"""Groups of processes that the kernel stops or slows together: control groups, version 1 and 2."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import final

from runtime.contention.isolation.guarded import Guardian

QUOTA_PERIOD_S = 0.02
_COUNT = count()


@final
@dataclass(frozen=True)
class Hierarchy:
    """Where groups of one kind are made, and how processes get back."""

    version: int
    root: Path
    base: Path  # a group is a folder in it
    controller: str
    proc: Path = Path("/proc")

    def home(self, process: int | str) -> Path:
        """The group in which a process is by nature; "self" is this one.

        Raises:
          OSError: if there is no such process.
        """
        told = (self.proc / str(process) / "cgroup").read_text()
        for number, names, at in (line.split(":", 2) for line in told.splitlines()):
            if number == "0" if self.version == 2 else self.controller in names.split(","):
                return self.root / at.lstrip("/")
        return self.root


def hierarchy(controller: str, proc: Path = Path("/proc")) -> Hierarchy:
    """Of `freezer` or `cpu`, whichever version this machine has it in.

    Args:
      controller: its name in version 1; of version 2 freezing is always a part.
      proc: where the kernel tells of mounts and of each process's groups.

    Raises:
      ValueError: if it is in neither; the message says what is possible without.
    """
    mounts = [line.split() for line in (proc / "mounts").read_text().splitlines()]
    for mount in mounts:
        if mount[2] == "cgroup" and controller in mount[3].split(","):
            root = Path(mount[1])
            found = Hierarchy(1, root, root, controller, proc)
            return replace(found, base=found.home("self"))
    for mount in mounts:
        root = Path(mount[1])
        if mount[2] == "cgroup2" and _has(controller, root):
            found = Hierarchy(2, root, root, controller, proc)
            home = found.home("self")
            # a group that has processes of its own may not hand controllers on; its parent may
            return found if home == root else replace(found, base=home.parent)
    raise ValueError(
        f"there is no {controller} among this machine's control groups; isolation=stop needs none, "
        "and holds back any process of yours"
    )


def _has(controller: str, root: Path) -> bool:
    if controller == "freezer":  # since Linux 5.2 a part of every group but the root
        return (root / "cgroup.controllers").exists()
    told = root / "cgroup.controllers"
    return told.exists() and controller in told.read_text().split()


@final
class Group:
    """Processes put into a group of their own, until it is closed."""

    def __init__(self, where: Hierarchy, processes: Sequence[int], guardian: Guardian) -> None:
        """Makes it.

        Raises:
          ValueError: if that is not permitted; the message says what is possible without.
        """
        self.where = where
        self.folder = where.base / f"edgenas-{os.getpid()}-{next(_COUNT)}"
        self._guardian = guardian
        try:
            self._homes = {one: where.home(one) / "cgroup.procs" for one in processes}
            self.folder.mkdir()
            self._keys = [guardian.remove_later(self.folder)]
            self._keys += [guardian.write_later(at, str(one)) for one, at in self._homes.items()]
            for process in processes:
                (self.folder / "cgroup.procs").write_text(str(process))
        except OSError as error:
            raise ValueError(
                f"no control group can be made in {where.base} ({error.strerror}); run as root, or "
                "use isolation=stop, which needs no control groups"
            ) from error

    def set(self, name: str, text: str, undo: str) -> None:
        """Writes to one of the group's files; `undo` is written there should this process die."""
        path = self.folder / name
        if undo:
            self._keys.append(self._guardian.write_later(path, undo))
        try:
            path.write_text(text)
        except OSError as error:
            raise ValueError(
                f"{path} does not take {text!r} ({error.strerror}); isolation=stop needs no "
                "control groups"
            ) from error

    def close(self) -> None:
        """Lets the processes go home, each to the group that it was in."""
        for process, home in self._homes.items():
            _write_if_there(home, str(process))
        _remove_if_empty(self.folder)
        for key in self._keys:
            self._guardian.forget(key)


def _write_if_there(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:  # the process has ended
        return


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # a process of it is still on its way out; the guardian takes it later
        return
