"""What is written reads back."""

import numpy as np
import pytest

from nas.spaces.nas_bench_201.csv_writer import write_csv_table
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from runtime.shell.keyed_table import parse_csv_table


@pytest.fixture
def columns():
    numbers = np.random.default_rng(0).lognormal(size=(2, NAS_BENCH_201.size))
    numbers[0, 5:] = np.nan
    numbers[1, 9:] = np.nan
    return {"gpu": numbers[0], "phone": numbers[1]}


@pytest.mark.parametrize(("name", "rows"), [("nb201_ms.csv", 15_625), ("some_ms.csv", 9)])
def test_every_number_reads_back_exactly(tmp_path, columns, name, rows):
    path = tmp_path / name

    write_csv_table(path, columns)

    table = parse_csv_table(path)
    assert table.columns == ("gpu", "phone")
    np.testing.assert_array_equal(table.values, list(columns.values()))
    assert len(path.read_text().splitlines()) == 1 + rows


def test_a_column_name_with_a_comma_survives(tmp_path, columns):
    write_csv_table(tmp_path / "some_ms.csv", {"gpu, hot": columns["gpu"]})

    assert parse_csv_table(tmp_path / "some_ms.csv").columns == ("gpu, hot",)
