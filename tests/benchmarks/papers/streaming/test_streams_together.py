"""Two networks in one budget, as small as it goes, leave rows and a table."""

import pytest
import torch
from bench_settings import bench_config

from benchmarks.papers.streaming import together as streams_together
from benchmarks.papers.streaming.experiment import STREAM


@pytest.fixture
def config():
    return bench_config("stream")


def test_rows_of_two_networks_in_one_budget(config, monkeypatch):
    monkeypatch.setattr(streams_together, "_DEADLINES", [(3.0, 12.0)])
    threads = torch.get_num_threads()

    rows = list(streams_together.rows(config, unit=128))

    assert torch.get_num_threads() == threads
    assert len(rows) == 2 * 2 * 1
    for wide, deep in zip(rows[::2], rows[1::2], strict=True):
        assert (wide["network"], deep["network"]) == ("wide", "deep")
        assert wide["share_bytes"] + deep["share_bytes"] <= wide["budget_bytes"]
        for row in (wide, deep):
            assert row["bit_exact"]
            assert 0 <= row["missed"] <= 2
    small, large = STREAM.shown(rows)
    assert len(small.rows) == len(large.rows) == 2
