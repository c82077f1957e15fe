"""The choices of MobileNetV3 as in Once-for-All."""

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.plugin import NARROW, SPACE
from edgenas_mobilenet_v3.space import FORM, settings_of, side_of, stages_of
from nas.spaces.base import ChoiceSpace

IMAGENET = SPACE.tasks["imagenet"]
PUBLIC = "r204 d22223 e64466343363336346436 k75557757573753735353"  # as tables of others write it


def test_the_encoding_of_public_tables_is_read_and_what_is_beyond_a_depth_means_nothing():
    row = SPACE.parse(PUBLIC)

    assert SPACE.text(row) == ("r204 k7e6-k5e4 k7e6-k7e3 k5e3-k7e6 k5e3-k3e6 k5e6-k3e4-k5e3")
    other = PUBLIC.replace("e6446", "e6433")
    np.testing.assert_array_equal(SPACE.parse(other), row)


@pytest.mark.parametrize(
    "text",
    [
        FORM.replace("r224", "r225"),
        FORM.replace("r224", "r9999"),
        FORM.replace("k3e6", "k4e6"),
        FORM.replace("k3e6", "k3e5"),
        FORM.replace("k3e6-k5e4", "k3e6"),
        FORM.replace("k3e3-k3e3-k5e6-k5e3", "k3e3-k3e3-k5e6-k5e3-k3e3"),
        FORM.rpartition(" ")[0],
        PUBLIC.replace("d2", "d5"),
        PUBLIC[:-1],
        "r²²⁴ " + FORM.partition(" ")[2],
    ],
)
def test_a_wrong_text_is_refused_with_the_form(text):
    with pytest.raises(UserError, match=r"r128, r132"):
        SPACE.parse(text)


def test_samples_are_uniform_over_distinct_networks():
    chosen = settings_of(SPACE.sample(np.random.default_rng(0), 20_000))

    depths = chosen.on.sum(-1)
    for depth, networks in ((2, 81), (3, 729), (4, 6561)):  # 9 settings of each block
        share = networks / (81 + 729 + 6561)
        error = np.sqrt(share * (1 - share) / depths.size)
        assert abs((depths == depth).mean() - share) < 4 * error
    assert np.bincount(chosen.side, minlength=25).min() > 20_000 / 25 * 0.8
    kernels = np.bincount(chosen.kernel[chosen.on])
    assert kernels.max() / kernels.min() < 1.02


def test_a_deeper_stage_is_a_neighbour_and_the_new_block_begins_with_the_smallest_choices():
    row = SPACE.parse(FORM)

    texts = [SPACE.text(one) for one in SPACE.neighbours(row)]

    assert FORM.replace("k3e6-k5e4", "k3e6-k5e4-k3e3") in texts
    blocks = sum(map(len, stages_of(row)))
    assert len(texts) == 24 + 2 * 5 + 4 * blocks  # sides, depths, kernels and expansions


@pytest.mark.parametrize(
    ("space", "text", "parameters", "macs"),
    [  # counted by `ofa` 0.1.0, as in benchmarks/results/latency.md
        (SPACE, FORM, 6255008, 309959800),
        (NARROW, FORM, 4569248, 197005552),
    ],
)
def test_costs_are_those_of_the_public_implementation(space, text, parameters, macs):
    costs = space.costs(space.parse(text), IMAGENET)

    assert costs["parameters"] == parameters
    assert costs["flops"] == macs


def test_a_published_network_has_the_multiply_accumulates_in_its_name():
    # ofa_specialized/flops-389M_top1-79.1_finetune-75 of han-cai/files
    text = "r224 k3e3-k3e3 k5e3-k5e6-k3e3 k5e4-k5e4-k3e3 k5e6-k5e4-k3e4-k3e4 k3e6-k3e6-k7e6-k3e3"

    assert SPACE.costs(SPACE.parse(text), IMAGENET)["flops"] / 1e6 == pytest.approx(389, abs=0.5)


@pytest.mark.parametrize("image_side", [8, 32, 96, 224])
def test_images_of_any_side_are_taken_and_the_choice_of_the_side_is_in_proportion(image_side):
    task = Task("own", 3, image_side)
    largest = SPACE.parse(FORM)
    smaller = SPACE.parse(FORM.replace("r224", "r128"))

    assert SPACE.image_side(largest, task) == image_side
    assert SPACE.image_side(smaller, task) == round(image_side * 128 / 224)
    network = SPACE.network(smaller, task).eval()
    logits = network(SPACE.example_input(smaller, task, 1))
    assert logits.shape == (1, 3)


def test_the_narrow_space_has_narrower_networks_and_a_name_of_its_own():
    row = SPACE.parse(FORM)

    assert NARROW.name != SPACE.name
    assert NARROW.costs(row, IMAGENET)["flops"] < SPACE.costs(row, IMAGENET)["flops"]
    assert NARROW.layers(row, IMAGENET)[-1].outputs == 160
    assert SPACE.layers(row, IMAGENET)[-1].outputs == 192


def test_the_side_is_that_of_the_text():
    assert side_of(SPACE.parse(PUBLIC)) == 204


def test_memory_computed_from_blocks_is_that_of_the_whole_network():
    row = NARROW.sample(np.random.default_rng(5), 1)[0]

    computed = NARROW.memory(row, IMAGENET)

    (whole,) = ChoiceSpace.micro_graphs(NARROW, row, IMAGENET)
    assert computed == pytest.approx(whole.memory(), rel=1e-3)
