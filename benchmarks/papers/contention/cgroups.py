"""Control groups, version 1 and 2: groups of processes that the kernel freezes or slows together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import final

QUOTA_PERIOD_S = 0.02
_COUNT = count()


@final
@dataclass(frozen=True)
class Hierarchy:
    """Location of the control groups of one controller."""

    version: int
    root: Path
    base: Path  # new groups are folders in it
    controller: str
    proc: Path = Path("/proc")

    def home(self, process: int | str) -> Path:
        """Return the current group of a process; "self" is this process.

        Raises:
          OSError: if there is no such process.
        """
        text = (self.proc / str(process) / "cgroup").read_text()
        for number, names, at in (line.split(":", 2) for line in text.splitlines()):
            if number == "0" if self.version == 2 else self.controller in names.split(","):
                return self.root / at.lstrip("/")
        return self.root


def hierarchy(controller: str, proc: Path = Path("/proc")) -> Hierarchy:
    """Find the hierarchy of a controller, in whichever version this machine has it.

    Controllers are `freezer` and `cpu`, as version 1 names them; version 2 can always freeze.

    Raises:
      ValueError: if neither version has it; the message names an alternative.
    """
    mounts = [line.split() for line in (proc / "mounts").read_text().splitlines()]
    for mount in mounts:
        if mount[2] == "cgroup" and controller in mount[3].split(","):
            root = Path(mount[1])
            mounted = Hierarchy(1, root, root, controller, proc)
            return replace(mounted, base=mounted.home("self"))
    for mount in mounts:
        root = Path(mount[1])
        if mount[2] == "cgroup2" and _has(controller, root):
            mounted = Hierarchy(2, root, root, controller, proc)
            home = mounted.home("self")
            # a group with its own processes may not delegate controllers; its parent may
            return mounted if home == root else replace(mounted, base=home.parent)
    raise ValueError(
        f"this machine has no control groups with the controller {controller}; use isolation=stop, "
        "which needs none"
    )


def _has(controller: str, root: Path) -> bool:
    controllers = root / "cgroup.controllers"
    if controller == "freezer":  # since Linux 5.2 a part of every group but the root
        return controllers.exists()
    return controllers.exists() and controller in controllers.read_text().split()


@final
class Group:
    """A new control group that holds some processes until it is closed."""

    def __init__(self, where: Hierarchy, processes: Sequence[int]) -> None:
        """Create the group and move the processes into it.

        Raises:
          ValueError: if that is not permitted; the message names an alternative.
        """
        self.where = where
        self.folder = where.base / f"edgenas-{os.getpid()}-{next(_COUNT)}"
        try:
            self._homes = {process: where.home(process) / "cgroup.procs" for process in processes}
            self.folder.mkdir()
            for process in processes:
                (self.folder / "cgroup.procs").write_text(str(process))
        except OSError as error:
            raise ValueError(
                f"no control group can be made in {where.base} ({error.strerror}); run as root, or "
                "use isolation=stop, which needs no control groups"
            ) from error

    def set(self, name: str, text: str) -> None:
        """Write to a file of the group."""
        path = self.folder / name
        try:
            path.write_text(text)
        except OSError as error:
            raise ValueError(
                f"{path} does not accept {text!r} ({error.strerror}); use isolation=stop, which "
                "needs no control groups"
            ) from error

    def close(self) -> None:
        """Move each process back to its original group and remove this one."""
        for process, home in self._homes.items():
            _write_if_there(home, str(process))
        _remove_if_empty(self.folder)


def _write_if_there(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError:  # the process has ended
        return


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # a process of it has not ended yet; an empty group costs nothing
        return
