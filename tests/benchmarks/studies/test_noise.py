"""What a table's origin tells of its noise."""

import json

import numpy as np
import pytest

from benchmarks.studies.scenarios.noise import noise_of
from edgenas_core.files.keyed_table import origin_beside
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

BOARD = "my-board/torch/fp32/b1"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A table of two cells, whose origin a test writes."""
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    path = tmp_path / "mine_ms.csv"
    rows = [f"{NAS_BENCH_201.strings[index]},{index + 1},{index + 2}" for index in (3, 4)]
    path.write_text("\n".join([f"arch,{BOARD},{BOARD}@p99", *rows]))
    return path


def tell(table, **origin):
    table.with_suffix(".json").write_text(json.dumps(origin))


def test_the_differences_of_repeats_are_the_noise_of_each_statistic(table):
    each = {"median": 10 * [0.01, -0.02, 0.03], "p99": 10 * [0.1, 0.2, -0.1]}
    tell(table, repeats_relative_differences=each)

    assert noise_of(SPACE, BOARD).repeats == pytest.approx(np.log1p(each["median"]))
    assert noise_of(SPACE, f"{BOARD}@p99").repeats == pytest.approx(np.log1p(each["p99"]))


def test_of_a_table_that_tells_their_median_only_they_are_normal(table):
    tell(table, repeats=192, repeats_median_relative_difference=0.02)

    noise = np.expm1(noise_of(SPACE, BOARD).repeats)

    assert np.median(np.abs(noise)) == pytest.approx(0.02, rel=0.05)
    assert noise.std() == pytest.approx(0.02 / 0.6745)
    assert noise_of(SPACE, f"{BOARD}@p99") is None


@pytest.mark.parametrize(
    "origin",
    [
        {},
        {"repeats": 19, "repeats_median_relative_difference": 0.01},
        {"repeats": 90, "repeats_median_relative_difference": None},
        {"repeats_relative_differences": {"median": 19 * [0.01]}},
        {"repeats_relative_differences": {"median": 20 * ["x", 1]}},
        {"repeats_relative_differences": {"median": 20 * [0.1, -1.0]}},
        {"repeats_relative_differences": [1, 2, 3]},
    ],
)
def test_what_tells_too_little_tells_nothing(table, origin):
    tell(table, **origin)

    assert noise_of(SPACE, BOARD) is None


def test_of_a_file_that_is_no_origin_nothing_is_told(table):
    assert origin_beside(table) == {}
    table.with_suffix(".json").write_text("[" * 100_000)
    assert origin_beside(table) == {}
    table.with_suffix(".json").write_text("[1]")
    assert origin_beside(table) == {}
    assert noise_of(SPACE, BOARD) is None
