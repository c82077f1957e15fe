"""The tables that come with NAS-Bench-201."""

import gzip

import numpy as np
import pytest

from benchmarks.fitting.nas_bench_201.bundled_table import COLUMNS, write_bundled
from latency.devices.bundled import bundled_paths, origin_of, read_bundled
from latency.devices.registry import Processor, find
from nas.spaces.nas_bench_201.plugin import SPACE

PATHS = pytest.mark.parametrize("path", bundled_paths(SPACE).values(), ids=lambda path: path.stem)


def test_what_is_written_is_read_back_in_the_order_of_the_index(tmp_path):
    path = tmp_path / "board.csv.gz"

    with path.open("wb") as file:
        write_bundled(file, [(7, 1.5, 1.625, 2.0), (3, 0.5, 0.75, 1.0)])

    table = read_bundled(path)
    assert table.index.tolist() == [3, 7]
    assert table.median_ms.tolist() == [0.5, 1.5]
    assert table.p95_ms.tolist() == [0.75, 1.625]
    assert table.p99_ms.tolist() == [1.0, 2.0]


def test_the_same_times_make_the_same_bytes(tmp_path):
    rows = [(3, 0.5, 0.75, 1.0), (7, 1.5, 1.625, 2.0)]

    for name, given in (("a", rows), ("b", rows[::-1])):
        with (tmp_path / name).open("wb") as file:
            write_bundled(file, given)

    content = (tmp_path / "a").read_bytes()
    assert content == (tmp_path / "b").read_bytes()
    assert gzip.decompress(content).startswith(",".join(COLUMNS).encode())


@PATHS
def test_a_table_is_small_positive_and_each_architecture_is_in_it_once(path):
    table = read_bundled(path)

    assert path.stat().st_size < 400_000
    assert len(np.unique(table.index)) == len(table.index)
    assert (table.median_ms > 0).all()
    assert (table.median_ms <= table.p95_ms).all()
    assert (table.p95_ms <= table.p99_ms).all()


@PATHS
def test_an_origin_says_where_when_and_how(path):
    origin = origin_of(path)

    device = find(SPACE, origin["device"])
    assert device is not None
    assert origin["statistic"] == "median"
    assert origin["rows_measured"] == len(read_bundled(path).index)
    stated = {Processor.gpu: ("gpu",), Processor.cpu: ("cpu", "cpu_clock", "threads")}[device.kind]
    if device.has_scenario:
        stated = (*stated, "scenario")
    elif device.kind is Processor.gpu:
        stated = (*stated, "driver", "cuda", "clocks")
    for name in ("date", "versions", "control", "chosen", *stated):
        assert origin[name], name
    noise = {Processor.gpu: 0.02, Processor.cpu: 0.04}[device.kind]  # virtual machines share caches
    if device.has_scenario:
        noise = 0.06  # what runs beside is not as steady
    assert (origin["repeats_median_relative_difference"] or 0) < noise
    assert origin["control_largest_drift"] <= origin["settings"]["quiet"]["control_drift"]


def test_the_card_names_every_table():
    card = (SPACE.resources / "measured/README.md").read_text(encoding="utf-8")

    for device, path in bundled_paths(SPACE).items():
        assert f"`{device}`" in card
        assert path.name in card
