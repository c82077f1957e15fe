"""`fetch`: the small public files, downloaded and converted into the open layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nas.data.download import download
from nas.data.storing import store_accuracy, store_latency
from nas.spaces.nas_bench_201.public.help_latency import TABLE_FILE, read_help_files
from nas.spaces.nas_bench_201.public.published_accuracy import read_published_accuracy
from nas.spaces.nas_bench_201.public.registry import (
    FILES,
    HELP_INDEX,
    HELP_LATENCIES,
    PUBLISHED_ACCURACY,
)

RAW = "raw"
"""Folder of the files as published, inside the data folder."""


def fetch(folder: Path, mirror: str) -> Iterator[str]:
    """Bring test accuracies of all cells, and HELP's latencies on 25 devices.

    Yields:
      a line for each thing done.

    Raises:
      UserError: if a file cannot be had, or is not the published one.
      OSError: if something cannot be written.
    """
    raw = folder / RAW
    download(FILES, raw, mirror)
    yield f"{len(FILES)} files are in {raw}, each with the published SHA-256"
    yield store_accuracy(folder, read_published_accuracy(raw / PUBLISHED_ACCURACY.name))
    help_files = [raw / file.name for file in (HELP_INDEX, *HELP_LATENCIES)]
    yield store_latency(folder / TABLE_FILE, read_help_files(help_files))
