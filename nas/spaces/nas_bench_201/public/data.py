"""Public data of NAS-Bench-201 as columns: the official archive, HELP's files, a published CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from rich.console import Console

from edgenas_core.command.progress import progress_bar
from edgenas_core.files import safe_pickle
from edgenas_core.files.safe_file import read_bytes
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.accuracy.base import Split
from nas.spaces.nas_bench_201.public.archive import NatsArchive
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE, NAS_BENCH_201, TASKS
from nas.spaces.public_data import NewTable, PublicData, RemoteFile, load_torch_file

MIRROR = "https://raw.githubusercontent.com"

ACCURACY_FOLDER = "v-tao/nats-bench-landscape/b307ae5fe6e8d7043cd4fe7d1c3532288271adb7"
"""Test accuracy of the 15,625 cells, from NATS-Bench (Dong et al., TPAMI 2021)."""

HELP_FOLDER = "HayeonLee/HELP/45f70eb92d0d735970a33b608d1544ad3c52f285/data/nasbench201"
"""Latency on 25 devices (Lee et al., HELP, NeurIPS 2021); MIT licence."""


PUBLISHED_ACCURACY = RemoteFile(
    f"{ACCURACY_FOLDER}/nats_bench.csv",
    "nats_bench.csv",
    "cb5d777ec3368be83c8f9b3aa4d520696051cb0eb8d94b8f85b519f9ea4afa3e",
    3_024_008,
)

HELP_INDEX = RemoteFile(
    f"{HELP_FOLDER}/str_arch2idx.pt",
    "help/str_arch2idx.pt",
    "e1d7b7cc7cf51d7c3cd6f9e726e7395bea87d7ba674e26202fb8633f963aef0d",
    1_536_943,
)
"""Row of each architecture in the latency lists."""

_HELP_SHA256 = {
    "1080ti_1": "4028f52b2c2441da126932e3827ae11a7f76d39818c4374c1b9ab9df236e23f4",
    "1080ti_256": "435af0ccfab01f5dc55dc9f2e8b90ca37b396b2656e327bba5ee0b6eb9c24464",
    "1080ti_32": "affce4fcdcf6f28622365995ef2ec018bb07d448add59f80633c0978c393cdea",
    "2080ti_1": "38cf0e8f698abf8696c69b41a358fe9ddedf5d54cb1ae6f85b04dd8a8f89a1b3",
    "essential_ph_1": "a97165c8669a216b9ca046041c83a07352bd07f2a42e2d8fea8b51e7ddbcabf0",
    "eyeriss": "6f1dd2f8c0442289a09ab78e63e49bde96489f6d455cc33d5fa5aed37edb5d03",
    "fpga": "6a0333c1476a3ab039d8c39e5d42ac99efe9e7f3ff521289569013fa84233b28",
    "gold_6226": "6a00f63d14f67f8007ec04519f638a90aa6ed5357cf5c0e60c391df37f186c99",
    "gold_6240": "ac6dd41f183de69bba21dec3954ac73333b7dec871e0defbcce0572d82536890",
    "pixel2": "051845ddefc2bc138f21e2217f6c7827fe280c78375cbfb4b5bd252a888cb950",
    "pixel3": "cf1387da12e06b1d4541ce85f3ca4869d551084e09daf4acf024b6e21a80d465",
    "raspi4": "2fae425c50bcaef7aacc5391244cd0af98bfc7fba689a8741e461cb18192f57c",
    "samsung_a50": "0872cb4ec8ecc7ea1b3bd8c98dd705f2d0f6e4940f3af833b313e484de39b155",
    "samsung_s7": "dbae32364b882022adb044b2aa1af77b66f43a180930d9be4d4c13532429f0ea",
    "silver_4114": "0cce9dc9ba62ad81c21275298a88cb0e4534db6474a878f089df0abb13293421",
    "silver_4210r": "f976049bda39abde94b8f8cac90140cb78a5069fc145c462d6d6bc2f8450727a",
    "titan_rtx_1": "a854dac331e2a37d7dcd6ee1f63d1bc6d73ead3aeb0a86f803f45ea1b294859e",
    "titan_rtx_256": "cff1fba40b1743d3716cfb74c86ac2463d0682c146f356fa9095ac0d02dfb2a5",
    "titan_rtx_32": "1258bee5501fe191530b9898a4f55a122ab30beec9c6ea74598c47a0173babed",
    "titanx_1": "3461cc686263bd0ce4d4cd915bfc2fe067deb139cc68da387741bd6443434cb0",
    "titanx_256": "04ddb80719515687bd3d722235cd5da821b50bd453a9e580b1e9d321dfb92941",
    "titanx_32": "9c4ca69131e34451fb1e104caa47efbe12ffec3cc47bf051613674d7af044ff2",
    "titanxp_1": "935aa0041c6592bed90f2f94ff3b4d40e892c066467864b704e6583682a57b20",
    "titanxp_256": "9f03206bc62b0dcfc882820de07f55dc1fb7f43f57dfc977e4f0f4b019cb5041",
    "titanxp_32": "4b6db63c7a9fb55177aa2649d70031dd86d2ed1609467ef5803dc1089a73cb1b",
}
_WHOLE_MS_DEVICES = ("essential_ph_1", "pixel2", "samsung_a50", "samsung_s7")

HELP_LATENCIES = tuple(
    RemoteFile(
        f"{HELP_FOLDER}/latency/{device}.pt",
        f"help/{device}.pt",
        sha256,
        31_663 if device in _WHOLE_MS_DEVICES else 141_039,  # small integers, or floats
    )
    for device, sha256 in _HELP_SHA256.items()
)

FILES = (PUBLISHED_ACCURACY, HELP_INDEX, *HELP_LATENCIES)


_Columns = dict[str, Float64[ndarray, "15625"]]

HELP_FILE = "nb201_latency_help_ms.csv"
NATS_FILE = "nb201_latency_nats_ms.csv"

HWNAS_FILE = "nb201_latency_hwnas_ms.csv"

_HWNAS_TASKS = {"cifar10": "cifar10", "cifar100": "cifar100", "ImageNet16-120": "imagenet16"}
"""Our name of each task of HW-NAS-Bench."""

_HWNAS_COLUMNS = {
    ("edgegpu", "cifar10"): "hwnas-edgegpu-tx2",
    ("edgetpu", "cifar10"): "hwnas-edgetpu",
    **{(name, "cifar10"): f"help-{name}" for name in ("raspi4", "pixel3", "eyeriss", "fpga")},
}
"""Columns of the registered devices, by HW-NAS-Bench's device and task."""

_MOST_HWNAS_BYTES = 256 * 2**20  # the published file has some 50 MB
_MOST_HELP_BYTES = 16 * 2**20  # of one file; the largest that HELP published is 1.5 MB

_FULL_EPOCHS, _SHORT_EPOCHS = ACCURACY_TABLE.epochs
_PUBLISHED_NAMES = {
    "cifar10": "CIFAR10TestAccuracy200Epochs",
    "cifar100": "CIFAR100TestAccuracy200Epochs",
    "imagenet16": "ImageNetTestAccuracy200Epochs",
}
"""Column of the published CSV by task."""


def latency_column(task: Task) -> str:
    """Name of the column with the archive's own latency: a GTX 1080 Ti, batch 256."""
    return f"nats-gtx1080ti-{task.name}"


_REFERENCE_NUMBERS = (0, 11, 284)
_REFERENCES = {
    "cifar10_valid": (81.9827, 87.9400, 86.0467),
    "cifar10_test": (85.8633, 91.5833, 88.7900),
    "cifar100_valid": (52.7000, 67.4533, 61.6800),
    "cifar100_test": (52.9133, 67.6067, 62.1400),
    "imagenet16_valid": (28.2111, 30.4111, 33.4000),
    "imagenet16_test": (26.6333, 30.1667, 32.4667),
    latency_column(TASKS["cifar100"]): (13.1829, 16.1389, 11.1450),
}
"""Three cells of NATS-Bench's official archive, v1.0: percent, and milliseconds."""


@final
class NasBench201Data(PublicData):
    """Accuracies of all cells, HELP's latencies on 25 devices, and the official archive."""

    mirror: str = MIRROR
    files: tuple[RemoteFile, ...] = FILES
    importable: str = "the unpacked NATS-Bench archive (a folder), the .pickle of HW-NAS-Bench, or .pt latency files of HELP"
    reference_values: Mapping[str, Mapping[int, float]] = {
        column: dict(zip(_REFERENCE_NUMBERS, values, strict=True))
        for column, values in _REFERENCES.items()
    }

    def fetched(self, folder: Path) -> Iterator[NewTable]:
        """Convert the published test accuracies, and HELP's latencies.

        Raises:
          UserError: if a file is not as published.
        """
        accuracy = _published_accuracy(folder / PUBLISHED_ACCURACY.name)
        yield NewTable(ACCURACY_TABLE.file, accuracy)
        help_files = [folder / file.name for file in (HELP_INDEX, *HELP_LATENCIES)]
        yield NewTable(HELP_FILE, _help_latencies(help_files))

    def imported(self, paths: Sequence[Path]) -> Iterator[NewTable]:
        """Convert one folder of the official archive, the pickle of HW-NAS-Bench, or HELP's latency files.

        Raises:
          UserError: if the paths are neither, their content is malformed, or cells are missing.
          OSError: if a file cannot be read.
        """
        if len(paths) == 1 and paths[0].is_dir():
            yield from _from_archive(NatsArchive(paths[0]))
            return
        if len(paths) == 1 and paths[0].suffix == ".pickle":
            yield NewTable(HWNAS_FILE, _hw_nas_bench_latencies(paths[0]))
            return
        for path in paths:
            if path.suffix != ".pt" or path.is_dir():
                raise UserError(
                    f"{path} is neither a folder of the NATS-Bench archive nor the .pickle of HW-NAS-Bench nor a .pt "
                    f"file of HELP; give one such folder (unpack a .tar first), one .pickle, or .pt files"
                )
        columns = _help_latencies(paths)
        if not columns:
            raise UserError(f"{paths[0]} is only HELP's index; give latency files too")
        yield NewTable(HELP_FILE, columns)


def _published_accuracy(path: Path) -> _Columns:
    """Test accuracies in percent after the full training."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if tuple(row.get("ArchitectureString") for row in rows) != NAS_BENCH_201.strings:
        raise UserError(f"{path} does not list the 15,625 architectures in official order")
    return {
        ACCURACY_TABLE.column(task, Split.test, _FULL_EPOCHS): np.array(
            [float(row[_PUBLISHED_NAMES[name]]) for row in rows]
        )
        for name, task in TASKS.items()
    }


def _from_archive(archive: NatsArchive) -> Iterator[NewTable]:
    size = NAS_BENCH_201.size
    held = sum(archive.has(index) for index in range(size))
    if held < size:
        raise UserError(
            f"{archive.folder} holds {held:,} of {size:,} cells, {size - held:,} are missing; "
            f"unpack the whole archive"
        )
    accuracy, latency = _read(archive)
    yield NewTable(ACCURACY_TABLE.file, accuracy)
    yield NewTable(NATS_FILE, latency)


def _read(archive: NatsArchive) -> tuple[_Columns, _Columns]:
    """Accuracy in percent and latency in ms of every cell."""
    accuracy: _Columns = {}
    latency: _Columns = {}
    with progress_bar(Console(stderr=True)) as progress:
        for index in progress.track(range(NAS_BENCH_201.size), description="read cells"):
            for task in TASKS.values():
                _put(latency, latency_column(task), index, archive.latency_ms(index, task))
                valid, test = archive.accuracy(index, task, _FULL_EPOCHS)
                short, _ = archive.accuracy(index, task, _SHORT_EPOCHS)
                for split, epochs, fraction in (
                    (Split.valid, _FULL_EPOCHS, valid),
                    (Split.test, _FULL_EPOCHS, test),
                    (Split.valid, _SHORT_EPOCHS, short),
                ):
                    column = ACCURACY_TABLE.column(task, split, epochs)
                    _put(accuracy, column, index, 100 * fraction)
    return accuracy, latency


def _put(columns: _Columns, name: str, index: int, number: float) -> None:
    columns.setdefault(name, np.empty(NAS_BENCH_201.size))[index] = number


def _help_latencies(paths: Sequence[Path]) -> dict[str, Float64[ndarray, "15625"]]:
    """Milliseconds of each device, by column name.

    A file may also be HELP's `str_arch2idx.pt`, the row of each architecture; it makes no column,
    but must agree with the official order.

    Raises:
      UserError: if a file cannot be read safely, or holds no latency of all 15,625 cells.
    """
    columns = {}
    for path in paths:
        content = load_torch_file(path, _MOST_HELP_BYTES)
        if isinstance(content, dict):
            _check_index(path, content)
        else:
            columns[f"help-{path.stem.replace('_', '-')}"] = _milliseconds(path, content)
    return columns


def _check_index(path: Path, row_of: dict[object, object]) -> None:
    if row_of != {text: row for row, text in enumerate(NAS_BENCH_201.strings)}:
        raise UserError(f"{path} is not an index of the 15,625 architectures in official order")


def _hw_nas_bench_latencies(path: Path) -> dict[str, Float64[ndarray, "15625"]]:
    """Milliseconds of each device and task of HW-NAS-Bench, by column name; the file is read without executing it.

    Raises:
      UserError: if it cannot be read safely, or holds no latencies of all 15,625 cells.
    """
    content = safe_pickle.load(path, read_bytes(path, _MOST_HWNAS_BYTES))
    of_task = content.get("nasbench201") if isinstance(content, dict) else None
    columns = {}
    for published, task in _HWNAS_TASKS.items():
        metrics = of_task.get(published) if isinstance(of_task, dict) else None
        for name, numbers in metrics.items() if isinstance(metrics, dict) else ():
            device, ending, _ = str(name).partition("_latency")
            if ending:
                column = _HWNAS_COLUMNS.get((device, task), f"hwnas-{device}-{task}")
                columns[column] = _milliseconds(path, numbers)
    if not columns:
        raise UserError(f"{path} holds no latencies of HW-NAS-Bench (nasbench201: cifar10, ...)")
    return columns


def _milliseconds(path: Path, content: object) -> Float64[ndarray, "15625"]:
    size = NAS_BENCH_201.size
    if not isinstance(content, list) or len(content) != size:
        held = f"{type(content).__name__} of {len(content) if hasattr(content, '__len__') else 1}"
        raise UserError(f"{path} holds a {held}, a device needs a list of {size:,} latencies")
    for row, number in enumerate(content):
        if type(number) not in {int, float} or not 0 < number < float("inf"):
            raise UserError(f"{path}: latency of cell {row} is {number!r}, not a positive number")
    return np.array(content, np.float64)
