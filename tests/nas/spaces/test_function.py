"""Spaces of functions: conditions, numbers, refusals, and a search of one that a script holds."""

import pickle

import numpy as np
import pytest
import torch
from torch import nn

import edgenas
from controller.exhaustive import ExhaustiveConfig
from edgenas_core.types.architectures import Enumerable
from nas.spaces.counted import count_costs
from nas.spaces.source import traced_source

pytestmark = pytest.mark.usefixtures("one_thread")


def build(task, depth, width, kernel=3):
    layers = [nn.Conv2d(3, width, kernel, padding=kernel // 2) for _ in range(1)]
    layers += [nn.Conv2d(width, width, kernel, padding=kernel // 2) for _ in range(depth - 1)]
    head = nn.AvgPool2d(2, count_include_pad=False), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, *head, nn.Linear(width, task.num_classes))


@pytest.fixture
def space():
    kernel = edgenas.choice([3, 5], when=lambda depth, width: depth >= 2 and width > 4)
    return edgenas.space(build, depth=[1, 2, 3], width=[4, 8], kernel=kernel)


def test_a_choice_that_does_not_matter_is_the_first(space):
    rows = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1]])

    assert space.normal(rows).tolist() == [[0, 1, 0], [1, 0, 0], [1, 1, 1]]
    assert space.chosen(rows[0]) == {"depth": 1, "width": 8, "kernel": 3}
    assert [space.text(row) for row in rows] == [
        "depth=1 width=8",
        "depth=2 width=4",
        "depth=2 width=8 kernel=5",
    ]


def test_a_condition_sees_a_switched_off_choice_as_its_first_option():
    space = edgenas.space(
        build,
        a=[1, 2],
        b=edgenas.choice([1, 2], when=lambda a: a == 2),
        c=edgenas.choice([1, 2], when=lambda b: b == 2),
    )

    assert space.normal(np.array([[0, 1, 1], [1, 1, 1]])).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert space.size == 4


def test_a_small_space_is_listed_and_a_large_one_is_not(space):
    large = edgenas.space(build, **{f"c{n}": range(8) for n in range(4)})

    assert isinstance(space, Enumerable)
    assert space.size == 8
    assert not isinstance(large, Enumerable)
    assert large.features(np.zeros((2, 4), np.int64)).shape == (2, len(large.feature_names))


def test_costs_are_those_of_the_built_network_and_the_control_is_the_costliest(space):
    row = space.parse("depth=2 width=8 kernel=5")
    costs = space.costs(row, edgenas.Task("four", 4, 8))

    weights = 3 * 8 * 25 + 8 * 8 * 25
    assert costs["parameters"] == weights + 8 + 8 + 8 * 4 + 4
    assert costs["flops"] == 64 * weights + 8 * 4
    assert space.text(space.control()) == "depth=3 width=8 kernel=5"


def test_a_space_of_a_lambda_goes_to_another_process():
    space = edgenas.space(lambda task, width: build(task, 2, width), width=[2, 4])
    row, task = space.parse("width=4"), edgenas.Task("four", 4, 8)

    again = pickle.loads(pickle.dumps(space))  # noqa: S301 - our own

    assert str(again.network(row, task)) == str(space.network(row, task))


def test_a_network_that_needs_values_is_counted_too():
    def needs_values():
        return nn.Conv2d(3, int(torch.ones(4).sum().item()), 1)

    assert count_costs(needs_values, torch.randn(1, 3, 2, 2)) == (16, 48)


@pytest.mark.parametrize(
    ("choices", "names"),
    [
        ({}, "choices"),
        ({"depth": []}, "depth"),
        ({"depth": [1, 1]}, "depth"),
        ({"depth": edgenas.choice([1, 2], when=lambda width: width), "width": [1]}, "width"),
    ],
)
def test_what_is_no_space_is_refused(choices, names):
    with pytest.raises(edgenas.UserError, match=names):
        edgenas.space(build, **choices)


@pytest.mark.parametrize("text", ["depth=2", "depth=2 width=5", "depth=1 width=8 kernel=5"])
def test_a_text_with_wrong_options_is_refused(space, text):
    with pytest.raises(edgenas.UserError, match="width"):
        space.parse(text)


def test_a_network_that_cannot_be_traced_is_refused():
    class Branching(nn.Module):
        def forward(self, images):
            return images if images.sum() > 0 else -images

    with pytest.raises(edgenas.UserError, match="source"):
        traced_source(Branching(), "mine")


def test_a_space_that_a_script_holds_is_searched_resumed_and_exported(space, tmp_path, monkeypatch):
    monkeypatch.setattr(ExhaustiveConfig, "batch_size", 2)
    parts = {
        "space": space,
        "accuracy": lambda rows: rows.sum(1) / 10,
        "latency": lambda rows: 1 + rows[:, 0] * 1.0,
    }

    def stop(_trials):
        raise KeyError

    with pytest.raises(KeyError):
        edgenas.search(
            **parts,
            device="desk/torch/fp32/b1",
            T="2.5ms",
            reward="constrained",
            controller="exhaustive",
            budget=8,
            out=tmp_path,
            quiet=True,
            progress=stop,
        )
    (folder,) = tmp_path.glob("*/*")
    run = edgenas.search(**parts, resume=folder, quiet=True)

    assert run.best.arch == "depth=2 width=8 kernel=5"
    assert run.best.index == space.numbers(space.parse(run.best.arch))
    folder = run.export(settings={"timing.samples": 3}, quiet=True)
    assert (folder / "network.onnx").is_file()
