"""Tables and figures of the predictor experiment."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import fmean
from typing import Any

from benchmarks.papers.experiment import (
    Column,
    Experiment,
    Table,
    column,
    columns,
    decimals,
    explained,
    names,
    number,
    part,
    percent,
    share,
    text,
)
from benchmarks.papers.predictor.layers_and_choices import steps
from benchmarks.papers.results import Row, grouped

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
    known = [value for value in values if value is not None and math.isfinite(value)]
    return fmean(known) if known else None


def _by_kind(rows: list[Row]) -> list[Row]:
    def order(row: Row) -> tuple[Any, ...]:
        return row["on"], row["kind"] == "all", row["kind"]

    return sorted(_judged(rows), key=order)


def _network_columns(rows: list[Row]) -> list[Column]:
    def against_layers(fit: str) -> Callable[[Row], float]:
        return lambda row: float(row[f"{fit}_ms"] / row["layers_ms"] - 1)

    fits = [name.removesuffix("_ms") for name in rows[0] if name.endswith("_ms")]
    return [
        *names("network", on="times by")[::-1],
        *columns(text, jobs="layers"),
        *columns(decimals(".3f"), layers_ms="ms"),
        *(column(fit, against_layers(fit), percent) for fit in fits if fit != "layers"),
    ]


_FIT = names("fit", on="times by")

PREDICTOR = Experiment(
    "predictor",
    "Predicted times of layers",
    steps,
    tables=(
        Table(
            "Held-out layers, mean over kinds",
            (
                *(*_FIT[1:], _FIT[0]),
                *columns(explained, r2="R2", published_r2="publ."),
                *columns(
                    share,
                    within_10="within 10 %",
                    published_within_tolerance="publ. tolerance",
                    within_20="within 20 %",
                    mape="MAPE",
                ),
                *columns(number, tau="tau"),
            ),
            _means,
            note=_R2,
        ),
        Table(
            "Held-out layers by kind",
            (
                *(*_FIT[1:], *names("kind"), _FIT[0]),
                *(*columns(text, layers="layers"), *columns(explained, r2="R2")),
                *columns(share, within_10="within 10 %", within_20="20 %", mape="MAPE"),
                *columns(number, tau="tau"),
            ),
            _by_kind,
            note=_R2,
        ),
        Table(
            "Networks by fits without their layers: sum of predictions to the sum of the layers",
            _network_columns,
            part("network"),
        ),
        Table(
            "Lanes chosen by predicted times, makespan played with measured ones",
            (
                *(
                    *names(workload="networks"),
                    *names("fit", "policy"),
                    *columns(text, jobs="jobs"),
                ),
                *columns(
                    decimals(".3f"), by_measured_ms="by measured ms", by_predicted_ms="by predicted"
                ),
                *columns(percent, regret="regret"),
            ),
            part("choice"),
        ),
    ),
)
