"""The folder of the YAML files, by its place: the user's folder may hold a `conf` of its own."""

from __future__ import annotations

from pathlib import Path

CONF = Path(__file__).resolve().parents[2] / "conf"
