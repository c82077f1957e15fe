"""The folder of a measurement: the names of its files, and the settings that they were made with."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, final

from omegaconf import OmegaConf

from edgenas_core.files.atomic_file import write_whole
from edgenas_core.files.safe_file import read_text
from edgenas_core.files.safe_yaml import flat
from edgenas_core.machine.stability import StabilityConfig
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from latency.devices.registry import slug_of, solo_id
from latency.measuring.journal import judged, read
from latency.measuring.settings import MeasureConfig

_OF_A_PART = ("core",)
"""Settings that may differ between the parts of one measurement, which earlier versions took."""


@final
class MeasurementFolder:
    """Paths of one device's measurement; each part of it has its own journal and settings."""

    def __init__(self, config: MeasureConfig, device_id: str, deciding: dict[str, Any]) -> None:
        """Make the folder; `deciding` are the settings that a time depends on."""
        self.device_id = device_id
        self._quiet = config
        self._deciding = json.loads(json.dumps(deciding))  # as it will be read again
        self.slug = slug_of(device_id)
        self.path = Path(config.out)
        self.path.mkdir(parents=True, exist_ok=True)
        self.journal = self.path / f"{self.slug}.journal.csv"
        self.settings = self.path / f"{self.slug}.settings.json"
        tail = "" if config.statistic is Statistic.median else f"-{config.statistic.value}"
        self.table = self.path / f"{self.slug}{tail}_ms.csv"
        self.table_alone = self.path / f"{slug_of(solo_id(device_id))}{tail}_ms.csv"
        self.origin = self.table.with_suffix(".json")
        self.transferred = self.path / f"{self.slug}{tail}-transferred.csv"

    def journal_of(self, address: str) -> Path:
        """Journal of one of several boards, each of which has its own times of the reference network."""
        name = f"{slug_of(address)[:40].strip('-')}-{sha256(address.encode()).hexdigest()[:6]}"
        return self.path / f"{self.slug}.part-{name}-of-boards.journal.csv"

    @property
    def journals(self) -> list[Path]:
        """Journals of all parts."""
        return parts_of(self.path, self.slug, "journal.csv")

    def require_same(self) -> None:
        """Store the settings beside the journal, and refuse to mix in times of other settings.

        Raises:
          UserError: if this part, or another, has been measured with other settings.
        """
        if not self.settings.exists() or not self.journals:  # no time was taken with others
            write_whole(self.settings, json.dumps(self._deciding, indent=2) + "\n")
        for path in (self.settings, *parts_of(self.path, self.slug, "settings.json")):
            try:
                before = dict(json.loads(read_text(path)))
            except (ValueError, TypeError, RecursionError) as error:
                raise UserError(
                    f"{path} is corrupt ({error}); name another folder with out="
                ) from error
            stored = flat(before)
            for name, value in flat(self._deciding).items():
                may_differ = path != self.settings and name in _OF_A_PART
                if stored.get(name) != value and not may_differ:
                    raise UserError(
                        f"{path} holds {name}={stored.get(name)}, not {value}; "
                        f"name another folder with out="
                    )

    def rows(self) -> list[dict[str, str]]:
        """All lines of all parts."""
        return rows_of(self.path, self.slug, self._quiet)


def rows_of(folder: Path, slug: str, quiet: StabilityConfig) -> list[dict[str, str]]:
    """All lines of all parts of a measurement; the reference network is compared within each part."""
    return [
        row
        for path in parts_of(folder, slug, "journal.csv")
        for row in judged(read(path), quiet.control_drift)
    ]


def parts_of(folder: Path, slug: str, ending: str) -> list[Path]:
    """The files of one kind: that of a measurement in one part, and of one in several."""
    whole = folder / f"{slug}.{ending}"
    return [
        *([whole] if whole.exists() else []),
        *sorted(folder.glob(f"{slug}.part-*-of-*.{ending}")),
    ]


def settings_of(config: MeasureConfig) -> dict[str, Any]:
    """Every setting, as JSON has it."""
    container = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    return dict(json.loads(json.dumps(container, default=str)))
