"""A Parquet file with a row an image: its encoded bytes, its label, perhaps its split.

| column | holds |
|---|---|
| the first of bytes (or, as Hugging Face writes it, of a struct with `bytes`) | a file's content: JPEG, PNG, ... |
| `label` | a whole number, a text, or a list of them; numbers have the names of Hugging Face's schema |
| `name`, if there is one | the class of the label, as text |
| `split`, if there is one | `train`, `val` or `test` |
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from nas.fit.data.class_folders import SPLITS, clean_name
from nas.fit.data.groups import NONE, GroupRule
from nas.fit.data.image_set import NO_LABEL
from nas.fit.data.source import ImageListing, safe_name, stamp
from nas.fit.data.splits import ImagePart

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_FEWEST_BYTES = 16  # of a row; a few bytes can claim billions of rows that are equal
_FEW_ROWS = 100_000  # whose memory does no harm


@final
class ParquetImages:
    """The rows of one file."""

    def __init__(self, path: Path, groups: GroupRule | None = None) -> None:
        self._path, self._groups = path, groups
        self.title = printable(path.stem)
        self.name = safe_name(path.stem)

    def key(self) -> str:
        """Name, size and times of the file."""
        return stamp(self._path)

    def listing(self) -> ImageListing:
        """Read all columns but the images."""
        with self._opened() as file:
            image = self._image_column(file.schema_arrow)
            names = [name for name in ("label", "name", "split") if name in file.schema_arrow.names]
            if "label" not in names:
                raise UserError(
                    f"{self._path} has no column `label`; name the column of the labels so"
                )
            names += [self._rule.text] * (self._rule.text in file.schema_arrow.names)
            columns = file.read(list(dict.fromkeys(names))).to_pydict()
            labelled = "name" if "name" in columns else "label"
            known = _class_names(file.schema_arrow, labelled)
        texts = [self._text(value, known) for value in columns[labelled]]
        classes = _ordered({text for text in texts if text is not None})
        numbers = {text: number for number, text in enumerate(classes)} | {None: -1}
        return ImageListing(
            tuple(map(printable, classes)),
            np.array([numbers[text] for text in texts], np.int64),
            np.array(list(map(self._part, columns.get("split", ["train"] * len(texts)))), np.int8),
            [f"row {number}" for number in range(len(texts))],
            _ParquetPixels(self, image),
            groups=self._group_names(columns, len(texts)),
        )

    @property
    def _rule(self) -> GroupRule:
        return self._groups or GroupRule("")

    def _group_names(self, columns: dict[str, list[Any]], count: int) -> list[str] | None:
        rule = self._rule.text
        if rule and rule != NONE and rule not in columns:
            raise UserError(f"groups={rule} is no column of {self._path}")
        if not rule:
            return None
        rows = [f"row {number}" for number in range(count)]
        values = rows if rule == NONE else columns[rule]
        return [
            row if value is None else str(value) for value, row in zip(values, rows, strict=True)
        ]

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
        import pyarrow.parquet as pq  # noqa: PLC0415 - as above

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
        import pyarrow as pa  # noqa: PLC0415 - as above

        for field in schema:
            kind: Any = field.type
            if pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
                return f"{field.name}.bytes"
            if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
                return str(field.name)
        raise UserError(f"{self._path} has no column of bytes, the encoded images")

    def images(self, column: str) -> Iterator[bytes]:
        """Each row's encoded image."""
        top, _, below = column.partition(".")
        with self._opened() as file:
            for batch in file.iter_batches(1, columns=[column]):
                values = batch.column(top)
                for image in values.field(below) if below else values:
                    yield image.as_py() or b""

    def _part(self, split: object) -> ImagePart:
        name = str(split).casefold()
        if name not in SPLITS:
            raise UserError(
                f"{self._path}: split {printable(str(split))!r} is none of train, val and test"
            )
        return SPLITS[name]


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
    """Encoded images of a column, which may be read again."""

    file: ParquetImages
    column: str

    def __iter__(self) -> Iterator[bytes]:
        return self.file.images(self.column)


def _ordered(texts: set[str]) -> tuple[str, ...]:
    """Whole numbers by their values, other texts by the alphabet."""
    if all(re.fullmatch(r"-?\d{1,18}", text) for text in texts):
        return tuple(sorted(texts, key=int))
    return tuple(sorted(texts))
