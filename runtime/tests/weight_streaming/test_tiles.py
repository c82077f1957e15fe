"""Layers larger than their share, in slices of output channels."""

import gc

import psutil
import pytest
import torch
from torch import nn

import edgenas_runtime
from benchmarks.networks.vgg import VGG
from edgenas_runtime.weight_streaming import streamable
from edgenas_runtime.weight_streaming.streamable import open_streamable


def stack(width, layers):
    return nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])


class Preactivated(nn.Module):
    """Normalisations before and after layers, one of them called twice, and a branch."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(8)
        self.wide = nn.Conv2d(8, 200, 7, bias=False)
        self.after = nn.BatchNorm2d(200)
        self.back = nn.Conv2d(200, 8, 3, padding=4)
        self.shared = nn.Linear(300, 300)

    def forward(self, x):
        x = x + self.back(self.after(self.wide(torch.relu(self.norm(x)))).relu())
        x = x.flatten(2)
        return self.shared(torch.relu(self.shared(x)))


CASES = {
    "stack": (lambda: stack(512, 4), (3, 512), {}, 300_000),
    "one row": (lambda: stack(512, 4), (512,), {}, 300_000),
    "halves": (lambda: stack(512, 4), (3, 512), {"dtype": torch.bfloat16}, 300_000),
    "graph": (Preactivated, (2, 8, 15, 20), {}, 300_000),
    "channels last": (
        Preactivated,
        (2, 8, 15, 20),
        {"memory_format": torch.channels_last},
        300_000,
    ),
    "vgg": (lambda: VGG(16, width=16, num_classes=7), (1, 3, 64, 64), {}, 2_500_000),
}


@pytest.fixture(params=CASES)
def case(request):
    build, shape, kind, budget = CASES[request.param]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module, x = build().eval().to(**kind), torch.randn(shape)
    x = x.to(next(module.parameters()).dtype)
    with torch.no_grad():
        return module, x, module(x), budget


def difference(one, other):
    return ((one - other).abs().max() / other.abs().max()).item()


@pytest.mark.parametrize("tier", ["ssd", "host"])
def test_tiles_give_the_output_of_whole_layers_in_less_than_the_largest(case, tier):
    module, x, expected, budget = case
    with edgenas_runtime.stream(module, x, budget=budget, tier=tier) as small:
        assert small.plan.tile_bytes > 0
        assert small.memory.host <= budget < small.memory.weights
        for _ in range(2):
            assert difference(small(x), expected) <= 1e-6


def test_a_file_and_a_plan_of_before_serve_with_tiles(tmp_path):
    module, x = stack(512, 4).eval(), torch.randn(2, 512)
    path = tmp_path / "weights.safetensors"
    plans = []
    for budget in ("3MB", "300kB"):  # the file is written by the first, without tiles
        with edgenas_runtime.stream(module, x, budget=budget, weights=path) as small:
            plans.append(small.plan)
    content = path.read_bytes()
    for plan in plans:
        with edgenas_runtime.stream(module, x, plan=plan, weights=path) as again, torch.no_grad():
            assert difference(again(x), module(x)) <= 1e-6
    assert path.read_bytes() == content


def test_what_cannot_be_cut_stays_whole():
    hooked = nn.Linear(512, 512)
    hooked.register_forward_hook(lambda *_: None)
    grouped = nn.Conv1d(512, 512, 257, groups=4, padding=128)
    module = nn.Sequential(nn.Linear(512, 512), hooked, nn.Unflatten(1, (512, 1)), grouped)
    opened = open_streamable(module.eval(), torch.randn(1, 512))
    whole, cut = (opened.pieces(size).layers for size in (0, 300_000))
    opened.close()
    assert [sum(piece.name == layer.name for piece in cut) for layer in whole] == [4, 1, 1]


@pytest.mark.parametrize(
    ("width", "layers", "budget"),
    [(1024, 4, 10**6), pytest.param(8192, 4, 64 * 10**6, marks=pytest.mark.slow)],
)
def test_a_stack_runs_in_a_sixteenth_of_its_memory(width, layers, budget):
    """16 MB in 1 MB, and 1 GB in 64 MB, beyond what the process has without weights."""
    module, x = stack(width, layers).eval(), torch.randn(4, width)
    with torch.no_grad():
        expected = module(x)
    small = edgenas_runtime.stream(module, x, budget=budget)
    del module
    gc.collect()
    with small:
        assert small.memory.weights > 16 * small.memory.total
        rss = psutil.Process().memory_info().rss
        assert difference(small(x), expected) <= 1e-6
        assert psutil.Process().memory_info().rss < rss + 4 * budget


def test_of_plans_that_are_predicted_alike_the_one_that_is_fastest_is_taken(monkeypatch):
    module, x = stack(512, 6).eval(), torch.randn(3, 512)
    opened, timed = open_streamable(module, x), []

    def taken_ms(_self, plan, _x):
        timed.append(plan)
        return 2.0 - 0.1 * len(timed)

    monkeypatch.setattr(streamable, "_NEAR", 100.0)
    monkeypatch.setattr(type(opened), "_taken_ms", taken_ms)

    plan, layers = opened.plan(x, 2_500_000)

    assert 1 < len(timed) <= 4
    assert plan == timed[-1]
    assert len(layers) == len(plan.resident)
    assert all(each.memory_bytes <= 2_500_000 for each in timed)
    opened.close()
