"""What every search space promises; the tests of a plug-in import these, with a fixture `space` of their own."""

import ast
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.base import Choices
from edgenas_core.page.document import HtmlPage
from edgenas_core.page.parts import PagePart
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from latency.base import Space as LatencySpace
from latency.base import every_architecture
from nas.spaces.base import Layered, SearchSpace, task_named

pytestmark = pytest.mark.usefixtures("one_thread")

LARGEST_LISTED = 100_000
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=4)
"""Of what builds a network for each row."""


@pytest.fixture(scope="module")
def enumerable(space):
    if not isinstance(space, Enumerable):
        pytest.skip(f"{space.name} cannot be listed")
    return space


def sampled(space, seed, n=1):
    return space.sample(np.random.default_rng(seed), n)


def is_row_of(row, rows):
    return bool((rows == row).all(axis=-1).any())


def is_wholly_on(space, row):
    """Whether no position is switched off."""
    return "-" not in space.describe(row)


def test_it_satisfies_the_protocol_of_every_consumer(space):
    assert isinstance(space, SearchSpace)
    assert isinstance(space, Choices)
    assert isinstance(space, LatencySpace)


def test_every_position_has_a_name_and_every_option_too(space):
    assert len(set(space.positions)) == len(space.positions) == len(space.num_choices)
    for position, count in enumerate(space.num_choices):
        assert len(set(space.options(position))) == len(space.options(position)) == count


def test_its_tasks_have_their_names_and_one_is_the_default(space):
    assert all(task.name == name for name, task in space.tasks.items())
    assert task_named(space, "auto") is space.tasks[space.default_task]
    with pytest.raises(UserError, match="no-such-task"):
        task_named(space, "no-such-task")


@given(seeds, st.integers(0, 40))
def test_samples_are_valid_and_inside_the_choices(space, seed, n):
    rows = sampled(space, seed, n)

    assert rows.shape == (n, len(space.num_choices))
    assert rows.dtype == np.int64
    assert space.valid(rows).all()
    assert ((rows >= 0) & (rows < np.array(space.num_choices))).all()


@given(seeds)
def test_the_generator_alone_decides_what_is_sampled(space, seed):
    np.testing.assert_array_equal(sampled(space, seed, 5), sampled(space, seed, 5))


def test_another_seed_gives_other_samples(space):
    assert (sampled(space, 0, 50) != sampled(space, 1, 50)).any()


@given(seeds)
def test_a_choice_outside_its_options_is_not_valid(space, seed):
    (row,) = sampled(space, seed)
    position = seed % len(row)
    for outside in (-1, space.num_choices[position]):
        wrong = row.copy()
        wrong[position] = outside

        assert not space.valid(wrong)


@pytest.mark.parametrize("form", ["normal", "canonical"])
@given(seeds)
def test_normal_and_canonical_are_idempotent_and_keep_validity(space, form, seed):
    rows = sampled(space, seed, 20)
    before = rows.copy()

    once = getattr(space, form)(rows)

    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(getattr(space, form)(once), once)
    assert space.valid(once).all()


@given(seeds)
def test_what_is_switched_off_does_not_make_another_network(space, seed):
    rows = sampled(space, seed, 20)

    np.testing.assert_array_equal(space.canonical(space.normal(rows)), space.canonical(rows))


@few
@given(seeds)
def test_any_leading_axes_are_kept(space, seed):
    rows = sampled(space, seed, 4)
    shaped = rows.reshape(2, 2, -1)
    task = space.tasks[space.default_task]

    for form in (space.normal, space.canonical, space.valid, space.features):
        flat = form(rows)
        np.testing.assert_array_equal(form(shaped), flat.reshape(2, 2, *flat.shape[1:]))
    for name, cost in space.costs(rows, task).items():
        np.testing.assert_array_equal(space.costs(shaped, task)[name], cost.reshape(2, 2))


@given(seeds)
def test_a_text_is_one_line_that_is_parsed_back(space, seed):
    (row,) = sampled(space, seed)

    text = space.text(row)

    assert len(text.splitlines()) == 1
    np.testing.assert_array_equal(space.parse(text), space.normal(row))


@pytest.mark.parametrize("text", ["", "no architecture of any space"])
def test_a_text_of_no_architecture_is_a_user_error(space, text):
    with pytest.raises(UserError):
        space.parse(text)


@settings(max_examples=20)
@given(seeds)
def test_neighbours_are_valid_and_distinct_and_differ_in_one_choice(space, seed):
    row = space.normal(sampled(space, seed))[0]

    neighbours = space.neighbours(row)

    assert len(neighbours)
    assert space.valid(neighbours).all()
    assert len(np.unique(neighbours, axis=0)) == len(neighbours)
    assert not is_row_of(row, neighbours)
    for neighbour in neighbours:
        # one choice is set, and what that switches off or on follows from it
        changed = np.repeat(row[None], len(row), axis=0)
        np.fill_diagonal(changed, neighbour)
        assert is_row_of(neighbour, space.normal(changed))


@settings(max_examples=20)
@given(seeds, st.randoms(use_true_random=False))
def test_where_nothing_is_switched_off_neighbours_are_neighbours_of_each_other(space, seed, random):
    rows = [row for row in space.normal(sampled(space, seed, 50)) if is_wholly_on(space, row)]
    for row in rows[:1]:
        neighbours = [one for one in space.neighbours(row) if is_wholly_on(space, one)]
        for neighbour in random.sample(neighbours, min(3, len(neighbours))):
            assert is_row_of(row, space.neighbours(neighbour))


@few
@given(seeds)
def test_features_are_finite_numbers_with_names(space, seed):
    features = space.features(sampled(space, seed, 5))

    assert features.shape == (5, len(space.feature_names))
    assert len(set(space.feature_names)) == len(space.feature_names)
    assert np.isfinite(features).all()


@settings(max_examples=20)
@given(seeds)
def test_equal_networks_are_in_one_group(space, seed):
    rows = sampled(space, seed, 20)

    groups = space.groups(np.concatenate([rows, space.canonical(rows)]))

    np.testing.assert_array_equal(groups[:20], groups[20:])


@few
@given(seeds)
def test_costs_are_positive(space, seed):
    rows = sampled(space, seed, 5)

    for task in space.tasks.values():
        costs = space.costs(rows, task)

        assert all(np.isfinite(cost).all() and (cost > 0).all() for cost in costs.values())
        assert set(costs) >= {"parameters", "flops"}


@few
@given(seeds)
def test_a_network_has_the_parameters_that_it_costs_and_a_logit_for_each_class(space, seed):
    (row,) = sampled(space, seed)
    for task in space.tasks.values():
        network = space.network(row, task).eval()
        images = space.example_input(row, task, batch_size=2)

        with torch.no_grad():
            logits = network(images)

        parameters = sum(parameter.numel() for parameter in network.parameters())
        assert space.costs(row, task)["parameters"] == parameters
        assert logits.shape == (2, task.num_classes)
        assert torch.isfinite(logits).all()


@settings(max_examples=2)
@given(seeds)
def test_the_source_alone_makes_the_same_network(space, seed):
    (row,) = sampled(space, seed)
    task = space.tasks[space.default_task]
    network = space.network(row, task).eval()
    images = space.example_input(row, task, batch_size=2)
    source = space.source(row, task)

    fresh = {"__name__": "found"}
    exec(compile(source, "found.py", "exec"), fresh)  # noqa: S102 - it is the export
    exported = fresh["Network"]()
    assert list(exported.state_dict()) == list(network.state_dict())
    exported.load_state_dict(network.state_dict())

    with torch.no_grad():
        torch.testing.assert_close(exported.eval()(images), network(images), rtol=0, atol=0)
    assert imported_by(source) <= {"torch", *sys.stdlib_module_names}


def imported_by(source):
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module).split(".")[0])
    return modules


def test_the_control_is_an_architecture(space):
    assert space.valid(space.control())


@settings(max_examples=20)
@given(seeds)
def test_it_is_drawn_and_described_position_by_position(space, seed):
    (row,) = sampled(space, seed)

    part = space.drawing(row, "A <network>")
    described = space.describe(row)

    assert isinstance(part, PagePart)
    assert "A &lt;network&gt;" in HtmlPage("", "", [part]).html()
    assert len(described) == len(space.positions)
    assert all(described)


def test_tables_and_models_that_come_with_it_lie_in_a_folder(space):
    assert space.resources is None or space.resources.is_dir()


def test_numbers_count_the_architectures(enumerable):
    if enumerable.size > LARGEST_LISTED:
        pytest.skip(f"{enumerable.size:,} architectures are too many to list in a test")

    rows = every_architecture(enumerable)

    assert len(np.unique(rows, axis=0)) == len(rows) == enumerable.size
    assert enumerable.valid(rows).all()
    np.testing.assert_array_equal(enumerable.numbers(rows), np.arange(enumerable.size))


@given(st.data())
def test_numbers_and_architectures_are_inverse_along_any_axes(enumerable, data):
    number = st.integers(0, enumerable.size - 1)
    numbers = np.array(data.draw(st.lists(number, min_size=4, max_size=4))).reshape(2, 2)

    rows = enumerable.architectures(numbers)

    assert rows.shape == (2, 2, len(enumerable.num_choices))
    np.testing.assert_array_equal(enumerable.numbers(rows), numbers)


def test_a_choice_outside_the_space_has_no_number(enumerable):
    for outside in (-1, enumerable.num_choices[0]):
        row = enumerable.control().copy()
        row[0] = outside

        with pytest.raises(IndexError):
            enumerable.numbers(row)


def test_the_layers_of_a_network_cost_what_it_costs(space):
    if not isinstance(space, Layered):
        pytest.skip(f"{space.name} does not list layers")
    task = space.tasks[space.default_task]
    for row in sampled(space, 0, 5):
        layers = space.layer_list(row, task)
        costs = space.costs(row, task)

        assert sum(layer.parameters for layer in layers) == costs["parameters"]
        assert sum(layer.multiply_accumulates for layer in layers) == costs["flops"]
        assert (layers[-1].channels, layers[-1].side) == (task.num_classes, 1)
