"""Addresses of the project in the metadata of a wheel, from the environment of its build."""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Addresses(MetadataHookInterface):
    """Add `REPOSITORY_URL` and the pages that every host of repositories derives from it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the addresses; none without `REPOSITORY_URL`, which the release workflow sets."""
        address = os.environ.get("REPOSITORY_URL", "").rstrip("/")
        metadata["urls"] = (
            {
                "Repository": address,
                "Issues": f"{address}/issues",
                "Changelog": f"{address}/blob/main/CHANGELOG.md",
            }
            if address
            else {}
        )
