"""JSON files whose content is a dataclass: written from it, and read back checked."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from edgenas_core.files.atomic_file import write_whole
from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError

T = TypeVar("T")


def write_json(path: Path, record: Any) -> None:
    """Write a dataclass as JSON, atomically.

    Raises:
      OSError: if it cannot be written.
      ValueError: if it holds a number that is not finite.
    """
    text = json.dumps(dataclasses.asdict(record), indent=2, allow_nan=False)
    write_whole(path, f"{text}\n")


def read_json(path: Path, kind: type[T]) -> T:
    """Read what `write_json` wrote; fields that are unknown are passed over.

    Raises:
      OSError: if the file cannot be read.
      ValueError: if it is no JSON, or a field without a default is missing, or one is of another
        type; it names the field.
    """
    try:
        loaded = json.loads(read_text(path))
        record: T = _checked(loaded, kind, "")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UserError as error:
        raise ValueError(str(error)) from error
    return record


def typed_record(value: Any, kind: type[T]) -> T:
    """An object of a dataclass from a value of JSON, such as a line of a journal.

    Raises:
      ValueError: if a field is missing or of another type; it names the field.
    """
    record: T = _checked(value, kind, "")
    return record


def _checked(value: Any, kind: Any, where: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, types.UnionType}:
        other = next(arg for arg in inner if arg is not type(None))
        if isinstance(value, list):  # of a value or several
            other = next((arg for arg in inner if get_origin(arg) is tuple), other)
        return None if value is None and type(None) in inner else _checked(value, other, where)
    if dataclasses.is_dataclass(kind):
        return _record(value, kind, where)
    if origin is tuple:
        items = _typed(value, list, where)
        kinds = inner[:1] * len(items) if inner[-1] is Ellipsis else inner
        if len(items) != len(kinds):
            raise ValueError(f"{where} has {len(items)} items, not {len(kinds)}")
        return tuple(_checked(item, kinds[i], f"{where}[{i}]") for i, item in enumerate(items))
    if origin is dict:
        named = _typed(value, dict, where)
        return {name: _checked(item, inner[1], f"{where}.{name}") for name, item in named.items()}
    return _typed(value, kind, where)


def _record(value: Any, kind: Any, where: str) -> Any:
    items = _typed(value, dict, where)
    hints = get_type_hints(kind)
    fields = {}
    for field in dataclasses.fields(kind):
        inside = f"{where}.{field.name}".lstrip(".")
        if field.name in items:
            fields[field.name] = _checked(items[field.name], hints[field.name], inside)
        elif field.default is field.default_factory is dataclasses.MISSING:
            raise ValueError(f"it has no {inside}")
    return kind(**fields)


def _typed(value: Any, kind: type, where: str) -> Any:
    """The value as JSON's type, a whole number as a float where one is asked for."""
    allowed = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where or 'it'} is {type(value).__name__}, not {kind.__name__}")
    if isinstance(value, str):
        value.encode()  # half of a character is a ValueError, too
    if kind is not float:
        return value
    number: Any = value
    if not abs(number) <= sys.float_info.max:
        raise ValueError(f"{where} is not a finite number")
    return float(number)
