"""The machine and the versions a run was made with, so that its numbers can be placed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from common.files.atomic_file import replacing

PACKAGES = (
    "edgenas",
    "numpy",
    "scipy",
    "torch",
    "nats_bench",
    "hydra-core",
    "joblib",
    "plotly",
    "optuna",
    "pymoo",
    "tensorboard",
    "pyarrow",
)
"""Packages that numbers or pages may depend on; some are extras."""


def environment() -> dict[str, Any]:
    """Date, platform, processor count and package versions."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "packages": dict(_versions()),
    }


def write_environment(path: Path) -> None:
    """Write the environment as JSON."""
    with replacing(path) as file:
        file.write((json.dumps(environment(), indent=2) + "\n").encode())


def _versions() -> Iterator[tuple[str, str]]:
    """Versions of the installed packages, by name."""
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            yield name, version(name)
