"""NATS-Bench's official topology archive (Dong et al., TPAMI 2021), read one cell at a time.

Its own package, `nats_bench`, computes every number. It is given objects that were read by `load_bz2`
(protocol 4, written with NumPy 1, bz2-compressed), and opens none of the pickles itself, because they may
come from an untrusted source.
"""

from __future__ import annotations

import bz2
import math
import sys
from pathlib import Path
from typing import Any, final

from edgenas_core.files import safe_pickle
from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

FOLDER_NAME = "NATS-tss-v1_0-3ffb9-simple"
"""Folder that the official archive unpacks to."""

MOST_BYTES = 32 * 2**20
"""Limit on one file, decompressed. The archive's largest, `meta`, has 1.4 MB; a cell has 0.3 MB."""

_OFFICIAL_NAMES = {"cifar10": "cifar10", "cifar100": "cifar100", "imagenet16": "ImageNet16-120"}
_GET_IT = (
    f"unpack {FOLDER_NAME}.tar, linked from https://github.com/D-X-Y/NATS-Bench, and name its "
    f"folder"
)


@final
class NatsArchive:
    """Folder of `NNNNNN.pickle.pbz2`. One cell is in memory at a time; reading it takes 10 ms."""

    def __init__(self, folder: Path) -> None:
        """Read the archive's list of architectures.

        Raises:
          UserError: if the folder or its meta file is missing, or numbers the cells differently.
        """
        if not folder.is_dir():
            raise UserError(f"{folder} is not a folder; {_GET_IT}")
        meta_file = folder / "meta.pickle.pbz2"
        if not meta_file.is_file():
            raise UserError(f"{folder} has no {meta_file.name}; {_GET_IT}")
        meta = load_bz2(meta_file)
        if not isinstance(meta, dict) or meta.get("meta_archs") != list(NAS_BENCH_201.strings):
            raise UserError(f"{meta_file} does not list the 15,625 architectures; {_GET_IT}")
        import nats_bench  # noqa: PLC0415 - slow to import, and only needed with an archive

        empty = {"meta_archs": meta["meta_archs"], "arch2infos": {}, "evaluated_indexes": ()}
        self.folder = folder
        self._api: Any = nats_bench.create(empty, "tss", fast_mode=True, verbose=False)

    def has(self, index: int) -> bool:
        """Return True if the archive has this cell."""
        return self._file(index).is_file()

    def accuracy(self, index: int, task: Task, epochs: int) -> tuple[float, float]:
        """Top-1 of (validation, test), fractions, mean over the archive's seeds.

        As in the benchmark, the network of CIFAR-10's validation accuracy was trained on half of
        the training set (`cifar10-valid`), that of its test accuracy on all of it.

        Raises:
          UserError: if the archive lacks the cell, or its file is malformed.
        """
        name = _OFFICIAL_NAMES[task.name]
        trained_on_half = "cifar10-valid" if name == "cifar10" else name
        return (
            self._percent(index, trained_on_half, "valid-accuracy", epochs) / 100,
            self._percent(index, name, "test-accuracy", epochs) / 100,
        )

    def latency_ms(self, index: int, task: Task) -> float:
        """Milliseconds on a GTX 1080 Ti for a batch of 256, as the authors of the archive timed it.

        Raises:
          UserError: if the archive lacks the cell, or its file is malformed.
        """
        self._load(index)
        try:
            latency_ms = (
                1000 * self._api.get_cost_info(index, _OFFICIAL_NAMES[task.name])["latency"]
            )
        except Exception as error:
            raise self._malformed(index) from error
        return self._within(index, latency_ms, sys.float_info.min, math.inf)

    def _percent(self, index: int, official_name: str, quantity: str, epochs: int) -> float:
        self._load(index)
        try:
            percent = self._api.get_more_info(
                index, official_name, hp=str(epochs), is_random=False
            )[quantity]
        except Exception as error:
            raise self._malformed(index) from error
        return self._within(index, percent, 0.0, 100.0)

    def _within(self, index: int, number: object, least: float, most: float) -> float:
        if isinstance(number, (int, float)) and least <= number <= most and math.isfinite(number):
            return float(number)
        raise self._malformed(index)

    def _load(self, index: int) -> None:
        """Give the package this cell in place of the previous one: a cell takes megabytes."""
        cells: dict[int, object] = self._api.arch2infos_dict
        if index in cells:
            return
        if not self.has(index):
            raise UserError(
                f"{self.folder} has no cell {index} ({self._file(index).name} is missing); "
                f"{_GET_IT}"
            )
        from nats_bench import ArchResults  # noqa: PLC0415 - slow to import, and not always needed

        stored: Any = load_bz2(self._file(index))
        try:
            cell = {
                hp: ArchResults.create_from_state_dict(results) for hp, results in stored.items()
            }
            numbers = {(results.arch_index, results.arch_str) for results in cell.values()}
        except Exception as error:
            raise self._malformed(index) from error
        if numbers != {(index, NAS_BENCH_201.strings[index])}:
            raise self._malformed(index)
        cells.clear()
        cells[index] = cell
        self._api.evaluated_indexes = {index}

    def _file(self, index: int) -> Path:
        return self.folder / f"{index:06d}.pickle.pbz2"

    def _malformed(self, index: int) -> UserError:
        return UserError(
            f"{self._file(index)} does not hold the results of cell {index}; download it again"
        )


def load_bz2(path: Path, most_bytes: int = MOST_BYTES) -> object:
    """Load the object of a bz2-compressed pickle.

    Raises:
      UserError: if the file cannot be read, is corrupt, is larger than `most_bytes`, or asks
        for any other global.
    """
    return safe_pickle.load(path, _decompress(path, most_bytes))


def _decompress(path: Path, most_bytes: int) -> bytes:
    decompressor = bz2.BZ2Decompressor()
    try:
        require_regular(path)
        content = decompressor.decompress(path.read_bytes(), most_bytes + 1)
    except OSError as error:  # bz2 reports bad bytes as one, without a strerror
        reason = error.strerror or "it is damaged, or not a bz2 file"
        raise UserError(f"cannot read {path}: {reason}") from error
    if len(content) > most_bytes:
        raise UserError(
            f"{path} decompresses to more than {most_bytes:,} bytes, so it is not a file of the "
            f"archive; download it again"
        )
    if not decompressor.eof:
        raise UserError(f"{path} is truncated; download it again")
    return content
