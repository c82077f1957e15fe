"""Storing new columns loses none that is in the data folder."""

import numpy as np
import pytest

from edgenas_core.files.keyed_table import parse_csv_table, write_csv_table
from nas.data.convert import store_accuracy, store_latency
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

ACCURACY = "nb201_accuracy.csv"


def columns(**numbers):
    return {name: np.full(NAS_BENCH_201.size, number) for name, number in numbers.items()}


def test_an_accuracy_table_of_the_same_columns_is_replaced(tmp_path):
    store_accuracy(SPACE, tmp_path / ACCURACY, columns(cifar10_test=1.0))

    line = store_accuracy(SPACE, tmp_path / ACCURACY, columns(cifar10_test=2.0, cifar10_valid=3.0))

    table = parse_csv_table(tmp_path / ACCURACY, SPACE)
    assert table.values[:, 0].tolist() == [2.0, 3.0]
    assert str(table.path) in line
    assert "cifar10_test, cifar10_valid" in line


def test_an_accuracy_table_that_has_more_is_left_as_it_is(tmp_path):
    store_accuracy(SPACE, tmp_path / ACCURACY, columns(cifar10_test=1.0, cifar10_valid=3.0))

    line = store_accuracy(SPACE, tmp_path / ACCURACY, columns(cifar10_test=2.0))

    table = parse_csv_table(tmp_path / ACCURACY, SPACE)
    assert table.values[:, 0].tolist() == [1.0, 3.0]
    assert "cifar10_valid" in line
    assert "move it away" in line


def test_latency_columns_are_added_and_replaced(tmp_path):
    path = tmp_path / "nb201_latency_help_ms.csv"
    store_latency(SPACE, path, columns(phone=1.0, gpu=2.0))

    store_latency(SPACE, path, columns(gpu=3.0, tpu=4.0))

    table = parse_csv_table(path, SPACE)
    assert dict(zip(table.columns, table.values[:, 0].tolist(), strict=True)) == {
        "phone": 1.0,
        "gpu": 3.0,
        "tpu": 4.0,
    }


@pytest.mark.parametrize("missing", [False, True])
def test_columns_of_another_table_are_not_written_again(tmp_path, missing):
    write_csv_table(tmp_path / "mine_ms.csv", SPACE, columns(phone=1.0))
    path = tmp_path / "nb201_latency_help_ms.csv"

    line = store_latency(SPACE, path, columns(phone=9.0, **({"gpu": 2.0} if missing else {})))

    assert "mine_ms.csv" in line
    assert path.exists() is missing
    assert not missing or parse_csv_table(path, SPACE).columns == ("gpu",)
