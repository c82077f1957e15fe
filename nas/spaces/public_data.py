"""Public benchmark data of a search space, as `python -m nas.data` fetches, imports and verifies it.

A space that has such data satisfies `HasPublicData`. Its plug-in only converts files into columns;
`nas.data` downloads them, and stores the columns in the data folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files.keyed_table import HasWholeTables, data_folder
from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.architectures import Keys
from edgenas_core.types.errors import UserError

RAW = "raw"
"""Folder of the downloaded files, inside that of the tables."""


def table_folder(space: Keys, folder: Path | None = None) -> Path:
    """Folder of a space's tables: the data folder itself if their names say the space.

    Raises:
      UserError: if `NAS_DATA` names no folder.
    """
    folder = data_folder() if folder is None else folder
    return folder if isinstance(space, HasWholeTables) else folder / space.name


def raw_folder(space: Keys, folder: Path | None = None) -> Path:
    """Folder of a space's downloaded files.

    Raises:
      UserError: if `NAS_DATA` names no folder.
    """
    return table_folder(space, folder) / RAW


def load_torch_file(path: Path, most_bytes: int) -> object:
    """Plain containers, numbers and tensors that torch saved; nothing that the file says is executed.

    Raises:
      UserError: if it is larger, corrupt, or a pickle of more.
      OSError: if it cannot be read.
    """
    import torch  # noqa: PLC0415 - takes seconds, needed by these files alone

    require_regular(path)
    if path.stat().st_size > most_bytes:
        raise UserError(
            f"{path} is larger than {most_bytes:,} bytes, so it is not a published file"
        )
    try:
        content: object = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:
        raise UserError(
            f"{path} is corrupt, or a pickle of more than plain numbers (none of its code was run); "
            f"download the published file again"
        ) from error
    return content


def git_blob_id(content: bytes) -> str:
    """The id that git gives a file of this content."""
    return sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@final
@dataclass(frozen=True)
class RemoteFile:
    """A public file, pinned by its SHA-256, or by its git blob id where no more is known of it."""

    address: str  # relative to the mirror
    name: str  # path relative to the folder of downloaded files
    sha256: str  # empty: `git_blob` pins it
    num_bytes: int
    git_blob: str = ""


@final
@dataclass(frozen=True)
class NewTable:
    """Columns to store in one CSV of the data folder."""

    file: str  # name in the data folder
    columns: Mapping[str, Float64[ndarray, "rows"]]  # NaN: unknown
    architectures: Int64[ndarray, "rows D"] | None = None  # of each row; None: all, by number


class PublicData(ABC):
    """A space's public data, and the functions that make tables of it."""

    mirror: str  # default server of the files
    files: tuple[RemoteFile, ...]
    importable: str  # what `import` accepts, a phrase for its help
    reference_values: Mapping[str, Mapping[int, float]]  # by column, then by number

    @abstractmethod
    def fetched(self, folder: Path) -> Iterator[NewTable]:
        """Convert the downloaded files of a folder.

        Raises:
          UserError: if a file is not as published.
        """

    @abstractmethod
    def imported(self, paths: Sequence[Path]) -> Iterator[NewTable]:
        """Convert files of the user.

        Raises:
          UserError: if the paths hold nothing that is known, or architectures are missing.
          OSError: if a file cannot be read.
        """


@runtime_checkable
class HasPublicData(Protocol):
    """A search space with public benchmark data."""

    def public_data(self) -> PublicData:
        """The data; called by `python -m nas.data` alone."""
