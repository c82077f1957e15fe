import numpy as np
import pytest

from nas.report.charts.heat_map import _ranges, _step


@pytest.mark.parametrize("end", [17.0, 0.6, 1234.5])
def test_ranges_end_at_the_limit_and_hold_their_end(end):
    values = np.concatenate([np.random.default_rng(0).uniform(0.2, 3, 500) * end, [end]])

    step = _step(values.max() - values.min())
    number, ends = _ranges(values, end, step)

    assert np.isclose(ends, end).any()
    upper = ends[number]
    assert (values <= upper + 1e-9 * end).all()
    assert (values > upper - step - 1e-9 * end).all()
    assert upper[-1] == pytest.approx(end)  # the limit is within the limit
    assert len(ends) <= 45


def test_values_that_are_all_one_are_one_range():
    number, ends = _ranges(np.full(3, 12.5), 12.5, _step(0.0))

    assert (number.tolist(), ends.tolist()) == ([0, 0, 0], [12.5])
