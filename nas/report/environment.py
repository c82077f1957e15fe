"""The machine and the versions a run was made with, so that its numbers can be placed."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import final

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


@final
@dataclass(frozen=True)
class Environment:
    """What `environment.json` holds."""

    date: str
    python: str
    platform: str
    machine: str
    processors: int | None
    packages: dict[str, str]  # versions


def environment() -> Environment:
    """Date, platform, processor count and package versions."""
    return Environment(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        python=platform.python_version(),
        platform=platform.platform(),
        machine=platform.machine(),
        processors=os.cpu_count(),
        packages=dict(_versions()),
    )


def _versions() -> Iterator[tuple[str, str]]:
    """Versions of the installed packages, by name."""
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            yield name, version(name)
