"""Public files brought into a folder and checked, with a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pooch
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from nas.data.resuming import PAUSES_S, ResumingDownload
from nas.spaces.nas_bench_201.public.registry import RemoteFile
from runtime.shell.errors import UserError


def download(
    files: Sequence[RemoteFile], folder: Path, mirror: str, pauses_s: Sequence[float] = PAUSES_S
) -> None:
    """Bring every file that is not there yet; one whose SHA-256 is right is left alone.

    Raises:
      UserError: if a file cannot be had, or is not the published one.
      OSError: if it cannot be written.
    """
    if not mirror.startswith(("http://", "https://")):
        raise UserError(f"--mirror {mirror} is no address; it begins with https:// or http://")
    pooch.get_logger().setLevel("WARNING")  # the progress bar says it
    store = pooch.create(
        path=folder,
        base_url="",
        registry={file.name: f"sha256:{file.sha256}" for file in files},
        urls={file.name: f"{mirror.rstrip('/')}/{file.address}" for file in files},
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("download", total=sum(file.num_bytes for file in files))
        before = 0
        for file in files:
            progress.update(task, description=file.name)
            fetch_one = ResumingDownload(
                part=folder / f"{file.name}.part",
                num_bytes=file.num_bytes,
                show=_shower(progress, task, before),
                pauses_s=pauses_s,
            )
            try:
                store.fetch(file.name, downloader=fetch_one)
            except ValueError as error:  # pooch's word for a wrong hash; it removed the file
                raise UserError(
                    f"{store.get_url(file.name)} is not the published file (its SHA-256 differs) "
                    f"and was removed; run it again, or name another server by --mirror URL"
                ) from error
            before += file.num_bytes
            progress.update(task, completed=before)


def _shower(progress: Progress, task: TaskID, before: int) -> Callable[[int], None]:
    return lambda have: progress.update(task, completed=before + have)
