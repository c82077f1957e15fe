"""Boards of several units on the page of a study: one unit at a time, or all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from benchmarks.studies.variants.baselines import BEST, RANDOM, SHARED, TOGETHER, Searched, alone
from benchmarks.studies.variants.charts import (
    better_unit,
    gains_by_board,
    gains_by_samples,
    gaps_by_samples,
    letters,
)
from benchmarks.studies.variants.measure import Variants, applies, signed, variants
from common.page.document import Section
from common.page.parts import Columns, Note, Part, Table
from nas.study.analysis import Analysis
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import Interval, text_of, with_intervals

CAVEAT = (
    "Accuracies are those of the table, of networks trained and tested in fp32, on every unit: units "
    "differ in latency only. The effect of a lower precision on accuracy is not in these tables."
)

EARLY = 100
"""Samples of the first comparison in the first table; the second is after all samples."""


def _sections(every: Sequence[Variants], results: Results) -> Iterator[Section]:
    """All sets of units in one table, then a section for the boards of each."""
    yield Section("One unit at a time, or all together", [*_introduction(results), _sets(every)])
    for found in every:
        yield Section(f"Variants: {found.title}", list(_parts(found, results)))


def _introduction(results: Results) -> Iterator[Part | str]:
    yield (
        f"A board has several units, each with a T of its own. All strategies have the same total "
        f"number of samples: search for one unit; for each unit with a share of the samples, then take "
        f"the best; for a unit at random, which is the mean of searching for each; or for all together, "
        f"with the latency on the unit that needs the least part of its T. The best unit is the one with "
        f"the most accurate network within T. Found is the test accuracy of the most accurate network "
        f"within T, mean over {len(results.seeds)} seeds{with_intervals(len(results.seeds))}; gains of "
        f"searching together are paired by seed. The boards are fixed: an interval is about other seeds "
        f"on these boards, not about other boards."
    )
    yield (
        "The most accurate network that fits on some unit is that of the best unit: searching together "
        "cannot beat searching for the best unit, if it were known and the samples were enough."
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
        "Gain of searching together in points of test accuracy after these samples, mean over the "
        "boards; and number of boards on which its interval at the end is above or below 0; about one "
        "interval in 20 is so by chance",
    )


def _parts(found: Variants, results: Results) -> Iterator[Part | str]:
    named = letters(found)
    yield f"{', '.join(f'{letter} is {device}' for device, letter in named.items())}."
    yield from found.sentences
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
        f"Each line is a board, with the T of each unit. Found is in percent, after {budget:,} samples "
        f"in total, or {budget // len(found.devices):,} for each unit."
    )
    yield _boards(found)
    yield _strategies(found)
    if any(board.choosing for board in found.boards):
        yield (
            "Choosing the unit for each architecture, over the architectures that were measured on all "
            "units: the unit on which it needs the least part of T, and the share of time that this "
            "saves against the one unit that is best for all of them together."
        )
        yield _choosing(found)


def _boards(found: Variants) -> Table:
    named = letters(found)
    names = [*map(alone, found.devices), SHARED, RANDOM, TOGETHER]
    rows: list[list[str | float]] = [
        [
            *_left(board),
            f"{board.within_any:.1%}",
            " or ".join(named[device] for device in board.best),
            *(text_of(board.strategy(name).found, digits=2) for name in names),
            *(
                _signed_or_none(board.strategy(board.baselines[name]).gain)
                for name in (RANDOM, SHARED, BEST)
            ),
        ]
        for board in found.boards
    ]
    header = [f"T on {letter} (ms)" for letter in named.values()]
    header += ["within T somewhere", "best network on"]
    header += [f"found: {letter} alone" for letter in named.values()]
    header += ["found: each with its share", "found: at random", "found: together"]
    header += ["together over at random", "over each with its share", "over the best unit"]
    return Table(header, rows, f"The boards{_over_seeds(found)}")


def _strategies(found: Variants) -> Table:
    named = letters(found)
    short = {alone(device): alone(letter) for device, letter in named.items()}
    rows: list[list[str | float]] = [
        [
            *_left(board),
            short.get(strategy.name, strategy.name),
            text_of(strategy.fits, digits=2),
            *(f"{share:.2f}" for share in strategy.fits_on),
            "nothing within T" if strategy.found is None else text_of(strategy.found, digits=2),
            "" if strategy.gap is None else text_of(strategy.gap, digits=2),
            text_of(strategy.optimal, digits=2),
        ]
        for board in found.boards
        for strategy in board.strategies
    ]
    header = [f"T on {letter} (ms)" for letter in named.values()]
    header += ["searched", "share that fits"]
    header += [f"fits on {letter}" for letter in named.values()]
    header += ["found (%)", "gap to the best that fits (points)", "share that finds it"]
    return Table(header, rows, f"Every strategy{_over_seeds(found)}")


def _choosing(found: Variants) -> Table:
    named = letters(found)
    rows: list[list[str | float]] = [
        [
            *_left(board),
            f"{board.choosing.architectures:,}",
            *(f"{share:.1%}" for share in board.choosing.quickest),
            named[board.choosing.fixed],
            *(" / ".join(f"{times:.2f}" for times in each) for each in board.choosing.to_fixed),
            f"{board.choosing.saved:.2%}",
            f"{board.choosing.saved_most:.1%}",
        ]
        for board in found.boards
        if board.choosing
    ]
    header = [f"T on {letter} (ms)" for letter in named.values()]
    header += ["architectures measured on all"]
    header += [f"quickest on {letter}" for letter in named.values()]
    header += ["best for all"]
    header += [f"{letter} to that, least / median / most" for letter in named.values()]
    header += ["saved, mean", "saved, most"]
    return Table(header, rows, "Choosing the unit for each architecture")


def _left(searched: Searched) -> list[str | float]:
    return [f"{unit.left_ms:g}" for unit in searched.board.units]


def _over_seeds(found: Variants) -> str:
    return ", with 95 % intervals over seeds" if found.has_intervals else ""


def _decided(found: Variants, baseline: str) -> str:
    counts = found.decided(baseline)
    if counts is None:
        return "no intervals"
    ahead, behind = counts
    return f"{ahead} ahead, {behind} behind (about {found.by_chance:.1f} by chance)"


def _signed_or_none(gain: Interval | None) -> str:
    return "unknown" if gain is None else signed(gain)


VARIANTS = Analysis("variants", applies, variants, _sections)
