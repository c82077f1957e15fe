"""Streamed networks within one memory budget."""

import pytest
import torch
from torch import nn

from benchmarks.papers.streaming.together import Wanted, run_together, streamed_together
from runtime.weight_streaming.files.readers import Tier

pytestmark = pytest.mark.usefixtures("one_thread")


def perceptron(width, layers):
    torch.manual_seed(width)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts).eval()


@pytest.fixture
def wanted():
    return {
        "wide": Wanted(perceptron(256, 4), torch.randn(2, 256), 10_000.0),
        "deep": Wanted(perceptron(192, 6), torch.randn(3, 192), 20_000.0),
    }


def test_concurrent_networks_give_the_output_of_the_resident_ones(wanted):
    with streamed_together(wanted, 700_000, tier=Tier.SSD, processors=1) as (shares, networks):
        for _ in range(2):
            answers = run_together(networks, wanted)
            for name, (output, took_ms) in answers.items():
                with torch.inference_mode():
                    assert torch.equal(output, wanted[name].model(wanted[name].x))
                assert 0 < took_ms < wanted[name].deadline_ms
        assert sum(network.memory.host for network in networks.values()) <= 700_000
        assert all(given.strain < 1 for given in shares.values())


def test_a_budget_too_small_for_both_names_the_networks(wanted):
    with (
        pytest.raises(ValueError, match=r"\bwide, deep\b.*\bbytes"),
        streamed_together(wanted, 300_000, tier=Tier.SSD, processors=1),
    ):
        pass
