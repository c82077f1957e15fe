"""Images that a table labels: from its rows to a listing, and from its files to splits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np

from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import SPLITS, few, is_hidden, split_in
from nas.fit.data.groups import NONE, GroupRule
from nas.fit.data.source import Encoded, ImageListing
from nas.fit.data.splits import ImagePart

_NO_LABEL = "-1"
"""Label of images that nobody labelled, where all others are whole numbers from 0."""


@final
@dataclass
class Rows:
    """A row for each image."""

    names: list[str] = field(default_factory=list)  # how a message names each image
    labels: list[str | None] = field(
        default_factory=list
    )  # class of each; None: the table does not say
    parts: list[ImagePart] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)  # of a column that a rule names

    def listing(
        self,
        encoded: Iterable[Encoded],
        rule: GroupRule | None,
        report: Sequence[str] = (),
        *,
        are_values: bool,
    ) -> ImageListing:
        """The images by number of their class.

        Args:
          encoded: each image in turn.
          rule: for the groups of images.
          report: lines for the user.
          are_values: labels are numbers to be learnt, so that -1 is one.
        """
        labels = self.labels if are_values else _known(self.labels)
        classes = ordered({label for label in labels if label is not None})
        numbers: Mapping[str | None, int] = {label: at for at, label in enumerate(classes)} | {
            None: -1
        }
        groups = None
        if rule is not None:
            groups = self.names if rule.text == NONE else self.groups or rule.of_paths(self.names)
        return ImageListing(
            tuple(map(printable, classes)),
            np.array([numbers[label] for label in labels], np.int64),
            np.array(self.parts, np.int8),
            self.names,
            encoded,
            tuple(report),
            groups,
        )


def _known(labels: list[str | None]) -> list[str | None]:
    """Labels, without -1 where all others are whole numbers from 0."""
    others = {label for label in labels if label is not None} - {_NO_LABEL}
    is_unknown = bool(others) and all(re.fullmatch(r"\d{1,18}", label) for label in others)
    return [None if is_unknown and label == _NO_LABEL else label for label in labels]


def ordered(texts: set[str]) -> tuple[str, ...]:
    """Whole numbers by their values, other texts by the alphabet."""
    if all(re.fullmatch(r"-?\d{1,18}", text) for text in texts):
        return tuple(sorted(texts, key=int))
    return tuple(sorted(texts))


def part_named(split: object, where: Path) -> ImagePart:
    """The split that a table names.

    Raises:
      UserError: if it is none.
    """
    name = str(split).strip().casefold()
    if name not in SPLITS:
        raise UserError(f"{where}: split {printable(str(split))!r} is none of train, val and test")
    return SPLITS[name]


def files_below(folder: Path, *endings: str) -> list[Path]:
    """Files of these endings in a folder and below, without those of programs."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in endings
        and not any(map(is_hidden, path.relative_to(folder).parts))
        and path.is_file()
    )


def shards(path: Path, ending: str) -> tuple[list[tuple[Path, ImagePart | None]], list[str]]:
    """Files that are one set together, with the splits that their names or folders say, and what is left out.

    Hugging Face writes `data/train-00000-of-00002.parquet`, or `train/0000.parquet`; None where none is named so.

    Raises:
      UserError: if the folder holds several sets.
    """
    if path.is_file():
        return [(path, None)], []
    files = files_below(path, ending)
    named = [
        (file, split_in(file.stem) if file.parent == path else _split_of(file)) for file in files
    ]
    folders = {
        file.parent if split_in(file.parent.name) is None else file.parent.parent
        for file, _ in named
        if file.parent != path
    }
    if len(folders) > 1:
        names = few(sorted(str(each.relative_to(path)) for each in folders))
        raise UserError(f"data={path} holds several sets, {names}; name the folder of one")
    if not any(part is ImagePart.train for _, part in named):
        return [(file, None) for file, _ in named], []
    others = [str(file.relative_to(path)) for file, part in named if part is None]
    report = [f"left out, no split is named in: {few(others)}"] if others else []
    return [(file, part) for file, part in named if part is not None], report


def _split_of(file: Path) -> ImagePart | None:
    """The split that a file's name or its folder's says."""
    by_name = split_in(file.stem)
    return split_in(file.parent.name) if by_name is None else by_name
