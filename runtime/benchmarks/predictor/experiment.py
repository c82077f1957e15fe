"""Tables of the predictor experiment."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

from benchmarks.experiment import PaperExperiment, ResultTable, part
from benchmarks.predictor.layers_and_choices import steps
from benchmarks.results import Row, grouped

_R2 = (
    "R2 is the share of the spread of the times that a fit explains; below 0 it is further off than the "
    "mean of the times is. Where all of a kind take nearly the same, as layers do that take no longer "
    "than a launch, a small error is many times that spread; and the fit as printed, of absolute times, "
    "is off by more than the times themselves where they are short (MAPE)."
)

_AVERAGED = (
    *("r2", "published_r2", "within_10", "published_within_tolerance"),
    *("within_20", "mape", "tau"),
)
_judged = part("accuracy")


def _means(rows: list[Row]) -> list[Row]:
    """Means over the kinds of layers."""
    return [
        {
            **dict(zip(("on", "fit"), key, strict=True)),
            **{
                name: _mean([row[name] for row in group if row["kind"] != "all"])
                for name in _AVERAGED
            },
        }
        for key, group in grouped(_judged(rows), "on", "fit").items()
    ]


def _mean(values: list[float | None]) -> float | None:
    finite = [value for value in values if value is not None and math.isfinite(value)]
    return fmean(finite) if finite else None


def _by_kind(rows: list[Row]) -> list[Row]:
    def order(row: Row) -> tuple[Any, ...]:
        return row["on"], row["kind"] == "all", row["kind"]

    return sorted(_judged(rows), key=order)


PREDICTOR = PaperExperiment(
    "predictor",
    "Predicted times of layers",
    steps,
    tables=(
        ResultTable(
            "Held-out layers, mean over kinds",
            "on fit r2:.1% published_r2:.1% within_10:.1% published_within_tolerance:.1% "
            "within_20:.1% mape:.1% tau",
            _means,
            note=_R2,
        ),
        ResultTable(
            "Held-out layers by kind",
            "on kind fit layers r2:.1% within_10:.1% within_20:.1% mape:.1% tau",
            _by_kind,
            note=_R2,
        ),
        ResultTable(
            "Networks by fits without their layers: sum of predictions to the sum of the layers",
            "on network jobs layers_ms:.3f as_printed:+.1% relative:+.1% corrected:+.1%",
            part("network"),
        ),
        ResultTable(
            "Lanes chosen by predicted times, makespan played with measured ones",
            "workload fit policy jobs by_measured_ms:.3f by_predicted_ms:.3f regret:+.1%",
            part("choice"),
        ),
    ),
)
