"""An architecture with its numbers: a part of `summary.json`, and what every report shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.kind import Kind
from nas.report.number import Number, percent
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials


def require_kinds(*names: str) -> None:
    """Check names of kinds that a file may hold; raises ValueError for an unknown one."""
    for name in names:
        if name not in Kind.__members__:
            raise ValueError(f"{name[:40]!r} is no kind of a number")


@final
@dataclass(frozen=True)
class OnDevice:
    """A network on one of the devices of `latency=mapped`."""

    device: str
    latency_ms: float
    latency_kind: str
    T_ms: float  # that the device has left
    fits: bool

    def __post_init__(self) -> None:
        require_kinds(self.latency_kind)

    @property
    def latency(self) -> Number:
        """The latency with its unit and kind."""
        return Number(self.latency_ms, "ms", Kind[self.latency_kind])


@final
@dataclass(frozen=True, kw_only=True)
class Network:
    """One architecture with its numbers; kinds are names of `edgenas_core.types.kind.Kind`.

    What has a default is known of the networks that are reported in full alone.
    """

    arch: str
    index: int | None = None  # its number, where the space has numbers
    accuracy_searched: float  # a fraction, on the split that was searched on
    accuracy_test: float | None = None
    accuracy_kind: str
    fidelity: str = ""  # that the accuracy was trained to, where it is not that of the search
    accuracy_sd: float | None = None  # of a prediction, or by the number of images
    at_chance: bool | None = None  # trained, and not above guessing as far as the sd tells
    latency_ms: float
    latency_kind: str
    costs: dict[str, float] = field(default_factory=dict)  # limited ones beside the latency
    parameters: int | None = None
    feasible: bool | None = None  # within every limit, by a latency that was not taken under load
    rank: int | None = None  # 1 + feasible architectures that are more accurate
    on: tuple[OnDevice, ...] = ()  # with `latency=mapped`, the device with most room first
    sample: int | None = None  # the trial it was, from 1
    latency_first_ms: float | None = None  # of a live device, before it was timed again
    latency_again_ms: float | None = None
    latency_sd_ms: float | None = None  # of a prediction whose held-out residuals are known
    within_T_probability: float | None = None  # noqa: N815 - at least; 0 without any margin

    def __post_init__(self) -> None:
        require_kinds(self.accuracy_kind, self.latency_kind)

    @property
    def accuracy(self) -> Number:
        """The accuracy that was searched on."""
        return percent(self.accuracy_searched, Kind[self.accuracy_kind], self.accuracy_sd)

    @property
    def test(self) -> Number | None:
        """The test accuracy."""
        test = self.accuracy_test
        return None if test is None else percent(test, Kind[self.accuracy_kind])

    @property
    def latency(self) -> Number:
        """The latency with its unit, kind and spread."""
        return Number(self.latency_ms, "ms", Kind[self.latency_kind], self.latency_sd_ms)

    @property
    def is_disturbed(self) -> bool:
        """Whether its latency was measured while the device was under other load, so that it confirms nothing."""
        return self.latency.kind is Kind.disturbed

    @property
    def size(self) -> str:
        """Its parameters, and the bytes of its weights in fp32; empty if they are not known."""
        if self.parameters is None:
            return ""
        return (
            f"{self.parameters / 1e6:.3g} M parameters ({self.parameters * 4 / 1e6:.3g} MB in fp32)"
        )

    @property
    def line(self) -> str:
        """All its accuracies and latencies in a line."""
        test = "" if self.test is None else f" (test {self.test.text})"
        return f"{self.accuracy.text}{test}, {self.latency.text}"


def networks_of(trials: Trials, problem: SearchProblem) -> list[Network]:
    """Networks of trials, with the recorded numbers only."""
    space, limits = problem.space, problem.limits.each
    numbers = [None] * len(trials)
    if isinstance(space, Enumerable):
        numbers = space.numbers(trials.architectures).tolist()
    feasible = problem.feasible(trials).tolist()
    return [
        Network(
            arch=space.text(trials.architectures[at]),
            index=number,
            accuracy_searched=float(trials.accuracy[at]),
            accuracy_kind=Kind(trials.accuracy_kind[at]).name,
            latency_ms=float(trials.latency_ms[at]),
            latency_kind=Kind(trials.latency_kind[at]).name,
            costs=dict(
                zip((limit.name for limit in limits), trials.costs[at].tolist(), strict=True)
            ),
            feasible=feasible[at],
            sample=int(trials.number[at]) + 1 or None,
        )
        for at, number in enumerate(numbers)
    ]
