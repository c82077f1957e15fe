"""`fetch` on a real connection: the published files, converted."""

import shutil

import numpy as np
import pytest

from edgenas_core.files.keyed_table import parse_csv_table
from nas.data.convert import fetch
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.public.data import FILES

pytestmark = pytest.mark.data


@pytest.fixture
def serving(mirror, nas_data):
    """A mirror of the published files."""
    mirror.files = {
        f"/{file.address}": (nas_data / "raw" / file.name).read_bytes() for file in FILES
    }
    return mirror


def test_everything_is_brought_and_agrees_with_the_tables_made_before(serving, nas_data, tmp_path):
    lines = list(fetch(SPACE, tmp_path, serving.url))

    assert len(serving.log) == len(FILES) == 27
    accuracy = parse_csv_table(tmp_path / "nb201_accuracy.csv", SPACE)
    before = parse_csv_table(nas_data / "nb201_accuracy.csv", SPACE)
    assert accuracy.columns == ("cifar10_test", "cifar100_test", "imagenet16_test")
    for name in accuracy.columns:
        np.testing.assert_allclose(accuracy.column(name), before.column(name), rtol=0, atol=5.1e-5)
    latency = parse_csv_table(tmp_path / "nb201_latency_help_ms.csv", SPACE)
    before = parse_csv_table(nas_data / "nb201_latency_ms.csv", SPACE)
    assert latency.columns == tuple(name for name in before.columns if name.startswith("help-"))
    for name in latency.columns:
        np.testing.assert_allclose(latency.column(name), before.column(name), rtol=0, atol=5.1e-6)
    assert [line.split()[0] for line in lines] == ["27", "wrote", "wrote"]


def test_what_is_there_is_neither_asked_for_nor_overwritten(mirror, nas_data, tmp_path):
    shutil.copytree(nas_data / "raw", tmp_path / "raw", copy_function=shutil.copyfile)
    for name in ("nb201_accuracy.csv", "nb201_latency_ms.csv"):
        shutil.copyfile(nas_data / name, tmp_path / name)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}

    lines = list(fetch(SPACE, tmp_path, mirror.url))

    assert mirror.log == []
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")} == before
    assert [line.split()[0] for line in lines] == ["27", "left", "did"]
    assert "25 of them" in lines[2]
