"""`fetch` on a real connection: the published files, converted."""

import shutil

import numpy as np
import pytest

from nas.csv_tables import parse_csv_table
from nas.csv_writer import write_csv_table
from nas.data.fetch import fetch
from nas.data.registry import FILES
from nas.search_space import NAS_BENCH_201

pytestmark = pytest.mark.data


@pytest.fixture
def serving(mirror, nas_data):
    """A mirror of the published files."""
    mirror.files = {
        f"/{file.address}": (nas_data / "raw" / file.name).read_bytes() for file in FILES
    }
    return mirror


def already_there(nas_data, folder):
    shutil.copytree(nas_data / "raw" / "help", folder / "raw" / "help")
    shutil.copy(nas_data / "raw" / "nats_bench.csv", folder / "raw")


def test_everything_is_brought_and_agrees_with_the_tables_made_before(serving, nas_data, tmp_path):
    lines = list(fetch(tmp_path, serving.url))

    assert len(serving.log) == len(FILES) == 27
    accuracy = parse_csv_table(tmp_path / "nb201_accuracy.csv")
    known = parse_csv_table(nas_data / "nb201_accuracy.csv")
    assert accuracy.columns == ("cifar10_test", "cifar100_test", "imagenet16_test")
    for name in accuracy.columns:
        np.testing.assert_allclose(accuracy.column(name), known.column(name), rtol=0, atol=5.1e-5)
    latency = parse_csv_table(tmp_path / "nb201_latency_help_ms.csv")
    known = parse_csv_table(nas_data / "nb201_latency_ms.csv")
    assert latency.columns == tuple(name for name in known.columns if name.startswith("help-"))
    for name in latency.columns:
        np.testing.assert_allclose(latency.column(name), known.column(name), rtol=0, atol=5.1e-6)
    assert len(lines) == 3
    assert lines[1].startswith("wrote ")
    assert lines[2].startswith("wrote ")


def test_a_second_run_asks_for_nothing_and_writes_the_same(serving, nas_data, tmp_path):
    already_there(nas_data, tmp_path)
    list(fetch(tmp_path, serving.url))
    before = {path: path.read_bytes() for path in tmp_path.glob("*.csv")}

    list(fetch(tmp_path, serving.url))

    assert serving.log == []
    assert {path: path.read_bytes() for path in tmp_path.glob("*.csv")} == before


def test_a_richer_accuracy_table_is_left_as_it_is(serving, nas_data, tmp_path):
    already_there(nas_data, tmp_path)
    richer = {"cifar100_valid": np.full(NAS_BENCH_201.size, 70.0)}
    path = tmp_path / "nb201_accuracy.csv"
    write_csv_table(path, richer)
    before = path.read_bytes()

    lines = list(fetch(tmp_path, serving.url))

    assert path.read_bytes() == before
    assert "left" in lines[1]
    assert "cifar100_valid" in lines[1]


def test_devices_that_another_table_has_are_not_written_again(serving, nas_data, tmp_path):
    already_there(nas_data, tmp_path)
    shutil.copy(nas_data / "nb201_latency_ms.csv", tmp_path)

    lines = list(fetch(tmp_path, serving.url))

    assert not (tmp_path / "nb201_latency_help_ms.csv").exists()
    assert "did not write" in lines[2]
    assert "25 of them are already in" in lines[2]
