"""Figures of Bateni et al., RTAS 2020: what follows from what it prints."""

import pytest

from benchmarks.placement.model.policy import MemoryPolicy, footprint

D, M, _ = MemoryPolicy

YOLO_MB = ((2745, 1311), (5274, 2524), (None, 3779))
"""Table I, TX2: peak memory of one to three YOLOs under D and under M; None: it failed."""

TX2_MB = 8192
"""Section II-A: "up to 8 GB"."""


def test_twice_the_memory_under_m_is_within_5_percent_of_what_d_took():
    for device_mb, managed_mb in YOLO_MB:
        expected = footprint(D, managed_mb).total
        if device_mb is not None:
            assert expected == pytest.approx(device_mb, rel=0.05)
        else:  # beside an operating system
            assert expected > 0.9 * TX2_MB
