"""An architecture with its numbers, as every report shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from common.types.architectures import Enumerable
from common.types.kind import Kind
from nas.report.number import Number, percent
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials


@final
@dataclass(frozen=True)
class Place:
    """One of the devices of `latency=mapped`, and a network's latency there."""

    device: str
    latency: Number  # limited by what the device has left
    fits: bool


@final
@dataclass(frozen=True)
class ReportedNetwork:
    """An architecture with its numbers."""

    arch: str
    accuracy: Number  # that was searched on
    test: Number | None
    latency: Number
    index: int | None = None  # in the space, where that is listed
    sample: int | None = None  # the trial it was, from 1
    costs: Mapping[str, Number] = field(default_factory=dict)  # limited ones beside the latency
    rank: int | None = None  # among the networks within all limits
    places: tuple[Place, ...] = ()  # the device with most room first
    first_latency: Number | None = None  # of a live device, before it was timed again
    probability: float | None = None  # of being within T, at least; of a predicted latency
    is_at_chance: bool = False

    @property
    def is_confirmed(self) -> bool:
        """Whether its latency was taken undisturbed."""
        return self.latency.kind is not Kind.disturbed

    @property
    def line(self) -> str:
        """All its accuracies and latencies in a line."""
        test = "" if self.test is None else f" (test {self.test.text})"
        return f"{self.accuracy.text}{test}, {self.latency.text}"


def networks_of(trials: Trials, problem: SearchProblem) -> list[ReportedNetwork]:
    """Each of some trials as a network; without the test accuracy, which is asked of few."""
    space, limits = problem.space, problem.limits.each
    numbers = (
        space.numbers(trials.architectures).tolist()
        if isinstance(space, Enumerable)
        else [None] * len(trials)
    )
    return [
        ReportedNetwork(
            arch=space.text(trials.architectures[at]),
            accuracy=percent(float(trials.accuracy[at]), Kind(trials.accuracy_kind[at])),
            test=None,
            latency=Number(float(trials.latency_ms[at]), "ms", Kind(trials.latency_kind[at])),
            index=number,
            sample=int(trials.number[at]) + 1 or None,
            costs={
                limit.symbol: Number(cost, limit.unit, Kind.measured)
                for limit, cost in zip(limits, trials.costs[at].tolist(), strict=True)
            },
        )
        for at, number in enumerate(numbers)
    ]
