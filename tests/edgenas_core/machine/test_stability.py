from __future__ import annotations

import pytest

from edgenas_core.machine.stability import StabilityConfig, Watch, quiet_control_ms


def watch(*senses, **before):
    return Watch(StabilityConfig(), senses, **before)


def test_a_quiet_machine_gives_no_finding():
    quiet = watch(list)

    assert quiet.drift(10.0) + quiet.disturbances(2000.0) == []
    assert quiet.drift(10.4) + quiet.disturbances(1900.0) == []


@pytest.mark.parametrize("now", [10.6, 9.4])
def test_a_control_that_drifts_either_way_is_found_with_both_numbers(now):
    drifting = watch(control_ms=[10.0] * 8)

    (line,) = drifting.drift(now)

    assert f"{now:.3f} ms" in line
    assert "10.000 ms" in line


def test_a_disturbed_beginning_is_no_reference():
    starting = watch()

    assert starting.drift(10.0) == []  # nothing is known yet
    assert starting.drift(7.5) == []
    assert "+33.3% against 7.500 ms" in starting.drift(10.0)[0]


def test_quiet_is_what_the_control_takes_although_most_of_its_times_are_disturbed():
    assert quiet_control_ms([10.0, 9.5, 9.0, 9.2, 7.5, 9.3, 7.4, 7.6]) == 7.5


def test_a_clock_that_falls_is_found_and_one_that_rises_is_not():
    slowing = watch()
    slowing.disturbances(2000.0)

    (line,) = slowing.disturbances(1500.0)

    assert all(value in line for value in ("1,500 MHz", "-25%", "2,000 MHz"))
    assert slowing.disturbances(2500.0) == []


def test_a_measurement_that_goes_on_is_compared_with_its_own_beginning():
    resumed = watch(control_ms=[8.0, 8.1, 8.2], clock_mhz=1000.0)

    (drift,) = resumed.drift(10.0)
    (drop,) = resumed.disturbances(500.0)

    assert "+25.0%" in drift
    assert "-50%" in drop


def test_what_a_sense_finds_is_told():
    assert watch(lambda: ["too hot"], list).disturbances() == ["too hot"]
