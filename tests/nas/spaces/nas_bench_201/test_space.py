"""The search space counts, numbers and compares cells as NAS-Bench-201 does."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgenas_core.types.errors import UserError
from nas.spaces.nas_bench_201.space import EDGES, NAS_BENCH_201, OPERATIONS

architectures = st.tuples(*[st.integers(0, len(OPERATIONS) - 1)] * len(EDGES)).map(
    lambda choices: np.array(choices, np.int64)
)

PATHS = ((3,), (0, 4), (1, 5), (0, 2, 5))
"""The four ways from input to output, as positions in `EDGES`."""


def column(path, name):
    with path.open() as file:
        return [row[name] for row in csv.DictReader(file)]


def same_partition(a, b):
    """Whether two labellings put the same things together."""
    return len(set(zip(a, b, strict=True))) == len(set(a)) == len(set(b))


@pytest.mark.parametrize(
    ("number", "string"),
    [  # NATS-tss-v1_0; 9930 is the best on CIFAR-100
        (0, "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|"),
        (11, "|nor_conv_3x3~0|+|nor_conv_3x3~0|avg_pool_3x3~1|+|none~0|nor_conv_3x3~1|avg_pool_3x3~2|"),
        (284, "|skip_connect~0|+|skip_connect~0|skip_connect~1|+|none~0|nor_conv_1x1~1|none~2|"),
        (9930, "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"),
        (15624, "|nor_conv_1x1~0|+|none~0|nor_conv_1x1~1|+|none~0|nor_conv_1x1~1|nor_conv_1x1~2|"),
    ],
)  # fmt: skip
def test_architectures_are_numbered_as_in_the_official_archive(number, string):
    assert NAS_BENCH_201.strings[number] == string
    assert NAS_BENCH_201.numbers(NAS_BENCH_201.parse(string)) == number


@pytest.mark.data
def test_every_architecture_is_numbered_as_in_the_official_archive(nas_data):
    assert list(NAS_BENCH_201.strings) == column(nas_data / "nb201_accuracy.csv", "arch")


@given(architectures)
def test_operation_names_are_read_back_into_their_architecture(architecture):
    names = NAS_BENCH_201.operations(architecture)

    np.testing.assert_array_equal(NAS_BENCH_201.from_operations(names), architecture)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9930",
        "|none~0|+|none~0|none~1|",
        "|none~1|+|none~0|none~1|+|none~0|none~1|none~2|",
        "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|none~3|",
    ],
)
def test_a_text_of_another_form_is_refused_with_the_form(text):
    with pytest.raises(UserError, match=r"\|op~0\|\+\|op~0\|op~1\|"):
        NAS_BENCH_201.parse(text)


def test_an_unknown_operation_is_refused_with_the_known_ones():
    with pytest.raises(UserError, match=r"max_pool_3x3.*none, skip_connect"):
        NAS_BENCH_201.parse("|max_pool_3x3~0|+|none~0|none~1|+|none~0|none~1|none~2|")


def test_another_number_of_operations_is_refused():
    with pytest.raises(UserError, match=r"5 .*6"):
        NAS_BENCH_201.from_operations(["none"] * 5)


def test_an_edge_is_live_when_a_path_without_none_takes_it():
    rows = NAS_BENCH_201.rows
    expected = np.zeros(rows.shape, bool)
    for path in PATHS:
        open_path = (rows[:, path] != OPERATIONS.index("none")).all(axis=1)
        expected[np.ix_(open_path, path)] = True

    np.testing.assert_array_equal(NAS_BENCH_201.live_edges(rows), expected)


def test_341_architectures_do_not_connect_input_and_output():
    live = NAS_BENCH_201.live_edges(NAS_BENCH_201.rows)

    assert (~live.any(axis=-1)).sum() == 341


def test_there_are_6466_different_networks():
    assert len(np.unique(NAS_BENCH_201.network_class)) == 6466


@pytest.mark.data
def test_network_classes_are_the_unique_strings_of_the_benchmark(nas_data):
    unique = column(nas_data / "raw/nats_bench.csv", "UniqueString")

    assert same_partition(NAS_BENCH_201.network_class.tolist(), unique)


def test_there_are_4930_different_functions():
    assert len(np.unique(NAS_BENCH_201.function_class)) == 4930


def test_equal_networks_are_equal_functions():
    networks, functions = NAS_BENCH_201.network_class, NAS_BENCH_201.function_class

    np.testing.assert_array_equal(functions, functions[networks])


@pytest.mark.parametrize("classes", ["network_class", "function_class"])
def test_a_class_bears_the_number_of_its_first_architecture(classes):
    labels = getattr(NAS_BENCH_201, classes)

    first = np.unique(labels, return_index=True)[1]

    np.testing.assert_array_equal(labels[first], first)


def test_disconnected_architectures_are_one_function():
    connected = NAS_BENCH_201.live_edges(NAS_BENCH_201.rows).any(axis=-1)

    assert len(np.unique(NAS_BENCH_201.function_class[~connected])) == 1


def test_a_sum_with_zero_is_another_network_but_the_same_function():
    # given conv(x), and conv(x + 0) where node 2 sums a skip and a none
    direct = NAS_BENCH_201.from_operations(["none"] * 3 + ["nor_conv_3x3", "none", "none"])
    by_node_2 = NAS_BENCH_201.from_operations(
        ["none", "skip_connect", "none", "none", "none", "nor_conv_3x3"]
    )

    a, b = NAS_BENCH_201.numbers(np.stack([direct, by_node_2]))

    assert NAS_BENCH_201.network_class[a] != NAS_BENCH_201.network_class[b]
    assert NAS_BENCH_201.function_class[a] == NAS_BENCH_201.function_class[b]
