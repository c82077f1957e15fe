"""Charts of boards of several units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from benchmarks.studies.variants.baselines import RANDOM, SHARED, TOGETHER, Searched
from benchmarks.studies.variants.measure import Variants
from common.page.chart import limit
from common.page.markup import chart_text
from common.page.palette import FAINT, SEQUENTIAL, SERIES
from common.page.parts import Figure
from nas.study.evaluation.charts import error_bars
from nas.study.evaluation.statistics import Interval

_ZERO = limit("y", 0, color=FAINT, dash="dot")


def letters(found: Variants) -> dict[str, str]:
    """A letter for each device, for narrow tables."""
    return dict(zip(found.devices, ascii_uppercase, strict=False))


def gains_by_board(found: Variants) -> Figure:
    """Gain of searching together, a dot for each board and baseline."""
    names = [_label(board) for board in found.boards]
    data = []
    for title, colour in zip(found.boards[0].baselines, SERIES, strict=False):
        own = [board.strategy(board.baselines[title]).gain for board in found.boards]
        data.append(_dots(title, names, own, colour))
    return Figure(
        "Gain of searching together, by boards",
        data,
        {
            "xaxis": {
                "title": {"text": f"T on {' | '.join(letters(found).values())} (ms)"},
                "type": "category",
            },
            "yaxis": {"title": {"text": "test accuracy over the baseline (points)"}},
            "shapes": [_ZERO],
            "scattermode": "group",
            "legend": {"orientation": "h", "y": 1.15},
        },
        "Above 0, searching for all units together is better than the baseline; mean over seeds"
        f"{_with_intervals(found)}.",
        height=460,
    )


def gaps_by_samples(found: Variants) -> Figure | None:
    """Gap of each strategy to the most accurate network that fits, after fewer samples."""
    return _by_samples(
        found,
        "Gap by samples",
        [one.gaps for one in found.after],
        "gap to the best that fits (points)",
        "Accuracy as searched on, below that of the most accurate network that fits on any unit.",
    )


def gains_by_samples(found: Variants) -> Figure | None:
    """Gain of searching together after fewer samples."""
    return _by_samples(
        found,
        "Gain of searching together, by samples",
        [one.gains for one in found.after],
        "test accuracy over the baseline (points)",
        "Above 0, searching for all units together is better than the baseline.",
    )


def _by_samples(
    found: Variants, title: str, values: Sequence[Mapping[str, Interval]], axis: str, caption: str
) -> Figure | None:
    if len(found.after) < 2:
        return None
    names = [*found.boards[0].baselines, TOGETHER]
    counts = [one.samples for one in found.after]
    data = []
    for name, colour in zip(names, SERIES, strict=False):
        if name in values[-1]:
            dots = _dots(name, counts, [value.get(name) for value in values], colour)
            data.append({**dots, "mode": "lines+markers", "line": {"color": colour, "width": 2}})
    nothing = "; ".join(
        f"after {one.samples:,}, "
        + ", ".join(f"{1 - one.fits[name]:.1%} {name}" for name in (TOGETHER, SHARED, RANDOM))
        for one in found.after
        if min(one.fits.values()) < 1
    )
    return Figure(
        title,
        data,
        {
            "xaxis": {"title": {"text": "samples in total"}, "type": "log", "tickvals": counts},
            "yaxis": {"title": {"text": axis}},
            "shapes": [_ZERO],
            "legend": {"orientation": "h", "y": 1.15},
        },
        f"Horizontal axis: samples of each strategy in total. {caption} Mean over the boards and the "
        f"seeds that found a network{_with_intervals(found)}."
        f"{f' Found nothing: {nothing}.' if nothing else ''}",
        height=460,
    )


def _with_intervals(found: Variants) -> str:
    return ", with bootstrap 95 % intervals" if found.has_intervals else ""


def _dots(
    title: str, names: Sequence[str | int], found: Sequence[Interval | None], colour: str
) -> dict[str, Any]:
    known = [(name, one) for name, one in zip(names, found, strict=True) if one]
    return {
        "name": chart_text(title),
        "x": [name for name, _ in known],
        "y": [one.middle for _, one in known],
        "error_y": error_bars([one for _, one in known], colour),
        "mode": "markers",
        "marker": {"color": colour, "size": 8},
    }


def _label(searched: Searched) -> str:
    return " | ".join(f"{unit.left_ms:g}" for unit in searched.board.units)


def better_unit(found: Variants) -> Figure | None:
    """Accuracy of the second unit's best network less that of the first, over the limits of both."""
    if len(found.devices) != 2:
        return None
    first, second = (
        sorted({board.board.units[position].left_ms for board in found.boards})
        for position in (0, 1)
    )
    if min(len(first), len(second)) < 2:
        return None
    ahead = {
        tuple(unit.left_ms for unit in board.board.units): 100
        * (board.optimum[1] - board.optimum[0])
        for board in found.boards
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
    layout = {
        "xaxis": {"title": {"text": "T on B (ms)"}, "type": "category"},
        "yaxis": {"title": {"text": "T on A (ms)"}, "type": "category"},
    }
    return Figure(
        "Which unit has the better network",
        [trace],
        layout,
        "Accuracy of the most accurate network within what B leaves, less that of A, as searched on: "
        "above 0, B is the unit to search for.",
        height=460,
    )
