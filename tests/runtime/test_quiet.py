from __future__ import annotations

import pytest

from runtime.quiet import QuietConfig, Watch


def watch(*senses, **before):
    return Watch(QuietConfig(), senses, **before)


def test_a_quiet_machine_gives_no_finding():
    quiet = watch(list)

    assert quiet.disturbances(10.0, 2000.0) == []
    assert quiet.disturbances(10.4, 1900.0) == []


@pytest.mark.parametrize("now", [10.6, 9.4])
def test_a_control_that_drifts_either_way_is_found_with_both_numbers(now):
    drifting = watch()
    drifting.disturbances(10.0)

    (line,) = drifting.disturbances(now)

    assert f"{now:.3f} ms" in line
    assert "10.000 ms" in line


def test_a_clock_that_falls_is_found_and_one_that_rises_is_not():
    slowing = watch()
    slowing.disturbances(10.0, 2000.0)

    (line,) = slowing.disturbances(10.0, 1500.0)

    assert "1,500 MHz, -25% against its first 2,000 MHz" in line
    assert slowing.disturbances(10.0, 2500.0) == []


def test_a_measurement_that_goes_on_is_compared_with_its_own_beginning():
    resumed = watch(control_ms=8.0, clock_mhz=1000.0)

    drift, drop = resumed.disturbances(10.0, 500.0)

    assert "+25.0%" in drift
    assert "-50%" in drop


def test_what_a_sense_finds_is_told():
    assert watch(lambda: ["too hot"], list).disturbances(10.0) == ["too hot"]
