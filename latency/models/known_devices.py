"""Latencies of the known devices of a space: the input of `latency.models.process`.

Features named `<operation> on <position>` are summed over the positions: `... written` are operations
of the architecture as it is written, `... needed` and `... live` those that a runtime may have to run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float64, Int64
from numpy import ndarray

from edgenas_core.types.architectures import Enumerable
from latency.base import Space, every_architecture
from latency.devices.registry import TimedDevice
from latency.models.process import Known
from latency.models.regression import disconnected

_WRITTEN_SD, _FLOPS_SD = 0.15, 0.085  # of one operation more, and of FLOPs, both standardised


def known_from(
    space: Space,
    devices: Sequence[TimedDevice],
    latency_ms: Float64[ndarray, "devices size"],
    rows: Int64[ndarray, "size D"] | None = None,
    sampled: int | None = None,
) -> Known:
    """Combine the latencies of known devices with the features of the architectures.

    Args:
      space: where the architectures are of.
      devices: known devices.
      latency_ms: theirs.
      rows: the architectures, of a space that cannot be listed; None: all.
      sampled: so many of the rows, the first ones, stand for the space.

    Some devices have near-zero times of architectures whose output does not depend on the input, which
    say nothing about another device: no architecture counts with less than the fastest of the others.
    """
    if rows is None:
        assert isinstance(space, Enumerable)
        rows = every_architecture(space)
        canonical = space.numbers(space.canonical(rows))
    else:
        canonical = np.arange(len(rows))
    features = space.features(rows)
    connected = np.logical_not(disconnected(space, features))
    among = connected & (np.arange(len(rows)) < (sampled or len(rows)))
    fastest = latency_ms[:, among].min(axis=1, keepdims=True)
    task = next(iter(space.tasks.values()))
    flops = np.log(space.costs(rows, task)["flops"])[:, None]
    written = _summed(space, features, "written")
    linear = np.concatenate(
        [
            _WRITTEN_SD / np.sqrt(max(1, written.shape[1])) * _standardised(written, among),
            _FLOPS_SD * _standardised(flops, among),
        ],
        axis=1,
    )
    live, needed = (_summed(space, features, form) for form in ("live", "needed"))
    return Known(
        boards=tuple(device.board for device in devices),
        runtimes=tuple(device.runtime or device.source for device in devices),
        log_ms=np.log(np.maximum(latency_ms, fastest)),
        linear=linear,
        counts=np.concatenate([live, needed], axis=1),
        canonical=canonical,
        wanted=connected,
        sampled=sampled,
    )


def _summed(
    space: Space, features: Float64[ndarray, "size F"], form: str
) -> Float64[ndarray, "size operations"]:
    """Each operation of one form, counted over all positions."""
    columns: dict[str, list[int]] = {}
    for column, name in enumerate(space.feature_names):
        operation, on, _ = name.partition(" on ")
        if on and operation.endswith(f" {form}"):
            columns.setdefault(operation, []).append(column)
    counts = [features[:, places].sum(axis=1) for places in columns.values()]
    return np.stack(counts, axis=1) if counts else np.empty((len(features), 0))


def _standardised(
    values: Float64[ndarray, "size n"], among: Bool[ndarray, "size"]
) -> Float64[ndarray, "size n"]:
    spread = values[among].std(axis=0)
    return np.asarray((values - values[among].mean(axis=0)) / np.where(spread > 0, spread, 1.0))
