"""Downloads of public files, each checked by its SHA-256."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import final

import pooch
import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from edgenas_core.types.errors import UserError
from nas.spaces.public_data import RemoteFile, git_blob_id

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
