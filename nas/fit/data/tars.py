"""Tar files as webdataset writes them: the files of an image have one name, `000123.jpg` and `000123.cls`.

Nothing is unpacked: the bytes of an image are read where they lie in the tar file.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

from edgenas_core.files.safe_file import opened, read_text
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import IMAGE_SUFFIXES, clean_name, few, is_hidden
from nas.fit.data.decode import MOST_BYTES
from nas.fit.data.groups import GroupRule
from nas.fit.data.image_set import NO_LABEL
from nas.fit.data.rows import Rows, shards
from nas.fit.data.source import ImageListing, safe_name, stamp
from nas.fit.data.splits import ImagePart

_MOST_OF_LABEL = 2**16
"""Bytes of a label's file."""

_LABELS = ("cls", "cls.txt", "label", "json")
"""Endings of a sample's label."""

_NAMES = ("classnames.txt", "classes.txt")
"""Files beside the tar files with a class's name in each line."""


@final
@dataclass
class _Sample:
    """Where an image lies, and its label."""

    image: tuple[Path, int, int] | None = None  # file, offset and size in bytes
    label: str | None = None


@final
class TarImages:
    """The samples of a tar file, or of the tar files of a folder."""

    def __init__(
        self, path: Path, groups: GroupRule | None = None, *, are_values: bool = False
    ) -> None:
        self._path, self._groups, self._are_values = path, groups, are_values
        self.title = printable(path.resolve().stem if path.is_file() else path.resolve().name)
        self.name = safe_name(self.title)
        self._files, self._report = shards(path, ".tar")
        above = path if path.is_dir() else path.parent
        self._name_files = [above / name for name in _NAMES if (above / name).is_file()]

    def key(self) -> str:
        """Names, sizes and times of the files."""
        files = [file for file, _ in self._files]
        return "\n".join(map(stamp, files + self._name_files))

    def listing(self) -> ImageListing:
        """Read the labels.

        Raises:
          UserError: if a file is no tar file, or no image has a label.
        """
        rows, places = Rows(), []
        left_out: dict[str, list[str]] = {}
        for file, part in self._files:
            samples = _samples(file, left_out)
            for name, sample in samples.items():
                if sample.image is None:
                    left_out.setdefault("members without an image", []).append(name)
                    continue
                rows.names.append(f"{file.name} {name}" if len(self._files) > 1 else name)
                rows.labels.append(self._named(sample.label))
                rows.parts.append(ImagePart.train if part is None else part)
                places.append(sample.image)
        report = [f"left out, {reason}: {few(names)}" for reason, names in left_out.items()]
        if not any(label is not None for label in rows.labels):
            raise UserError(
                f"data={self._path} has no image with a label; webdataset keeps the image of a sample as NAME.jpg and "
                f"its class as NAME.cls or as `label` of NAME.json; unpack a tar file of class folders"
                + "".join(f"; {line}" for line in report)
            )
        return rows.listing(
            _TarPixels(places), self._groups, self._report + report, are_values=self._are_values
        )

    def _named(self, label: str | None) -> str | None:
        """The class of a number, where a file beside the tar files names it."""
        if label is None or not self._name_files or not re.fullmatch(r"\d{1,18}", label):
            return label
        if int(label) >= len(self._names):
            raise UserError(
                f"{self._name_files[0]} has {len(self._names)} names, and a label is {label}"
            )
        return clean_name(self._names[int(label)]) or label

    @cached_property
    def _names(self) -> list[str]:
        return read_text(self._name_files[0]).splitlines()


def _samples(path: Path, left_out: dict[str, list[str]]) -> dict[str, _Sample]:
    """The samples of a tar file by the names that their members share up to the first point.

    Raises:
      UserError: if it cannot be read.
    """
    samples: dict[str, _Sample] = {}
    try:
        with opened(path) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                folder, _, base = member.name.rpartition("/")
                stem, _, ending = base.partition(".")
                if member.isdir() or is_hidden(base):
                    continue
                name = printable(f"{folder}/{stem}".strip("/"))[:200]
                if not member.isreg() or member.issparse() or member.size > MOST_BYTES:
                    left_out.setdefault("members that are no plain files", []).append(name)
                    continue
                sample = samples.setdefault(name, _Sample())
                ending = ending.lower()
                if f".{ending.rpartition('.')[2]}" in IMAGE_SUFFIXES:
                    if sample.image is None:
                        sample.image = (path, member.offset_data, member.size)
                    else:
                        left_out.setdefault("further images of a sample", []).append(name)
                elif ending not in _LABELS:
                    continue
                elif member.size > _MOST_OF_LABEL:
                    left_out.setdefault("labels of more than 65,536 bytes", []).append(name)
                else:
                    content = archive.extractfile(member)
                    text = b"" if content is None else content.read()
                    sample.label = _label(text, name, is_json=ending == "json") or sample.label
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        reason = printable(str(error))[:200]
        raise UserError(
            f"{path} cannot be read as a tar file without compression: {reason}"
        ) from error
    return samples


def _label(content: bytes, name: str, *, is_json: bool) -> str | None:
    """The class by the content of a label's file; None if it says none."""
    try:
        text = content.decode().strip()
        value: Any = json.loads(text) if is_json else text
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"the label of {name} cannot be read: {printable(str(error))[:100]}"
        ) from error
    if isinstance(value, dict):
        value = next(
            (value[key] for key in ("label", "cls", "class", "labels") if key in value), None
        )
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        value = "+".join(sorted({*value})) or NO_LABEL
    if value is None or isinstance(value, bool | dict | list) or value != value:  # noqa: PLR0124 - NaN
        return None
    return clean_name(str(value)) or None


@final
@dataclass(frozen=True)
class _TarPixels:
    """Encoded images at their places, which may be read again."""

    places: Sequence[tuple[Path, int, int]]

    def __iter__(self) -> Iterator[bytes]:
        for path, offset, size in self.places:
            with path.open("rb") as file:
                file.seek(offset)
                yield file.read(size)
