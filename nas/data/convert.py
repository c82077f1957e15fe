"""`fetch` and `import`: public files become tables in the data folder.

No column that is in the folder is lost.

Each download is checked by its SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
import pooch
import requests
from jaxtyping import Float64, Int64
from numpy import ndarray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from edgenas_core.files.keyed_table import (
    CsvTable,
    header,
    latency_files,
    numeric_columns,
    read_csv_table,
    write_csv_table,
)
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from latency.base import EnumerableSpace
from nas.accuracy.base import HasAccuracyTable
from nas.spaces.base import SearchSpace
from nas.spaces.public_data import (
    HasPublicData,
    NewTable,
    PublicData,
    RemoteFile,
    git_blob_id,
    raw_folder,
    table_folder,
)

_OTHER_HASH = "hash of downloaded file"
"""What pooch says of a file that is another one."""


def download(files: Sequence[RemoteFile], folder: Path, mirror: str, *, retries: int = 2) -> None:
    """Download every file whose SHA-256 is not right in the folder already.

    Args:
      files: what to download.
      folder: where to; a file is written under its name when it is complete.
      mirror: address that the files' addresses are relative to.
      retries: further attempts for each file, after 1, 2, ... seconds.

    Raises:
      UserError: if a file cannot be downloaded, or is not the published one.
      OSError: if it cannot be written.
    """
    if not mirror.startswith(("http://", "https://")):
        raise UserError(f"--mirror {mirror} is not an address; it begins with https:// or http://")
    pooch.get_logger().setLevel("ERROR")  # the progress bar and the error below inform the user
    store = pooch.create(
        path=folder,
        base_url="",
        registry={file.name: f"sha256:{file.sha256}" if file.sha256 else None for file in files},
        urls={file.name: f"{mirror.rstrip('/')}/{file.address}" for file in files},
        retry_if_failed=retries,
    )
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("download", total=sum(file.num_bytes for file in files))
        for file in files:
            progress.update(task, description=file.name)
            address = store.get_url(file.name)
            most = 2 * (retries + 1) * file.num_bytes + 2**20
            try:
                path = store.fetch(
                    file.name, downloader=pooch.HTTPDownloader(progressbar=_Bounded(address, most))
                )
                _require_blob(Path(path), file.git_blob)
            except requests.RequestException as error:
                raise UserError(
                    f"{address}: {_reason(error)}; run it again, or name another server by "
                    f"--mirror URL"
                ) from error
            except ValueError as error:
                if _OTHER_HASH not in str(error):  # of pooch, which removed the file
                    raise UserError(
                        f"{address}: the server's answer makes no sense ({error}); name another server by "
                        f"--mirror URL"
                    ) from error
                raise UserError(
                    f"{address} is not the published file (its {'SHA-256' if file.sha256 else 'git blob id'} differs) and was removed; "
                    f"run it again, or name another server by --mirror URL"
                ) from error
            progress.advance(task, file.num_bytes)


def _require_blob(path: Path, blob: str) -> None:
    """Remove a file of another git blob id, as pooch does for other hashes."""
    if blob and git_blob_id(path.read_bytes()) != blob:
        path.unlink()
        raise ValueError(_OTHER_HASH)


@final
class _Bounded:
    """A progress bar, as pooch calls it, that ends a download without end."""

    total: int

    def __init__(self, address: str, most: int) -> None:
        self._address = address
        self._left = most

    def update(self, nbytes: int) -> None:
        """Count bytes that arrived."""
        self._left -= nbytes
        if self._left < 0:
            raise UserError(
                f"{self._address} is not the published file, but longer; name another server by --mirror URL"
            )

    def reset(self) -> None:
        """Begin again, with the whole file at once."""

    def close(self) -> None:
        """Stop the progress bar."""


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.HTTPError):
        return f"the server answers {error.response.status_code} {error.response.reason}"
    return f"the connection failed ({type(error).__name__})"


def fetch(space: SearchSpace, folder: Path, mirror: str) -> Iterator[str]:
    """Download the public files of a space, and store their numbers.

    Yields:
      a line for each file that was written or left as it is.

    Raises:
      UserError: if the space has no public files, or one cannot be downloaded or is not as published.
      OSError: if a file cannot be written.
    """
    data = _public_data(space)
    raw = raw_folder(space, folder)
    download(data.files, raw, mirror)
    yield f"{len(data.files)} files are in {raw}, each as published"
    yield from _store(space, folder, data.fetched(raw))


def import_files(space: SearchSpace, paths: Sequence[Path], folder: Path) -> Iterator[str]:
    """Convert files of the user, and store their numbers.

    Yields:
      a line for each file that was written or left as it is.

    Raises:
      UserError: if the space has no known files, or these are none of them.
      OSError: if a file cannot be read or written.
    """
    yield from _store(space, folder, _public_data(space).imported(paths))


def _public_data(space: SearchSpace) -> PublicData:
    if not isinstance(space, HasPublicData):
        raise UserError(f"space={space.name} has no public data that could be fetched or imported")
    return space.public_data()


def _store(space: SearchSpace, folder: Path, tables: Iterable[NewTable]) -> Iterator[str]:
    home = table_folder(space, folder)
    for table in tables:
        path = home / table.file
        if (
            isinstance(space, Enumerable)
            and isinstance(space, HasAccuracyTable)
            and table.file == space.accuracy_table.file
        ):
            yield store_accuracy(space, path, table.columns)
        else:
            yield store_latency(space, path, table.columns, table.architectures)


def store_accuracy(
    space: EnumerableSpace, path: Path, columns: Mapping[str, Float64[ndarray, "size"]]
) -> str:
    """Write the accuracy table, unless the existing file has columns that are not in `columns`.

    Returns:
      one line for the user.
    """
    more = [name for name in numeric_columns(header(path)) if name not in columns]
    if more:
        return (
            f"left {path} as it is: it also holds {_few(more)}; "
            f"move it away to have it written anew"
        )
    write_csv_table(path, space, columns)
    return f"wrote {path}: {_few(list(columns))}"


def store_latency(
    space: SearchSpace,
    path: Path,
    columns: Mapping[str, Float64[ndarray, "rows"]],
    architectures: Int64[ndarray, "rows D"] | None = None,
) -> str:
    """Write the columns that no other table of the folder has, and keep those of the file.

    Args:
      space: of the architectures.
      path: of the file.
      columns: milliseconds by the name of the column.
      architectures: of each row; None: all of a numbered space, in order.

    Returns:
      one line for the user.

    Raises:
      UserError: if the existing table cannot be read.
    """
    data = path.parents[len(table_folder(space, Path()).parts)]
    elsewhere = {name: file for name, file in latency_files(data, space).items() if file != path}
    new = {name: column for name, column in columns.items() if name not in elsewhere}
    holders = sorted({str(elsewhere[name]) for name in columns if name in elsewhere})
    left = f"{len(columns) - len(new)} of them are already in {', '.join(holders)}"
    if not new:
        return f"did not write {path}: {_few(list(columns))}; {left}"
    kept = new
    if any(name not in new for name in numeric_columns(header(path))):
        table = read_csv_table(path, space)
        kept = {**dict(zip(table.columns, table.values, strict=True)), **new}
        if architectures is not None:
            architectures, kept = _joined(table, architectures, new)
    write_csv_table(path, space, kept, architectures)
    return f"wrote {path}: {_few(list(new))}" + (f"; {left}" if holders else "")


def _joined(
    table: CsvTable,
    architectures: Int64[ndarray, "rows D"],
    columns: Mapping[str, Float64[ndarray, "rows"]],
) -> tuple[Int64[ndarray, "n D"], dict[str, Float64[ndarray, "n"]]]:
    """Rows and columns of a table and of new columns; NaN where one lacks a row of the other."""
    every = np.concatenate([table.architectures, architectures])
    _, first, place = np.unique(every, axis=0, return_index=True, return_inverse=True)
    place, old = place.reshape(-1), len(table.architectures)
    joined = {name: np.full(len(first), np.nan) for name in (*table.columns, *columns)}
    for name, values in zip(table.columns, table.values, strict=True):
        joined[name][place[:old]] = values
    for name, values in columns.items():
        joined[name][place[old:]] = values
    return every[first], joined


def _few(names: list[str]) -> str:
    first = ", ".join(names[:3])
    return first if len(names) <= 3 else f"{len(names)} columns ({first}, ...)"
