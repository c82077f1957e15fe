"""Comparison of a study with section 5.1 of the thesis (Im, Hansung University, 2022).

One run each of MnasNet's soft reward and of the proposed one: CIFAR-100, T = 17 ms, 5,000 samples,
the latency of NATS-Bench's archive (GTX 1080 Ti, batch 256). Learning rate, batch and entropy
weight are not stated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.types.errors import UserError
from nas.study.evaluation.learning_curve import BINS, LearningCurve
from nas.study.evaluation.results import SIGNIFICANT, Comparison, Results
from nas.study.plan import Plan, Setting
from nas.trials.survey import Survey

SPACE, TASK = "nas_bench_201", "cifar100"
T_MS = 17.0
SAMPLES = 5000
PROPOSED, SOFT, HARD = "proposed", "mnasnet", "mnasnet_hard"
RIVALS = {SOFT: "MnasNet's soft reward", HARD: "MnasNet's hard reward"}


@final
@dataclass(frozen=True)
class Published:
    """A number that the thesis prints for its one run with a reward."""

    name: str
    what: str
    reward: str
    value: float
    figure: str


PUBLISHED = (
    Published("within_50_60", "within T at 50 to 60 %", SOFT, 659.0, "5-1"),
    Published("within_50_60", "within T at 50 to 60 %", PROPOSED, 780.0, "5-1"),
    Published("within_60_70", "within T at 60 to 70 %", SOFT, 781.0, "5-1"),
    Published("within_60_70", "within T at 60 to 70 %", PROPOSED, 1004.0, "5-1"),
    Published("settled_bin", "mean of 250 within T from sample", SOFT, 4750.0, "5-2"),
    Published("settled_bin", "mean of 250 within T from sample", PROPOSED, 4000.0, "5-2"),
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
class ThesisFinding:
    """Verdict on the claim of the thesis, and the comparison with its numbers."""

    verdict: str
    numbers: str | None  # None if the study searched another problem
    sooner: Mapping[
        str, tuple[int, int]
    ]  # by rival: settings where proposed is sooner, of how many

    @property
    def sentences(self) -> tuple[str, ...]:
        """Both paragraphs."""
        return (self.verdict, *filter(None, [self.numbers]))


def applies(plan: Plan) -> bool:
    """Whether the setting `thesis` asks for the comparison.

    Raises:
      UserError: if it does, but the study is about another space, or the optimum is not known.
    """
    if not plan.config.thesis:
        return False
    if plan.space.name != SPACE:
        raise UserError(
            f"thesis=true compares with numbers that were published for space={SPACE}, but "
            f"space={plan.space.name}; leave it out"
        )
    if not plan.answers:
        raise UserError(
            f"thesis=true needs answers about the whole space, but {plan.why_not_exact}; leave it out"
        )
    return True


def findings(results: Results) -> list[ThesisFinding]:
    """The comparison, as the only entry."""
    sooner = {
        rival: (sum(test.verdict == "better" for test in tests), len(tests))
        for rival, tests in claims(results).items()
        if tests
    }
    return [ThesisFinding(verdict(results), numbers(results), sooner)]


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
            found = {PROPOSED: setting, SOFT: soft}
            yield Reproduction(
                setting, tuple(_ours(p.name, results, found[p.reward]) for p in PUBLISHED)
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


def verdict(results: Results) -> str:
    """A paragraph on the claim of the thesis, derived from the tests; of several controllers, of each."""
    every = [test for tests in claims(results).values() for test in tests]
    if not every:
        return "The study tests no pair of rewards to which the claim of the thesis applies."
    controllers = list(dict.fromkeys(test.reference.controller for test in every))
    if len(controllers) == 1:
        return _of_controller(controllers[0], results)
    return " ".join(
        f"controller={controller}: {_of_controller(controller, results)}"
        for controller in controllers
    )


def _of_controller(controller: str, results: Results) -> str:
    of_bins = claims(results, "settled_bin")
    mine = {
        rival: [test for test in tests if test.reference.controller == controller]
        for rival, tests in claims(results).items()
    }
    sentences = [
        _of_rival(
            rival,
            tests,
            [test for test in of_bins[rival] if test.reference.controller == controller],
            results,
        )
        for rival, tests in mine.items()
        if tests
    ]
    every = [test for tests in mine.values() for test in tests]
    survives = all(test.verdict == "better" for test in every)
    opening = "The claim that the proposed reward brings the mean latency within T sooner " + (
        "holds in every setting searched." if survives else "does not hold in every setting."
    )
    where = _where([test.reference for test in every])
    return " ".join([opening, where, *sentences, *_price(controller, results)])


def _where(settings: Sequence[Setting]) -> str:
    """Number of settings on each device."""
    counts = Counter(setting.device for setting in dict.fromkeys(settings))
    parts = [f"{count} on {device}" for device, count in counts.items() if count > 1]
    alone = [device for device, count in counts.items() if count == 1]
    if len(alone) == 1:
        parts.append(f"1 on {alone[0]}")
    elif alone:
        parts.append(f"1 on each of {len(alone)} {'other ' if parts else ''}devices")
    return f"Settings searched: {' and '.join(parts)}."


def _of_rival(
    rival: str, tests: Sequence[Comparison], by_bin: Sequence[Comparison], results: Results
) -> str:
    counts = Counter(test.verdict for test in tests)
    binned = Counter(test.verdict for test in by_bin)
    never = sum(_never_settles(test, results) for test in tests)
    text = (
        f"Against {RIVALS[rival]} it is sooner in {counts['better']} of {len(tests)} settings, later "
        f"in {counts['worse']}, and in {counts['no difference']} the test finds no difference (paired "
        f"Wilcoxon tests over {len(results.seeds)} seeds, Holm-corrected, at 5 %)."
    )
    least_p = 2.0 ** (1 - len(results.seeds)) * sum(
        c.measure == "settled" for c in results.comparisons
    )
    if least_p > SIGNIFICANT:
        text += " So few seeds could not have shown any; take more."
    if never:
        text += (
            f" In {never} of the {len(tests)}, whatever the test says, the median search settles within "
            f"T with neither reward."
        )
    return (
        f"{text} By figure 5-2's {BINS} bins it is sooner in {binned['better']} and later in "
        f"{binned['worse']}."
    )


def _never_settles(test: Comparison, results: Results) -> bool:
    return all(
        np.isinf(np.median(results.values[c]["settled"])) for c in (test.reference, test.other)
    )


def _price(controller: str, results: Results) -> Iterator[str]:
    """Cost of being sooner: the gap after all samples, with the default settings."""
    by_rival: Mapping[str, list[Comparison]] = {
        rival: [
            c
            for c in results.comparisons
            if (c.measure, c.other.reward, c.other.controller) == ("gap", rival, controller)
            and not c.other.overrides
        ]
        for rival in RIVALS
    }
    for rival, tests in by_rival.items():
        if not tests:
            continue
        counts = Counter(test.verdict for test in tests)
        yield (
            f"The best network within T that it finds in {results.config.budget:,} samples is, with "
            f"the default settings, closer to the {results.optimum} than with {RIVALS[rival]} on "
            f"{counts['better']} of {len(tests)} devices, further on {counts['worse']}."
        )


def numbers(results: Results) -> str | None:
    """One paragraph on the published numbers; None if the study searched another problem."""
    found = [r for r in reproductions(results) if r.setting.limit_ms == T_MS]
    if not found or not is_the_thesis_problem(results):
        return None
    widest = max(found, key=lambda r: sum(r.within_range))
    hits = sum(widest.within_range)
    closest = min(found, key=lambda r: r.distance)
    medians = ", ".join(
        "never" if np.isinf(np.median(ours)) else f"{np.median(ours):,.0f}" for ours in closest.ours
    )
    printed = ", ".join(f"{published.value:,.0f}" for published in PUBLISHED)
    of_all = "." if hits == len(PUBLISHED) else "; no setting searched gives all of them."
    sentences = [
        (
            f"The thesis prints {printed} for its two runs, MnasNet before the proposed: samples "
            f"{PUBLISHED[0].what}, {PUBLISHED[2].what}, and until within T by {BINS} bins."
        ),
        f"Closest by the medians of {len(results.seeds)} seeds is {_place(closest.setting)}: {medians}.",
        (
            f"At most {hits} of the {len(PUBLISHED)} lie between the least and the most of any seed, "
            f"on {_place(widest.setting)}{of_all}"
        ),
    ]
    space = results.curves[found[0].setting].whole
    for published in PUBLISHED:
        chance = by_chance(replace(space, limit_ms=np.inf), published)
        if chance is not None and published.value > chance:
            sentences.append(
                f"Its {published.value:,.0f} {published.what} are more than a uniform sample of "
                f"{SAMPLES:,} from the whole space has in that range even without a limit, "
                f"{chance:,.0f}: that run preferred networks of this accuracy, or its accuracies "
                f"differ from those of this source."
            )
    return " ".join(sentences)


def _place(setting: Setting) -> str:
    return f"{setting.device} with {' '.join(setting.overrides) or 'the default settings'}"
