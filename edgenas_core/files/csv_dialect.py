"""Tables as people write them, in the one form that `keyed_table` parses: UTF-8, commas, decimal points.

Read are UTF-8 and UTF-16 with a byte-order mark, semicolons, tabs and bars between fields, decimal commas, blanks
around fields, usual names of the first columns in any case, the long form (a row for each architecture and device),
and architectures as their number alone or as a vector of choices.
"""

from __future__ import annotations

import csv
import io
import re
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from edgenas_core.files.safe_file import decoded
from edgenas_core.types.architectures import Enumerable, Keys
from edgenas_core.types.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_ARCH = {"arch", "architecture", "arch_str", "architectures", "arch_vector", "op_vector", "ops"}
_INDEX = {"index", "idx", "arch_index", "arch_idx", "architecture_index", "number"}
_DEVICE = {"device"}
_DELIMITERS = (",", ";", "\t", "|")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_VECTOR = re.compile(r"[\[(]?\s*\d{1,9}(?:[\s,;]+\d{1,9})*\s*[\])]?", re.ASCII)


def is_plain(first_line: bytes) -> bool:
    """Whether a table with this first line is in the form that is parsed as it stands."""
    try:
        names = next(csv.reader([first_line.decode("utf-8-sig")]), [])
    except (UnicodeDecodeError, csv.Error):
        return False
    has_devices = not _DEVICE.isdisjoint(name.strip().lower() for name in names)
    return "arch" in names and not has_devices and all(name == name.strip() for name in names)


def standard_rows(
    content: bytes, keys: Keys | None = None, *, wide: bool = True
) -> list[list[str]]:
    """Rows of a table in any dialect, the first with the names of the columns.

    Args:
      content: of the file.
      keys: the space, which turns numbers and vectors into the text of an architecture; None: they stay.
      wide: make a column for each device of a table in the long form.

    Raises:
      UserError: if it is no text or no table; the message says why, without the file's name.
    """
    try:
        text = decoded(content)
    except UnicodeDecodeError as error:
        raise UserError("it is no text in UTF-8 or UTF-16; save it as CSV in UTF-8") from error
    first_line = text.partition("\n")[0]
    delimiter = _delimiter(first_line)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        numbered = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise UserError(f"it is no CSV: {error}") from error
    if not numbered:
        raise UserError("it is empty")
    lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
    names = [_standard_name(name) for name in rows[0]]
    if not {"arch", "index"} & {*names}:
        raise UserError(
            f"no column 'arch' or 'index' among {', '.join(map(repr, names[:6]))}"[:300]
        )
    has_commas = delimiter != ","
    rows = [
        names,
        *(
            [
                _point(field.strip())
                if has_commas and name not in {"arch", "index"}
                else field.strip()
                for field, name in zip_longest(row, names)
                if field is not None
            ]
            for row in rows[1:]
        ),
    ]
    for line, row in zip(lines[1:], rows[1:], strict=True):
        if len(row) != len(names):
            raise UserError(f"line {line} has {len(row)} fields, the first line {len(names)}")
    if wide and "device" in names:
        lines, rows = _wide(lines, rows)
    return rows if keys is None else _with_texts(lines, rows, keys)


def standard(content: bytes, keys: Keys) -> bytes:
    """The same as a CSV file in UTF-8 with commas.

    Raises:
      UserError: as `standard_rows`.
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(standard_rows(content, keys))
    return text.getvalue().encode()


def _delimiter(first_line: str) -> str:
    """The delimiter that finds a column of architectures, else the most frequent one."""
    for delimiter in _DELIMITERS:
        names = {field.strip().strip('"').lower() for field in first_line.split(delimiter)}
        if names & (_ARCH | _INDEX) and len(names) > 1:
            return delimiter
    return max(_DELIMITERS, key=first_line.count)


def _standard_name(name: str) -> str:
    name = name.strip()
    for standard_name, names in (("arch", _ARCH), ("index", _INDEX), ("device", _DEVICE)):
        if name.lower() in names:
            return standard_name
    return name


def _point(field: str) -> str:
    """A number with a decimal point in place of its comma; another field as it is."""
    return field.replace(",", ".") if _DECIMAL_COMMA.fullmatch(field) else field


def _wide(lines: Sequence[int], rows: Sequence[list[str]]) -> tuple[list[int], list[list[str]]]:
    """A column for each device, of a table with a row for each architecture and device; lines are the first ones."""
    names = rows[0]
    key = "arch" if "arch" in names else "index"
    values = [name for name in names if name not in {"arch", "index", "device"}]
    if len(values) != 1:
        raise UserError(
            f"rows of several devices (column 'device') need one column of times, here are "
            f"{', '.join(values) or 'none'}"
        )
    at = {name: names.index(name) for name in (key, "device", values[0])}
    devices = dict.fromkeys(row[at["device"]] for row in rows[1:])
    of_key: dict[str, dict[str, str]] = {}
    first: dict[str, int] = {}
    for line, row in zip(lines[1:], rows[1:], strict=True):
        first.setdefault(row[at[key]], line)
        of_device = of_key.setdefault(row[at[key]], {})
        if row[at["device"]] in of_device:
            raise UserError(f"line {line} has {row[at[key]]} on {row[at['device']]} a second time")
        of_device[row[at["device"]]] = row[at[values[0]]]
    head = [key, *(devices if _is_ms(values[0]) else (f"{name} ({values[0]})" for name in devices))]
    wide = [[k, *(times.get(device, "") for device in devices)] for k, times in of_key.items()]
    return [lines[0], *first.values()], [head, *wide]


def _is_ms(name: str) -> bool:
    """Whether the one column of times is of the unit that is assumed without a word."""
    return name.lower() in {"latency", "latency_ms", "ms", "time", "time_ms", "value", "median_ms"}


def _with_texts(lines: Sequence[int], rows: Sequence[list[str]], keys: Keys) -> list[list[str]]:
    """Texts in the place of vectors of choices, and beside numbers without a text."""
    names = rows[0]
    if "arch" in names:
        at = names.index("arch")
        return [
            names,
            *([*row[:at], architecture_text(row[at], keys), *row[at + 1 :]] for row in rows[1:]),
        ]
    if not isinstance(keys, Enumerable):
        raise UserError(f"no column 'arch', and space={keys.name} has no numbers of architectures")
    at = names.index("index")
    numbers = [
        _number(row[at], line, keys.size) for line, row in zip(lines[1:], rows[1:], strict=True)
    ]
    texts = [keys.text(row) for row in keys.architectures(np.array(numbers, np.int64))]
    return [["arch", *names], *([text, *row] for text, row in zip(texts, rows[1:], strict=True))]


def _number(field: str, line: int, size: int) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", field) or int(field) >= size:
        raise UserError(f"line {line}: index {field[:40]!r} is none from 0 to {size - 1:,}")
    return int(field)


def architecture_text(field: str, keys: Keys) -> str:
    """The text of an architecture; a vector of choices is one, too."""
    if not _VECTOR.fullmatch(field):
        return field
    choices = [int(number) for number in re.findall(r"\d+", field)]
    options = keys.num_choices
    if len(choices) != len(options) or any(c >= n for c, n in zip(choices, options, strict=True)):
        return field
    return keys.text(np.array(choices, np.int64))
