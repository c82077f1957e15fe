"""Comparison of a study with section 5.1 of the thesis (Im, Hansung University, 2022).

One run each of MnasNet's soft reward and of the proposed one: CIFAR-100, T = 17 ms, 5,000 samples,
the latency of NATS-Bench's archive (GTX 1080 Ti, batch 256). Learning rate, batch and entropy
weight are not stated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from nas.study.evaluation.learning_curve import BINS, LearningCurve
from nas.study.evaluation.results import SIGNIFICANT, Comparison, Results
from nas.study.plan import Plan, Setting
from nas.trials.survey import Survey

SPACE, TASK = "nas_bench_201", "cifar100"
T_MS = 17.0
SAMPLES = 5000
PROPOSED, SOFT = "proposed", "mnasnet"
RIVALS = {SOFT: "MnasNet's soft reward", "mnasnet_hard": "MnasNet's hard reward"}


@final
@dataclass(frozen=True)
class Published:
    """A number that the thesis prints for its one run with a reward."""

    name: str
    what: str
    reward: str
    value: float


PUBLISHED = (
    Published("within_50_60", "within T at 50 to 60 %", SOFT, 659.0),
    Published("within_50_60", "within T at 50 to 60 %", PROPOSED, 780.0),
    Published("within_60_70", "within T at 60 to 70 %", SOFT, 781.0),
    Published("within_60_70", "within T at 60 to 70 %", PROPOSED, 1004.0),
    Published("settled_bin", "mean of 250 within T from sample", SOFT, 4750.0),
    Published("settled_bin", "mean of 250 within T from sample", PROPOSED, 4000.0),
)

_BINS = {"within_50_60": (50.0, 60.0), "within_60_70": (60.0, 70.0)}
"""Range of accuracy, in percent, of the counts of figure 5-1."""

TABLE_5_1 = (
    # case and network, accuracy, latency in ms, MnasNet's and the proposed reward as printed
    ("a, DNN 1", 0.80, 8.0, 0.84334, 0.82102),
    ("a, DNN 2", 0.84, 16.0, 0.84352, 0.83546),
    ("b, DNN 1", 0.80, 12.0, 0.81974, 0.81186),
    ("b, DNN 2", 0.84, 24.0, 0.81996, 0.77031),
    ("c, DNN 1", 0.80, 8.0, 0.843344, 0.82102),
    ("c, DNN 2", 0.83, 16.0, 0.833527, 0.826460),
)


@final
@dataclass(frozen=True)
class Reproduction:
    """Our counterparts of the published numbers, for one device and choice of overrides."""

    setting: Setting  # with the proposed reward
    ours: tuple[Float64[ndarray, "R"], ...]  # per seed, in the order of `PUBLISHED`

    @property
    def within_range(self) -> tuple[bool, ...]:
        """For each published number, whether it lies between the least and the most of our seeds."""
        return tuple(
            bool(ours.min() <= published.value <= ours.max())
            for ours, published in zip(self.ours, PUBLISHED, strict=True)
        )

    @property
    def distance(self) -> float:
        """Mean absolute logarithm of the ratios of our medians to the published numbers."""
        medians = [
            min(float(np.median(ours)), 2.0 * SAMPLES) for ours in self.ours
        ]  # never is late
        ratios = [(m + 1) / (p.value + 1) for m, p in zip(medians, PUBLISHED, strict=True)]
        return float(np.abs(np.log(ratios)).mean())


@final
@dataclass(frozen=True)
class RivalVerdict:
    """Tests of the proposed reward against one rival with one controller, counted by settings."""

    controller: str
    rival: str
    tests: int
    sooner: int
    later: int
    never: int  # settings where the median search settles within T with neither reward
    sooner_by_bins: int  # as figure 5-2 of the thesis counts
    later_by_bins: int

    @property
    def sentence(self) -> str:
        """The counts in words."""
        never = f"; in {self.never} the median search settles with neither" if self.never else ""
        return (
            f"Against {RIVALS[self.rival]} it is sooner in {self.sooner} of {self.tests} settings and "
            f"later in {self.later}{never}; by figure 5-2's {BINS} bins sooner in "
            f"{self.sooner_by_bins}, later in {self.later_by_bins}."
        )


@final
@dataclass(frozen=True)
class ThesisFinding:
    """Verdict on the claim of the thesis with one controller."""

    controller: str
    by_rival: tuple[RivalVerdict, ...]
    too_few_seeds: bool  # to show any difference

    @property
    def holds(self) -> bool:
        """Whether the proposed reward is sooner in every setting."""
        return all(verdict.sooner == verdict.tests for verdict in self.by_rival)

    @property
    def sentences(self) -> tuple[str, ...]:
        """The verdict in one paragraph."""
        holds = (
            "holds in every setting searched" if self.holds else "does not hold in every setting"
        )
        few = " So few seeds could not have shown any difference; take more."
        return (
            f"The claim that the proposed reward brings the mean latency within T sooner {holds} with "
            f"controller={self.controller} (paired Wilcoxon tests, Holm-corrected, at 5 %). "
            + " ".join(verdict.sentence for verdict in self.by_rival)
            + few * self.too_few_seeds,
        )


def applies(plan: Plan) -> bool:
    """Whether the study searches with both rewards in the space of the thesis, and its optimum is known."""
    is_about_it = plan.space.name == SPACE and {PROPOSED, SOFT} <= {*plan.config.rewards}
    return is_about_it and bool(plan.answers)


def findings(results: Results) -> list[ThesisFinding]:
    """The verdict with each controller."""
    settled = [test for tests in claims(results).values() for test in tests]
    least_p = 2.0 ** (1 - len(results.seeds)) * sum(
        test.measure == "settled" for test in results.comparisons
    )
    return [
        ThesisFinding(
            controller,
            tuple(
                _verdict(controller, rival, results)
                for rival in dict.fromkeys(test.other.reward for test in settled)
            ),
            least_p > SIGNIFICANT,
        )
        for controller in dict.fromkeys(test.reference.controller for test in settled)
    ]


def _verdict(controller: str, rival: str, results: Results) -> RivalVerdict:
    tests, by_bins = (
        [
            test
            for test in claims(results, measure)[rival]
            if test.reference.controller == controller
        ]
        for measure in ("settled", "settled_bin")
    )
    counts, binned = (Counter(test.verdict for test in part) for part in (tests, by_bins))
    return RivalVerdict(
        controller,
        rival,
        tests=len(tests),
        sooner=counts["better"],
        later=counts["worse"],
        never=sum(_never_settles(test, results) for test in tests),
        sooner_by_bins=binned["better"],
        later_by_bins=binned["worse"],
    )


def heat_map(curve: LearningCurve) -> Float64[ndarray, "ms bins"]:
    """Samples per search, mean over seeds, by whole ms (17.00 to 17.99 is 17) and 10 % of accuracy."""
    whole_ms = np.floor(curve.latency_ms)
    slowest = int(np.floor(curve.answers.latency_ms.max()))
    counts, _, _ = np.histogram2d(
        whole_ms.ravel(),
        100 * curve.accuracy.ravel(),
        bins=[np.arange(slowest + 2), np.arange(0, 101, 10)],
    )
    mean: Float64[ndarray, "ms bins"] = counts / len(whole_ms)
    return mean


def within_limit_counts(curve: LearningCurve, low: float, high: float) -> Float64[ndarray, "R"]:
    """Samples of each search within T whose accuracy, in percent, is in [low, high)."""
    percent = 100 * curve.accuracy
    counted = curve.feasible & (percent >= low) & (percent < high)
    return np.asarray(counted.sum(1).astype(float))


def by_chance(survey: Survey, published: Published) -> float | None:
    """Expected count of a uniform sample of the space; None for numbers that are no counts."""
    bounds = _BINS.get(published.name)
    if bounds is None:
        return None
    percent = 100 * survey.accuracy
    inside = (percent >= bounds[0]) & (percent < bounds[1])
    return SAMPLES * float((inside & survey.feasible).mean())


def reproductions(results: Results) -> Iterator[Reproduction]:
    """Our numbers for every device and choice of overrides where both rewards were searched."""
    for setting in results.values:
        soft = replace(setting, reward=SOFT)
        if setting.reward == PROPOSED and soft in results.values:
            setting_of = {PROPOSED: setting, SOFT: soft}
            yield Reproduction(
                setting, tuple(_ours(p.name, results, setting_of[p.reward]) for p in PUBLISHED)
            )


def _ours(name: str, results: Results, setting: Setting) -> Float64[ndarray, "R"]:
    if name in _BINS:
        return within_limit_counts(results.curves[setting], *_BINS[name])
    return np.asarray(results.values[setting][name])


def claims(results: Results, measure: str = "settled") -> dict[str, list[Comparison]]:
    """Tests of "the proposed reward is sooner within T", by rival.

    `settled` uses the sliding mean of 100 samples, `settled_bin` the bins of the thesis.
    """
    return {
        rival: [
            c
            for c in results.comparisons
            if c.measure == measure and c.reference.reward == PROPOSED and c.other.reward == rival
        ]
        for rival in RIVALS
    }


def is_the_thesis_problem(results: Results) -> bool:
    """Whether the published numbers are comparable: same data set, limit and number of samples."""
    config = results.config
    at_limit = any(setting.limit_ms == T_MS for setting in results.values)
    return results.task.name == TASK and config.budget == SAMPLES and at_limit


def _never_settles(test: Comparison, results: Results) -> bool:
    return all(
        np.isinf(np.median(results.values[c]["settled"])) for c in (test.reference, test.other)
    )
