"""The official archives of CIFAR-10 and CIFAR-100 (Krizhevsky, 2009), Python version.

They are pickles, read by `common.files.safe_pickle`. Nothing is unpacked to the disk.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from common.files import safe_pickle
from common.files.safe_pickle import ForbiddenError
from common.types.errors import UserError
from nas.accuracy.images.image_set import CHANNELS
from nas.accuracy.images.source import Listing, stamp
from nas.accuracy.images.splits import Part

SIDE = 32
_SHAPE = (CHANNELS, SIDE, SIDE)
_MOST_BYTES = 256 * 2**20  # of one file; the largest, `train` of CIFAR-100, has 155 MB
_MOST_UNPACKED = 2 * _MOST_BYTES  # of an archive, whose headers can have any length
_MOST_MEMBERS = 100  # an official archive has less than ten files

_AGAIN = "download the Python version from https://www.cs.toronto.edu/~kriz/cifar.html"


@final
@dataclass(frozen=True)
class _Layout:
    name: str
    title: str
    folder: str  # that the archive unpacks to
    train: tuple[str, ...]
    test: str
    meta: str
    class_names: bytes  # key in the file `meta`
    labels: bytes  # key in the other files


_LAYOUTS = (
    _Layout(
        "cifar10",
        "CIFAR-10",
        "cifar-10-batches-py",
        tuple(f"data_batch_{number}" for number in range(1, 6)),
        "test_batch",
        "batches.meta",
        b"label_names",
        b"labels",
    ),
    _Layout(
        "cifar100",
        "CIFAR-100",
        "cifar-100-python",
        ("train",),
        "test",
        "meta",
        b"fine_label_names",
        b"fine_labels",
    ),
)


def is_unpacked(folder: Path) -> bool:
    """Return True for the folder that an official archive unpacks to, or one that holds it."""
    return any(_folder_in(folder, layout) is not None for layout in _LAYOUTS)


@final
class CifarArchive:
    """An archive, or the folder that it unpacks to."""

    def __init__(self, path: Path) -> None:
        """Find out which of the two data sets it is.

        Raises:
          UserError: if it is neither, or damaged.
          OSError: if it cannot be read.
        """
        self._path = path
        first = next(_members(path), ("", b""))[0] if path.is_file() else ""
        for layout in _LAYOUTS:
            if first.startswith(f"{layout.folder}/") or _folder_in(path, layout) is not None:
                self._layout = layout
                break
        else:
            raise UserError(f"data={path} is no archive of CIFAR-10 or CIFAR-100; {_AGAIN}")
        self.name, self.title = self._layout.name, self._layout.title

    def key(self) -> str:
        """Names, sizes and times of the files."""
        folder = _folder_in(self._path, self._layout)
        files = [self._path] if folder is None else sorted(folder.iterdir())
        return "\n".join(map(stamp, files))

    def listing(self) -> Listing:
        """Read all images, 180 MB."""
        layout = self._layout
        contents = self._contents()
        meta = _dictionary(self._path / layout.meta, contents[layout.meta])
        names = meta.get(layout.class_names)
        if not isinstance(names, list) or not all(isinstance(name, bytes) for name in names):
            raise self._malformed(layout.meta)
        pixels, labels, parts = [], [], []
        for file in (*layout.train, layout.test):
            batch = _dictionary(self._path / file, contents.pop(file))
            images, numbers = batch.get(b"data"), batch.get(layout.labels)
            if not isinstance(images, _Array) or not isinstance(numbers, list):
                raise self._malformed(file)
            if images.shape != (len(numbers), prod(_SHAPE)):
                raise self._malformed(file)
            if not all(type(one) is int and 0 <= one < len(names) for one in numbers):
                raise self._malformed(file)
            pixels.append(images.values())
            labels += numbers
            parts += [Part.test if file == layout.test else Part.train] * len(numbers)
        channels_last = np.concatenate(pixels).reshape(-1, *_SHAPE).transpose(0, 2, 3, 1)
        return Listing(
            tuple(name.decode("ascii", "replace") for name in names),
            np.array(labels, np.int64),
            np.array(parts, np.int8),
            [f"image {number}" for number in range(len(labels))],
            map(np.ascontiguousarray, channels_last),
        )

    def _contents(self) -> dict[str, bytes]:
        layout = self._layout
        needed = (*layout.train, layout.test, layout.meta)
        folder = _folder_in(self._path, layout)
        if folder is not None:
            return {name: _whole(folder / name) for name in needed}
        found = {name.rpartition("/")[2]: content for name, content in _members(self._path)}
        for name in needed:
            if name not in found:
                raise UserError(f"{self._path} has no file {name}; {_AGAIN}")
        return found

    def _malformed(self, file: str) -> UserError:
        return UserError(f"{self._path / file} is no file of {self.title}; {_AGAIN}")


def _folder_in(path: Path, layout: _Layout) -> Path | None:
    """The folder that holds the files: `path` itself, or the official folder in it."""
    for folder in (path, path / layout.folder):
        if all((folder / name).is_file() for name in (*layout.train, layout.test, layout.meta)):
            return folder
    return None


def _whole(file: Path) -> bytes:
    if file.stat().st_size > _MOST_BYTES:
        raise UserError(f"{file} is larger than {_MOST_BYTES // 2**20} MB; {_AGAIN}")
    return file.read_bytes()


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file in an archive."""
    try:
        with (
            path.open("rb") as file,
            gzip.open(file) if file.peek(2)[:2] == b"\x1f\x8b" else file as unpacked,
            tarfile.open(fileobj=_Bounded(unpacked), mode="r|") as archive,
        ):
            for count, member in enumerate(archive):
                if count >= _MOST_MEMBERS or not 0 <= member.size <= _MOST_BYTES:
                    raise UserError(f"{path} is no archive of CIFAR-10 or CIFAR-100; {_AGAIN}")
                opened = archive.extractfile(member)
                if opened is not None:
                    yield member.name, opened.read()
    except (tarfile.TarError, gzip.BadGzipFile, EOFError, ValueError, zlib.error) as error:
        raise UserError(f"{path} is truncated, damaged or no archive; {_AGAIN}") from error


@final
class _Bounded(io.RawIOBase):
    """A stream that ends with an error where no official archive is so long."""

    def __init__(self, file: io.BufferedIOBase) -> None:
        self._file = file
        self._left = _MOST_UNPACKED

    def read(self, size: int = -1) -> bytes:
        """Read as the file does; tarfile asks for a block at a time."""
        content = self._file.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise EOFError
        return content


@final
class _Array:
    """Replacement of numpy.ndarray that accepts bytes of the shape that they have."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self._content = b""
        self._order = "C"

    def __setstate__(self, state: Any) -> None:
        """Accept only the state of an array of unsigned bytes."""
        _, shape, dtype, is_fortran, content = state
        if not isinstance(dtype, _Dtype) or type(content) is not bytes:
            raise ForbiddenError("an array of other things than bytes")
        if not all(type(one) is int and one >= 0 for one in shape) or prod(shape) != len(content):
            raise ForbiddenError(f"an array of shape {shape!r} from {len(content)} bytes")
        self.shape, self._content = tuple(shape), content
        self._order = "F" if is_fortran else "C"

    def values(self) -> UInt8[ndarray, "..."]:
        """The array."""
        return np.frombuffer(self._content, np.uint8).reshape(self.shape, order=self._order)  # type: ignore[call-overload,no-any-return]


@final
class _Dtype:
    """Replacement of numpy.dtype that accepts unsigned bytes only."""

    def __init__(self, code: object, *_: object) -> None:
        if code not in {b"u1", "u1"}:
            raise ForbiddenError(f"a NumPy dtype {code!r}")

    def __setstate__(self, state: object) -> None:
        """Pass over what NumPy stores of a type of one byte."""


def _reconstruct(kind: object, *_: object) -> _Array:
    if kind is not _Array:
        raise ForbiddenError("an array of another class")
    return _Array()


_PERMITTED = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
}


def _dictionary(path: Path, content: bytes) -> dict[Any, Any]:
    found = safe_pickle.load(path, content, _PERMITTED, encoding="bytes")
    return found if isinstance(found, dict) else {}
