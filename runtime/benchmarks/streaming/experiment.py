"""Tables of the weight-streaming experiment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.experiment import PaperExperiment, ResultTable, having
from benchmarks.results import Row
from benchmarks.streaming.variants import steps

_COLUMNS = (
    "Against resident: the delay over that of preload, whose weights are all in memory. Plan bytes (in MB): rings and "
    "resident layers; total: with what else keeps weights in memory, as the tier and the page cache. "
    "Saved: of the weights, and of two copies of them, one in host and one in "
    "device memory, which the source counts for preload. Exact: every output was the resident "
    "network's, bit for bit; difference: the largest, over the largest output."
)
_PREDICTED = (
    "Predicted, and its error over the delay: by the recurrence, from the times of a profile. Bound: the "
    "same with rings as large as the network. Least: what no plan of this memory can fall below, by the "
    "rate of transfers. First ms: an inference from empty rings, with its "
    "own prediction."
)
_GROUP = ("network", "batch", "of_tier")


def _is_offloaded(row: Row) -> bool:
    return str(row.get("variant", "")).startswith("accelerate")


def _variants(rows: list[Row]) -> list[Row]:
    """The variants of each network and tier, with its weights; those of accelerate have no tier."""
    weights = {
        (row["network"], row["batch"], row["tier"]): row["weight_bytes"]
        for row in reversed(rows)
        if row.get("weight_bytes")
    }
    return [
        {**row, "of_tier": tier, "weights_mb": nbytes / 1e6}
        for (network, batch, tier), nbytes in reversed(weights.items())
        for row in rows
        if "variant" in row
        and (row["network"], row["batch"]) == (network, batch)
        and (row["tier"] == tier or _is_offloaded(row))
    ]


def _predictions(rows: list[Row]) -> Sequence[Row]:
    return having("predicted_ms")(_variants(rows))


def _model_errors(rows: list[Row]) -> list[Row]:
    """Model error over all configurations, and for each tier and network, in per cent."""
    tried = having("configuration")(rows)
    groups: dict[str, list[Row]] = {}
    for row in tried:
        network = f"{row['network']}, batch {row['batch']}, from {row['tier']}"
        for name in ("all", f"from {row['tier']}", network):
            groups.setdefault(name, []).append(row)
    errors = {
        name: model_error([row["predicted_ms"] for row in group], [row["ms"] for row in group])
        for name, group in groups.items()
    }
    if tried:
        errors["all, from the times of the run itself"] = model_error(
            [row["replayed_ms"] for row in tried], [row["last_ms"] for row in tried]
        )
    return [{"of": name, **error} for name, error in errors.items()]


def model_error(predicted_ms: Sequence[float], measured_ms: Sequence[float]) -> Row:
    """Distribution of the relative error `|predicted - measured| / measured`, in per cent.

    `bias` is the median of `predicted / measured - 1`; negative if predictions are too fast.

    Raises:
      ValueError: if there are none, or a measured makespan is not positive.
    """
    if not measured_ms or not all(0 < one < float("inf") for one in measured_ms):
        raise ValueError(f"measured makespans must be positive, not {list(measured_ms)[:5]}")
    relative = 100 * (np.asarray(predicted_ms) / np.asarray(measured_ms) - 1)
    sizes = np.abs(relative)
    return {
        "configurations": len(sizes),
        "median": float(np.median(sizes)),
        "mean": float(sizes.mean()),
        "p95": float(np.percentile(sizes, 95)),
        "worst": float(sizes.max()),
        "bias": float(np.median(relative)),
    }


_TITLE = "{network}, batch {batch}, from {of_tier}: {weights_mb:.1f} MB"

STREAM = PaperExperiment(
    "stream",
    "Networks larger than their memory",
    steps,
    tables=(
        ResultTable(
            _TITLE,
            "variant ms against_resident:+.1% plan_bytes:MB total_bytes:MB saved:.1% "
            "saved_of_two:.1% bit_exact difference tile_bytes:MB bundle_bytes:MB",
            _variants,
            by=_GROUP,
            note=_COLUMNS,
        ),
        ResultTable(
            f"Predicted: {_TITLE}",
            "variant ms predicted_ms error_of_model:+.1% bound_ms least_ms first_ms predicted_first_ms",
            _predictions,
            by=_GROUP,
            note=_PREDICTED,
        ),
        ResultTable(
            "Error of the model over random residents and rings, inferences in a row, %",
            "of configurations median mean p95 worst bias",
            _model_errors,
            note="p95: 95 of 100 configurations are no further off.",
        ),
    ),
)
