"""Packed weight files: safetensors files whose layers start at page boundaries.

Any safetensors reader can open them; padding is stored as tensors named `~gap...`, and a digest of all
weights is in the metadata.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from edgenas_core.files.atomic_file import replacing
from edgenas_core.types.units import format_bytes
from edgenas_runtime.weight_streaming.files.layers import LayeredNetwork, Weight, WeightLayer
from edgenas_runtime.weight_streaming.planning.ring import aligned

_KEY = "edgenas.stream.sha256"
_GAP = "~gap"
_PACK = "edgenas_runtime.stream.pack(model, example, source=..., into=...) packs a plain safetensors file"

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}

SHORT_REPR = reprlib.Repr()
"""Shortens values from a file for messages of one line."""
SHORT_REPR.maxstring = 120


class WeightFileError(OSError):
    """A weight file is damaged or belongs to another model; none of it was used."""


def write_packed(layered: LayeredNetwork, values: Mapping[str, Tensor], path: Path) -> None:
    """Write a packed file atomically.

    Raises:
      OSError: if it cannot be written; WeightFileError if `values` reads from a file and fails.
      ValueError: as `write`.
    """
    try:
        with replacing(Path(os.path.realpath(path))) as file:  # keep a symbolic link
            write(layered, values, file)
    except WeightFileError:
        raise
    except OSError as error:
        raise unwritable(error, layered, str(path)) from error


def write(layered: LayeredNetwork, values: Mapping[str, Tensor], file: BinaryIO) -> None:
    """Write weights, given by name, layer by layer, and flush them to the disk.

    Raises:
      OSError: if they cannot be written.
      ValueError: if a weight has no values or a type that the format does not support.
    """
    digest = hashlib.sha256()
    file.write(_header(layered, digest.hexdigest()))  # of the same length, so values are read once
    for layer in layered.layers:
        for piece in _pieces(layer, values):
            digest.update(piece)
            file.write(piece)
    file.seek(0)
    file.write(_header(layered, digest.hexdigest()))
    file.flush()
    os.fsync(file.fileno())


def unwritable(error: OSError, layered: LayeredNetwork, where: str) -> OSError:
    """Return the error for weights that cannot be written."""
    return OSError(
        error.errno,
        f"{format_bytes(layered.weight_bytes)} of weights cannot be written to {where}: "
        f"{error.strerror or error}; name a file on another disk as weights=",
    )


def open_for_reading(path: Path) -> int:
    """Open a regular file for reading and return its descriptor.

    Raises:
      OSError: if it cannot be opened; WeightFileError if it is a folder, a pipe or a device.
    """
    if path.exists() and not path.is_file():  # opening a pipe would block
        raise WeightFileError(
            f"{path} is not a regular file; name a weight file, or a path where one can be written"
        )
    return os.open(path, os.O_RDONLY)


def require_packed(path: Path, layered: LayeredNetwork, values: Mapping[str, Tensor]) -> None:
    """Check that a file is a network's packed file.

    The digest of the file is compared with `values` unless they are on the meta device.

    Raises:
      WeightFileError: if the file is truncated, was not packed, or belongs to another network.
      OSError: if it cannot be read.
    """
    with opened_safetensors(path) as file:
        digest = (file.metadata() or {}).get(_KEY)
    if digest is None:
        raise WeightFileError(
            f"{path} was not packed for streaming by this version; {_PACK}, or name a new file"
        )
    expected = _header(layered, digest)
    with path.open("rb") as content:
        is_same = content.read(len(expected)) == expected
    if is_same and not any(value.is_meta for value in values.values()):
        of_values = hashlib.sha256()
        for layer in layered.layers:
            for piece in _pieces(layer, values):
                of_values.update(piece)
        is_same = of_values.hexdigest() == digest
    if not is_same:
        raise WeightFileError(
            f"{path} belongs to another model, or to other values of its weights; name a new file"
        )


def weights_begin(layered: LayeredNetwork) -> int:
    """Return the offset of the first layer in a packed file."""
    return len(_header(layered, "0" * 64))


@contextmanager
def opened_safetensors(path: Path) -> Iterator[Any]:
    """Open a safetensors file; the library checks its header.

    Raises:
      WeightFileError: if it is none.
      OSError: if it cannot be opened.
    """
    os.close(open_for_reading(path))
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        reason = SHORT_REPR.repr(" ".join(str(error).split()))
        raise WeightFileError(
            f"{path} is not a safetensors file, truncated or damaged: {reason}"
        ) from error


def _header(layered: LayeredNetwork, digest: str) -> bytes:
    """Return the header: its length and its JSON, padded with spaces to whole pages."""
    entries: dict[str, Any] = {"__metadata__": {"format": "pt", _KEY: digest}}
    at = 0
    for layer in layered.layers:
        for weight, end in _with_ends(layer):
            entries[_unique(weight.name, entries)] = _entry(
                dtype_name(weight), weight.stored_shape, at + weight.offset, weight.nbytes
            )
            gap = end - weight.offset - weight.nbytes
            if gap:
                begin = at + weight.offset + weight.nbytes
                entries[f"{_GAP}{begin}"] = _entry("U8", (gap,), begin, gap)
        at += layer.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text = text.ljust(aligned(8 + len(text)) - 8)
    return len(text).to_bytes(8, "little") + text


def _with_ends(layer: WeightLayer) -> Iterator[tuple[Weight, int]]:
    """Yield each weight with the offset of the next one."""
    begins = [weight.offset for weight in layer.weights[1:]]
    yield from zip(layer.weights, [*begins, layer.nbytes], strict=True)


def _entry(dtype: str, shape: tuple[int, ...], begin: int, nbytes: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, begin + nbytes]}


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    """Return the name, with a suffix for further copies of a weight of several layers."""
    copies = 1
    free = name
    while free in taken:
        copies += 1
        free = f"{name}~{copies}"
    return free


def dtype_name(weight: Weight) -> str:
    """Return the format's name of the weight's type.

    Raises:
      ValueError: if the format does not support the type.
    """
    if weight.dtype not in _DTYPES:
        supported = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
        raise ValueError(
            f"{weight.name} has the type {weight.dtype}; a weight file supports {supported}"
        )
    return _DTYPES[weight.dtype]


def _pieces(layer: WeightLayer, values: Mapping[str, Tensor]) -> Iterator[memoryview | bytes]:
    for weight, end in _with_ends(layer):
        value = values[weight.name]
        if value.is_meta:
            raise ValueError(
                f"{weight.name} is on the meta device and has no values; name a file with its values in "
                f"weights=: {_PACK}"
            )
        yield weight.bytes_of(value).numpy().data
        yield bytes(end - weight.offset - weight.nbytes)


def fill_layer(values: Mapping[str, Tensor], layer: WeightLayer, into: memoryview) -> None:
    """Write weights, given by name, into memory of a layer."""
    at = 0
    for piece in _pieces(layer, values):
        into[at : at + len(piece)] = piece
        at += len(piece)
