"""Choices of the MobileNetV3 space of Once-for-All (Cai et al., ICLR 2020): 5.4e20 networks.

A row is the side of the image, then for each of five stages its depth (2, 3 or 4) and, for each of
four blocks, kernel (3, 5 or 7) and expansion (3, 4 or 6). The blocks beyond a stage's depth are
switched off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.spaces.base import ChoiceSpace

SIDES = tuple(range(128, 225, 4))
DEPTHS, KERNELS, EXPANSIONS = (2, 3, 4), (3, 5, 7), (3, 4, 6)
STAGES, MOST_BLOCKS = 5, max(DEPTHS)

IMAGENET = Task("imagenet", 1000, SIDES[-1], title="ImageNet")

FORM = "r224 k3e6-k5e4 k3e3-k3e4-k7e6 k3e3-k3e3 k3e3-k3e3 k3e3-k3e3-k5e6-k5e3"
"""An example of the text of an architecture: the side, then the blocks of each stage."""

_STAGE = 1 + 2 * MOST_BLOCKS  # positions of a stage
_POSITIONS = 1 + STAGES * _STAGE
_OPTIONS = (SIDES, *[DEPTHS, *[KERNELS, EXPANSIONS] * MOST_BLOCKS] * STAGES)
_POSITION_NAMES = [
    "side",
    *(
        name
        for stage in range(1, STAGES + 1)
        for name in (
            f"depth {stage}",
            *(
                f"{setting} {stage}.{block}"
                for block in range(1, MOST_BLOCKS + 1)
                for setting in ("kernel", "expansion")
            ),
        )
    ),
]
_NETWORKS_OF_DEPTH = np.array([(len(KERNELS) * len(EXPANSIONS)) ** depth for depth in DEPTHS])
_UP_TO_DEPTH = (_NETWORKS_OF_DEPTH / _NETWORKS_OF_DEPTH.sum()).cumsum()

_SIDE, _BLOCK = re.compile(r"r(\d{1,4})"), re.compile(r"k(\d)e(\d)")
_SETTINGS = re.compile(
    rf"d([234]{{{STAGES}}}) e([346]{{{STAGES * MOST_BLOCKS}}}) k([357]{{{STAGES * MOST_BLOCKS}}})"
)


class MobileNetV3(ChoiceSpace):
    """Architectures of the space, and their text."""

    num_choices: tuple[int, ...] = tuple(map(len, _OPTIONS))
    choices: Mapping[str, Sequence[int]] = dict(zip(_POSITION_NAMES, _OPTIONS, strict=True))
    searched_sides: Int64[ndarray, "sides"] = np.arange(len(SIDES))  # indices into `SIDES`

    def known_part(
        self, has_latency: Callable[[Int64[ndarray, "n D"]], Bool[ndarray, "n"]]
    ) -> MobileNetV3:
        """Part with the image sides whose blocks are all known; the whole space if there is no such side.

        A model of the other sides would predict the networks that a search finds there too fast.
        """
        alike = [[2, *pair * MOST_BLOCKS] * STAGES for pair in product(range(3), range(3))]
        rows = np.array([[side, *blocks] for side in range(len(SIDES)) for blocks in alike])
        sides = np.flatnonzero(has_latency(rows).reshape(len(SIDES), -1).all(1))
        part = copy(self)
        if sides.size:
            part.searched_sides = sides
        return part

    def normal(self, architectures: Int64[ndarray, "*n D"]) -> Int64[ndarray, "*n D"]:
        """Set switched-off positions to 0, and a side that is not searched to the nearest that is."""
        rows = super().normal(architectures)
        if len(self.searched_sides) < len(SIDES):
            away = np.abs(rows[..., :1] - self.searched_sides)
            rows[..., 0] = self.searched_sides[away.argmin(-1)]
        return rows

    def switched_on(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n D"]:
        """Return False for the choices of blocks beyond a stage's depth."""
        on = settings_of(architectures).on
        always = np.ones((*on.shape[:-1], 1), bool)
        stages = np.concatenate([always, np.repeat(on, 2, axis=-1)], axis=-1)
        side, stages = always[..., 0, :], stages.reshape(*on.shape[:-2], STAGES * _STAGE)
        return np.concatenate([side, stages], axis=-1)

    def sample(self, rng: np.random.Generator, n: int) -> Int64[ndarray, "n D"]:
        """Draw uniformly from the distinct networks: a depth is as likely as it has networks."""
        u = rng.random((n, _POSITIONS))
        rows = (u * self.num_choices).astype(np.int64)
        rows[:, 0] = self.searched_sides[(u[:, 0] * len(self.searched_sides)).astype(np.int64)]
        rows[:, 1::_STAGE] = np.searchsorted(_UP_TO_DEPTH, u[:, 1::_STAGE], side="right")
        return self.normal(rows)

    def text(self, architecture: Int64[ndarray, "D"]) -> str:
        """Write an architecture as in `FORM`."""
        stages = ("-".join(f"k{k}e{e}" for k, e in stage) for stage in stages_of(architecture))
        return " ".join((f"r{side_of(architecture)}", *stages))

    def parse(self, text: str) -> Int64[ndarray, "D"]:
        """Read what `text` wrote, or the encoding of public tables, `r204 d22223 e6446... k7555...`.

        Raises:
          UserError: if the text is neither.
        """
        side, _, blocks_text = text.strip().partition(" ")
        matched = _SIDE.fullmatch(side)
        settings = _SETTINGS.fullmatch(blocks_text)
        stages = (
            blocks_text.split(" ") if settings is None else _stages_of_settings(*settings.groups())
        )
        if matched is None or int(matched[1]) not in SIDES or len(stages) != STAGES:
            raise _not_an_architecture(text)
        row = np.zeros(_POSITIONS, np.int64)
        row[0] = SIDES.index(int(matched[1]))
        for number, stage in enumerate(stages):
            blocks = [_BLOCK.fullmatch(block) for block in stage.split("-", MOST_BLOCKS)]
            if len(blocks) not in DEPTHS:
                raise _not_an_architecture(text)
            start = 1 + number * _STAGE
            row[start] = DEPTHS.index(len(blocks))
            for place, block in enumerate(blocks):
                if block is None or int(block[1]) not in KERNELS or int(block[2]) not in EXPANSIONS:
                    raise _not_an_architecture(text)
                row[start + 1 + 2 * place] = KERNELS.index(int(block[1]))
                row[start + 2 + 2 * place] = EXPANSIONS.index(int(block[2]))
        return row


@final
@dataclass(frozen=True)
class BlockSettings:
    """Choices of some architectures, block by block."""

    side: Int64[ndarray, "*n"]  # index into `SIDES`
    on: Bool[ndarray, "*n stages blocks"]  # False: the block is beyond its stage's depth
    kernel: Int64[ndarray, "*n stages blocks"]  # index into `KERNELS`
    expansion: Int64[ndarray, "*n stages blocks"]  # index into `EXPANSIONS`


def settings_of(architectures: Int64[ndarray, "*n D"]) -> BlockSettings:
    """Choices block by block."""
    rows = np.asarray(architectures)
    stages = rows[..., 1:].reshape(*rows.shape[:-1], STAGES, _STAGE)
    on = np.arange(MOST_BLOCKS) < stages[..., :1] + DEPTHS[0]
    return BlockSettings(np.asarray(rows[..., 0]), on, stages[..., 1::2], stages[..., 2::2])


def side_of(architecture: Int64[ndarray, "D"]) -> int:
    """Side of the images in pixels, of a task whose whole images have 224."""
    return SIDES[int(architecture[0])]


def stages_of(architecture: Int64[ndarray, "D"]) -> list[list[tuple[int, int]]]:
    """(kernel, expansion) of the blocks of each stage."""
    stages = []
    for start in range(1, _POSITIONS, _STAGE):
        blocks = architecture[start + 1 : start + _STAGE].reshape(MOST_BLOCKS, 2).tolist()
        depth = DEPTHS[int(architecture[start])]
        stages.append([(KERNELS[k], EXPANSIONS[e]) for k, e in blocks[:depth]])
    return stages


def _stages_of_settings(depths: str, expansions: str, kernels: str) -> list[str]:
    """Stages of the public encoding; its settings beyond the depth of a stage are ignored."""
    starts = range(0, STAGES * MOST_BLOCKS, MOST_BLOCKS)
    return [
        "-".join(
            f"k{kernels[place]}e{expansions[place]}" for place in range(start, start + int(depth))
        )
        for start, depth in zip(starts, depths, strict=True)
    ]


def _not_an_architecture(text: str) -> UserError:
    return UserError(
        f"architecture {text[:200]!r} is not of the form {FORM!r} with r{SIDES[0]}, r{SIDES[1]}, ... "
        f"r{SIDES[-1]} and {STAGES} stages of {DEPTHS[0]} to {DEPTHS[-1]} blocks"
    )
