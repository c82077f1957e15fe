"""What is known of latency before a new device's first probe: `latency.models.process` of this space."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from latency.devices.measured import without_path
from latency.devices.registry import Device, registered
from latency.models.process import Known
from latency.sources.nats import NATS_DEVICE
from latency.sources.table_source import AutoLatencyConfig
from nas.spaces.nas_bench_201.costs import mflops
from nas.spaces.nas_bench_201.features import cell_features
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS, TASKS

_WRITTEN_SD, _FLOPS_SD = 0.15, 0.085  # of one operation more, and of FLOPs, both standardised
_WORKING = tuple(OPERATIONS.index(name) for name in OPERATIONS if name != "none")
_EDGE_FLAGS = (6, 4)  # edges and working operations of `cell_features`

_LITTLE_KNOWN = (NATS_DEVICE, "epyc-vm/torch/fp32/b1")
"""One has no table, the other 81 cells: most of it would be predictions made into knowledge."""


@cache
def known_latency() -> Known:
    """Every device of the registry: measured where a table is here, else its embedded model.

    Raises:
      UserError: if a table is malformed.
    """
    devices = [device for device in registered() if device.id not in _LITTLE_KNOWN]
    tables = [AutoLatencyConfig().build(device.id, TASKS["cifar100"]) for device in devices]
    values = [table.latency_ms(NAS_BENCH_201.rows) for table in tables]
    return known_from(devices, np.array(values))


def known_from(devices: Sequence[Device], latency_ms: Float64[ndarray, "devices 15625"]) -> Known:
    """What these devices and the cells themselves tell.

    Some devices hold near-zero times of cells without a path, which say nothing of another: a cell
    counts with no less than the fastest that has a path.
    """
    connected = np.logical_not(without_path())
    fastest = latency_ms[:, connected].min(axis=1, keepdims=True)
    linear, counts = _consists_of(connected)
    return Known(
        boards=tuple(device.board for device in devices),
        log_ms=np.log(np.maximum(latency_ms, fastest)),
        linear=linear,
        counts=counts,
        wanted=connected,
        eligible=connected & _first_of_its_network(),
    )


@cache
def _first_of_its_network() -> Bool[ndarray, "15625"]:
    return np.asarray(NAS_BENCH_201.network_class == np.arange(NAS_BENCH_201.size))


def _consists_of(
    connected: Bool[ndarray, "15625"],
) -> tuple[Float64[ndarray, "15625 features"], Float64[ndarray, "15625 counts"]]:
    """Operations as written and FLOPs, scaled; and counts of live and of needed operations."""
    architectures = NAS_BENCH_201.rows
    written = np.stack([(architectures == op).sum(axis=1) for op in _WORKING], axis=1)
    flops = np.log(mflops(architectures, TASKS["cifar10"]))[:, None]
    features = cell_features(architectures)
    size = _EDGE_FLAGS[0] * _EDGE_FLAGS[1]
    needed, live = (
        features[:, start : start + size].reshape(-1, *_EDGE_FLAGS).sum(axis=1)
        for start in (size, 2 * size)
    )
    linear = np.concatenate(
        [
            _WRITTEN_SD / np.sqrt(len(_WORKING)) * _standardised(written, connected),
            _FLOPS_SD * _standardised(flops, connected),
        ],
        axis=1,
    )
    return linear, np.concatenate([live, needed], axis=1)


def _standardised(
    values: Float64[ndarray, "15625 n"] | np.ndarray, among: Bool[ndarray, "15625"]
) -> Float64[ndarray, "15625 n"]:
    return np.asarray((values - values[among].mean(axis=0)) / values[among].std(axis=0))
