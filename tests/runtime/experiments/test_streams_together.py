"""Two networks in one budget, as small as it goes, leave rows and a table."""

import pytest
import torch
from omegaconf import OmegaConf

from runtime.experiments import command
from runtime.experiments.config import BenchConfig
from runtime.experiments.pages import page
from runtime.experiments.streaming import together as streams_together
from runtime.experiments.tables import tables
from runtime.page.results import Results


@pytest.fixture
def config():
    container = OmegaConf.load(f"{command.CONF}/bench.yaml")
    values = {name: value for name, value in container.items() if name not in {"defaults", "hydra"}}
    values |= {"experiment": "stream", "repeats": 2}
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(BenchConfig), values))


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
            assert row["simulated_ms"] <= row["promised_ms"] + 1e-3
    results = Results("stream", {"seen": 1}, {"cpu": "a core", "versions": {}}, rows=rows)
    small, large = tables(results)
    assert len(small.rows) == len(large.rows) == 2
    assert "Beside each other, from ssd" in page(results).html()
