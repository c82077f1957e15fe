"""A folder with a folder of images for each class, perhaps below train, val and test."""

from __future__ import annotations

import os
import re
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import final

import numpy as np

from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.source import ImageListing, safe_name, stamp
from nas.fit.data.splits import ImagePart

SPLITS = {
    "train": ImagePart.train,
    "val": ImagePart.valid,
    "valid": ImagePart.valid,
    "validation": ImagePart.valid,
    "test": ImagePart.test,
}
"""Names of folders. Where every folder has one of them, they are splits; otherwise classes."""

_NAMES_OF_SETS = {*SPLITS, "training", "testing"}
"""Words by which a folder is named as a set of images."""

_HOW = "put the images of each class into a folder of its name"


@final
class ClassFolders:
    """The images below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        whole = folder.resolve()
        self.title = printable((whole.parent if whole.name in SPLITS else whole).name)
        self.name = safe_name(self.title)

    def key(self) -> str:
        """Digest of the paths, sizes and times of all files."""
        digest = sha256(str(self._folder.resolve()).encode())
        for _, _, file in self._files:
            digest.update(os.fsencode(f"{stamp(file)}\n"))
        return digest.hexdigest()

    def listing(self) -> ImageListing:
        """Find the images."""
        self._refuse_sets_of_classes()
        classes = tuple(sorted({name for _, name, _ in self._files}))
        if not classes:
            raise UserError(f"data={self._folder} has no class folders with images; {_HOW}")
        numbers = {name: number for number, name in enumerate(classes)}
        files = [file for _, _, file in self._files]
        loose = sum(map(_is_seen_file, self._folder.iterdir()))
        return ImageListing(
            tuple(map(printable, classes)),
            np.array([numbers[name] for _, name, _ in self._files], np.int64),
            np.array([part for part, _, _ in self._files], np.int8),
            [printable(str(file.relative_to(self._folder))) for file in files],
            files,
            (f"files beside the class folders, left out: {loose:,}",) if loose else (),
        )

    def _refuse_sets_of_classes(self) -> None:
        """Folders of class folders that are named as sets of images, but not as `SPLITS` are."""
        folders = _folders(self._folder)
        words = [{*re.split("[^a-z]+", folder.name.casefold())} for folder in folders]
        is_any_named = any(each & _NAMES_OF_SETS for each in words)
        if not is_any_named or all(folder.name in SPLITS for folder in folders):
            return
        if any(_is_seen_file(path) for folder in folders for path in folder.iterdir()):
            return
        inside = [{each.name for each in _folders(folder)} for folder in folders]
        if len(folders) > 1 and len(shared := sorted(set.intersection(*inside))) > 1:
            names = ", ".join(printable(folder.name) for folder in folders[:3])
            raise UserError(
                f"data={self._folder}: {names} look like sets of images, each with {printable(shared[0])} and "
                f"{printable(shared[1])}; name one in data=, or call them train, val and test; if they are the "
                f"classes, put their images into them, without folders below"
            )

    @cached_property
    def _files(self) -> list[tuple[ImagePart, str, Path]]:
        """Split, class and path of each file, in the order of their paths."""
        folders = _folders(self._folder)
        if not folders or any(folder.name not in SPLITS for folder in folders):
            splits = [(ImagePart.train, self._folder)]
        else:
            splits = [(SPLITS[folder.name], folder) for folder in folders]
        return [
            (part, folder.name, file)
            for part, split in splits
            for folder in _folders(split)
            for file in _below(folder)
        ]


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not _hidden(path))


def _is_seen_file(path: Path) -> bool:
    return path.is_file() and not _hidden(path)


def _below(folder: Path) -> list[Path]:
    images: list[Path] = []
    for where, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not _hidden(Path(name))]
        images += filter(_is_seen_file, (Path(where, name) for name in names))
    return sorted(images)


def _hidden(path: Path) -> bool:
    return path.name.startswith(".") or path.name in {"Thumbs.db", "desktop.ini", "__MACOSX"}


def _refuse(error: OSError) -> None:
    raise error
