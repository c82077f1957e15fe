"""The machine and the versions a run was made with, so that its numbers can be placed."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nas.atomic_file import replacing

PACKAGES = ("edgenas", "numpy", "torch", "nats_bench", "hydra-core", "tensorboard", "pyarrow")


def environment() -> dict[str, Any]:
    """Date, platform, processor count and package versions."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def write_environment(path: Path) -> None:
    """Write the environment as JSON."""
    with replacing(path) as file:
        file.write((json.dumps(environment(), indent=2) + "\n").encode())
