"""Equations 2 to 11, each worked out by hand; the source prints no values of table III."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.placement.model.guidelines import (
    admitted,
    assigned,
    balanced,
    is_balanced,
)
from benchmarks.placement.model.overhead import (
    device_ms,
    managed_ms,
    mapping_ms,
    pinned_ms,
)
from benchmarks.placement.model.parameters import Application, Hardware, Kernel
from benchmarks.placement.model.policy import Footprint, MemoryPolicy, footprint, together

D, M, H = MemoryPolicy
HARDWARE = Hardware(
    copy_start_ms=0.5,
    to_device_ms_per_byte=0.01,
    to_host_ms_per_byte=0.02,
    first_touch_ms_per_byte=0.03,
    mapping_ms_per_byte=0.001,
    flush_cpu_ms=0.25,
    flush_gpu_ms=0.125,
    l2_ms=0.002,
    memory_ms=0.005,
    pinned_mapping_ms_per_byte=0.001,
)
APPLICATION = Application(
    "one",
    to_device_bytes=1000,
    to_host_bytes=100,
    kernels=(
        Kernel(1000, l2_accesses=200, hit_rate=0.5),
        Kernel(500, count=3, dirty=1, l2_accesses=100, hidden=True),
    ),
    copies=2,
)


def test_equation_2_is_what_copies_take():
    assert device_ms(APPLICATION, HARDWARE) == pytest.approx(2 * 0.5 + 0.02 * 100 + 0.01 * 1000)


def test_equation_2_adds_the_first_touch_where_results_go_to_fresh_memory():
    fresh = Application("fresh", 0, 100, (), copies=1, first_touch=True)
    assert device_ms(fresh, HARDWARE) == pytest.approx(0.5 + (0.02 + 0.03) * 100)


def test_equations_3_to_5_are_mapping_and_a_flush_by_the_cpu_a_dirty_kernel_and_one_by_the_gpu_each():
    launch_ms = (1000 + 500) * 0.001 + 2 * 0.25
    assert managed_ms(APPLICATION, HARDWARE) == pytest.approx(launch_ms + 4 * 0.125)
    assert mapping_ms(APPLICATION, HARDWARE) == pytest.approx(1.5)


def test_equations_6_to_8_are_lost_cache_hits_and_mapping_for_every_kernel():
    lost_ms = 0.5 * 200 * (0.005 - 0.002)  # of the first kernel; the others' are hidden
    assert pinned_ms(APPLICATION, HARDWARE) == pytest.approx(lost_ms + (1000 + 3 * 500) * 0.001)


def test_across_a_bus_pinned_memory_is_mapped_already_and_each_kernel_has_a_round_trip():
    bus = Hardware(
        **{
            **vars(HARDWARE),
            "pinned_mapping_ms_per_byte": 0.0,
            "pinned_start_ms": 0.1,
            "write_ms": 0.003,
        }
    )
    writes = Application("w", 0, 0, (Kernel(10, count=2, l2_accesses=5, l2_writes=7),))
    assert pinned_ms(writes, bus) == pytest.approx(2 * (0.1 + 5 * 0.003 + 7 * 0.001))


def test_guideline_1_lets_go_what_loses_less_than_it_can_recover():
    one = Application("one", 10_000, 0, (Kernel(10_000, l2_accesses=1e6),), copies=1)
    lost = managed_ms(one, HARDWARE) - device_ms(one, HARDWARE)
    assert lost <= mapping_ms(one, HARDWARE) - 0.25 - 0.125
    assert admitted(one, HARDWARE) is M


def test_guideline_1_keeps_many_kernels_on_little_data_on_the_device():
    one = Application(
        "g", 1000, 1000, (Kernel(1000), Kernel(0, count=1023, dirty=0, l2_accesses=1e6))
    )
    assert admitted(one, HARDWARE) is D


def test_guideline_1_takes_the_smaller_overhead_of_those_it_allows():
    one = Application("s", 10_000, 0, (Kernel(10_000, hidden=True, l2_accesses=1e6),), copies=1)
    assert admitted(one, HARDWARE) is H  # no flush
    assert admitted(one, HARDWARE, among=(M,)) is M


@given(kernels=st.integers(1, 2000), nbytes=st.floats(1, 1e6))
def test_with_more_kernels_on_the_same_data_an_application_never_goes_from_d_to_m(kernels, nbytes):
    def decided(count):
        one = Application(
            "a", nbytes, nbytes, (Kernel(nbytes), Kernel(0, count=count - 1, dirty=0))
        )
        return admitted(one, HARDWARE, among=(M,))

    if decided(kernels) is D:
        assert decided(kernels + 1) is D


@given(
    counts=st.lists(st.integers(1, 1000), min_size=1, max_size=7),
    seed=st.randoms(use_true_random=False),
)
def test_guideline_2_holds_whatever_the_order(counts, seed):
    kernels = {str(i): count for i, count in enumerate(counts)}
    order = seed.sample([*kernels], len(kernels))
    decided = balanced(kernels, dict.fromkeys(kernels, M), order)
    assert is_balanced(kernels, decided)


def test_a_yolo_alone_stays_on_the_device_and_two_take_one_policy_each():
    """Section IV-B's example of the runtime scheduler."""
    yolo = Application("A", 1e6, 0, (Kernel(1e6, count=180, dirty=1),), copies=1, execution_ms=1)
    other = replace(yolo, name="B")
    assert admitted(yolo, HARDWARE, among=(M,)) is M
    assert assigned([yolo], HARDWARE) == {"A": D}
    assert sorted(policy.value for policy in assigned([yolo, other], HARDWARE).values()) == [
        "D",
        "M",
    ]


def test_equation_11_counts_h_as_m():
    assert is_balanced({"a": 2, "b": 1, "c": 1}, {"a": D, "b": M, "c": H})
    assert not is_balanced({"a": 2, "b": 2, "c": 1}, {"a": D, "b": M, "c": H})


def test_device_memory_takes_twice_the_data_the_others_once():
    assert footprint(D, 7) == Footprint(host=7, device=7)
    assert footprint(M, 7) == Footprint(either=7)
    assert footprint(H, 7) == Footprint(host=7)
    assert together(footprint(policy, 7) for policy in (D, M, H)).total == 28


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "fast"])
def test_a_parameter_that_is_no_time_is_refused(value):
    with pytest.raises(ValueError, match="memory_ms="):
        Hardware(**{**vars(HARDWARE), "memory_ms": value})
