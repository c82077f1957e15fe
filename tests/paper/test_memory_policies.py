"""Decisions and figures of Bateni et al., RTAS 2020: what follows from what it prints."""

import itertools
import random

import pytest

from runtime.experiments.placement.model import table_iv
from runtime.experiments.placement.model.guidelines import Reading, is_balanced
from runtime.experiments.placement.model.policy import MemoryPolicy, footprint
from runtime.experiments.placement.model.profiles import read_profile

D, M, _ = MemoryPolicy

YOLO_MB = ((2745, 1311), (5274, 2524), (None, 3779))
"""Table I, TX2: peak memory of one to three YOLOs under D and under M; None: it failed."""

TX2_MB = 8192
"""Section II-A: "up to 8 GB"."""


def test_on_the_tx2_table_iv_follows_from_kernel_counts_and_guideline_2_whatever_the_order():
    names = [*table_iv.KERNELS]
    orders = [random.Random(seed).sample(names, len(names)) for seed in range(200)]  # noqa: S311 - no secret
    for order in orders:
        assert table_iv.by_guideline_2(order) == table_iv.DECISIONS["tx2"]


def test_on_the_agx_it_does_not():
    decided = table_iv.by_guideline_2([*table_iv.KERNELS])
    assert table_iv.reproduced(decided, "agx") == 5


@pytest.mark.parametrize("device", ["tx2", "agx"])
def test_the_stand_ins_of_the_shipped_profiles_give_table_iv(device):
    assert table_iv.simulated(read_profile(device).hardware) == table_iv.DECISIONS[device]


def test_a_board_with_more_kernels_under_d_has_dearer_flushes_to_its_copies():
    flushes_ms = [1e-5 * 1.05**i for i in range(200)]
    ranges = {
        device: table_iv.whole_range(
            [*table_iv.by_flush(device, read_profile(device).hardware, flushes_ms, reading)]
        )
        for device, reading in itertools.product(("tx2", "agx"), [Reading.TOTALS])
    }
    assert ranges["tx2"][1] < ranges["agx"][0]
    together = [
        a.reproduced + b.reproduced
        for a, b in zip(
            table_iv.by_flush("tx2", read_profile("tx2").hardware, flushes_ms),
            table_iv.by_flush("agx", read_profile("agx").hardware, flushes_ms),
            strict=True,
        )
    ]
    assert max(together) == 13  # of 14, with one value for both


def test_the_drone_alone_under_m_breaks_guideline_2():
    for policy in table_iv.DRONE.values():
        assert policy is M
        assert not is_balanced({"yolo": table_iv.DRONE_KERNELS}, {"yolo": policy})


def test_autoware_keeps_guideline_2_only_if_its_yolos_are_smaller_than_the_drones():
    splits = table_iv.autoware_splits()
    assert max(yolo for yolo, _ in splits) == 149 < table_iv.DRONE_KERNELS
    for yolo, clustering in splits:
        kernels = {"yolo 1": yolo, "yolo 2": yolo, "clustering": clustering}
        assert is_balanced(kernels, {"yolo 1": M, "yolo 2": M, "clustering": D})
        assert not is_balanced(kernels, {"yolo 1": D, "yolo 2": M, "clustering": M})


def test_twice_the_memory_under_m_is_within_5_percent_of_what_d_took():
    for device_mb, managed_mb in YOLO_MB:
        expected = footprint(D, managed_mb).total
        if device_mb is not None:
            assert expected == pytest.approx(device_mb, rel=0.05)
        else:  # beside an operating system
            assert expected > 0.9 * TX2_MB
