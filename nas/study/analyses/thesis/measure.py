"""Section 5.1 of the thesis (Im, Hansung University, 2022), beside what a study finds.

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

from nas.study.learning_curve import BINS, Course
from nas.study.plan import Cell
from nas.study.results import Comparison, Results
from nas.trials.survey import Landscape

T_MS = 17.0
SAMPLES = 5000
PROPOSED, SOFT, HARD = "proposed", "mnasnet", "mnasnet_hard"
RIVALS = {SOFT: "MnasNet's soft reward", HARD: "MnasNet's hard reward"}


@final
@dataclass(frozen=True)
class Published:
    """A number that the thesis prints of one run."""

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
"""Accuracy in percent, from and to, of the counts of figure 5-1."""

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
    """The published numbers beside ours, for one choice of device and settings."""

    cell: Cell  # with the proposed reward
    ours: tuple[Float64[ndarray, "R"], ...]  # of each seed, in the order of `PUBLISHED`

    @property
    def within_range(self) -> tuple[bool, ...]:
        """Whether the thesis's run could be one of ours: its number lies between the extremes."""
        return tuple(
            bool(ours.min() <= published.value <= ours.max())
            for ours, published in zip(self.ours, PUBLISHED, strict=True)
        )

    @property
    def distance(self) -> float:
        """Mean factor, as a logarithm, between the published numbers and the seeds' medians."""
        medians = [
            min(float(np.median(ours)), 2.0 * SAMPLES) for ours in self.ours
        ]  # never is late
        ratios = [(m + 1) / (p.value + 1) for m, p in zip(medians, PUBLISHED, strict=True)]
        return float(np.abs(np.log(ratios)).mean())


def heat_map(course: Course) -> Float64[ndarray, "ms bins"]:
    """Samples a search, mean over the seeds, by whole ms (17.00 to 17.99 is 17) and 10 % accuracy."""
    whole_ms = np.floor(course.latency_ms)
    slowest = int(np.floor(course.landscape.latency_ms.max()))
    counts, _, _ = np.histogram2d(
        whole_ms.ravel(),
        100 * course.accuracy.ravel(),
        bins=[np.arange(slowest + 2), np.arange(0, 101, 10)],
    )
    mean: Float64[ndarray, "ms bins"] = counts / len(whole_ms)
    return mean


def within_limit_counts(course: Course, low: float, high: float) -> Float64[ndarray, "R"]:
    """Samples of each search within T whose accuracy, in percent, is in [low, high)."""
    percent = 100 * course.accuracy
    counted = course.feasible & (percent >= low) & (percent < high)
    return np.asarray(counted.sum(1).astype(float))


def by_chance(space: Landscape, published: Published) -> float | None:
    """What a search that samples the whole space evenly comes to; None where that says nothing."""
    bounds = _BINS.get(published.name)
    if bounds is None:
        return None
    percent = 100 * space.accuracy
    inside = (percent >= bounds[0]) & (percent < bounds[1])
    return SAMPLES * float((inside & space.feasible).mean())


def reproductions(results: Results) -> Iterator[Reproduction]:
    """The published numbers for every device and setting where both rewards were searched."""
    for cell in results.values:
        soft = replace(cell, reward=SOFT)
        if cell.reward == PROPOSED and soft in results.values:
            found = {PROPOSED: cell, SOFT: soft}
            yield Reproduction(
                cell, tuple(_ours(p.name, results, found[p.reward]) for p in PUBLISHED)
            )


def _ours(name: str, results: Results, cell: Cell) -> Float64[ndarray, "R"]:
    if name in _BINS:
        return within_limit_counts(results.courses[cell], *_BINS[name])
    return np.asarray(results.values[cell][name])


def claims(results: Results, measure: str = "settled") -> dict[str, list[Comparison]]:
    """By rival: every test of "the proposed reward is sooner within T".

    `settled` looks at the mean of 100 samples at a time, `settled_bin` at the thesis's own bins.
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
    """Whether the published numbers may stand beside ours: same data set, limit and samples."""
    config = results.config
    at_limit = any(cell.limit_ms == T_MS for cell in results.values)
    return config.task.name == "cifar100" and config.budget == SAMPLES and at_limit


def verdict(results: Results) -> str:
    """One paragraph on the thesis's claim, out of the numbers and nothing else."""
    sentences = []
    for rival, tests in claims(results).items():
        if not tests:
            continue
        sentences.append(_of_rival(rival, tests, claims(results, "settled_bin")[rival], results))
    if not sentences:
        return "The study tests no pair of rewards that the thesis's claim is about."
    every = [test for tests in claims(results).values() for test in tests]
    survives = all(test.verdict == "better" for test in every)
    opening = "The claim that the proposed reward brings the mean latency within T sooner " + (
        "holds in every setting searched." if survives else "does not hold in every setting."
    )
    where = _where([test.reference for test in every])
    return " ".join([opening, where, *sentences, *_price(results)])


def _where(cells: Sequence[Cell]) -> str:
    """How many settings there are of which device."""
    counts = Counter(cell.device for cell in dict.fromkeys(cells))
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
        f"in {counts['worse']}, and in {counts['no difference']} the test tells no difference (paired "
        f"Wilcoxon tests over {len(results.seeds)} seeds, Holm-corrected, at 5 %)."
    )
    if never:
        text += (
            f" In {never} of the {len(tests)}, whatever the test says, the median search comes within "
            f"T for good with neither reward."
        )
    return (
        f"{text} By figure 5-2's {BINS} bins it is sooner in {binned['better']} and later in "
        f"{binned['worse']}."
    )


def _never_settles(test: Comparison, results: Results) -> bool:
    return all(
        np.isinf(np.median(results.values[c]["settled"])) for c in (test.reference, test.other)
    )


def _price(results: Results) -> Iterator[str]:
    """What being sooner costs: the accuracy at the end and the gap, default settings."""
    by_rival: Mapping[str, list[Comparison]] = {
        rival: [
            c
            for c in results.comparisons
            if c.measure == "gap" and c.other.reward == rival and not c.other.settings
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
    """One paragraph on what the thesis prints; None where the study searched another problem."""
    found = [r for r in reproductions(results) if r.cell.limit_ms == T_MS]
    if not found or not is_the_thesis_problem(results):
        return None
    widest = max(found, key=lambda r: sum(r.within_range))
    hits = sum(widest.within_range)
    closest = min(found, key=lambda r: r.distance)
    medians = ", ".join(
        "never" if np.isinf(np.median(ours)) else f"{np.median(ours):,.0f}" for ours in closest.ours
    )
    printed = ", ".join(f"{published.value:,.0f}" for published in PUBLISHED)
    of_all = "." if hits == len(PUBLISHED) else ", so no setting searched gives all of them."
    sentences = [
        (
            f"The thesis prints {printed} of its two runs: samples {PUBLISHED[0].what}, then "
            f"{PUBLISHED[2].what}, then until within T by {BINS} bins, MnasNet before the proposed."
        ),
        f"Closest by the medians of {len(results.seeds)} seeds is {_place(closest.cell)}: {medians}.",
        (
            f"At most {hits} of the {len(PUBLISHED)} lie between the least and the most of any seed, "
            f"on {_place(widest.cell)}{of_all}"
        ),
    ]
    space = results.courses[found[0].cell].landscape
    for published in PUBLISHED:
        chance = by_chance(replace(space, limit_ms=np.inf), published)
        if chance is not None and published.value > chance:
            sentences.append(
                f"Its {published.value:,.0f} {published.what} are more than an even draw of "
                f"{SAMPLES:,} from the whole space has in that range at all, {chance:,.0f}, with or "
                f"without a limit: that run preferred networks of this accuracy, or its accuracies "
                f"are not those of this source."
            )
    return " ".join(sentences)


def _place(cell: Cell) -> str:
    return f"{cell.device} with {' '.join(cell.settings) or 'the default settings'}"
