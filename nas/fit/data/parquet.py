"""Parquet files with a row an image: its encoded bytes, its label, perhaps its split.

| column | holds |
|---|---|
| the first of bytes (or, as Hugging Face writes it, of a struct with `bytes`) | a file's content: JPEG, PNG, ... |
| `label` | a whole number, a text, or a list of them; numbers have the names of Hugging Face's schema |
| `name`, if there is one | the class of the label, as text |
| `split`, if there is one | `train`, `val` or `test`; without it, the names of several files say the split |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import clean_name
from nas.fit.data.groups import NONE, GroupRule
from nas.fit.data.image_set import NO_LABEL
from nas.fit.data.rows import Rows, part_named, shards
from nas.fit.data.source import ImageListing, safe_name, stamp
from nas.fit.data.splits import ImagePart

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_FEWEST_BYTES = 16  # of a row; a few bytes can claim billions of rows that are equal
_FEW_ROWS = 100_000  # whose memory does no harm


@final
class ParquetImages:
    """The rows of a file, or of the files of a folder."""

    def __init__(
        self, path: Path, groups: GroupRule | None = None, *, are_values: bool = False
    ) -> None:
        self._groups, self._are_values = groups, are_values
        self.title = printable(path.resolve().stem if path.is_file() else path.resolve().name)
        self.name = safe_name(self.title)
        files, self._report = shards(path, ".parquet")
        self._files = [_ParquetFile(file) for file, _ in files]
        self._parts = [part for _, part in files]

    def key(self) -> str:
        """Names, sizes and times of the files."""
        return "\n".join(stamp(file.path) for file in self._files)

    def listing(self) -> ImageListing:
        """Read all columns but the images."""
        rows = Rows()
        for file, part in zip(self._files, self._parts, strict=True):
            above = f"{file.path.name} " if len(self._files) > 1 else ""
            file.add_to(rows, part, self._groups, above)
        encoded = _ParquetPixels(self._files)
        return rows.listing(encoded, self._groups, self._report, are_values=self._are_values)


@final
class _ParquetFile:
    """The rows of one file."""

    def __init__(self, path: Path) -> None:
        self.path = self._path = path

    def add_to(
        self, rows: Rows, part: ImagePart | None, rule: GroupRule | None, above: str
    ) -> None:
        """Add the labels of the file.

        Args:
          rows: those of the files before.
          part: split that the file's name says, which a column replaces.
          rule: for groups.
          above: what stands before the number of a row in its name.
        """
        with self._opened() as file:
            schema = file.schema_arrow
            self._image_column(schema)
            if "label" not in schema.names:
                raise UserError(
                    f"{self._path} has no column `label`; name the column of the labels so"
                )
            labelled = "name" if "name" in schema.names else "label"
            names = {labelled, "split"} & {*schema.names}
            if rule is not None and rule.text != NONE:
                if rule.text not in schema.names:
                    raise UserError(f"groups={rule.text} is no column of {self._path}")
                names.add(rule.text)
            columns = file.read(sorted(names)).to_pydict()
            known = _class_names(schema, labelled)
        count = len(columns[labelled])
        named = [f"{above}row {number}" for number in range(count)]
        rows.names += named
        rows.labels += [self._text(value, known) for value in columns[labelled]]
        if "split" in columns:
            rows.parts += [part_named(split, self._path) for split in columns["split"]]
        else:
            rows.parts += [ImagePart.train if part is None else part] * count
        if rule is not None and rule.text != NONE:
            groups = zip(columns[rule.text], named, strict=True)
            rows.groups += [row if value is None else str(value) for value, row in groups]

    def _text(self, value: Any, known: Sequence[str]) -> str | None:
        """Name of the class of a label; labels in a list are joined, as names of class folders are.

        Raises:
          UserError: if it is none.
        """
        if isinstance(value, list):
            if any(isinstance(each, list) for each in value):
                raise UserError(
                    f"{self._path}: the label {value!r:.80} is a list within a list; write one list of texts"
                )
            texts = [self._text(each, known) for each in value]
            if any(text is None or "+" in text or not text for text in texts):
                raise UserError(
                    f"{self._path}: the list of labels {value!r:.80} has an empty one, or one with a +"
                )
            if known or not (len(value) > 1 and {*value} <= {0, 1}):
                return "+".join(sorted({str(text) for text in texts})) or NO_LABEL
            raise UserError(
                f"{self._path}: the label {value!r:.80} is a vector of 0 and 1; write the names of the labels "
                f"instead, as a list of texts"
            )
        if isinstance(value, dict | bytes):
            raise UserError(
                f"{self._path}: the label {value!r:.80} is no number, text or list of them"
            )
        if value is None or value != value or (known and value == -1):  # noqa: PLR0124 - NaN
            return None
        if known and isinstance(value, int):
            if not 0 <= value < len(known):
                raise UserError(
                    f"{self._path}: the label {value} has no name among {len(known)} of the schema"
                )
            return clean_name(known[value])
        return clean_name(str(value)) or None

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        """The file; what reading it raises becomes a `UserError`."""
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and only needed for Parquet
        import pyarrow.parquet as pq  # noqa: PLC0415 - loaded when needed

        try:
            require_regular(self._path)
            with pq.ParquetFile(self._path) as file:
                self._require_sound(file)
                yield file
        except (pa.ArrowException, OSError, ValueError, LookupError) as error:
            reason = printable(" ".join(str(error).split()))[:200]
            raise UserError(f"{self._path} cannot be read as Parquet: {reason}") from error

    def _require_sound(self, file: pq.ParquetFile) -> None:
        rows, size = file.metadata.num_rows, self._path.stat().st_size
        if rows > max(_FEW_ROWS, size // _FEWEST_BYTES):
            raise UserError(
                f"{self._path} claims {rows:,} rows, but its {size:,} bytes hold fewer images"
            )

    def _image_column(self, schema: pa.Schema) -> str:
        import pyarrow as pa  # noqa: PLC0415 - loaded when needed

        for field in schema:
            kind: Any = field.type
            if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
                return f"{field.name}.bytes"
            if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                return str(field.name)
        raise UserError(f"{self._path} has no column of bytes, the encoded images")

    def images(self) -> Iterator[bytes]:
        """Each row's encoded image."""
        with self._opened() as file:
            column = self._image_column(file.schema_arrow)
            top, _, below = column.partition(".")
            for batch in file.iter_batches(1, columns=[column]):
                values = batch.column(top)
                for image in values.field(below) if below else values:
                    yield image.as_py() or b""


def _class_names(schema: pa.Schema, column: str) -> list[str]:
    """Names of a column's classes, by the features that Hugging Face writes into a schema; empty without any."""
    try:
        content = json.loads((schema.metadata or {})[b"huggingface"])
        feature = content["info"]["features"][column]
        feature = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        names = feature["names"]
    except (KeyError, ValueError, TypeError, LookupError, RecursionError):
        return []
    return [str(name) for name in names] if isinstance(names, list) else []


@final
@dataclass(frozen=True)
class _ParquetPixels:
    """Encoded images of all files, which may be read again."""

    files: Sequence[_ParquetFile]

    def __iter__(self) -> Iterator[bytes]:
        for file in self.files:
            yield from file.images()
