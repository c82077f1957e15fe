"""Public data of MobileNetV3 as in Once-for-All: HELP's latencies, block look-ups, a predictor.

Everything is pinned to a commit, and each file to its SHA-256. Reading runs no code: the lists of HELP
are pickles of plain containers and numbers, the predictor is read by torch with `weights_only=True`.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files import safe_pickle
from edgenas_core.types.errors import UserError
from edgenas_mobilenet_v3.once_for_all import SUPERNETS
from edgenas_mobilenet_v3.predictor import FILE
from edgenas_mobilenet_v3.space import MobileNetV3
from nas.spaces.public_data import NewTable, PublicData, RemoteFile

_HELP = "HayeonLee/HELP/45f70eb92d0d735970a33b608d1544ad3c52f285/data/ofa"
"""Latency of 5,000 networks (Lee et al., HELP, NeurIPS 2021); MIT licence."""
_OFA = "han-cai/files/a7c9bcd525e17404968bc55aa43772bf7e51909e/ofa"
"""Predictor and look-ups of Once-for-All (Cai et al., ICLR 2020); no licence file."""

_ARCHITECTURES = RemoteFile(
    f"{_HELP}/ofa_archs.pt",
    "help/ofa_archs.pt",
    "77787b5c3e208b130282d4e239c1bb56e76fbb8f7d7f374c4fcc63df4970d574",
    904_943,
)
_HELP_SHA256 = {
    "2080ti_1": "fd02a4aa46d7ab468d9214ae20b73cbb58fd8d7a857df98861d83383744f9ca9",
    "2080ti_64": "6b5b8ae9a25aa5c7df2a96c0e5d6baa91a0566fa935e8fcd709809fbfdee1bd8",
    "titan_rtx_1": "b308b08490eaf5af871bc0c5712a105e23c952ff55c5277abbc90e0ff7acf65a",
    "titan_rtx_32": "418618fe00b90d3495b2b4147689debb302dddcd038126c376b2bc4aef2867cf",
    "titan_rtx_64": "33bb74ee6430fb136ca00c41821842cf511eee5f28080b7745e6216e91d87b42",
    "titan_xp_1": "ab157a674a7ba7ad536a0afba7a791ab49fa5f3dbafa5f9628170b48030c2733",
    "titan_xp_32": "8e362f53dd522e6c26c54c7b4806301d3465947edf0935c9c1479aefee0271b6",
    "v100_32": "41643776a003adeb16ec57314b1bd1d5145a12c3616c686161debdb7e45ea9e8",
    "v100_64": "577f48672ed029b11cbb66126ca92d4542f18472e2157965a4ec6852a327dfa2",
}
_LATENCIES = tuple(
    RemoteFile(f"{_HELP}/latency/{device}.pt", f"help/{device}.pt", sha256, 45_423)
    for device, sha256 in _HELP_SHA256.items()
)
_NOTE10_SHA256 = {
    160: ("a2671a45e9400542679ed03de946b45d6a35010f9ab21834af3e7ba8341d36d1", 15_088),
    176: ("34223ae037d5719a5f33261bdfd9341f590a2999edf520f174309605dc06307c", 15_047),
    192: ("0ff5ca0649e56ad34a42d6a8a6f20adb5121c8d12d135299397b310472db79e2", 15_076),
    208: ("41aa63af766a8298354e6aa5ae69d512ac68656a6e7d0a4fa5dc725c8d438633", 15_083),
    224: ("c13a9bcb3f4becae844bce4897129c4e42975984c1029cbd5acb48c970136530", 15_007),
}
_LOOK_UPS = tuple(
    RemoteFile(f"{_OFA}/note10/{side}_lookup_table.yaml", f"note10_{side}.yaml", *pinned)
    for side, pinned in _NOTE10_SHA256.items()
)
_PREDICTOR = RemoteFile(
    f"{_OFA}/acc_predictor.pth",
    FILE,
    "48685122a3540636b06699af66cd816456b25f29b69563e2fda9bed4018eeba0",
    1_492_497,
)

HELP_FILE = "ofa_mbv3_latency_ms.csv"
_MOST_BYTES = 16 * 2**20  # of one file, unpacked; the largest published one has 0.9 MB


@final
class SupernetData(PublicData):
    """Once-for-All's supernets of both widths, for `weights=`; there are no tables."""

    mirror = "https://raw.githubusercontent.com"
    files: tuple[RemoteFile, ...] = SUPERNETS
    importable = "nothing"
    reference_values: Mapping[str, Mapping[int, float]] = {}

    def fetched(self, folder: Path) -> Iterator[NewTable]:  # noqa: ARG002 - a protocol's
        """No tables."""
        yield from ()

    def imported(self, paths: Sequence[Path]) -> Iterator[NewTable]:
        """Refuse: the files are used as they are.

        Raises:
          UserError: always.
        """
        raise UserError(f"{paths[0]} is used as it is: weights={paths[0]}")


@final
class MobileNetV3Data(PublicData):
    """HELP's latencies become a table; the look-ups and the predictor are used as they are."""

    mirror = "https://raw.githubusercontent.com"
    files: tuple[RemoteFile, ...] = (_ARCHITECTURES, *_LATENCIES, *_LOOK_UPS, _PREDICTOR)
    importable = "HELP's ofa_archs.pt and .pt latency files for it"
    reference_values: Mapping[str, Mapping[int, float]] = {}

    def fetched(self, folder: Path) -> Iterator[NewTable]:
        """Convert HELP's latencies.

        Raises:
          UserError: if a file is not as published.
        """
        paths = [folder / file.name for file in (_ARCHITECTURES, *_LATENCIES)]
        yield from self.imported(paths)

    def imported(self, paths: Sequence[Path]) -> Iterator[NewTable]:
        """Convert HELP's list of architectures, and lists of latencies in its order.

        Raises:
          UserError: if the paths are not these, or a list has another length.
          OSError: if a file cannot be read.
        """
        contents = {path: _load(path) for path in paths}
        architectures = [_rows(path, entry) for path, entry in contents.items() if _is_index(entry)]
        if len(architectures) != 1 or len(contents) < 2:
            raise UserError(
                "give HELP's ofa_archs.pt, once, and one or more of its latency files (.pt)"
            )
        columns = {
            f"help-{path.stem.replace('_', '-')}": _milliseconds(path, entry, len(architectures[0]))
            for path, entry in contents.items()
            if not _is_index(entry)
        }
        yield NewTable(HELP_FILE, columns, architectures[0])


def _load(path: Path) -> object:
    """The object that torch saved, of plain containers and numbers."""
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = (entry for entry in archive.namelist() if entry.endswith("data.pkl"))
            if archive.getinfo(name).file_size > _MOST_BYTES:
                raise UserError(f"{path} unpacks to more than {_MOST_BYTES:,} bytes")
            content = archive.read(name)
    except (zipfile.BadZipFile, ValueError) as error:
        raise UserError(f"{path} is no file that torch saved; download it again") from error
    return safe_pickle.load(path, content)


def _is_index(content: object) -> bool:
    return isinstance(content, dict) and isinstance(content.get("arch"), list)


def _rows(path: Path, content: object) -> Int64[ndarray, "n D"]:
    assert isinstance(content, dict)
    space, number = MobileNetV3(), 0
    rows = []
    try:
        for number, entry in enumerate(content["arch"]):  # noqa: B007 - named by the error
            rows.append(space.parse(_text(entry)))
    except (KeyError, IndexError, TypeError, ValueError, UserError) as error:
        raise UserError(f"{path}: entry {number} is no network of Once-for-All") from error
    return np.stack(rows)


def _text(entry: Any) -> str:
    """The public encoding of an entry: side, depths, expansions and kernels."""
    side = entry["r"][0] if isinstance(entry["r"], list) else entry["r"]
    depths, expansions, kernels = (
        "".join(str(int(value)) for value in entry[name]) for name in ("d", "e", "ks")
    )
    return f"r{int(side)} d{depths} e{expansions} k{kernels}"


def _milliseconds(path: Path, content: object, count: int) -> Float64[ndarray, "n"]:
    if not isinstance(content, list) or len(content) != count:
        held = len(content) if isinstance(content, list) else type(content).__name__
        raise UserError(f"{path} holds {held}, not the latencies of {count:,} networks")
    for number, ms in enumerate(content):
        if not isinstance(ms, (int, float)) or not 0 < ms < math.inf:
            raise UserError(f"{path}: latency of network {number} is {ms!r}, not a positive number")
    return np.array(content, np.float64)
