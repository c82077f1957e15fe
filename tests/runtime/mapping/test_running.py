"""A mapping run for real. What needs a GPU, with no more than torch and cuda-bindings:

python -m pytest tests/runtime/mapping/test_running.py -m gpu --noconftest -c /dev/null -v
"""

import json
import math
import sys

import numpy as np
import pytest
import torch

from runtime.backend import Device
from runtime.bench.machine import usable_cores
from runtime.mapping import command
from runtime.mapping.candidates import Board, Candidate, candidates
from runtime.mapping.frames import Workshop
from runtime.mapping.networks import Subject
from runtime.mapping.place_lanes import PlaceLanes, unit_multiprocessors
from runtime.mapping.platform_description import Platform
from runtime.mapping.program import Answer
from runtime.mapping.run_rows import rows_of
from runtime.mapping.this_machine import machine_with
from runtime.mapping.timetable import Way, at_once, planned_ms, quickest, serial, shortest
from runtime.mapping.timing_table import Bound, TimingTable
from runtime.mapping.variant import parsed

has_two_cores = pytest.mark.skipif(len(usable_cores()) < 2, reason="there is one core here")

ONE, BOTH = "cpu/t1/eager/fp32", "cpu/t2/torchscript/fp32"
TWO_CORES = Platform(
    "two cores",
    ("core0", "core1"),
    {
        ONE: (frozenset({"core0"}), frozenset({"core1"})),
        BOTH: (frozenset({"core0", "core1"}),),
    },
)


def table(times):
    """Of networks by name: milliseconds on one core and on both."""
    ms = np.array([*times.values()], float)
    return TimingTable((*times,), (ONE, BOTH), np.repeat(ms[:, :, None], 3, axis=2))


TIMES = table({"a": (6, 4), "b": (6, 4), "c": (6, 4)})


def spans(timetable):
    return [(one.network, len(one.place), one.start_ms, one.end_ms) for one in timetable]


def test_the_shortest_frame_is_found():
    found = shortest(TIMES.of(Bound.max), TIMES.configurations, TWO_CORES)

    assert planned_ms(found) == pytest.approx(10)  # one on both cores, then two beside each other
    assert [len(one.place) for one in found] == [2, 1, 1]
    assert [one.after for one in found] == [(), (0,), (0,)]


def test_one_after_another_nothing_is_beside_a_network():
    found = serial(TIMES.of(Bound.max), TIMES.configurations, TWO_CORES)

    assert spans(found) == [(0, 2, 0, 4), (1, 2, 4, 8), (2, 2, 8, 12)]
    assert [one.after for one in found] == [(), (0,), (1,)]


def test_networks_that_are_quickest_on_one_core_take_the_one_that_is_free_first():
    times = table({"a": (1, 2), "b": (3, 4), "c": (1, 2)})

    found = quickest(times.of(Bound.max), times.configurations, TWO_CORES)

    assert spans(found) == [(0, 1, 0, 1), (1, 1, 0, 3), (2, 1, 1, 2)]
    assert found[2].place == found[0].place
    assert found[2].after == (0,)


def test_all_at_once_nobody_waits():
    found = at_once(TIMES.of(Bound.max), TIMES.configurations, TWO_CORES)

    assert spans(found) == [(0, 2, 0, 4), (1, 2, 0, 4), (2, 2, 0, 4)]
    assert not any(one.after or one.is_apart for one in found)


def test_margins_with_one_timetable_are_one_and_its_times_are_the_tables():
    board = Board(TIMES, TWO_CORES, Bound.max, 11.9)

    found, answers = candidates(board, [*Way], [0, 0.1, 0.5])

    assert answers == {0: Answer.feasible, 0.1: Answer.feasible, 0.5: Answer.infeasible}
    assert [one.name for one in found] == ["mapped +0, 10 % = shortest", "quickest = serial", "at_once"]
    assert planned_ms(found[0].timetable) == pytest.approx(10)
