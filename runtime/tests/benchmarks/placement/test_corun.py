"""The co-run scheduler, on tasks whose times are chosen by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.placement.model.corun import (
    CorunTask,
    can_pair,
    makespan_ms,
    round_ms,
    rounds,
    task,
)
from benchmarks.placement.model.parameters import Application, Hardware, Kernel
from benchmarks.placement.model.policy import MemoryPolicy

D, M, H = MemoryPolicy

TASKS = st.lists(
    st.builds(
        CorunTask,
        name=st.just("t"),
        policy=st.sampled_from([D, M, H]),
        execution_ms=st.floats(0.01, 10),
        before_ms=st.floats(0, 10),
        idle_ms=st.floats(0, 10),
        bus_ms=st.just(0.0),
        flush_ms=st.floats(0, 10),
        after_ms=st.floats(0, 10),
        nbytes=st.integers(1, 1000),
    ),
    max_size=8,
)


def test_a_kernel_runs_while_another_maps_its_pages():
    waits = CorunTask("m", M, execution_ms=2, idle_ms=5, flush_ms=1)
    runs = CorunTask("d", D, execution_ms=3, before_ms=1, after_ms=0.5)

    assert can_pair(runs, waits)
    assert round_ms((runs, waits)) == 5 + 1 + 2  # the other is over at 4.5
    assert makespan_ms([(runs,), (waits,)]) == 4.5 + 8


def test_kernels_take_turns_where_the_copy_takes_longer_than_the_mapping():
    waits = CorunTask("m", M, execution_ms=4, idle_ms=2)
    runs = CorunTask("d", D, execution_ms=1, before_ms=3, after_ms=1)

    assert round_ms((runs, waits)) == 2 + 4 + 1 + 1


def test_what_does_not_fit_into_the_idle_time_is_not_paired():
    waits = CorunTask("m", M, execution_ms=2, idle_ms=2.9)
    assert not can_pair(CorunTask("d", D, execution_ms=3), waits)


def test_two_that_need_the_bus_share_it():
    reads = CorunTask("h", H, execution_ms=0.1, idle_ms=5, bus_ms=5)
    copied = CorunTask("d", D, execution_ms=1, before_ms=2, bus_ms=2)
    assert round_ms((reads, copied)) == 7


@pytest.mark.parametrize("pair", [(D, D), (M, M), (M, H)])
def test_only_d_and_another_policy_are_paired(pair):
    one, other = (CorunTask("t", policy, execution_ms=1, idle_ms=9) for policy in pair)
    assert not can_pair(one, other)


def test_the_shortest_is_first_and_takes_the_first_that_fits_along():
    tasks = [
        CorunTask("long d", D, execution_ms=8),
        CorunTask("m", M, execution_ms=1, idle_ms=4),
        CorunTask("d that fits", D, execution_ms=3),
    ]
    released = rounds(tasks)
    assert [[one.name for one in together] for together in released] == [
        ["m", "d that fits"],
        ["long d"],
    ]


@given(tasks=TASKS)
def test_every_task_runs_once_and_never_later_than_one_after_another(tasks):
    released = rounds(tasks)
    ran = [one for together in released for one in together]
    assert sorted(map(repr, ran)) == sorted(map(repr, tasks))
    serial_ms = makespan_ms([(task,) for task in tasks])
    assert makespan_ms(released) <= serial_ms + 1e-9
    for together in released:
        if len(together) == 2:
            assert sum(one.policy is D for one in together) == 1


@pytest.mark.parametrize("policy", MemoryPolicy)
@pytest.mark.parametrize("stalls_overlap", [True, False])
def test_a_task_takes_execution_and_the_models_overhead(policy, stalls_overlap):
    hardware = Hardware(0.5, 0.01, 0.02, 0.03, 0.001, 0.25, 0.125, 0.002, 0.005, 0.001)
    one = Application("a", 1000, 100, (Kernel(1000, l2_accesses=50),), execution_ms=3, nbytes=1000)

    made = task(one, policy, hardware, stalls_overlap=stalls_overlap)

    overhead_ms = {D: 1 + 2 + 10, M: 1 + 0.375, H: 0.15 + 1}[policy]
    assert made.alone_ms == pytest.approx(3 + overhead_ms)
    assert made.idle_ms == pytest.approx({D: 0, M: 1, H: 1.15 if stalls_overlap else 1}[policy])
    assert made.after_ms == pytest.approx(2.5 if policy is D else 0)
