"""Figures 5-1 (heat map) and 5-2 (curves) of a run, as pictures.

Figure numbers are those of the thesis (Im, Hansung University, 2022).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from common.files.atomic_file import replacing
from nas.trials.limits import NO_FURTHER_LIMITS, Limits
from nas.trials.trial import Trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BINS = 20
"""Bins of figure 5-2: 250 samples each at 5,000 trials."""

_INK, _LIMIT = "#1f3b57", "#c0392b"


def draw_figures(
    folder: Path,
    done: Trials,
    *,
    limit_ms: float,
    title: str,
    limits: Limits = NO_FURTHER_LIMITS,
) -> dict[str, Path]:
    """Draw every figure as PNG; returns their paths by name: none where no trial was finished."""
    if not len(done):
        return {}
    drawn = {
        "heatmap": _heat_map(done, limit_ms, title),
        "curves": _curves(done, limit_ms, title, limits),
    }
    paths = {}
    for name, figure in drawn.items():
        paths[name] = folder / f"{name}.png"
        with replacing(paths[name]) as file:
            figure.savefig(file, format="png", dpi=120)
    return paths


def _new(title: str, rows: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - at the end of a run
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and not always needed

    height = 5.0 + 1.8 * max(0, rows - 2)  # inches
    figure = Figure(figsize=(7.5, height))
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    # not a layout engine's, which draws a figure twice
    figure.subplots_adjust(left=0.14, right=0.97, bottom=0.5 / height, top=1 - 0.55 / height)
    figure.suptitle(title, fontsize=10, parse_math=False)  # a device's name may have a $
    return figure, list(axes)


def _heat_map(done: Trials, limit_ms: float, title: str) -> Figure:
    """Trials by accuracy and by latency in whole milliseconds (17.00 to 17.99 is 17)."""
    from matplotlib.ticker import LogFormatter  # noqa: PLC0415 - slow to import, and not always needed

    figure, (axes,) = _new(title)
    percent, whole_ms = done.accuracy * 100, np.floor(done.latency_ms)
    accuracy_edges = np.arange(0, 101, 10)
    latency_edges = np.arange(whole_ms.min(), whole_ms.max() + 2)
    counts, _, _ = np.histogram2d(whole_ms, percent, bins=[latency_edges, accuracy_edges])
    mesh = axes.pcolormesh(
        accuracy_edges, latency_edges, np.ma.masked_equal(counts, 0), cmap="Blues", norm="log"
    )
    if len(latency_edges) <= 41:
        middles = np.stack(np.meshgrid(latency_edges[:-1] + 0.5, accuracy_edges[:-1] + 5), -1)
        for (y, x), count in zip(
            middles.swapaxes(0, 1).reshape(-1, 2), counts.ravel(), strict=True
        ):
            if count:
                colour = "white" if count > counts.max() ** 0.6 else _INK
                axes.text(x, y, f"{count:.0f}", ha="center", va="center", fontsize=6, color=colour)
    axes.axhline(limit_ms, color=_LIMIT, linestyle="--", label=f"T = {limit_ms:g} ms")
    axes.invert_yaxis()
    axes.set_xlabel("accuracy searched on (%)")
    axes.set_ylabel("latency (whole ms)")
    axes.legend(loc="lower left")
    # 10, not 10 to the power of 1, which matplotlib would typeset as a formula, slowly
    bar = figure.colorbar(mesh, label="samples", format=LogFormatter())
    bar.minorformatter = LogFormatter(minor_thresholds=(1, 0.4))
    return figure


def _curves(done: Trials, limit_ms: float, title: str, limits: Limits) -> Figure:
    """Mean accuracy, latency and further limited costs of 20 bins of samples, in order."""
    figure, (above, below, *others) = _new(title, rows=2 + len(limits.each))
    bins = np.array_split(np.arange(len(done)), min(BINS, len(done)))
    ends = [indices[-1] + 1 for indices in bins]
    above.plot(ends, [done.accuracy[i].mean() * 100 for i in bins], "o-", color=_INK)
    above.set_ylabel("mean accuracy (%)")
    below.plot(ends, [done.latency_ms[i].mean() for i in bins], "o-", color=_INK)
    below.axhline(limit_ms, color=_LIMIT, linestyle="--", label=f"T = {limit_ms:g} ms")
    below.set_ylabel("mean latency (ms)")
    below.legend()
    for axes, limit, costs in zip(others, limits.each, done.costs.T, strict=True):
        axes.plot(ends, [costs[i].mean() for i in bins], "o-", color=_INK)
        axes.axhline(limit.bound, color=_LIMIT, linestyle="--", label=str(limit))
        axes.set_ylabel(f"mean {limit.title}")
        axes.legend()
    (below, *others)[-1].set_xlabel(f"samples (means of {len(bins[0]):,})")
    return figure
