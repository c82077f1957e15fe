"""Predicted time of int8 networks on microcontrollers, from published times of other networks.

A model is a non-negative sum of what a network's operations amount to (`nas.spaces.microcontroller.WORK`), in
milliseconds a million, fitted on relative error: each tool of each board has its own. A board of which MLPerf Tiny has
four networks or fewer is a modelled board times a factor. `python -m benchmarks.fitting.microcontrollers` makes the
file beside this one from published tables; its figures are of families of networks that the fit did not see.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import final

from edgenas_core.files.typed_json import read_json
from edgenas_core.types.errors import UserError
from latency.models.confidence import ResidualUncertainty

EMBEDDED = Path(__file__).with_suffix(".json")

_ID = re.compile(
    r"(?P<board>[a-z0-9-]+?)(@(?P<mhz>[1-9]\d{0,4})MHz)?/(?P<engine>[a-z-]+[a-z])(-(?P<version>\d[\w.]*))?/int8"
)

_CLOCK_SD = 0.07
"""Spread of the same core at another clock, in logarithms: 13 of 16 published rows are within 7 %."""

_RANGE = 1.5
"""Factor by which a network may exceed the rows of the fit before it is called an extrapolation."""


RARE = ("silu", "gates", "wide", "shuffled")
"""Work that one or two families of the rows have; the interval is of families without it."""

_UNITS = {
    "side": "pixels a side",
    "products": "million multiply-accumulates",
    "parameters": "million weights",
}


@final
@dataclass(frozen=True)
class HeldOut:
    """Errors on families of networks that the fit did not see."""

    within_15_percent: float  # share of the rows
    within_20_percent: float
    within_35_percent: float
    spearman: float

    def __str__(self) -> str:
        return (
            f"{self.within_15_percent:.0%} within 15 %, {self.within_20_percent:.0%} within 20 %, {self.within_35_percent:.0%} within 35 %, "
            f"Spearman {self.spearman:.2f}"
        )


@final
@dataclass(frozen=True)
class ChipModel:
    """The model of one tool on one board, and its card."""

    device: str
    board: str
    tool: str
    source: str
    mhz: float | None
    ms_per_million: dict[str, float]  # of each kind of work
    fast_bytes: float  # of the memory beyond which activations spill
    version: str  # of the tool, that predictions are for
    versions: dict[str, float]  # factor of the time by the tool's version
    rows: int
    families: tuple[str, ...]
    ranges: dict[
        str, tuple[float, ...]
    ]  # least and most of `side`, `products` and `parameters` among the rows
    kinds: tuple[str, ...]  # operations of the rows
    held_out: HeldOut
    by_products: HeldOut  # of a fit on multiply-accumulates alone
    interval: tuple[float, ...]  # middle 90 % of true / predicted, of families that were not seen
    uncertainty: ResidualUncertainty
    scaled_from: str = ""  # a modelled board, where this one has too few rows
    factor: float = 1.0

    def predict_ms(self, work: Mapping[str, float]) -> float:
        """Milliseconds of a network, by its work in millions."""
        summed = sum(each * work.get(name, 0.0) for name, each in self.ms_per_million.items())
        return float(self.factor * summed)

    def may_fall_back(self, work: Mapping[str, float]) -> bool:
        """Whether operations are of a kind that the neural processor of the rows left to its processor."""
        return "npu" in self.device and work.get("wide", 0.0) + work.get("shuffled", 0.0) > 0

    def lacking(self, work: Mapping[str, float]) -> list[str]:
        """Operations of a network that the tool does not run in int8: they have float inputs."""
        return self.unseen(work) if work.get("kind DEQUANTIZE") else []

    def unseen(self, work: Mapping[str, float]) -> list[str]:
        """Operations that no network of the rows has."""
        kinds = (name.removeprefix("kind ") for name in work if name.startswith("kind "))
        return sorted({*kinds} - {*self.kinds, "DEQUANTIZE"})

    def beyond(self, work: Mapping[str, float]) -> dict[str, str]:
        """What of a network lies far outside the rows of the fit, in words."""
        words = {}
        for name, (low, high) in self.ranges.items():
            size = work.get(name)
            if size is not None and not low / _RANGE <= size <= high * _RANGE:
                words[name] = f"{size:,.3g} {_UNITS[name]} (rows have {low:,.3g} to {high:,.3g})"
        return words

    @property
    def card(self) -> str:
        """Where its predictions come from, and how good they are."""
        if self.scaled_from:
            networks = (
                "the ratio of the network"
                if self.rows == 1
                else f"the median ratio of {self.rows} networks"
            )
            return f"{self.factor:.2f} times {self.scaled_from}, {networks} that {self.source} has of {self.board}"
        return (
            f"{self.rows} rows of {len(self.families)} families ({self.source}, {self.tool} {self.version}); families that the fit "
            f"did not see: {self.held_out}"
        )


@final
@dataclass(frozen=True)
class ScaledBoard:
    """A board with too few published networks for a model of its own."""

    device: str
    board: str
    tool: str
    source: str
    mhz: float | None
    scaled_from: str  # a modelled device
    factor: float  # of its times: the median ratio of the published networks
    rows: int
    spread: float  # of their ratios, in logarithms

    def model(self, base: ChipModel) -> ChipModel:
        """The modelled board's model times the factor, with the spread of both."""
        spread = base.uncertainty.scaled(self.spread / base.uncertainty.sd)
        return replace(
            base,
            device=self.device,
            board=self.board,
            tool=self.tool,
            source=self.source,
            mhz=self.mhz,
            version="",
            versions={},
            rows=self.rows,
            interval=_wider(base.interval, self.spread),
            uncertainty=base.uncertainty.and_of(spread),
            scaled_from=base.device,
            factor=self.factor,
        )


@final
@dataclass(frozen=True)
class Chips:
    """Content of the embedded file."""

    modelled: tuple[ChipModel, ...]
    scaled: tuple[ScaledBoard, ...]


def is_chip(device: str) -> bool:
    """Whether a device's name is that of a modelled microcontroller."""
    match = _ID.fullmatch(device)
    return match is not None and f"{match['board']}/{match['engine']}/int8" in chips()


def chip_named(device: str) -> ChipModel:
    """The model of a device such as stm32h747/cubeai/int8, stm32h747@480MHz/cubeai-8.1.0/int8.

    Raises:
      UserError: if there is none, its clock is not known, or the tool's version is not among the rows.
    """
    match = _ID.fullmatch(device)
    model = match and chips().get(f"{match['board']}/{match['engine']}/int8")
    if match is None or model is None:
        raise UserError(
            f"device={device} is no modelled microcontroller; known are {', '.join(chips())}"
        )
    factor, uncertainty, interval = model.factor, model.uncertainty, model.interval
    version, mhz = match["version"] or model.version, model.mhz
    if match["version"] is not None:
        if match["version"] not in model.versions:
            raise UserError(
                f"device={device}: no row is of version {match['version']} of {model.tool}, but of {', '.join(model.versions)}"
            )
        factor *= model.versions[match["version"]]
    if match["mhz"] is not None:
        if model.mhz is None:
            raise UserError(
                f"device={device}: the rows of {model.device} state no clock; leave @{match['mhz']}MHz out"
            )
        mhz = float(match["mhz"])
        factor *= model.mhz / mhz
        uncertainty = uncertainty.and_of(uncertainty.scaled(_CLOCK_SD / max(uncertainty.sd, 1e-6)))
        interval = _wider(interval, _CLOCK_SD)
    return replace(
        model,
        device=device,
        factor=factor,
        uncertainty=uncertainty,
        interval=interval,
        version=version,
        mhz=mhz,
    )


def _wider(interval: tuple[float, ...], sd: float) -> tuple[float, ...]:
    """The middle 90 % of a ratio that also varies by this standard deviation of its logarithm."""
    half = 1.645 * sd  # holds 90 % of a normal distribution
    return tuple(each * math.exp(sign * half) for each, sign in zip(interval, (-1, 1), strict=True))


@cache
def chips() -> dict[str, ChipModel]:
    """Every embedded model, by its device."""
    stored = read_json(EMBEDDED, Chips)
    modelled = {model.device: model for model in stored.modelled}
    scaled = (each.model(modelled[each.scaled_from]) for each in stored.scaled)
    return modelled | {model.device: model for model in scaled}
