"""Photos of a folder, and their classes where its folders name them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import IMAGE_SUFFIXES, is_hidden
from nas.fit.data.pixels import rgb, upright

_DRAFT = 512
"""Side of which a large JPEG keeps at least twice as much."""


@final
@dataclass(frozen=True)
class Photos:
    """Upright RGB photos."""

    images: list[Any]
    folders: list[str]  # that each lies in
    report: str  # how many there are, and what was left out

    def labels(self, classes: tuple[str, ...], outputs: int) -> tuple[list[int] | None, str]:
        """Class number of each photo, and where the classes are from; None where folders are no classes."""
        names = classes or tuple(sorted({*self.folders}))
        if len(names) != outputs or not {*self.folders} <= {*names}:
            return None, f"the folders are not the {outputs:,} classes, so there is no accuracy"
        source = "preprocessing.json" if classes else "the names of the folders, sorted"
        return [names.index(folder) for folder in self.folders], f"classes: {source}"

    @classmethod
    def of(cls, folder: Path, most: int, seed: int = 0) -> Photos:
        """Read at most so many photos below a folder, drawn of all.

        Raises:
          UserError: if there are none.
        """
        if not folder.is_dir():
            raise UserError(f"{folder} is no folder of photos")
        found = [path for path in sorted(folder.rglob("*")) if _is_photo(path, folder)]
        order = np.random.default_rng(seed).permutation(len(found)).tolist()
        images: list[Any] = []
        folders, unread = [], Counter[str]()
        for at in order:
            if len(images) == most:
                break
            try:
                images.append(rgb(upright(found[at], _DRAFT)))
                folders.append(found[at].parent.name)
            except Exception as error:  # noqa: BLE001 - a damaged file raises anything
                unread[printable(f"{found[at].name} ({error!s:.80})")] += 1
        if not images:
            raise UserError(f"{folder} has no photo that can be read, of {len(found):,} files")
        report = f"{len(images):,} photos of {len(found):,} in {folder}"
        if unread:
            report += f"; left out, unreadable: {', '.join([*unread][:3])}"
            report += f" and {len(unread) - 3:,} more" if len(unread) > 3 else ""
        return cls(images, folders, report)


def _is_photo(path: Path, folder: Path) -> bool:
    hidden = any(is_hidden(part) for part in path.relative_to(folder).parts)
    return path.suffix.lower() in IMAGE_SUFFIXES and path.is_file() and not hidden
