"""Folder of a study: its configuration, one search log a setting, and the ledger of their states.

A setting is finished when its search log is there. `study.json`, the ledger, holds the state of every
setting, and why one failed; it is replaced atomically after each setting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, final

from omegaconf import OmegaConf

from edgenas_core.files.atomic_file import replacing, write_whole
from edgenas_core.files.file_lock import held
from edgenas_core.files.safe_file import read_bytes
from edgenas_core.files.safe_yaml import flat, load_settings
from edgenas_core.types.errors import UserError
from nas.study.plan import Setting

SCHEMA = 2
"""Version of the files of a study; folders of another version are refused."""


@final
class StudyFolder:
    """Paths of a study's files, and the states of its settings."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"  # resolved, with the fingerprints of the answers
        self.answers = path / "answers.npz"  # about the whole space, where it is known
        self.environment = path / "environment.json"  # machine and versions of packages
        self.ledger = path / "study.json"  # state of every setting
        self.measures = path / "measures.csv"  # of every search, one line for each seed
        self.results = path / "results.json"  # statistics over the seeds
        self.page = path / "report.html"

    def file(self, setting: Setting) -> Path:
        """The search log of a setting."""
        return self.path / "logs" / f"{setting.stem}.npz"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the study's lock while the block runs.

        Raises:
          UserError: if the folder holds something else, or another process holds the study.
        """
        self._refuse_other_content()
        self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / "lock"
        lock.touch()
        with held(lock):
            yield

    def begin(self, config: Mapping[str, Any], settings: Sequence[Setting]) -> None:
        """Store the configuration of a new study, or check that it is that of the stored one.

        Raises:
          UserError: if the folder holds another study.
        """
        if self.config.is_file():
            _require_same(self.path, self.stored(), config)
        else:
            write_whole(self.config, OmegaConf.to_yaml({"schema": SCHEMA, **config}))
        for unfinished in (*self.path.glob("*.tmp"), *self.path.glob("logs/*.tmp")):
            unfinished.unlink()  # written by a process that was killed
        entries = self._entries()
        for setting in settings:
            state = entries.setdefault(setting.key, {"state": "pending"})["state"]
            is_finished = self.file(setting).is_file()
            if is_finished != (state == "finished"):  # a kill fell between log and ledger
                entries[setting.key] = {"state": "finished" if is_finished else "pending"}
        self._write(entries)

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
                f"start a new one with out="
            )
        return stored

    def record(self, setting: Setting, entry: Mapping[str, Any]) -> None:
        """Write the state of a setting into the ledger."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._write({**self._entries(), setting.key: {**entry, "time": now}})

    def failures(self, settings: Sequence[Setting]) -> dict[str, str]:
        """Errors of the settings that failed, by key."""
        entries = self._entries()
        return {
            setting.key: str(entries[setting.key]["error"])
            for setting in settings
            if "error" in entries.get(setting.key, {})
        }

    def pending(self, settings: Sequence[Setting]) -> list[Setting]:
        """Settings that are not finished."""
        return [setting for setting in settings if not self.file(setting).is_file()]

    def _refuse_other_content(self) -> None:
        if self.config.is_file() or not self.path.is_dir():
            return
        for path in self.path.iterdir():
            if path.name != "lock" and not path.name.startswith("config"):
                raise UserError(
                    f"out={self.path} is no study, but holds {path.name}; name another folder"
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


def _require_same(path: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    before, now = flat(stored), flat(wanted)
    for name in sorted({*before, *now}):
        # the command and the names of files may differ
        if name in {"schema", "command"} or name.endswith(".description"):
            continue
        if before.get(name) != now.get(name):
            setting = name.removeprefix("values.")
            raise UserError(
                f"{path} holds a study with {setting}={before.get(name)}, not {now.get(name)}; name "
                f"another folder with out="
            )
