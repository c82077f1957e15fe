"""A table of file names and labels beside the images: labels.csv, train.csv and val.csv, Roboflow's _classes.csv."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import final

from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import IMAGE_SUFFIXES, SPLITS, clean_name, few, split_in
from nas.fit.data.groups import NONE, GroupRule
from nas.fit.data.image_set import NO_LABEL
from nas.fit.data.rows import Rows, files_below, part_named
from nas.fit.data.source import ImageListing, safe_name, stamp
from nas.fit.data.splits import ImagePart

TABLES = (".csv", ".tsv")
"""Endings of tables."""

_LABEL = ("label", "labels", "class", "classes", "class_name", "category", "target", "name")
_SPLIT = ("split", "set", "data set", "subset", "partition")
_BOX = {"xmin", "x_min", "bbox", "xmax", "x_max"}
_FORM = re.compile(r"(?:(?:sample|example)[ _-]*)?submission", re.IGNORECASE)
"""Beginning of the name of a contest's form for answers, whose labels are made up, as Kaggle has it."""

_TRIED = 200  # rows whose fields are compared with the names of files


@final
class ListedImages:
    """Images of a folder, and the tables that label them."""

    def __init__(
        self, path: Path, groups: GroupRule | None = None, *, are_values: bool = False
    ) -> None:
        """`path` is a table beside its images, or their folder."""
        self._path, self._groups, self._are_values = path, groups, are_values
        self._folder = path.parent if path.is_file() else path
        self.title = printable(path.resolve().stem if path.is_file() else path.resolve().name)
        self.name = safe_name(self.title)
        self._left_out: dict[str, list[str]] = {}
        self.unreadable: list[str] = []  # why tables of the folder cannot be read

    @cached_property
    def tables(self) -> list[Path]:
        """Tables that name images, of the folder itself and of folders that are named as splits."""
        if self._path.is_file():
            return [self._path]
        found = [
            file
            for file in files_below(self._folder, *TABLES)
            if file.parent == self._folder
            or (file.parent.parent == self._folder and file.parent.name.casefold() in SPLITS)
        ]
        forms = [file for file in found if _FORM.match(file.name)]
        for file in forms:
            self._leave_out("forms for a contest's answers", file.name)
        return [file for file in found if file not in forms and self._names_images(file)]

    @cached_property
    def _images(self) -> list[Path]:
        return files_below(self._folder, *IMAGE_SUFFIXES)

    @cached_property
    def _by_name(self) -> dict[str, list[Path]]:
        """Images by each end of their paths, with and without their endings."""
        index: dict[str, list[Path]] = {}
        for file in self._images:
            parts = file.relative_to(self._folder).parts
            for start in range(len(parts)):
                name = "/".join(parts[start:])
                index.setdefault(name, []).append(file)
                index.setdefault(name.removesuffix(file.suffix), []).append(file)
        return index

    def key(self) -> str:
        """Names, sizes and times of the tables and the images."""
        return "\n".join(map(stamp, self.tables + self._images))

    def listing(self) -> ImageListing:
        """Join the rows of the tables and the images.

        Raises:
          UserError: if a table has no column of labels, or an image has two.
        """
        rows, files = Rows(), dict[Path, str | None]()
        parts = {table: self._part_of(table) for table in self.tables}
        for table in self.tables:
            self._add(table, parts[table], rows, files)
        unnamed = [file for file in self._images if file not in files]
        for file in unnamed:
            self._leave_out("images that no row names", file.relative_to(self._folder))
        report = [f"left out, {reason}: {few(names)}" for reason, names in self._left_out.items()]
        report = [f"labels by {few([table.name for table in self.tables])}", *report]
        return rows.listing([*files], self._groups, report, are_values=self._are_values)

    def _part_of(self, table: Path) -> ImagePart | None:
        """Split of a table's name or folder; None where no table is for training."""
        parts = {
            each: split_in(str(each.relative_to(self._folder).with_suffix("")))
            for each in self.tables
        }
        return parts[table] if ImagePart.train in parts.values() else None

    def _add(
        self, table: Path, part: ImagePart | None, rows: Rows, files: dict[Path, str | None]
    ) -> None:
        names, content = self._rows_of(table)
        at = self._file_column(names, content)
        labels = _label_columns(table, names, content, at)
        if not labels:
            return self._leave_out("tables without a column of labels", table.name)
        split = next(
            (
                names.index(name)
                for name in _SPLIT
                if name in names and names.index(name) not in labels
            ),
            None,
        )
        rule = self._groups.text if self._groups else NONE
        group = names.index(rule.casefold()) if rule.casefold() in names else None
        for row in content:
            file = self._file(row[at], part)
            if file is None:
                continue
            label = _label([row[each] for each in labels], [names[each] for each in labels])
            if file in files:
                if files[file] != label:
                    raise UserError(
                        f"{table} labels {printable(row[at])} as {files[file]!r} and as {label!r}; write several labels of an "
                        f"image into one row, joined by +"
                    )
                self._leave_out("rows that repeat another", row[at])
                continue
            files[file] = label
            rows.names.append(printable(str(file.relative_to(self._folder))))
            rows.labels.append(label)
            folder = split_in(file.relative_to(self._folder).parts[0])
            by_name = folder if part is None and len(self.tables) == 1 else part
            chosen = (
                by_name
                if split is None or not row[split].strip()
                else part_named(row[split], table)
            )
            rows.parts.append(ImagePart.train if chosen is None else chosen)
            if group is not None:
                rows.groups.append(row[group])
        return None

    def _leave_out(self, reason: str, name: object) -> None:
        self._left_out.setdefault(reason, []).append(printable(str(name))[:200])

    def _file(self, name: str, part: ImagePart | None) -> Path | None:
        """The image that a field names by the end of its path; None if it is not there, or several are."""
        parts = [
            each for each in name.strip().replace("\\", "/").split("/") if each not in {"", "."}
        ]
        for start in range(len(parts)):
            found = self._by_name.get("/".join(parts[start:]), [])
            of_split = [
                file
                for file in found
                if split_in(str(file.parent.relative_to(self._folder))) == part
            ]
            if len(found) == 1 or len(of_split) == 1:
                return found[0] if len(found) == 1 else of_split[0]
            if found:
                self._leave_out("rows that several images are named as", name)
                return None
        self._leave_out("rows whose image is not there", name)
        return None

    def _rows_of(self, table: Path) -> tuple[list[str], list[list[str]]]:
        """Names of the columns in lower case, and the rows.

        Raises:
          UserError: if it is no table.
        """
        try:
            text = read_text(table)
            first = text.partition("\n")[0]
            delimiter = max(",;\t|", key=first.count)
            lines = [
                row
                for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
                if any(row)
            ]
        except csv.Error as error:
            raise UserError(f"{table} is no CSV: {error}") from error
        if not lines:
            raise UserError(f"{table} is empty")
        has_names = not any(self._is_image(field) for field in lines[0])
        names = [field.strip().casefold() for field in lines[0]] if has_names else []
        names += [f"column {at}" for at in range(len(names), max(map(len, lines)))]
        content = lines[1:] if has_names else lines
        return names, [row + [""] * (len(names) - len(row)) for row in content]

    def _is_image(self, field: str) -> bool:
        return Path(field.strip().replace("\\", "/")).name in self._by_name

    def _file_column(self, names: list[str], content: list[list[str]]) -> int:
        """The column that names most images.

        Raises:
          UserError: if none names one.
        """
        fields = {(at, field) for row in content[:_TRIED] for at, field in enumerate(row)}
        counts = Counter(at for at, field in fields if self._is_image(field))
        if not counts:
            raise UserError(
                f"data={self._path}: no column of {', '.join(map(repr, names[:6]))} names an image of {self._folder}"
            )
        return max(counts, key=lambda at: (counts[at], -at))

    def _names_images(self, table: Path) -> bool:
        try:
            content = self._rows_of(table)
        except (UserError, OSError) as error:
            self.unreadable.append(str(error))
            return False
        try:
            self._file_column(*content)
        except UserError:
            return False
        return True


def _label_columns(table: Path, names: list[str], content: list[list[str]], file: int) -> list[int]:
    """The column of labels, or those of 0 and 1, one for each label; empty without any.

    Raises:
      UserError: if several could be it, or rows are boxes.
    """
    if _BOX & {*names}:
        raise UserError(
            f"{table} holds boxes; for task=detection write them as COCO's annotations.json, YOLO's data.yaml or Pascal "
            f"VOC's XML"
        )
    named = [names.index(name) for name in _LABEL if name in names and names.index(name) != file]
    others = [at for at, name in enumerate(names) if at != file and name not in _SPLIT]
    if named or len(others) < 2:
        return named[:1] or others
    if all(row[at].strip() in {"0", "1"} for row in content for at in others):
        return others
    raise UserError(
        f"{table}: which of {', '.join(names[at] for at in others[:8])} is the label? name that column `label`"
    )


def _label(fields: list[str], names: list[str]) -> str | None:
    """The label of a row: a field, or the names of the columns that are 1."""
    if len(fields) == 1:
        return clean_name(fields[0]) or None
    shown = [
        clean_name(name) for name, field in zip(names, fields, strict=True) if field.strip() == "1"
    ]
    return "+".join(sorted(shown)) or NO_LABEL
