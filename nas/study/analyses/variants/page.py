"""Boards of several units on a study's page: one unit at a time, or all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from nas.study.analyses.variants.baselines import BEST, RANDOM, SHARED, TOGETHER, Searched, alone
from nas.study.analyses.variants.charts import (
    better_unit,
    gains_by_board,
    gains_by_samples,
    gaps_by_samples,
    letters,
)
from nas.study.analyses.variants.measure import Variants, signed, variants
from nas.study.results import Results
from nas.study.statistics import Interval, with_intervals
from nas.study.terminal import text_of
from runtime.page.document import Section
from runtime.page.parts import Columns, Note, Part, Table

CAVEAT = (
    "Every unit is taken to have the accuracies of the table, which are those of networks trained and "
    "tested in fp32: units differ in latency only. What a lower precision does to the accuracy is not "
    "in these tables."
)

EARLY = 100
"""Samples after which the first table tells of the searches, beside their end."""


def variant_sections(results: Results) -> Iterator[Section]:
    """All sets of units in one table, then a section for the boards of each."""
    every = list(variants(results))
    if every:
        yield Section(
            "One unit at a time, or all together", [*_introduction(results), _sets(every)]
        )
    for found in every:
        yield Section(f"Variants: {found.title}", list(_parts(found, results)))


def _introduction(results: Results) -> Iterator[Part | str]:
    yield (
        f"A board has several units, each with a T of its own. All ways to search it have the same "
        f"number of samples in all: for one unit; for each unit with its share of the samples, and "
        f"then the best is taken; for a unit at random, which is the mean of searching for each; or for "
        f"all together, where a latency is that of the unit that needs the least part of its T. The best "
        f"unit is the one whose most accurate network within T is the most accurate. Found "
        f"is the test accuracy of the most accurate network within T, mean over {len(results.seeds)} "
        f"seeds{with_intervals(len(results.seeds))}; what searching together brings is paired by seed. The "
        f"boards are fixed: an interval tells what other seeds would find on them, and nothing of other "
        f"boards."
    )
    yield (
        "The networks that fit on some unit are those of all units, so the most accurate of them is "
        "the best unit's: searching together cannot beat searching for the best unit, were it known and "
        "the samples enough."
    )
    yield Note(CAVEAT)


def _sets(every: Sequence[Variants]) -> Table:
    last = every[0].after[-1].samples
    early = next((one.samples for one in every[0].after if one.samples >= EARLY), last)
    kinds = len({(found.reward, found.controller) for found in every}) > 1
    rows: list[list[str | float]] = []
    for found in every:
        gains = {one.samples: one.gains for one in found.after}
        kind = f", {found.reward}, {found.controller}" if kinds else ""
        rows.append(
            [
                f"{found.title}{kind}",
                str(len(found.boards)),
                ", ".join(str(count) for count in found.best.values()),
                *(
                    _signed_or_none(gains[samples].get(name))
                    for name, samples in product((RANDOM, SHARED, BEST), (early, last))
                ),
                *(_decided(found, name) for name in (RANDOM, SHARED, BEST)),
            ]
        )
    header = ["units", "boards", "best network on"]
    header += [
        f"over {name}, after {samples:,}"
        for name, samples in product((RANDOM, SHARED, BEST), (early, last))
    ]
    header += [f"boards, against {name}" for name in (RANDOM, SHARED, BEST)]
    return Table(
        header,
        rows,
        "Points of test accuracy that searching together brings after so many samples, mean over the "
        "boards; and on how many it is ahead and behind at the end, beyond the interval; by chance "
        "alone about one interval in 20 lies on one side or the other",
    )


def _parts(found: Variants, results: Results) -> Iterator[Part | str]:
    named = letters(found)
    yield f"{', '.join(f'{letter} is {device}' for device, letter in named.items())}."
    yield found.sentence
    predicted = [
        f"{share:.0%} of {named[device]}"
        for device, share in zip(found.devices, found.predicted, strict=True)
        if share
    ]
    if predicted:
        yield Note(f"Some latencies are predictions, not measurements: {', '.join(predicted)}.")
    budget = results.config.budget
    figures = [
        better_unit(found),
        gaps_by_samples(found),
        gains_by_samples(found),
        gains_by_board(found),
    ]
    yield Columns([figure for figure in figures if figure])
    yield (
        f"A line is a board: what each unit leaves for the network. Found is in percent, after "
        f"{budget:,} samples in all, or {budget // len(found.devices):,} for each unit."
    )
    yield _boards(found)
    yield _ways(found)
    if any(one.choosing for one in found.boards):
        yield (
            "The unit chosen for each architecture, over the architectures that were measured on all "
            "units: on which of them it needs the least part of T, and the share of the time that this "
            "saves on the one unit that is best for all of them together."
        )
        yield _choosing(found)


def _boards(found: Variants) -> Table:
    named = letters(found)
    ways = [*map(alone, found.devices), SHARED, RANDOM, TOGETHER]
    rows: list[list[str | float]] = [
        [
            *_left(one),
            f"{one.within_any:.1%}",
            " or ".join(named[device] for device in one.best),
            *(text_of(one.way(name).found, digits=2) for name in ways),
            *(_signed_or_none(one.way(one.rivals[name]).gain) for name in (RANDOM, SHARED, BEST)),
        ]
        for one in found.boards
    ]
    header = [f"T on {letter} (ms)" for letter in named.values()]
    header += ["within T somewhere", "best network on"]
    header += [f"found: {letter} alone" for letter in named.values()]
    header += ["found: each with its share", "found: at random", "found: together"]
    header += ["together over at random", "over each with its share", "over the best unit"]
    return Table(header, rows, f"The boards{_over_seeds(found)}")


def _ways(found: Variants) -> Table:
    named = letters(found)
    shown = {alone(device): alone(letter) for device, letter in named.items()}
    rows: list[list[str | float]] = [
        [
            *_left(one),
            shown.get(way.name, way.name),
            text_of(way.fits, digits=2),
            *(f"{share:.2f}" for share in way.fits_on),
            "nothing within T" if way.found is None else text_of(way.found, digits=2),
            "" if way.gap is None else text_of(way.gap, digits=2),
            text_of(way.optimal, digits=2),
        ]
        for one in found.boards
        for way in one.ways
    ]
    header = [f"T on {letter} (ms)" for letter in named.values()]
    header += ["searched", "share that fits"]
    header += [f"fits on {letter}" for letter in named.values()]
    header += ["found (%)", "gap to the best that fits (points)", "share that finds it"]
    return Table(header, rows, f"Every way to search{_over_seeds(found)}")


def _choosing(found: Variants) -> Table:
    named = letters(found)
    rows: list[list[str | float]] = [
        [
            *_left(one),
            f"{one.choosing.cells:,}",
            *(f"{share:.1%}" for share in one.choosing.quickest),
            named[one.choosing.fixed],
            *(" / ".join(f"{times:.2f}" for times in each) for each in one.choosing.to_fixed),
            f"{one.choosing.saved:.2%}",
            f"{one.choosing.saved_most:.1%}",
        ]
        for one in found.boards
        if one.choosing
    ]
    header = [f"T on {letter} (ms)" for letter in named.values()]
    header += ["architectures measured on all"]
    header += [f"quickest on {letter}" for letter in named.values()]
    header += ["best for all"]
    header += [f"{letter} to that, least / median / most" for letter in named.values()]
    header += ["saved, mean", "saved, most"]
    return Table(header, rows, "Choosing the unit for each architecture")


def _left(one: Searched) -> list[str | float]:
    return [f"{unit.left_ms:g}" for unit in one.board.units]


def _over_seeds(found: Variants) -> str:
    return ", with 95 % intervals over seeds" if found.has_intervals else ""


def _decided(found: Variants, rival: str) -> str:
    counts = found.decided(rival)
    if counts is None:
        return "no intervals"
    ahead, behind = counts
    return f"{ahead} ahead, {behind} behind (about {found.by_chance:.1f} by chance)"


def _signed_or_none(gain: Interval | None) -> str:
    return "unknown" if gain is None else signed(gain)
