"""Downloads of public files, each checked by its SHA-256."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pooch
import requests
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from nas.spaces.public_data import RemoteFile
from runtime.shell.errors import UserError


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
        registry={file.name: f"sha256:{file.sha256}" for file in files},
        urls={file.name: f"{mirror.rstrip('/')}/{file.address}" for file in files},
        retry_if_failed=retries,
    )
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("download", total=sum(file.num_bytes for file in files))
        for file in files:
            progress.update(task, description=file.name)
            address = store.get_url(file.name)
            try:
                store.fetch(file.name)
            except requests.RequestException as error:
                raise UserError(
                    f"{address}: {_reason(error)}; run it again, or name another server by "
                    f"--mirror URL"
                ) from error
            except ValueError as error:  # pooch's error for a wrong hash; it removed the file
                raise UserError(
                    f"{address} is not the published file (its SHA-256 differs) and was removed; "
                    f"run it again, or name another server by --mirror URL"
                ) from error
            progress.advance(task, file.num_bytes)


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.HTTPError):
        return f"the server answers {error.response.status_code} {error.response.reason}"
    return f"the connection failed ({type(error).__name__})"
