"""Agreement of predictions with measurements."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy import stats

from nas.spaces.nas_bench_201.surrogate_network import functions


def agreement(
    predicted: Float64[ndarray, "n"], measured: Float64[ndarray, "n"]
) -> dict[str, float]:
    """Kendall's tau-b, Spearman's rho, and MAE, RMSE (in the unit given) and R2."""
    error = predicted - measured
    return {
        "tau": float(stats.kendalltau(predicted, measured).statistic),
        "spearman": float(stats.spearmanr(predicted, measured).statistic),
        "mae": float(np.abs(error).mean()),
        "rmse": float(np.sqrt((error**2).mean())),
        "r2": float(1 - (error**2).mean() / measured.var()),
    }


def agreement_by_part(
    predicted: Float64[ndarray, "15625"], measured: Float64[ndarray, "15625"]
) -> dict[str, dict[str, float]]:
    """`agreement` on all cells, on those with a path from input to output, and on the better half.

    Cells without a path are at chance and easy to predict, so they raise R2 and tau.
    """
    known = functions()
    parts = {
        "all": np.ones(len(measured), bool),
        "connected": known.connected[known.of_cell],
        "top half": measured >= np.median(measured),
    }
    return {name: agreement(predicted[part], measured[part]) for name, part in parts.items()}
