"""`latency=blocks`: a network takes as long as its blocks, which were measured one by one.

A look-up is a YAML file that maps the text of a block to its times::

    Conv-input:224x224x3-output:112x112x24:
      mean: 0.994     # milliseconds
      std: 0.017      # not read, nor is anything else
      count: 500

It lies in the data folder, in the folder of the space's name or in `raw` inside that, and is named after
the device: `note10.yaml` for images of any side, `note10_224.yaml` for those of 224 pixels.
Networks with a block that no look-up holds have no latency: a model of the others predicts those that a
search finds on another side too fast.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.files.keyed_table import data_folder
from edgenas_core.files.safe_yaml import load_yaml
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from edgenas_core.types.units import require_ms
from edgenas_mobilenet_v3.plugin import MobileNetV3Space
from latency.base import Latencies, LatencyConfig, Space, UnmeasuredError, any_choices

_MOST_BYTES = 2**20  # of a file; a published one has 15 kB
_SAMPLED = 10_000  # architectures, of which one at least is made of measured blocks
_FILE = re.compile(r"(?P<device>.+?)(_(?P<side>\d+))?\.ya?ml")


@final
@dataclass(frozen=True)
class BlockLookUp:
    """Measured blocks of a device; called with a side and a block, milliseconds or NaN."""

    of_side: Mapping[int | None, Mapping[str, float]]  # None: images of any side

    def __hash__(self) -> int:
        return id(self)

    def __call__(self, side: int, block: str) -> float:
        """Milliseconds of a block; NaN if it was not measured."""
        for look_up in (self.of_side.get(side, {}), self.of_side.get(None, {})):
            if block in look_up:
                return look_up[block]
        return math.nan


@final
@dataclass(frozen=True)
class BlockLatency:
    """Sums of measured blocks."""

    space: MobileNetV3Space
    task: Task
    device: str
    description: str
    look_up: BlockLookUp
    source: str = "blocks"
    instant: bool = True

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference.

        Raises:
          UnmeasuredError: if a block was not measured.
        """
        ms = self.space.sum_of_blocks(architectures, self.task, self.look_up)
        missing = np.isnan(ms)
        if missing.any():
            raise UnmeasuredError(
                f"{self.space.text(architectures[missing][0])} has blocks that were not measured on "
                f"{self.device}"
            )
        return Latencies(ms, np.full(ms.shape, Kind.blocks, np.int8))

    def layer_ms(self, architecture: Int64[ndarray, "D"]) -> list[float]:
        """Measured milliseconds of each of the space's `layer_list`; NaN if it was not measured."""
        side = self.space.image_side(architecture, self.task)
        return [
            self.look_up(side, text) for text in self.space.layer_texts(architecture, self.task)
        ]

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Whether `answer` has a latency of each architecture."""
        ms = self.space.sum_of_blocks(architectures, self.task, self.look_up)
        return np.asarray(~np.isnan(ms))


@final
@dataclass
class BlocksLatencyConfig(LatencyConfig):
    """Look-ups of measured blocks in the data folder."""

    def build(self, device: str, space: Space, task: Task) -> BlockLatency:
        """Read the look-ups of a device.

        Raises:
          UserError: if the space has no blocks, there is no look-up, one cannot be read, or none of the
            space's networks is made of measured blocks.
        """
        if not isinstance(space, MobileNetV3Space):
            raise UserError(
                f"latency=blocks is for space=mobilenet_v3, whose networks are chains of known blocks, not "
                f"for space={space.name}"
            )
        files = look_ups(space, device)
        if not files:
            raise UserError(
                f"latency=blocks: neither {data_folder() / space.name} nor its folder raw has "
                f"{device}.yaml or {device}_<side>.yaml; `python -m nas.data space={space.name} fetch` "
                f"downloads the public look-ups, and mobilenet_v3/README.md says how to write one"
            )
        look_up = BlockLookUp({side: _read(path) for side, path in files.items()})
        sums = space.sum_of_blocks(any_choices(space, _SAMPLED), task, look_up)
        if np.isnan(sums).all():
            key = next(iter(next(iter(look_up.of_side.values())))) if look_up.of_side else ""
            raise UserError(
                f"latency=blocks: no network of space={space.name} for {task} is made of the blocks in "
                f"{next(iter(files.values()))}, such as {key!r}; look-ups are of one width and task"
            )
        description = f"blocks: the sum of measured blocks ({_names(files)})"
        return BlockLatency(space, task, device, description, look_up)


def look_ups(space: Space, device: str) -> dict[int | None, Path]:
    """Files of a device's measured blocks, by the side of the images; None: any side.

    Raises:
      UserError: if `NAS_DATA` names no folder.
    """
    folder = data_folder() / space.name
    files: dict[int | None, Path] = {}
    for path in sorted([*folder.glob("*.y*ml"), *(folder / "raw").glob("*.y*ml")], reverse=True):
        match = _FILE.fullmatch(path.name)
        if match is not None and match["device"] == device:
            files[int(match["side"]) if match["side"] else None] = path
    return files


def _names(files: Mapping[int | None, Path]) -> str:
    return ", ".join(sorted(path.name for path in files.values()))


def _read(path: Path) -> dict[str, float]:
    content = load_yaml(path, _MOST_BYTES, may_repeat=True)
    if not isinstance(content, dict) or not content:
        raise UserError(f"{path} maps no block to its times, as in `Logits-...: {{mean: 0.67}}`")
    return {str(block): _mean_ms(path, block, times) for block, times in content.items()}


def _mean_ms(path: Path, block: object, times: object) -> float:
    mean_ms = times.get("mean") if isinstance(times, dict) else times
    return float(require_ms([mean_ms], f"{path}: the `mean:` of block {str(block)[:200]!r} is")[0])
