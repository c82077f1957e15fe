"""Folder of a study, which several processes may fill at once: search logs, ledger, locks.

A setting is finished when its search log is there. `study.json`, the ledger, holds the state of every
setting, and why one failed; it is replaced atomically, under a lock, after each setting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, final

from omegaconf import OmegaConf

from common.files.atomic_file import replacing
from common.files.file_lock import held
from common.files.safe_file import read_bytes
from common.files.safe_yaml import load_settings
from common.types.errors import UserError
from nas.config.stored import flat
from nas.study.plan import Setting

SCHEMA = 2
"""Version of the files of a study; folders of another version are refused."""


@final
class StudyFolder:
    """Paths of a study's files, and the locks of those that write them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"  # resolved, with the fingerprints of the answers
        self.environment = path / "environment.json"  # machine and versions of packages
        self.tables = path / "tables.npz"  # what was searched, where the whole space is known
        self.ledger = path / "study.json"  # state of every setting
        self.measures = path / "measures.csv"  # of every search, one line for each seed
        self.results = path / "results.json"  # statistics over the seeds
        self.page = path / "report.html"

    def file(self, setting: Setting) -> Path:
        """The search log of a setting."""
        return self.path / "logs" / f"{setting.stem}.npz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the ledger and the configuration; waits for it."""
        with held(self._lock("study"), wait=True):
            yield

    @contextmanager
    def claimed(self, setting: Setting, *, finished: bool = False) -> Iterator[bool]:
        """Hold the lock of a setting; False if another process has it, or it is finished.

        With `finished`, the lock of a finished setting is taken too.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self._lock(setting.stem)))
                mine = finished or not self.file(setting).is_file()
            except UserError:
                mine = False
            yield mine

    def _lock(self, name: str) -> Path:
        path = self.path / "locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def begin(self, config: Mapping[str, Any], settings: Sequence[Setting]) -> None:
        """Store the configuration of a new study, or check that it is that of the stored one.

        Raises:
          UserError: if the folder holds another study, or something else.
        """
        self._refuse_strangers()
        with self.locked():
            if self.config.is_file():
                _require_same(self.path, self.stored(), config)
            else:
                with replacing(self.config) as file:
                    file.write(OmegaConf.to_yaml({"schema": SCHEMA, **config}).encode())
            for name in ("study.json", "config.yaml"):
                for left in self.path.glob(f"{name}.*.tmp"):
                    left.unlink()  # by a killed process: only who holds the lock writes these
            entries = self._entries()
            for setting in settings:
                self._sweep(setting)
                entry = entries.setdefault(setting.key, {"state": "pending"})
                if entry["state"] == "searching":
                    with self.claimed(setting) as mine:  # by nobody, then: its process was killed
                        entry = entries[setting.key] = {"state": "pending"} if mine else entry
                there = self.file(setting).is_file()
                if there != (entry["state"] == "finished"):  # a kill fell between file and ledger
                    entries[setting.key] = {"state": "finished" if there else "pending"}
            self._write(entries)

    def _sweep(self, setting: Setting) -> None:
        """Remove unfinished files of a setting, unless another process searches it now."""
        left = list(self.file(setting).parent.glob(f"{setting.stem}.npz.*.tmp"))
        if left:
            with self.claimed(setting, finished=True) as mine:
                for file in left if mine else ():
                    file.unlink(missing_ok=True)

    def stored(self) -> dict[str, Any]:
        """The configuration that the study was begun with.

        Raises:
          UserError: if this is not the folder of a study, or one of another version.
        """
        if not self.config.is_file():
            raise UserError(f"{self.path} is not the folder of a study: it has no config.yaml")
        stored = load_settings(self.config)
        if not all(isinstance(stored.get(name), dict) for name in ("choices", "sources", "values")):
            raise UserError(f"{self.config} holds no settings of a study")
        if stored.get("schema") != SCHEMA:
            raise UserError(
                f"{self.path} is a study of another version of edgenas, which cannot be resumed; "
                f"start a new one with folder="
            )
        return stored

    def record(self, setting: Setting, entry: Mapping[str, Any]) -> None:
        """Write the state of a setting into the ledger."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        with self.locked():
            entries = self._entries()
            entries[setting.key] = {**entry, "time": now}
            self._write(entries)

    def failures(self, settings: Sequence[Setting]) -> dict[str, str]:
        """Errors of the settings that failed, by key."""
        entries = self._entries()
        found = {setting.key: entries.get(setting.key, {}) for setting in settings}
        return {key: str(entry["error"]) for key, entry in found.items() if "error" in entry}

    def pending(self, settings: Sequence[Setting]) -> list[Setting]:
        """Settings that are not finished."""
        return [setting for setting in settings if not self.file(setting).is_file()]

    def _refuse_strangers(self) -> None:
        if not self.path.is_dir():
            return
        strange = [
            p.name for p in self.path.iterdir() if not p.name.startswith(("locks", "config"))
        ]
        if strange and not self.config.is_file():  # asked last: another process may be beginning
            raise UserError(
                f"folder={self.path} is no study, but holds {strange[0]}; name another folder"
            )

    def _entries(self) -> dict[str, dict[str, Any]]:
        if not self.ledger.is_file():
            return {}
        try:
            stored = json.loads(read_bytes(self.ledger))["settings"]
            return {key: {**entry, "state": entry["state"]} for key, entry in stored.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{self.ledger} is corrupt; remove it, and it is made anew from the search logs"
            ) from error

    def _write(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        with replacing(self.ledger) as file:
            text = json.dumps({"schema": SCHEMA, "settings": entries}, indent=1)
            file.write(f"{text}\n".encode())


def _require_same(path: Path, stored: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    before, now = flat(stored), flat(given)
    for name in sorted({*before, *now}):
        # the command and the names of files may differ
        if name in {"schema", "command"} or name.endswith(".description"):
            continue
        was, wanted = before.get(name), now.get(name)
        if was != wanted:
            what = name.removeprefix("values.")
            raise UserError(
                f"{path} holds a study with {what}={was}, not {wanted}; name another "
                f"folder with folder="
            )
