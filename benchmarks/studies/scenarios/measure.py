"""Cost of searching for one scenario and running in another: devices that differ in nothing else.

Devices belong to one board if their ids differ only in the scenario behind the bar and in the statistic
behind the @: a limit on the tail is another scenario than a limit on the median. The result of a search
in scenario A is the network it found: its most accurate within T. In scenario B that network may miss T,
and is then of no use; or it meets T, and then a search in B may have found a better one.

Where latencies are predicted, two scenarios differ as far as the model says. So the comparison is
repeated without a search on the architectures that were measured in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from benchmarks.studies.scenarios.noise import noise_of
from benchmarks.studies.scenarios.order import OrderComparison, compare
from edgenas_core.types.kind import is_predicted
from latency.devices.registry import SCENARIO_MARK, solo_id
from latency.models.slowdown import FEWEST_BOTH_WAYS, kendall_tau
from nas.study.evaluation.learning_curve import LearningCurve
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import Interval, mean_interval
from nas.study.plan import Plan, Setting
from nas.trials.survey import Survey

_ALONE = "alone"


@final
@dataclass(frozen=True)
class Chosen:
    """A network that was chosen by its latency in another scenario."""

    share_of_t: float  # its latency where it runs, over T
    lost: float  # points of accuracy below the best there, as searched on; negative only where it misses T


@final
@dataclass(frozen=True)
class Mismatch:
    """Searched in one scenario, run in another; over the seeds."""

    searched: str
    runs: str
    missed: Interval  # share of the networks found that miss T where they run
    beyond: float  # median latency over T of those that miss it; NaN if none does
    lost: (
        Interval | None
    )  # points of test accuracy to those found where they run; None if all miss T
    measured: (
        Chosen | None
    )  # best architecture measured in both, no search; None if none is within T


@final
@dataclass(frozen=True)
class BoardScenario:
    """One scenario of a board, over the whole space."""

    device: str
    name: str
    feasible_share: float
    optimum: str | None  # most accurate architecture within T
    optimum_accuracy: float  # on the split that is searched on, a fraction; NaN if none is within T
    same_optimum: bool  # as alone
    median_ratio: float  # latency over that alone
    kendall_tau: float  # of the latency to that alone
    scaled: Chosen | None  # best alone within T over the median slowdown; None if none is within T
    order: (
        OrderComparison | None
    )  # on what was measured in both; None if that is too little, or alone itself
    predicted_share: float  # of the latencies
    found: Interval | None  # test accuracy in percent of the networks found; None if nothing was


@final
@dataclass(frozen=True)
class BoardScenarios:
    """One board in several scenarios: the same reward, controller and limit."""

    setting: Setting  # alone, or the first
    scenarios: tuple[BoardScenario, ...]
    mismatches: tuple[Mismatch, ...]

    @property
    def title(self) -> str:
        """Board, limit, reward and controller."""
        setting = self.setting
        return (
            f"{board_of(setting.device)}, T = {setting.limit_ms:g} ms, reward={setting.reward}, "
            f"controller={setting.controller}"
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The finding, in numbers."""
        others = [scenario for scenario in self.scenarios if scenario.device != self.setting.device]
        changed = sum(not other.same_optimum for other in others)
        text = (
            f"{self.title}: the most accurate network within T is another than {self.alone} in {changed} of "
            f"{len(others)} scenarios"
        )
        missed = [
            f"{pair.missed.middle:.0%} {in_words(pair.runs)}"
            for pair in self.mismatches
            if pair.searched == name_of(self.setting.device) != pair.runs
        ]
        if missed:
            text += f"; of the networks found {self.alone}, T is missed by {', '.join(missed)}"
        orders = [other.order.changes for other in others if other.order is not None]
        known = [changes for changes in orders if changes is not None]
        if known:
            text += (
                f". On the architectures measured both ways, the order by latency differs from that "
                f"{self.alone} by more than the noise of repeats in {sum(known)} of {len(known)} scenarios"
            )
        return (f"{text}.",)

    @property
    def alone(self) -> str:
        """The scenario that the others are compared with, as the end of a sentence."""
        return in_words(name_of(self.setting.device))


def name_of(device: str) -> str:
    """Name of a scenario: that in the id, or alone; with the statistic, if not the median."""
    place, _, statistic = device.partition("@")
    name = place.partition(SCENARIO_MARK)[2] or _ALONE
    return f"{name}, {statistic}" if statistic else name


def in_words(name: str) -> str:
    """A scenario of this name as the end of a sentence: `alone`, or `in ...`."""
    return name if name.startswith(_ALONE) else f"in {name}"


def board_of(device: str) -> str:
    """Id of the board without scenario and statistic."""
    return solo_id(device.partition("@")[0])


def applies(plan: Plan) -> bool:
    """Whether some board is searched in two scenarios, over a space whose optimum is known."""
    boards = [board_of(device) for device in plan.oracles]
    return bool(plan.answers) and len(set(boards)) < len(boards)


def board_scenarios(results: Results) -> list[BoardScenarios]:
    """Every board that the study searched in two scenarios or more, with the default settings."""
    groups: dict[tuple[str, str, str, float], list[Setting]] = {}
    for value in results.values:
        if not value.overrides:
            key = (board_of(value.device), value.reward, value.controller, value.limit_ms)
            groups.setdefault(key, []).append(value)
    return [_board(settings, results) for settings in groups.values() if len(settings) > 1]


def _board(settings: list[Setting], results: Results) -> BoardScenarios:
    first = min(
        settings, key=lambda setting: (SCENARIO_MARK in setting.device, "@" in setting.device)
    )
    ordered = [first, *(setting for setting in settings if setting is not first)]
    curves = {each: results.curves[each] for each in ordered}
    best = {each: curve.best_numbers() for each, curve in curves.items()}
    return BoardScenarios(
        first,
        tuple(_scenario(each, first, curves, best[each]) for each in ordered),
        tuple(_mismatch(a, b, curves, best) for a, b in product(ordered, ordered)),
    )


def _scenario(
    setting: Setting,
    first: Setting,
    curves: Mapping[Setting, LearningCurve],
    found: Int64[ndarray, " R"],
) -> BoardScenario:
    curve = curves[setting]
    here, alone = curve.whole, curves[first].whole
    both = _measured(curve) & _measured(curves[first])
    test = 100 * curve.answers.accuracy_test[found[found >= 0]]
    best = here.optimum
    ratio = float(np.median(here.latency_ms / alone.latency_ms))
    return BoardScenario(
        device=setting.device,
        name=name_of(setting.device),
        feasible_share=here.feasible_share,
        optimum=None if best is None else curve.text(best),
        optimum_accuracy=float("nan") if best is None else float(here.accuracy[best]),
        same_optimum=best == alone.optimum,
        median_ratio=ratio,
        kendall_tau=kendall_tau(alone.latency_ms, here.latency_ms),
        scaled=_chosen(replace(alone, limit_ms=here.limit_ms / ratio).optimum, here),
        order=None
        if setting is first or both.sum() < FEWEST_BOTH_WAYS
        else _order(setting, first, curves, both),
        predicted_share=float(is_predicted(curve.answers.latency_kind).mean()),
        found=mean_interval(test) if len(test) else None,
    )


def _measured(curve: LearningCurve) -> Bool[ndarray, "size"]:
    return ~is_predicted(curve.answers.latency_kind)


def _order(
    setting: Setting,
    first: Setting,
    curves: Mapping[Setting, LearningCurve],
    both: Bool[ndarray, "size"],
) -> OrderComparison:
    here, alone = curves[setting].whole, curves[first].whole
    space = curves[first].space
    noises = noise_of(space, first.device), noise_of(space, setting.device)
    known = None if noises[0] is None or noises[1] is None else (noises[0], noises[1])
    return compare(alone.latency_ms[both], here.latency_ms[both], here.accuracy[both], known)


def _chosen(chosen: int | None, here: Survey) -> Chosen | None:
    best = here.optimum
    if chosen is None or best is None:
        return None
    lost = 100 * float(here.accuracy[best] - here.accuracy[chosen])
    return Chosen(float(here.latency_ms[chosen]) / here.limit_ms, lost)


def _best_measured(searched: LearningCurve, runs: LearningCurve) -> Chosen | None:
    """Best architecture measured in both where it was chosen, run in the other."""
    both = _measured(searched) & _measured(runs)
    there, here = (
        replace(survey, latency_ms=np.where(both, survey.latency_ms, np.nan))
        for survey in (searched.whole, runs.whole)
    )
    return _chosen(there.optimum, here)


def _mismatch(
    searched: Setting,
    runs: Setting,
    curves: Mapping[Setting, LearningCurve],
    found: Mapping[Setting, Int64[ndarray, " R"]],
) -> Mismatch:
    curve, taken, ideal = curves[runs], found[searched], found[runs]
    latency_ms: Float64[ndarray, " R"] = np.where(
        taken < 0, np.inf, curve.answers.latency_ms[taken]
    )
    misses = latency_ms > curve.limit_ms
    known = ~misses & (ideal >= 0)
    test = 100 * curve.answers.accuracy_test
    late = latency_ms[misses & np.isfinite(latency_ms)] / curve.limit_ms
    return Mismatch(
        searched=name_of(searched.device),
        runs=name_of(runs.device),
        missed=mean_interval(misses.astype(float)),
        beyond=float(np.median(late)) if len(late) else float("nan"),
        lost=mean_interval(test[ideal[known]] - test[taken[known]]) if known.any() else None,
        measured=_best_measured(curves[searched], curve),
    )
