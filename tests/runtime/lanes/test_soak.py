"""Twenty seconds of `python -m benchmarks.soak`, which by default runs for ten minutes."""

import pytest

from benchmarks.soak import MOST_GROWTH_MB, growth_mb, soak


@pytest.mark.slow
def test_at_80_percent_load_no_request_is_lost_and_no_memory_grows():
    rounds = [*soak(20, round_s=2)]

    assert sum(one.requests for one in rounds) > 100
    assert [one.wrong for one in rounds] == [()] * len(rounds)
    assert rounds[-1].tensors <= rounds[0].tensors
    assert growth_mb(rounds) <= MOST_GROWTH_MB
