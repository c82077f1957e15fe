"""Boards of several units on the page of a study: one unit at a time, or all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from string import ascii_uppercase

from benchmarks.variants.baselines import (
    BEST,
    RANDOM,
    SHARED,
    BaselineSearch,
    Choosing,
)
from benchmarks.variants.measure import Variants, applies, signed, variants
from edgenas_core.page.document import Section
from edgenas_core.page.parts import PageNote, PagePart, Table
from nas.study.analysis import Analysis, Declared, declared_table
from nas.study.evaluation.results import Results
from nas.study.evaluation.statistics import Interval, with_intervals

CAVEAT = (
    "Accuracies are those of the table, of networks trained and tested in fp32, on every unit: units "
    "differ in latency only. The effect of a lower precision on accuracy is not in these tables."
)
EARLY = 100
"""Samples of the first comparison in the first table; the second is after all samples."""
BASELINES = (RANDOM, SHARED, BEST)


def _sections(groups: Sequence[Variants], results: Results) -> Iterator[Section]:
    """All sets of units in one table, then a section for the boards of each."""
    seeds = len(results.seeds)
    introduction = (
        f"A board has several units, each with a T of its own. All strategies have the same total "
        f"number of samples: search for one unit; for each unit with a share of the samples, then take "
        f"the best; for a unit at random, which is the mean of searching for each; or for all together, "
        f"with the latency on the unit that needs the least part of its T. The best unit is the one with "
        f"the most accurate network within T: searching together cannot beat searching for it, if it "
        f"were known and the samples were enough. Found is the test accuracy of the most accurate "
        f"network within T, mean over {seeds} seeds{with_intervals(seeds)}; gains of searching together "
        f"are paired by seed. The boards are fixed: an interval is about other seeds on these boards."
    )
    parts: list[PagePart | str] = [introduction, PageNote(CAVEAT), _units(groups)]
    yield Section("One unit at a time, or all together", parts)
    for group in groups:
        yield Section(f"Variants: {group.title}", list(_parts(group, results)))


def _units(groups: Sequence[Variants]) -> Table:
    last = groups[0].after[-1].samples
    early = next((after.samples for after in groups[0].after if after.samples >= EARLY), last)
    columns: Declared[Variants] = {
        "units": lambda group: f"{group.title}, {group.reward}, {group.controller}",
        "boards": lambda group: str(len(group.boards)),
        "best network on": lambda group: ", ".join(map(str, group.best.values())),
        **{
            f"over {name}, after {samples:,}": partial(_gain_after, name, samples)
            for name, samples in product(BASELINES, (early, last))
        },
        **{f"boards, against {name}": partial(_decided, name) for name in BASELINES},
    }
    return declared_table(
        groups,
        columns,
        "Gain of searching together in points of test accuracy after these samples, mean over the "
        "boards; and number of boards on which its interval at the end is above or below 0; about one "
        "interval in 20 is so by chance",
    )


def _parts(group: Variants, results: Results) -> Iterator[PagePart | str]:
    letters = _letters(group)
    yield f"{', '.join(f'{letter} is {device}' for device, letter in letters.items())}."
    yield from group.sentences
    predicted = [
        f"{share:.0%} of {letter}"
        for letter, share in zip(letters.values(), group.predicted, strict=True)
        if share
    ]
    if predicted:
        yield PageNote(f"Some latencies are predictions, not measurements: {', '.join(predicted)}.")
    budget = results.config.budget
    yield (
        f"Each line is a board, with the T of each unit. Found is in percent, after {budget:,} samples "
        f"in total, or {budget // len(group.devices):,} for each unit."
    )
    over_seeds = ", with 95 % intervals over seeds" if group.has_intervals else ""
    yield declared_table(group.boards, _board_columns(letters), f"The boards{over_seeds}")
    choices = [(board, board.choosing) for board in group.boards if board.choosing]
    if choices:
        yield (
            "Choosing the unit for each architecture, over the architectures that were measured on all "
            "units: the unit on which it needs the least part of T, and the share of time that this "
            "saves against the one unit that is best for all of them together."
        )
        title = "Choosing the unit for each architecture"
        yield declared_table(choices, _choosing_columns(letters), title)


def _board_columns(letters: dict[str, str]) -> Declared[BaselineSearch]:
    return {
        "T (ms)": _limits,
        "within T somewhere": lambda board: f"{board.within_any:.1%}",
        "best network on": lambda board: " or ".join(letters[device] for device in board.best),
        "together over at random": lambda board: _gain(board, RANDOM),
        "over each with its share": lambda board: _gain(board, SHARED),
        "over the best unit": lambda board: _gain(board, BEST),
    }


def _choosing_columns(letters: dict[str, str]) -> Declared[tuple[BaselineSearch, Choosing]]:
    return {
        "T (ms)": lambda pair: _limits(pair[0]),
        "architectures measured on all": lambda pair: f"{pair[1].architectures:,}",
        f"quickest on {' / '.join(letters.values())}": lambda pair: _each(pair[1].quickest, ".1%"),
        "best for all": lambda pair: letters[pair[1].fixed],
        **{
            f"{letter} to that, least / median / most": partial(_part_to_fixed, unit)
            for unit, letter in enumerate(letters.values())
        },
        "saved, mean": lambda pair: f"{pair[1].saved:.2%}",
        "saved, most": lambda pair: f"{pair[1].saved_most:.1%}",
    }


def _letters(group: Variants) -> dict[str, str]:
    """A letter for each device, for narrow tables."""
    return dict(zip(group.devices, ascii_uppercase, strict=False))


def _limits(searched: BaselineSearch) -> str:
    return " | ".join(f"{unit.left_ms:g}" for unit in searched.board.units)


def _each(numbers: Sequence[float], form: str) -> str:
    return " / ".join(f"{number:{form}}" for number in numbers)


def _gain(board: BaselineSearch, baseline: str) -> str:
    return _signed(board.strategy(board.baselines[baseline]).gain)


def _gain_after(baseline: str, samples: int, group: Variants) -> str:
    after = next(after for after in group.after if after.samples == samples)
    return _signed(after.gains.get(baseline))


def _part_to_fixed(unit: int, pair: tuple[BaselineSearch, Choosing]) -> str:
    return _each(pair[1].to_fixed[unit], ".2f")


def _decided(baseline: str, group: Variants) -> str:
    counts = group.decided(baseline)
    if counts is None:
        return "no intervals"
    ahead, behind = counts
    return f"{ahead} ahead, {behind} behind (about {group.by_chance:.1f} by chance)"


def _signed(gain: Interval | None) -> str:
    return "unknown" if gain is None else signed(gain)


VARIANTS = Analysis("variants", applies, variants, _sections, is_whole=True)
