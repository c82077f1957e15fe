"""`latency=published`: an int8 network on a microcontroller, predicted from published times of other networks.

It is the source of every device that `latency.models.microcontrollers` knows, where none is named. The network's
operations are counted on this machine; no chip is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_core.types.task import Task
from latency.base import Latencies, LatencyConfig, Space, UnmeasuredError
from latency.models.confidence import ResidualUncertainty
from latency.models.microcontrollers import RARE, ChipModel, chip_named


@runtime_checkable
class HasMicroWork(Protocol):
    """Space that counts what its networks amount to on a microcontroller."""

    def micro_work(
        self, architecture: Int64[ndarray, "D"], task: Task, fast: float
    ) -> Mapping[str, float]:
        """Work in millions by its name, with what spills from so much fast memory in bytes."""


@final
@dataclass(frozen=True)
class PublishedLatency:
    """Predictions by what a network's operations amount to, each network counted once."""

    space: Space
    task: Task
    chip: ChipModel
    tell: Callable[[str], None] = lambda _line: None  # prints a line for the user
    factor: float = 1.0  # that timed networks take longer than predicted
    correction: str = ""  # the factor in words
    uncertainty: ResidualUncertainty | None = None
    source: str = "published"
    instant: bool = False
    _works: dict[str, Mapping[str, float]] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    @property
    def device(self) -> str:
        """Board / tool / precision."""
        return self.chip.device

    @property
    def description(self) -> str:
        """Where predictions come from, and how well they meet families that were not seen."""
        low, high = self.chip.interval
        return (
            f"{Kind.published.words}: {self.chip.card}; 90 % of networks of other families take {low:.2f} to {high:.2f} times "
            f"the prediction{self.correction}"
        )

    def answer(self, architectures: Int64[ndarray, "*n D"]) -> Latencies:
        """Milliseconds per inference.

        Raises:
          UnmeasuredError: if the device does not run an operation of a network in int8.
        """
        rows = architectures.reshape(-1, architectures.shape[-1])
        ms = np.array([self.factor * self.network_ms(row) for row in rows])
        shape = architectures.shape[:-1]
        return Latencies(ms.reshape(shape), np.full(shape, Kind.published, np.int8))

    def corrected(
        self, architectures: Int64[ndarray, "n D"], latency_ms: Float64[ndarray, "n"]
    ) -> PublishedLatency:
        """The same times the median ratio of timed networks, with the error of each by the others."""
        ratios = latency_ms / self.answer(architectures).ms
        by_others = np.array([np.median(np.delete(ratios, at)) for at in range(len(ratios))])
        residuals, factor = np.log(ratios / by_others), float(np.median(ratios))
        words = (
            f", times {factor:.2f}, the median ratio of {len(ratios)} networks timed on this board; by the others each "
            f"of them is predicted with a median error of {np.median(np.abs(np.expm1(-residuals))):.1%}"
        )
        spread = self.chip.uncertainty
        seen = float(
            np.sqrt(np.mean(residuals**2))
        )  # of few networks: the rows' spread counts as one more
        sd = float(np.sqrt((len(ratios) * seen**2 + spread.sd**2) / (len(ratios) + 1)))
        return replace(
            self, factor=factor, correction=words, uncertainty=spread.scaled(sd / spread.sd)
        )

    def with_fast_memory(self, fast: int) -> PublishedLatency:
        """Predictions for a board with so many bytes of fast memory, beyond which activations spill."""
        return replace(self, chip=replace(self.chip, fast_bytes=float(fast)), _works={})

    def known(self, architectures: Int64[ndarray, "*n D"]) -> Bool[ndarray, "*n"]:
        """Whether the device runs every operation in int8."""
        rows = architectures.reshape(-1, architectures.shape[-1])
        known = np.array([not self.chip.lacking(self._work(row)) for row in rows], bool)
        return known.reshape(architectures.shape[:-1])

    def network_ms(self, architecture: Int64[ndarray, "D"]) -> float:
        """Milliseconds of one network, without the correction.

        Raises:
          UnmeasuredError: if the device does not run one of its operations in int8.
        """
        work = self._work(architecture)
        lacking = self.chip.lacking(work)
        if lacking:
            raise UnmeasuredError(
                f"{self.space.text(architecture)} has {', '.join(lacking)}, which {self.device} does not run in int8"
            )
        return self.chip.predict_ms(work)

    def _work(self, architecture: Int64[ndarray, "D"]) -> Mapping[str, float]:
        text = self.space.text(architecture)
        if text not in self._works:
            assert isinstance(self.space, HasMicroWork)
            work = self.space.micro_work(architecture, self.task, self.chip.fast_bytes)
            self._works[text] = work
            for about, line in cautions(self.chip, work).items():
                if about not in self._told:
                    self._told.add(about)
                    self.tell(f"warning: {text}: {line}")
        return self._works[text]


def cautions(chip: ChipModel, work: Mapping[str, float]) -> dict[str, str]:
    """Reasons to doubt the prediction of a network, by what they are about."""
    lines = {}
    if chip.may_fall_back(work):
        lines["fallback"] = (
            f"it may fall back to the processor on {chip.device}: convolutions of 7x7 and larger and transposes did in the rows"
        )
    rare = [name for name in RARE if work.get(name) and name in chip.ms_per_million]
    if rare:
        lines[f"rare {rare}"] = (
            f"few families of {chip.device} have work of its kind ({', '.join(rare)}): left out of the fit, they took up to four times "
            f"the prediction"
        )
    for kind in chip.unseen(work):
        lines[f"unseen {kind}"] = (
            f"no row of {chip.device} has {kind}: the prediction leaves its time out"
        )
    for name, words in chip.beyond(work).items():
        lines[f"beyond {name}"] = f"an extrapolation for {chip.device}, by {words}"
    return lines


@final
@dataclass
class PublishedLatencyConfig(LatencyConfig):
    """The model of a microcontroller, of any space that counts operations."""

    any_side: ClassVar[bool] = True

    def build(self, device: str, space: Space, task: Task) -> PublishedLatency:
        """Find the device's model.

        Raises:
          UserError: if there is none, or the space counts no operations.
        """
        chip = chip_named(device)
        if not isinstance(space, HasMicroWork):
            raise UserError(
                f"device={device}: space={space.name} has no ChoiceSpace.micro_work, which counts operations"
            )
        tell = partial(say, PlainConsole())
        return PublishedLatency(space, task, chip, tell, uncertainty=chip.uncertainty)
