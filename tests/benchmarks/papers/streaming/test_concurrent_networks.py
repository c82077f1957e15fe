"""Concurrent streamed networks within one memory budget."""

import pytest
import torch
from torch import nn

from benchmarks.papers.streaming.concurrent_networks import NetworkRequest, stream_concurrently

pytestmark = pytest.mark.usefixtures("one_thread")


def perceptron(width, layers):
    torch.manual_seed(width)
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts).eval()


@pytest.fixture
def wanted():
    return [
        NetworkRequest("wide", perceptron(256, 4), torch.randn(2, 256), 10_000.0),
        NetworkRequest("deep", perceptron(192, 6), torch.randn(3, 192), 20_000.0),
    ]


@torch.inference_mode()
def expected(wanted):
    return {one.name: one.model(one.example) for one in wanted}


def test_concurrent_networks_give_the_output_of_the_resident_ones(wanted):
    outputs = expected(wanted)
    inputs = {one.name: one.example for one in wanted}

    with stream_concurrently(wanted, budget="700kB") as both:
        for _ in range(2):
            answers = both.run(inputs)
            for name, answer in answers.items():
                assert torch.equal(answer.output, outputs[name])
                assert answer.is_in_time
                assert answer.took_ms > 0
        assert sum(one.host for one in both.memory.values()) <= 700_000
        assert all(one.strain < 1 for one in both.shares.values())
        assert torch.equal(both("deep", inputs["deep"]), outputs["deep"])


def test_closed_networks_refuse_calls(wanted):
    both = stream_concurrently(wanted, budget="700kB")
    both.close()
    with pytest.raises(RuntimeError, match="closed"):
        both("wide", wanted[0].example)


def test_a_budget_too_small_for_both_names_the_networks(wanted):
    with pytest.raises(ValueError, match=r"\bwide, deep\b.*\bbytes"):
        stream_concurrently(wanted, budget="300kB")


def test_networks_need_unique_names(wanted):
    with pytest.raises(ValueError, match="unique names"):
        stream_concurrently([wanted[0], wanted[0]], budget="700kB")


def test_an_unknown_network_is_refused_before_any_starts(wanted):
    with (
        stream_concurrently(wanted, budget="700kB") as both,
        pytest.raises(KeyError, match="other"),
    ):
        both.run({"wide": wanted[0].example, "other": wanted[0].example})
