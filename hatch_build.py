"""Addresses of the project in the metadata of a wheel, and in its README, from the environment of its build."""

from __future__ import annotations

import os
import re
from pathlib import Path
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
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        if address:  # an index of packages does not have the files that the README links to
            readme = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\1{address}/raw/main/", readme)
            readme = re.sub(r"(\]\()(?!https?:|#)", rf"\1{address}/blob/main/", readme)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
