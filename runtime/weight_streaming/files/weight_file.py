"""Packed weight files: safetensors files whose layers start at page boundaries.

Any safetensors reader can open them; padding is stored as tensors named `~gap...`, and the checksums of
the layers are in the metadata. The JSON header is parsed here, with limits and full validation.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from threading import get_ident
from typing import Any, BinaryIO, final

import torch
from torch import Tensor

from common.types.units import format_bytes
from runtime.weight_streaming.files.layers import LayeredNetwork, Weight, WeightLayer
from runtime.weight_streaming.planning.ring import PAGE_BYTES, aligned

MAX_HEADER_BYTES = 16 * 2**20
"""Limit of the JSON header, about 100,000 tensors."""

_KEY = "edgenas.stream"
_VERSION = 1
_GAP = "~gap"
_NOT_PACKED = "was not packed for streaming"
_PACK = "runtime.stream.pack(model, example, source=..., into=...) packs a plain safetensors file"

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


@final
@dataclass(frozen=True)
class Extent:
    """Place and checksum of a layer in a file."""

    offset: int
    nbytes: int
    sha256: str


def write_packed(layered: LayeredNetwork, values: Mapping[str, Tensor], path: Path) -> None:
    """Write a packed file atomically.

    Raises:
      OSError: if it cannot be written; WeightFileError if `values` reads from a file and fails.
      ValueError: as `write`.
    """
    path = Path(os.path.realpath(path))  # keep a symbolic link
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            write(layered, values, file)
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and not isinstance(error, WeightFileError):
            raise unwritable(error, layered, str(path)) from error
        raise


def write(layered: LayeredNetwork, values: Mapping[str, Tensor], file: BinaryIO) -> None:
    """Write weights, given by name, layer by layer, and flush them to the disk.

    Raises:
      OSError: if they cannot be written.
      ValueError: if a weight has no values or a type that the format does not support.
    """
    digests = ["0" * 64] * len(
        layered.layers
    )  # placeholders of the same length, so that values are read once
    file.write(_header(layered, digests))
    for i, layer in enumerate(layered.layers):
        digests[i] = _digest(layer, values, file.write)
    file.seek(0)
    file.write(_header(layered, digests))
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


def read_extents(
    file: int, name: str, layered: LayeredNetwork, values: Mapping[str, Tensor]
) -> tuple[Extent, ...]:
    """Validate a packed file against a network and return the place of each layer.

    The descriptor is opened for reading without O_DIRECT. Checksums are compared with `values`
    unless they are empty or on the meta device.

    Raises:
      WeightFileError: if the file is truncated, has another format, or belongs to another network.
      OSError: if it cannot be read.
    """
    size = os.fstat(file).st_size
    header, begin = _read_header(file, name, size)
    stored = _stored_digests(header.pop("__metadata__", {}), name)
    if begin % PAGE_BYTES:
        raise WeightFileError(
            f"{name} {_NOT_PACKED}: its weights start at byte {begin}, not at a page; {_PACK}"
        )
    digests = [str(digest) for digest in stored]
    if len(digests) != len(layered.layers):
        raise WeightFileError(
            f"{name} belongs to another model: it has {len(digests)} layers, the module "
            f"{len(layered.layers)}"
        )
    expected = json.loads(_header(layered, digests)[8:])
    expected.pop("__metadata__")
    _require_same(header, expected, name)
    if size < begin + layered.weight_bytes:
        raise WeightFileError(
            f"{name} is truncated: it has {size:,} bytes instead of "
            f"{begin + layered.weight_bytes:,}; pack it again"
        )
    if values and not any(value.is_meta for value in values.values()):
        for layer, digest in zip(layered.layers, digests, strict=True):
            if _digest(layer, values) != digest:
                raise WeightFileError(
                    f"{name} belongs to another model: layer {layer.name} has other values than the "
                    "module; pack the module into another file"
                )
    begins = accumulate((layer.nbytes for layer in layered.layers[:-1]), initial=begin)
    return tuple(
        Extent(offset, layer.nbytes, digest)
        for offset, layer, digest in zip(begins, layered.layers, digests, strict=True)
    )


def _require_same(stored: Mapping[str, Any], expected: Mapping[str, Any], name: str) -> None:
    """Name the first tensor that the file and the module do not share; padding comes last."""
    tensors = sorted({**expected, **stored}, key=lambda tensor: tensor.startswith(_GAP))
    for tensor in tensors:
        if stored.get(tensor) != expected.get(tensor):
            raise WeightFileError(
                f"{name} belongs to another model: {SHORT_REPR.repr(tensor)} is in one of them only, "
                f"or of another type, shape or place"
            )


def _read_header(file: int, name: str, size: int) -> tuple[dict[str, Any], int]:
    """Return the parsed header and the offset of the first tensor."""
    length = int.from_bytes(os.pread(file, 8, 0), "little")
    if not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
        raise WeightFileError(
            f"{name} is not a safetensors file, or truncated: it has {size:,} bytes, and its header "
            f"{length:,}"
        )
    try:
        header = json.loads(os.pread(file, length, 8))
    except (ValueError, RecursionError) as error:
        raise WeightFileError(f"{name} is not a safetensors file: {error}") from error
    if not isinstance(header, dict):
        raise WeightFileError(f"{name} is not a safetensors file: its header is not an object")
    return header, 8 + length


def _stored_digests(metadata: Any, name: str) -> list[Any]:
    try:
        content = json.loads(metadata[_KEY])
        if content["version"] == _VERSION and isinstance(content["sha256"], list):
            return list(content["sha256"])
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    raise WeightFileError(f"{name} {_NOT_PACKED}; {_PACK}, or name a new file")


def _header(layered: LayeredNetwork, digests: list[str]) -> bytes:
    """Return the header: its length and its JSON, padded with spaces to whole pages."""
    entries: dict[str, Any] = {
        "__metadata__": {
            "format": "pt",
            _KEY: json.dumps({"version": _VERSION, "sha256": digests}),
        }
    }
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


def _digest(
    layer: WeightLayer,
    values: Mapping[str, Tensor],
    write: Callable[[memoryview | bytes], object] = lambda _: None,
) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(layer, values):
        digest.update(piece)
        write(piece)
    return digest.hexdigest()


def fill_layer(layer: WeightLayer, values: Mapping[str, Tensor], into: memoryview) -> None:
    """Write weights, given by name, into memory of a layer."""
    at = 0
    for piece in _pieces(layer, values):
        into[at : at + len(piece)] = piece
        at += len(piece)


def check_layer(content: memoryview, extent: Extent, name: str, layer: str) -> None:
    """Verify the checksum of a layer.

    Raises:
      WeightFileError: if it differs.
    """
    if hashlib.sha256(content).hexdigest() != extent.sha256:
        raise WeightFileError(
            f"{name} is damaged: the checksum of layer {layer} differs; pack it again"
        )
