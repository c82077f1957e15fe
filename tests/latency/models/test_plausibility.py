"""Timing faults in a table are found, and are no measurements."""

import csv

import numpy as np
import pytest

from edgenas_core.types.kind import Kind
from latency.base import every_architecture
from latency.devices.registry import find
from latency.models.plausibility import FEWEST, faster_than_others_say, implausibly_fast
from latency.sources.table import AutoLatencyConfig, Implausible, TableLatencyConfig
from nas.data.verify import verify
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, OPERATIONS, TASKS

ROWS = every_architecture(SPACE)
CONVOLUTIONS = (OPERATIONS.index("nor_conv_3x3") == ROWS).sum(axis=1)
DEVICE = find(SPACE, "pixel-3/b1")
RNG = np.random.default_rng(0)
LATENCY_MS = (2 + 3.0 * CONVOLUTIONS) * np.exp(RNG.normal(0, 0.01, SPACE.size))
CONNECTED = SPACE.features(ROWS)[:, SPACE.feature_names.index("connected")] > 0
_, _GROUP, _SIZE = np.unique(SPACE.canonical(ROWS), axis=0, return_inverse=True, return_counts=True)
TWINNED = _SIZE[_GROUP.reshape(-1)] > 2
_SLOW = np.flatnonzero(CONNECTED & (CONVOLUTIONS > 2))
_ONE_OF_EACH = _SLOW[np.unique(_GROUP.reshape(-1)[_SLOW], return_index=True)[1]]
FAULTS = RNG.choice(_ONE_OF_EACH, 100, replace=False)  # at most one among equal networks


@pytest.fixture
def faulty_ms():
    latency_ms = LATENCY_MS.copy()
    latency_ms[FAULTS] /= 3
    return latency_ms


def test_every_planted_fault_is_found_and_nothing_else(faulty_ms):
    is_fast = implausibly_fast(SPACE, DEVICE, ROWS, faulty_ms)

    assert set(np.flatnonzero(is_fast)) == set(FAULTS)
    assert not implausibly_fast(SPACE, DEVICE, ROWS, LATENCY_MS).any()


def test_networks_that_all_of_their_twins_confirm_are_fast_and_no_faults():
    latency_ms = LATENCY_MS.copy()
    group = _GROUP.reshape(-1)
    fast = group == group[FAULTS[TWINNED[FAULTS]][0]]
    latency_ms[fast] /= 3

    assert not implausibly_fast(SPACE, DEVICE, ROWS, latency_ms).any()


def test_a_small_table_and_outputs_without_input_are_not_judged(faulty_ms):
    few = faulty_ms.copy()
    few[FEWEST - 1 :] = np.nan
    disconnected = np.where(CONNECTED, LATENCY_MS, 0.01)

    assert not implausibly_fast(SPACE, DEVICE, ROWS, few).any()
    assert not implausibly_fast(SPACE, DEVICE, ROWS, disconnected).any()


def test_tables_set_faults_aside_marked_unless_told_to_keep_them(tmp_path, monkeypatch, faulty_ms):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    with (tmp_path / "own_ms.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [
                ("arch", DEVICE.column),
                *zip(NAS_BENCH_201.strings, faulty_ms.tolist(), strict=True),
            ]
        )

    aside, kept = (
        config.build(DEVICE.id, SPACE, TASKS["cifar100"])
        for config in (AutoLatencyConfig(), TableLatencyConfig(implausible=Implausible.keep))
    )

    assert (aside.kind[FAULTS] == Kind.regression).all()
    assert (aside.kind != Kind.measured).sum() == len(FAULTS)
    assert "100 implausibly fast" in aside.description
    assert (kept.ms == faulty_ms).all()
    (verdict,) = verify(SPACE, tmp_path)
    assert verdict.line.endswith(f"100 of {DEVICE.column}")


def test_while_it_is_measured_a_time_is_judged_by_those_of_other_networks():
    some = RNG.permutation(_ONE_OF_EACH)[:400]
    latency_ms = LATENCY_MS[some].copy()
    latency_ms[7] /= 2

    is_fast = faster_than_others_say(SPACE, ROWS[some], latency_ms)

    assert np.flatnonzero(is_fast).tolist() == [7]
    assert not faster_than_others_say(SPACE, ROWS[some][:40], latency_ms[:40]).any()
