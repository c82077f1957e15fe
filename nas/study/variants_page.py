"""Boards of several units on a study's page: one unit at a time, or all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nas.study.results import Results
from nas.study.statistics import Interval
from nas.study.terminal import text_of
from nas.study.variants import Variants, variants
from nas.study.ways import BEST, RANDOM, SHARED, TOGETHER, Searched, alone
from runtime.page.document import Section
from runtime.page.markup import chart_text
from runtime.page.palette import FAINT, SEQUENTIAL, SERIES
from runtime.page.parts import Columns, Figure, Note, Part, Table

CAVEAT = (
    "Every unit is taken to have the accuracies of the table, which are those of networks trained and "
    "tested in fp32: units differ in latency only. What a lower precision does to the accuracy is not "
    "in these tables."
)

_ZERO = {
    "type": "line",
    "xref": "paper",
    "x0": 0,
    "x1": 1,
    "y0": 0,
    "y1": 0,
    "line": {"color": FAINT, "dash": "dot", "width": 1},
}


def variant_sections(results: Results) -> Iterator[Section]:
    """A section for the boards of each set of units."""
    for found in variants(results):
        yield Section(f"Variants: {found.title}", list(_parts(found, results)))


def _parts(found: Variants, results: Results) -> Iterator[Part | str]:
    yield found.sentence
    predicted = [
        f"{share:.0%} of {device}"
        for device, share in zip(found.devices, found.predicted, strict=True)
        if share
    ]
    if predicted:
        yield Note(f"Some latencies are predictions, not measurements: {', '.join(predicted)}.")
    yield Note(CAVEAT)
    budget = results.config.budget
    yield (
        f"A line is a board: what each unit leaves for the network. Found is the mean test accuracy of "
        f"the networks that the searches of {len(results.seeds)} seeds found, in percent, with its "
        f"bootstrap 95 % interval. Each way has {budget:,} samples in all: to search for one unit, for "
        f"each unit with {budget // len(found.devices):,} and to take the best, for a unit at random "
        f"(the mean of searching for each), or for all together, where a latency is that of the unit "
        f"that needs the least part of its T."
    )
    yield _boards(found)
    figures = [_gains(found), _by_samples(found), _better(found)]
    yield Columns([figure for figure in figures if figure])
    yield _ways(found)
    if any(one.choosing for one in found.boards):
        yield (
            "The unit chosen for each architecture, over the architectures that were measured on all "
            "units: on which of them it needs the least part of T, and the share of the time that this "
            "saves on the one unit that is best for all of them together."
        )
        yield _choosing(found)


def _boards(found: Variants) -> Table:
    rows: list[list[str | float]] = []
    for one in found.boards:
        named = [alone(device) for device in found.devices]
        rows.append(
            [
                *_left(one),
                f"{one.within_any:.1%}",
                " or ".join(one.best),
                *(
                    text_of(one.way(name).found, digits=2)
                    for name in (*named, SHARED, RANDOM, TOGETHER)
                ),
                *(
                    text_of(one.way(one.rivals[name]).gain, digits=2)
                    for name in (BEST, SHARED, RANDOM)
                ),
            ]
        )
    header = [f"T on {device} (ms)" for device in found.devices]
    header += ["within T somewhere", "best network on"]
    header += [f"found: {device} alone" for device in found.devices]
    header += ["found: each with its share", "found: at random", "found: together"]
    header += ["together over the best unit", "over each with its share", "over at random"]
    return Table(header, rows, "The boards, with 95 % intervals over seeds")


def _ways(found: Variants) -> Table:
    rows: list[list[str | float]] = [
        [
            *_left(one),
            way.name,
            f"{way.samples:,}",
            text_of(way.fits, digits=2),
            *(f"{share:.2f}" for share in way.fits_on),
            "nothing within T" if way.found is None else text_of(way.found, digits=2),
            "" if way.gap is None else text_of(way.gap, digits=2),
            text_of(way.optimal, digits=2),
        ]
        for one in found.boards
        for way in one.ways
    ]
    header = [f"T on {device} (ms)" for device in found.devices]
    header += ["searched", "samples", "share that fits"]
    header += [f"fits on {device}" for device in found.devices]
    header += ["found (%)", "gap to the best that fits (points)", "share that finds it"]
    return Table(header, rows, "Every way to search, with 95 % intervals over seeds")


def _choosing(found: Variants) -> Table:
    rows: list[list[str | float]] = [
        [
            *_left(one),
            f"{one.choosing.cells:,}",
            *(f"{share:.1%}" for share in one.choosing.quickest),
            one.choosing.fixed,
            f"{one.choosing.saved:.2%}",
            f"{one.choosing.saved_most:.1%}",
        ]
        for one in found.boards
        if one.choosing
    ]
    header = [f"T on {device} (ms)" for device in found.devices]
    header += ["architectures measured on all"]
    header += [f"quickest on {device}" for device in found.devices]
    header += ["best for all", "saved, mean", "saved, most"]
    return Table(header, rows, "Choosing the unit for each architecture")


def _left(one: Searched) -> list[str | float]:
    return [f"{unit.left_ms:g}" for unit in one.board.units]


def _gains(found: Variants) -> Figure:
    """What searching together brings, a dot for each board and rival."""
    names = [_label(one) for one in found.boards]
    data = []
    for title, colour in zip(found.boards[0].rivals, SERIES, strict=False):
        own = [one.way(one.rivals[title]).gain for one in found.boards]
        data.append(_dots(title, names, own, colour))
    return Figure(
        "What searching together brings",
        data,
        {
            "xaxis": {
                "title": {"text": f"T left on {' | '.join(map(chart_text, found.devices))} (ms)"},
                "type": "category",
            },
            "yaxis": {"title": {"text": "test accuracy over the other way (points)"}},
            "shapes": [_ZERO],
            "scattermode": "group",
            "legend": {"orientation": "h", "y": 1.15},
        },
        "Above 0, searching for all units together found more than the way named; mean over seeds "
        "with bootstrap 95 % intervals.",
        height=460,
    )


def _by_samples(found: Variants) -> Figure | None:
    """The same after fewer samples, mean over the boards."""
    if len(found.after) < 2:
        return None
    data = []
    for title, colour in zip(found.boards[0].rivals, SERIES, strict=False):
        own = [one.gains.get(title) for one in found.after]
        dots = _dots(title, [one.samples for one in found.after], own, colour)
        data.append({**dots, "mode": "lines+markers", "line": {"color": colour, "width": 2}})
    nothing = "; ".join(
        f"after {one.samples:,}, "
        + ", ".join(f"{1 - one.fits[title]:.1%} {title}" for title in (TOGETHER, SHARED, RANDOM))
        for one in found.after
        if min(one.fits.values()) < 1
    )
    return Figure(
        "What it brings, by samples",
        data,
        {
            "xaxis": {"title": {"text": "samples in all"}, "type": "log"},
            "yaxis": {"title": {"text": "test accuracy over the other way (points)"}},
            "shapes": [_ZERO],
            "legend": {"orientation": "h", "y": 1.15},
        },
        "Horizontal axis: samples of each way in all. Mean over the boards and the seeds that found a "
        f"network both ways, with bootstrap 95 % intervals. {f'Found nothing: {nothing}.' if nothing else ''}",
        height=460,
    )


def _dots(
    title: str, names: Sequence[str | int], found: Sequence[Interval | None], colour: str
) -> dict[str, Any]:
    known = [(name, one) for name, one in zip(names, found, strict=True) if one]
    return {
        "name": chart_text(title),
        "x": [name for name, _ in known],
        "y": [one.middle for _, one in known],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [one.high - one.middle for _, one in known],
            "arrayminus": [one.middle - one.low for _, one in known],
            "color": colour,
        },
        "mode": "markers",
        "marker": {"color": colour, "size": 8},
    }


def _label(one: Searched) -> str:
    return " | ".join(f"{unit.left_ms:g}" for unit in one.board.units)


def _better(found: Variants) -> Figure | None:
    """By how much the second unit's best network is better than the first's, over two units' times."""
    if len(found.devices) != 2:
        return None
    first, second = (
        sorted({one.board.units[position].left_ms for one in found.boards}) for position in (0, 1)
    )
    if min(len(first), len(second)) < 2:
        return None
    ahead = {
        tuple(unit.left_ms for unit in one.board.units): 100 * (one.optimum[1] - one.optimum[0])
        for one in found.boards
    }
    rows = [[ahead.get((mine, other)) for other in second] for mine in first]
    trace: dict[str, Any] = {
        "type": "heatmap",
        "x": [f"{ms:g}" for ms in second],
        "y": [f"{ms:g}" for ms in first],
        "z": rows,
        "colorscale": SEQUENTIAL,
        "texttemplate": "%{z:+.2f}",
        "hovertemplate": "%{y} ms | %{x} ms: %{z:+.2f} points<extra></extra>",
        "colorbar": {"title": {"text": "points"}},
    }
    one, other = map(chart_text, found.devices)
    layout = {
        "xaxis": {"title": {"text": f"T on {other} (ms)"}, "type": "category"},
        "yaxis": {"title": {"text": f"T on {one} (ms)"}, "type": "category"},
    }
    return Figure(
        "Which unit has the better network",
        [trace],
        layout,
        f"Accuracy of the most accurate network within what {found.devices[1]} leaves, over that of "
        f"{found.devices[0]}, as searched on: above 0 the former is the unit to search for.",
        height=460,
    )
