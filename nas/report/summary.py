"""The result of a search, as `summary.json`.

docs/reference/files.md explains what a name does not say. Nothing is asked again for it, but the
test accuracy of the networks that are reported.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Float64, Int8, Int64
from numpy import ndarray

from edgenas_core.files.typed_json import read_json
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import FLAGGED, Kind
from latency.base import OnSeveralDevices
from nas.accuracy.base import at_chance
from nas.fit.ranking.stage_result import StageResult
from nas.fit.training.trained_folder import ClassResult, Judged, Training
from nas.report.handed_network import HandedNetwork
from nas.report.network import Network, OnDevice, networks_of, require_kinds
from nas.spaces.base import SearchSpace
from nas.trials.confirmation import Confirmation
from nas.trials.limits import Limits
from nas.trials.problem import RewardedProblem, SearchProblem
from nas.trials.statistics import best_feasible, sample_within_limit
from nas.trials.survey import (
    EstimatedShare,
    Survey,
    hypervolume,
    pareto_front,
)
from nas.trials.trial import State, Trials

SCHEMA = 4


@final
@dataclass(frozen=True)
class LimitResult:
    """Result for one further limit: its bound, and the trials within it."""

    cost: str  # name of the cost
    unit: str  # empty for a count
    limit: float
    source: str
    feasible_share: float  # of the finished trials
    sample_within: int | None  # from which on the mean of the last 100 stays within it
    parts: tuple[float, ...] = ()  # of a fast and a slow memory


@final
@dataclass(frozen=True)
class TimedAgain:
    """A feasible trial that a live device timed again."""

    arch: str
    sample: int
    accuracy_searched: float
    latency_ms: float
    latency_again_ms: float | None  # None where the device could not run it again
    within_T: bool  # noqa: N815 - T is the name of the limit
    disturbed: bool  # the second time, which then confirms nothing


@final
@dataclass(frozen=True)
class RunSettings:
    """Settings of a search."""

    space: str
    dataset: str
    dataset_title: str
    reward: str | None  # None on own images
    controller: str
    epochs: int  # that the searched accuracies were trained for
    test_epochs: int  # and the test accuracies
    seed: int
    budget: int
    metric: str = "accuracy"  # that networks are judged by
    items: str = "images"  # that they are judged on


@final
@dataclass(frozen=True)
class Int8Accuracy:
    """Accuracy and latency of a network's int8 file, and of its fp32 file on the same images and device."""

    valid_fp32: Judged
    valid: Judged
    test_fp32: Judged | None
    test: Judged | None
    fp32_ms: float | None = None  # both None without a live device
    int8_ms: float | None = None
    is_slower: bool = False  # both times of the int8 file are above both of the fp32 file
    in_tflite: bool = False
    in_fp32: tuple[str, ...] = ()  # layers that stay in fp32, as they lose most

    @property
    def lost(self) -> float:
        """Accuracy on the validation images that int8 loses against fp32."""
        return self.valid_fp32.fraction - self.valid.fraction


@final
@dataclass(frozen=True)
class Summary:
    """All results of a run; accuracies are fractions, units of times are in the names."""

    schema: int
    settings: RunSettings
    T_ms: float
    confidence: float  # share of answers of predicted latencies that are within T
    margin: float  # logarithm of the factor by which a prediction must be below T for that
    limits: dict[str, LimitResult]  # beside T, by symbol
    accuracy_source: str
    accuracy_description: str
    split: str
    device: str
    latency_source: str
    latency_description: str
    samples: int  # trials
    states: dict[str, int]
    accuracy_kinds: dict[str, float]  # shares of the finished trials
    latency_kinds: dict[str, float]
    distinct_architectures: int
    distinct_networks: int
    seconds: float
    resumed_at_sample: int
    best: Network | None
    confirmation: tuple[TimedAgain, ...] | None
    optimum: Network | None
    optimum_exact: bool | None
    gap: float | None  # optimum less best, a fraction
    feasible_share: float  # of the finished trials
    space_feasible_share: float | None
    space_feasible_interval: tuple[float, ...] | None  # 95 %, where the share is an estimate
    space_latency_predicted: float | None  # share of the space's latencies
    sample_within_T: int | None  # noqa: N815 - its name in summary.json
    mode: Network | None  # the architecture that the policy prefers, where its numbers are known
    mode_arch: str | None
    mode_gap: float | None  # the reward's maximum over the space less the reward of the mode
    stages: tuple[StageResult, ...]  # of a search on own images; else empty
    front: tuple[Network, ...]  # of the trials within the further limits, from fast to slow
    front_share: float | None  # of the hypervolume of the whole space's front, where that is known
    baseline: Network | None = None  # of own images, as far as it was trained
    start: str = ""  # of the winner on own images: origin, licence and SHA-256 of its weights
    by_class: tuple[ClassResult, ...] = ()  # its test images
    int8: Int8Accuracy | None = None  # of the winner on own images, of a search for int8
    valid_interval: tuple[float, float] | None = None  # of the winner, 95 %; None of an accuracy
    test_interval: tuple[float, float] | None = None  # 95 %, on test images
    handed: tuple[HandedNetwork, ...] = ()  # of a fit for several limits, the largest first

    def __post_init__(self) -> None:
        require_kinds(*self.accuracy_kinds, *self.latency_kinds)

    @property
    def answer(self) -> Network | None:
        """The network to use: the best trial, or the optimum of a ranked space if it is more accurate.

        A network that a live device timed again wins over one of a table.
        """
        ranked = self.optimum is not None and self.confirmation is None
        return self.optimum if ranked and (self.gap is None or self.gap > 0) else self.best

    @property
    def answers(self) -> list[tuple[float, Network]]:
        """The front by the least T, in ms, that each network answers: a prediction has its margin there."""
        factors = {True: math.exp(self.margin), False: 1.0}
        least_ms = [
            (trial.latency_ms * factors[trial.latency.kind.is_predicted], trial)
            for trial in self.front
        ]
        steps: list[tuple[float, Network]] = []
        for ms, trial in sorted(least_ms, key=lambda pair: pair[0]):
            if not steps or trial.accuracy_searched > steps[-1][1].accuracy_searched:
                steps.append((ms, trial))
        return steps

    @property
    def accuracy_is_predicted(self) -> bool:
        """Whether any accuracy of a trial or of a reported network is predicted."""
        reported = (self.best, self.optimum, self.mode)
        return bool(predicted_shares(self.accuracy_kinds)) or any(
            network is not None and network.accuracy.kind.is_predicted for network in reported
        )

    @property
    def penalty_share(self) -> float:
        """Share of the finished trials whose network the device cannot run."""
        return self.latency_kinds.get(Kind.penalty.name, 0.0)

    @property
    def flagged(self) -> dict[Kind, int]:
        """Number of flagged latencies by kind, without kinds that do not occur."""
        done = self.states.get(State.done.name, 0)
        counts = {kind: round(self.latency_kinds.get(kind.name, 0.0) * done) for kind in FLAGGED}
        return {kind: count for kind, count in counts.items() if count}


@final
@dataclass(frozen=True)
class _Header:
    """The part of every version's summary that says how to read the rest."""

    schema: int


def read_summary(path: Path) -> Summary:
    """The summary of a finished run.

    Raises:
      UserError: if the file is corrupt, or of another version.
    """
    try:
        schema = read_json(path, _Header).schema
        if schema == SCHEMA:
            return read_json(path, Summary)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not the summary of a search: {error}") from error
    raise UserError(
        f"{path} is of schema {schema}, and this version reads {SCHEMA}; go on with the version that "
        f"made the run"
    )


def summarise(
    trials: Trials,
    mode: Int64[ndarray, "D"] | None,
    problem: SearchProblem,
    settings: RunSettings,
    *,
    seconds: float,
    resumed_at: int,
    confirmed: Confirmation | None = None,
    estimated: EstimatedShare | None = None,
    stages: tuple[StageResult, ...] = (),
    training: Training | None = None,
    first_ms: float | None = None,
    int8: Int8Accuracy | None = None,
    handed: tuple[HandedNetwork, ...] = (),
) -> Summary:
    """Summarise finished trials, given in the order of their answers."""
    space, limits, survey = problem.space, problem.limits, problem.survey
    done = trials.rows(trials.state == State.done)
    feasible = problem.feasible(done)
    reporter = _Reporter(problem, done, feasible, first_ms)
    best, optimum = reporter.best(confirmed), reporter.optimum()
    rows = space.normal(trials.architectures)
    states = Counter(State(value).name for value in trials.state.tolist())
    preferred = None if mode is None else reporter.preferred(mode)
    summary_of = _begin_summary(problem, settings)
    return summary_of(
        limits=_limits(limits, done),
        samples=len(trials),
        states=dict(states),
        accuracy_kinds=_shares(done.accuracy_kind),
        latency_kinds=_shares(done.latency_kind),
        distinct_architectures=len(np.unique(rows, axis=0)),
        distinct_networks=len(np.unique(space.canonical(rows), axis=0)),
        seconds=seconds,
        resumed_at_sample=resumed_at,
        best=best,
        confirmation=None if confirmed is None else _again(done, confirmed, space),
        optimum=optimum,
        optimum_exact=None if survey is None else survey.optimum_is_exact,
        gap=_gap(best, optimum),
        feasible_share=float(feasible.mean()) if len(done) else 0.0,
        space_feasible_share=_space_share(survey, estimated),
        space_feasible_interval=None if estimated is None else (estimated.low, estimated.high),
        space_latency_predicted=None if survey is None else survey.latency_predicted_share,
        sample_within_T=sample_within_limit(done.latency_ms, problem.limit_ms),
        mode=None if preferred is None else reporter.network(preferred),
        mode_arch=None if mode is None else space.text(mode),
        mode_gap=reporter.mode_gap(preferred),
        stages=stages,
        baseline=reporter.baseline(stages),
        front=reporter.front(),
        front_share=reporter.front_share(),
        start="" if training is None else training.recipe.get("start", ""),
        by_class=() if training is None else training.by_class,
        int8=int8,
        handed=handed,
        valid_interval=None if training is None else _interval(training.valid),
        test_interval=None if training is None else _interval(training.test),
    )


def _begin_summary(problem: SearchProblem, settings: RunSettings) -> Callable[..., Summary]:
    """Maker of summaries that has the facts of the problem: its limit, its device and its sources."""
    return partial(
        Summary,
        schema=SCHEMA,
        settings=settings,
        T_ms=problem.limit_ms,
        confidence=problem.confidence,
        margin=problem.margin,
        accuracy_source=problem.accuracy.source,
        accuracy_description=problem.accuracy.description,
        split=problem.accuracy.split.value,
        device=problem.oracle.device,
        latency_source=problem.oracle.source,
        latency_description=problem.oracle.description,
    )


def _interval(judged: Judged | None) -> tuple[float, float] | None:
    return None if judged is None else judged.interval


def predicted_shares(kinds: dict[str, float]) -> dict[Kind, float]:
    """Shares of the predicted kinds."""
    named = {Kind[name]: share for name, share in kinds.items()}
    return {kind: share for kind, share in named.items() if kind.is_predicted}


def _shares(kinds: Int8[ndarray, "n"]) -> dict[str, float]:
    counts = Counter(Kind(value).name for value in kinds.tolist())
    return {name: count / len(kinds) for name, count in counts.items()}


@final
@dataclass(frozen=True)
class _Reporter:
    """Builds the reported networks from the records; asks only for their test accuracies."""

    problem: SearchProblem
    done: Trials
    feasible: Bool[ndarray, "n"]
    first_ms: float | None = None  # of a winner on own images that a live device timed again

    def best(self, confirmed: Confirmation | None) -> Network | None:
        """Most accurate feasible trial, or the confirmed winner if trials were measured again.

        Where trials differ in fidelity, those of the highest alone can win; a trial whose latency was
        disturbed only where there is no other.
        """
        if confirmed is None:
            highest = self.done.fidelity == self.done.fidelity.max(initial=0)
            within = self.problem.within_limits(self.done) & highest
            at = best_feasible(
                self.done.accuracy,
                self.done.latency_ms,
                self.problem.limit_ms,
                self.feasible & highest if (self.feasible & highest).any() else within,
            )
            if at is None:
                return None
            return self.network(self.done.rows(slice(at, at + 1)), self.first_ms)
        if confirmed.winner is None:
            return None
        winner = np.array([confirmed.winner])
        trial = self.done.rows(confirmed.positions[winner])
        again = replace(
            trial,
            latency_ms=confirmed.again.ms[winner],
            latency_kind=confirmed.again.kind[winner],
        )
        return self.network(again, first_ms=float(trial.latency_ms[0]))

    @property
    def _front_ms(self) -> Float64[ndarray, "n"]:
        """Latencies of the trials that may be on the front; NaN for the others."""
        done = self.done
        taking_part = self.problem.limits.met(done.costs) & ~np.isin(
            done.latency_kind, (Kind.disturbed, Kind.penalty)
        )
        taking_part &= done.fidelity == done.fidelity.max(initial=0)
        return np.where(taking_part, done.latency_ms, np.nan)

    def front(self) -> tuple[Network, ...]:
        """The front of the trials."""
        trials = self.done.rows(pareto_front(self.done.accuracy, self._front_ms))
        tested = self.problem.accuracy.test(trials.architectures).tolist()
        return tuple(
            replace(network, accuracy_test=_none_if_nan(test))
            for network, test in zip(networks_of(trials, self.problem), tested, strict=True)
        )

    def front_share(self) -> float | None:
        """Hypervolume of the front as a share of that of the whole space.

        Both are taken down to the least accurate and up to the slowest architecture of the space.
        """
        survey = self.problem.survey
        if survey is None:
            return None
        bounds = float(survey.accuracy.min()), float(np.nanmax(survey.latency_ms))
        there = hypervolume(
            survey.accuracy, np.where(survey.met, survey.latency_ms, np.nan), *bounds
        )
        covered = hypervolume(self.done.accuracy, self._front_ms, *bounds)
        return covered / there if there > 0 else None

    def optimum(self) -> Network | None:
        """Most accurate feasible architecture of the space; None if the space is not ranked."""
        survey = self.problem.survey
        if survey is None or survey.optimum is None:
            return None
        return self.network(self.problem.surveyed(np.array([survey.optimum])))

    def baseline(self, stages: tuple[StageResult, ...]) -> Network | None:
        """Trial of the baseline that its stage reports; None if it was not trained."""
        stage = next((each for each in stages if each.name == "rule"), None)
        if stage is None or stage.favourite is None or stage.accuracy is None:
            return None
        row = self.problem.space.parse(stage.favourite)
        is_row = (self.done.architectures == row).all(-1)
        trials = self.done.rows(np.flatnonzero(is_row & (self.done.accuracy == stage.accuracy)))
        networks = networks_of(trials, self.problem)
        fidelity = stage.fidelity or "inherited weights"
        return replace(networks[0], fidelity=fidelity) if networks else None

    def preferred(self, mode: Int64[ndarray, "D"]) -> Trials | None:
        """Numbers of the policy's most likely architecture; None if no trial or table has them."""
        space = self.problem.space
        same = (space.normal(self.done.architectures) == space.normal(mode)).all(-1)
        if same.any():
            return self.done.rows(np.flatnonzero(same)[:1])
        row = mode[None]
        for source in (self.problem.accuracy, self.problem.oracle):
            if not (source.instant and source.known(row)[0]):
                return None
        return self.problem.evaluate(row, first=-1)

    def mode_gap(self, preferred: Trials | None) -> float | None:
        """Maximum reward over the space minus the reward of the policy's most likely architecture."""
        survey, problem = self.problem.survey, self.problem
        if preferred is None or survey is None or not isinstance(problem, RewardedProblem):
            return None
        favourite = survey.favourite(problem.reward)
        if favourite is None:
            return None
        highest = self.problem.surveyed(np.array([favourite])).rewards[0]
        return float(highest - preferred.rewards[0])

    def network(self, trial: Trials, first_ms: float | None = None) -> Network:
        """The network of one trial in full; `first_ms` is its latency before it was timed again."""
        problem, survey, oracle = self.problem, self.problem.survey, self.problem.oracle
        (network,) = networks_of(trial, problem)
        architecture, accuracy = trial.architectures[0], network.accuracy_searched
        sd = self._accuracy_sd(architecture, accuracy)
        chance = sd is not None and at_chance(accuracy, sd, problem.task.num_classes)
        network = replace(
            network,
            accuracy_test=_none_if_nan(float(problem.accuracy.test(architecture[None])[0])),
            accuracy_sd=sd,
            parameters=int(problem.space.costs(architecture[None], problem.task)["parameters"][0]),
            at_chance=chance and network.accuracy_kind == Kind.trained.name,
            rank=survey.rank(accuracy) if survey is not None and network.feasible else None,
        )
        if network.sample is not None:
            network = replace(network, latency_first_ms=first_ms or network.latency_ms)
        if first_ms is not None:
            network = replace(network, latency_again_ms=network.latency_ms)
        if isinstance(oracle, OnSeveralDevices):
            places = [
                OnDevice(
                    place.device, place.latency_ms, place.kind.name, place.limit_ms, place.fits
                )
                for place in oracle.places(architecture)
            ]
            network = replace(network, on=tuple(places))
        if problem.uncertainty is None or not network.latency.kind.is_predicted:
            return network
        uncertainty = problem.uncertainty_of(architecture) or problem.uncertainty
        margin = math.log(problem.limit_ms / network.latency_ms)
        return replace(
            network,
            latency_sd_ms=network.latency_ms * uncertainty.sd,
            within_T_probability=uncertainty.confidence(margin),
        )

    def _accuracy_sd(self, architecture: Int64[ndarray, "D"], accuracy: float) -> float | None:
        sd = getattr(self.problem.accuracy, "sd", None)
        if sd is None:
            return None
        return _none_if_nan(float(sd(architecture[None], np.array([accuracy]))[0]))


def _none_if_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def _gap(best: Network | None, optimum: Network | None) -> float | None:
    if best is None or optimum is None or best.is_disturbed:
        return None
    return optimum.accuracy_searched - best.accuracy_searched


def _space_share(survey: Survey | None, estimated: EstimatedShare | None) -> float | None:
    if survey is not None:
        return survey.feasible_share
    return None if estimated is None else estimated.share


def _limits(limits: Limits, done: Trials) -> dict[str, LimitResult]:
    return {
        limit.symbol: LimitResult(
            limit.name,
            limit.unit,
            limit.bound,
            limit.source,
            float((costs <= limit.bound).mean()) if len(costs) else 0.0,
            sample_within_limit(costs, limit.bound),
            limit.parts,
        )
        for limit, costs in zip(limits.each, done.costs.T, strict=True)
    }


def _again(done: Trials, confirmed: Confirmation, space: SearchSpace) -> tuple[TimedAgain, ...]:
    timed = done.rows(confirmed.positions)
    return tuple(
        TimedAgain(
            arch=space.text(timed.architectures[at]),
            sample=int(timed.number[at]) + 1,
            accuracy_searched=float(timed.accuracy[at]),
            latency_ms=float(timed.latency_ms[at]),
            latency_again_ms=_none_if_nan(float(confirmed.again.ms[at])),
            within_T=bool(confirmed.within_limit[at]),
            disturbed=bool(confirmed.again.kind[at] == Kind.disturbed),
        )
        for at in range(len(timed))
    )
