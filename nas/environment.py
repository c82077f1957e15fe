"""The machine and the versions a run was made with, so that its numbers can be placed."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from typing import TYPE_CHECKING

from nas.atomic_file import replacing

if TYPE_CHECKING:
    from pathlib import Path

PACKAGES = ("edgenas", "numpy", "torch", "nats_bench", "hydra-core", "tensorboard", "pyarrow")


def write_environment(path: Path) -> None:
    """Write date, platform, processor count and package versions as JSON."""
    facts = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "packages": {name: version(name) for name in PACKAGES},
    }
    with replacing(path) as file:
        file.write((json.dumps(facts, indent=2) + "\n").encode())
