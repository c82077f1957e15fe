"""The fitted slowdown by stolen bandwidth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contention.sensitivity import Sensitivity, fit, held_out_errors

STOLEN = np.array([0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 20.0])


@given(a=st.floats(0.001, 0.5), times=st.floats(1.3, 20))
def test_a_curve_of_this_form_is_found_again(a, times):
    true = Sensitivity(a, 20.0 * times, 20.0)

    found = fit(STOLEN, true.slowdown(STOLEN))

    assert found.slowdown(STOLEN) == pytest.approx(true.slowdown(STOLEN), rel=0.02)
    assert np.abs(held_out_errors(STOLEN[:-1], true.slowdown(STOLEN[:-1]))).max() < 0.1


@given(st.lists(st.floats(0.9, 12), min_size=7, max_size=7))
def test_more_stolen_bandwidth_is_never_faster(slowdown):
    found = fit(STOLEN, np.array(slowdown))

    curve = found.slowdown(np.linspace(0, 22, 50))

    assert curve[0] == 1
    assert (np.diff(curve) >= 0).all()


def test_the_measured_h200_points_of_both_networks_fit_within_a_tenth():
    # medians in ms of one H200: a hog of its memory under a token bucket, 500 to 3701 GB/s
    stolen = np.array([0.0, 500.0, 1000.0, 2000.0, 2832.0, 3701.0])
    for ms in ([1.14, 1.48, 1.74, 2.49, 3.96, 10.2], [1.54, 1.78, 2.04, 2.92, 4.41, 8.56]):
        slowdown = np.array(ms) / ms[0]

        found = fit(stolen, slowdown)

        assert np.median(np.abs(found.slowdown(stolen) / slowdown - 1)) < 0.1


def test_a_slowdown_beyond_the_measured_range_is_refused():
    found = fit(STOLEN, 1 + 0.01 * STOLEN)

    assert found.slowdown(np.array([21.0]))[0] > 1.2
    with pytest.raises(ValueError, match=r"0 to 20 GB/s.* 30"):
        found.slowdown(np.array([30.0]))
    with pytest.raises(ValueError, match=r"3 levels.* 2"):
        fit(np.array([0.0, 1.0]), np.array([1.0, 1.2]))
