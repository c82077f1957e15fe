"""The three figures of a run: heat map (figure 5-1), curves (figure 5-2), scatter with the front.

Figure numbers are those of the thesis (Im, Hansung University, 2022).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nas.trials.limits import NO_FURTHER_LIMITS, Limits
from nas.trials.survey import Landscape
from nas.trials.trial import Samples
from runtime.shell.atomic_file import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BINS = 20
"""Bins of figure 5-2: 250 samples each at 5,000 samples."""

_INK, _LIMIT, _ACCENT, _BEYOND = "#1f3b57", "#c0392b", "#e08e0b", "#f3d3ce"


def draw_figures(
    folder: Path,
    samples: Samples,
    landscape: Landscape | None,
    *,
    limit_ms: float,
    title: str,
    limits: Limits = NO_FURTHER_LIMITS,
) -> dict[str, Path]:
    """Draw every figure as PNG; returns their paths by name."""
    drawn = {
        "heatmap": _heat_map(samples, limit_ms, title),
        "curves": _curves(samples, limit_ms, title, limits),
        "scatter": _scatter(samples, landscape, limit_ms, title),
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

    figure = Figure(figsize=(7.5, 5.0 + 1.8 * max(0, rows - 2)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    figure.suptitle(title, fontsize=10)
    return figure, list(axes)


def _heat_map(samples: Samples, limit_ms: float, title: str) -> Figure:
    """Samples by accuracy and by latency in whole milliseconds (17.00 to 17.99 is 17)."""
    figure, (axes,) = _new(title)
    percent, whole_ms = samples.accuracy * 100, np.floor(samples.latency_ms)
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
    figure.colorbar(mesh, label="samples")
    return figure


def _curves(samples: Samples, limit_ms: float, title: str, limits: Limits) -> Figure:
    """Mean accuracy, latency and further limited costs of 20 bins of samples, in order."""
    figure, (above, below, *others) = _new(title, rows=2 + len(limits.each))
    bins = np.array_split(np.arange(len(samples)), min(BINS, len(samples)))
    ends = [indices[-1] + 1 for indices in bins]
    above.plot(ends, [samples.accuracy[i].mean() * 100 for i in bins], "o-", color=_INK)
    above.set_ylabel("mean accuracy (%)")
    below.plot(ends, [samples.latency_ms[i].mean() for i in bins], "o-", color=_INK)
    below.axhline(limit_ms, color=_LIMIT, linestyle="--", label=f"T = {limit_ms:g} ms")
    below.set_ylabel("mean latency (ms)")
    below.legend()
    for axes, limit in zip(others, limits.each, strict=True):
        costs = limit.of(samples.architectures)
        axes.plot(ends, [costs[i].mean() for i in bins], "o-", color=_INK)
        axes.axhline(limit.bound, color=_LIMIT, linestyle="--", label=str(limit))
        axes.set_ylabel(f"mean {limit.title}")
        axes.legend()
    (below, *others)[-1].set_xlabel(f"samples (means of {len(bins[0]):,})")
    return figure


def _scatter(samples: Samples, landscape: Landscape | None, limit_ms: float, title: str) -> Figure:
    """Samples coloured by their order, over the whole space and its exact Pareto front."""
    figure, (axes,) = _new(title)
    if landscape is not None:
        axes.scatter(
            landscape.latency_ms, landscape.accuracy * 100, s=2, color="0.88", label="whole space"
        )
        if landscape.limits:
            beyond = ~landscape.limits.all_met
            axes.scatter(
                landscape.latency_ms[beyond],
                landscape.accuracy[beyond] * 100,
                s=2,
                color=_BEYOND,
                label=f"of it beyond {' or '.join(landscape.limits.symbols)}",
            )
        front = landscape.pareto_front
        axes.step(
            landscape.latency_ms[front],
            landscape.accuracy[front] * 100,
            where="post",
            color=_ACCENT,
            linewidth=1.2,
            label=f"Pareto front of the {_everyone(landscape.limits)}",
        )
    order = np.arange(1, len(samples) + 1)
    dots = axes.scatter(
        samples.latency_ms, samples.accuracy * 100, c=order, s=6, cmap="viridis", label="sampled"
    )
    if landscape is not None and landscape.optimum is not None:
        axes.scatter(
            landscape.latency_ms[landscape.optimum],
            landscape.accuracy[landscape.optimum] * 100,
            marker="*",
            s=140,
            color=_ACCENT,
            edgecolor=_INK,
            zorder=3,
            label=f"optimum within {landscape.limits.label}",
        )
    axes.axvline(limit_ms, color=_LIMIT, linestyle="--", label=f"T = {limit_ms:g} ms")
    axes.set_xlabel("latency (ms)")
    axes.set_ylabel("accuracy searched on (%)")
    axes.legend(loc="lower right", fontsize=8)
    figure.colorbar(dots, label="sample")
    return figure


def _everyone(limits: Limits) -> str:
    """Among whom the Pareto front is the best."""
    return f"cells within {' and '.join(limits.symbols)}" if limits else "whole space"
