"""Names of the places of a page, for links and for assistive technology."""

from __future__ import annotations

import re
from typing import final


@final
class Anchors:
    """Gives each title of one page a name of its own."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def __call__(self, title: str) -> str:
        """The title in lower case, numbered if it is there already."""
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "part"
        name, number = slug, 1
        while name in self._taken:
            number += 1
            name = f"{slug}-{number}"
        self._taken.add(name)
        return name
