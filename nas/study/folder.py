"""The folder of a study, which several processes may fill at once: cells, ledger, locks.

A cell is finished when its file is there. `study.json`, the ledger, says so of every cell, and
why one failed; it is written anew under a lock, atomically, after each cell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, final

from omegaconf import OmegaConf
from yaml import YAMLError

from nas.study.plan import Cell
from runtime.shell.atomic_file import replacing
from runtime.shell.errors import UserError
from runtime.shell.file_lock import held

SCHEMA = 1


@final
@dataclass(frozen=True)
class StudyFolder:
    """Paths of a study's files, and who may write them."""

    path: Path

    @property
    def config(self) -> Path:
        """The resolved settings, and the fingerprints of the tables."""
        return self.path / "config.yaml"

    @property
    def environment(self) -> Path:
        """Machine and versions."""
        return self.path / "environment.json"

    @property
    def tables(self) -> Path:
        """Accuracy and latency of the whole space, as they were searched."""
        return self.path / "tables.npz"

    @property
    def ledger(self) -> Path:
        """Which cells are finished."""
        return self.path / "study.json"

    @property
    def measures(self) -> Path:
        """What each search of each cell came to, a line a seed."""
        return self.path / "measures.csv"

    @property
    def results(self) -> Path:
        """Statistics over the seeds."""
        return self.path / "results.json"

    @property
    def page(self) -> Path:
        """Everything, for readers."""
        return self.path / "report.html"

    def file(self, cell: Cell) -> Path:
        """The samples of a cell."""
        return self.path / "cells" / f"{cell.stem}.npz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Alone with the ledger and the settings; waits for its turn."""
        with held(self._lock("study"), wait=True):
            yield

    @contextmanager
    def claimed(self, cell: Cell, *, finished: bool = False) -> Iterator[bool]:
        """Whether the cell is this process's, while the block runs; a `finished` one if asked for."""
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self._lock(cell.stem)))
                mine = finished or not self.file(cell).is_file()
            except UserError:
                mine = False
            yield mine

    def _lock(self, name: str) -> Path:
        path = self.path / "locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def begin(self, settings: Mapping[str, Any], cells: Sequence[Cell]) -> None:
        """Keep the settings of a new study, or see that it is the same one.

        Raises:
          UserError: if the folder holds another study, or something else.
        """
        self._refuse_strangers()
        with self.locked():
            if self.config.is_file():
                _require_same(self.path, self.stored(), settings)
            else:
                with replacing(self.config) as file:
                    file.write(OmegaConf.to_yaml(dict(settings)).encode())
            for name in ("study.json", "config.yaml"):
                for left in self.path.glob(f"{name}.*.tmp"):
                    left.unlink()  # by a killed process: only who holds the lock writes these
            entries = self._entries()
            for cell in cells:
                self._sweep(cell)
                entry = entries.setdefault(cell.key, {"state": "pending"})
                if entry["state"] == "searching":
                    with self.claimed(cell) as mine:  # by nobody, then: its process was killed
                        entry = entries[cell.key] = {"state": "pending"} if mine else entry
                there = self.file(cell).is_file()
                if there != (entry["state"] == "finished"):  # a kill fell between file and ledger
                    entries[cell.key] = {"state": "finished" if there else "pending"}
            self._write(entries)

    def _sweep(self, cell: Cell) -> None:
        """Remove what a killed process left of a cell, unless another searches it now."""
        left = list(self.file(cell).parent.glob(f"{cell.stem}.npz.*.tmp"))
        if left:
            with self.claimed(cell, finished=True) as mine:
                for file in left if mine else ():
                    file.unlink(missing_ok=True)

    def stored(self) -> dict[str, Any]:
        """The settings that the study was begun with.

        Raises:
          UserError: if this is not the folder of a study.
        """
        if not self.config.is_file():
            raise UserError(f"{self.path} is not the folder of a study: it has no config.yaml")
        try:
            stored = OmegaConf.to_container(OmegaConf.load(self.config))
        except (YAMLError, UnicodeDecodeError, OSError) as error:
            raise UserError(f"{self.config} is corrupt: {error}") from error
        if not isinstance(stored, dict) or not {"choices", "sources", "values"} <= stored.keys():
            raise UserError(f"{self.config} holds no settings of a study")
        return {str(name): value for name, value in stored.items()}

    def record(self, cell: Cell, entry: Mapping[str, Any]) -> None:
        """Write into the ledger what became of a cell."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self.locked():
            entries = self._entries()
            entries[cell.key] = {**entry, "time": now}
            self._write(entries)

    def failures(self, cells: Sequence[Cell]) -> dict[str, str]:
        """Why those of the cells failed that did, by key."""
        entries = self._entries()
        found = {cell.key: entries.get(cell.key, {}) for cell in cells}
        return {key: str(entry["error"]) for key, entry in found.items() if "error" in entry}

    def pending(self, cells: Sequence[Cell]) -> list[Cell]:
        """Those of the cells that are not finished."""
        return [cell for cell in cells if not self.file(cell).is_file()]

    def _refuse_strangers(self) -> None:
        if not self.path.is_dir():
            return
        strange = [
            p.name for p in self.path.iterdir() if not p.name.startswith(("locks", "config"))
        ]
        if strange and not self.config.is_file():  # asked last: another process may be beginning
            raise UserError(f"folder={self.path} is no study, but holds {strange[0]}; name another")

    def _entries(self) -> dict[str, dict[str, Any]]:
        if not self.ledger.is_file():
            return {}
        try:
            stored = json.loads(self.ledger.read_bytes())["cells"]
            return {key: {**entry, "state": entry["state"]} for key, entry in stored.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{self.ledger} is corrupt; remove it, and it is made anew from the cells"
            ) from error

    def _write(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        with replacing(self.ledger) as file:
            text = json.dumps({"schema": SCHEMA, "cells": entries}, indent=1)
            file.write(f"{text}\n".encode())


def _require_same(path: Path, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    before, now = _flat(stored), _flat(given)
    for name in sorted({*before, *now}):
        # what begins it, and the names of files, which may lie elsewhere
        if name == "command" or name.endswith(".description"):
            continue
        was, wanted = before.get(name), now.get(name)
        if name not in before and wanted == []:
            continue  # the study was begun before there was such a list
        if was != wanted:
            what = name.removeprefix("values.")
            raise UserError(
                f"{path} holds a study with {what}={was}, not {wanted}; name another "
                f"folder with folder="
            )


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        return {name: value}
    found: dict[str, Any] = {}
    for key, inner in value.items():
        found.update(_flat(inner, f"{name}.{key}" if name else str(key)))
    return found
