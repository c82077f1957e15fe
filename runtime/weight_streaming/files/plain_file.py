"""Reader of plain safetensors files: one tensor at a time, with every header entry validated.

Files are read with `pread` instead of being mapped, so that truncation during a read raises an error
instead of a signal that kills the process.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from runtime.shell.closeable import Closeable
from runtime.weight_streaming.files.layers import Weight
from runtime.weight_streaming.files.readers import open_for_reading
from runtime.weight_streaming.files.weight_file import (
    SHORT_REPR,
    Identity,
    WeightFileError,
    dtype_name,
    format_entry,
    read_header,
)


@final
class PlainFile(Closeable):
    """A safetensors file, open for reading; it must not change while it is open."""

    def __init__(self, path: Path) -> None:
        """Open the file and read its header.

        Raises:
          OSError: if it cannot be opened; WeightFileError if it is not a safetensors file.
        """
        self._name = str(path)
        self._file = open_for_reading(path)
        try:
            self._identity = Identity.of(self._file)
            self._entries, self._begin = read_header(self._file, self._name, self._identity.size)
            self._entries.pop("__metadata__", None)
        except BaseException:
            self.close()
            raise

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def check(self, name: str, weight: Weight) -> None:
        """Compare a header entry with the weight that is to be read.

        Raises:
          WeightFileError: if type or shape differ, or the offsets are invalid.
        """
        entry = self._entries[name]
        expected = {"dtype": dtype_name(weight), "shape": [*weight.shape]}
        if not isinstance(entry, dict) or any(entry.get(key) != expected[key] for key in expected):
            raise WeightFileError(
                f"{self._name} belongs to another model: its {SHORT_REPR.repr(name)} is "
                f"{format_entry(entry)}, the module's {expected['dtype']} of {expected['shape']}"
            )
        place: Any = entry.get("data_offsets")
        if not _are_offsets(place, weight.nbytes):
            raise WeightFileError(
                f"{self._name} is damaged: {SHORT_REPR.repr(name)} of {weight.nbytes:,} bytes has the "
                f"offsets {SHORT_REPR.repr(place)}"
            )
        if self._begin + place[1] > self._identity.size:
            raise WeightFileError(
                f"{self._name} is truncated: it has {self._identity.size:,} bytes, "
                f"but {SHORT_REPR.repr(name)} ends at {self._begin + place[1]:,}"
            )

    def read(self, name: str, weight: Weight) -> Tensor:
        """Read a tensor that was checked.

        Raises:
          WeightFileError: if it cannot be read, or the file has changed.
        """
        content = torch.empty(weight.nbytes, dtype=torch.uint8)
        left = content.numpy().data
        at = self._begin + self._entries[name]["data_offsets"][0]
        while left:
            try:
                got = os.preadv(self._file, [left], at)
            except OSError as error:
                raise WeightFileError(
                    f"{SHORT_REPR.repr(name)} cannot be read from {self._name}: "
                    f"{error.strerror or error}"
                ) from error
            if not got:
                break
            left, at = left[got:], at + got
        if left or Identity.of(self._file) != self._identity:
            raise WeightFileError(f"{self._name} changed while it was read; pack it again")
        return content.view(weight.dtype).reshape(weight.shape)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _are_offsets(place: Any, nbytes: int) -> bool:
    return (
        isinstance(place, list)
        and len(place) == 2
        and all(type(one) is int for one in place)
        and 0 <= place[0] == place[1] - nbytes
    )
