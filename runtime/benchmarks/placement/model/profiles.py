"""Profiles of devices: calibrated on this machine or bundled, with provenance, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from benchmarks.placement.model.parameters import Hardware
from edgenas_core.files.atomic_file import write_whole

BUNDLED = Path(__file__).parent / "boards"


@final
@dataclass(frozen=True)
class Profile:
    """Parameters of a device, with their provenance."""

    name: str
    hardware: Hardware
    provenance: dict[str, Any]
    """Machine, date and samples of the calibration."""

    def write(self, path: Path) -> None:
        """Replace the JSON file.

        Raises:
          OSError: if it cannot be written; the file is unchanged.
        """
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")


def read_profile(name: str) -> Profile:
    """Read a bundled profile by its name, or a file by its path.

    Raises:
      OSError: if the file cannot be read.
      ValueError: if there is no such profile, or the file is not a profile.
    """
    path = Path(name)
    if path.suffix != ".json":
        bundled = {path.stem: path for path in BUNDLED.glob("*.json")}
        if name not in bundled:
            raise ValueError(
                f"profile={name} is unknown; there are {', '.join(sorted(bundled))}, "
                "and the path of a .json that a calibration wrote"
            )
        path = bundled[name]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Profile(content["name"], Hardware(**content["hardware"]), content["provenance"])
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} holds no profile of memory policies: {error}") from error
