"""Profiles of devices: measured on this machine, or of the source's boards, with provenance.

A profile is JSON or YAML: `name`, `kind` (measured, or assumed if some numbers are not published),
`hardware` (the fields of `Hardware`), `provenance`, and for a board of the source `published`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

import yaml

from runtime.experiments.placement.model.by_size import by_size
from runtime.experiments.placement.model.parameters import Hardware
from runtime.shell.files.atomic_file import write_whole

SHIPPED = Path(__file__).parent / "boards"


@final
@dataclass(frozen=True)
class Profile:
    """Parameters of a device, with their provenance."""

    name: str
    kind: str
    """`measured` or `assumed`."""
    hardware: Hardware
    provenance: dict[str, Any]
    """Machine, date and samples of a measurement, or the origin of each assumed number."""
    published: dict[str, Any] = field(default_factory=dict)
    """Published values of the device, with their place in the source."""

    def write(self, path: Path) -> None:
        """Replace the JSON file.

        Raises:
          OSError: if it cannot be written; the file is unchanged.
        """
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")


def bundled() -> list[str]:
    """Names of the bundled profiles."""
    return sorted(path.stem for path in _bundled())


def _bundled() -> list[Path]:
    return [*SHIPPED.glob("*.yaml"), *SHIPPED.glob("*.json")]


def read_profile(name: str) -> Profile:
    """Read a bundled profile by its name, or a file by its path.

    Raises:
      OSError: if the file cannot be read.
      ValueError: if there is no such profile, or the file is not a profile.
    """
    path = Path(name)
    if path.suffix not in {".json", ".yaml"}:
        found = {path.stem: path for path in _bundled()}
        if name not in found:
            raise ValueError(
                f"profile={name} is unknown; there are {', '.join(sorted(found))}, "
                "and the path of a .json that a calibration wrote"
            )
        path = found[name]
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        by_size(content["provenance"].get("samples_ms", []))  # refused now if they are none
        return Profile(
            content["name"],
            content["kind"],
            Hardware(**content["hardware"]),
            content["provenance"],
            content.get("published", {}),
        )
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        RecursionError,
        yaml.YAMLError,
    ) as error:
        raise ValueError(f"{path} holds no profile of memory policies: {error}") from error
