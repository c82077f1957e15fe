"""Ten seconds of the lanes of `python -m benchmarks.soak`."""

import pytest

from benchmarks.soak import requests_served


@pytest.mark.slow
def test_at_80_percent_load_no_request_is_lost_or_has_a_wrong_result():
    requests, faults = requests_served(10)

    assert requests > 50
    assert faults == []
