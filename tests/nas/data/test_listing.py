"""`list`: tables of the accuracies and devices that a search can use."""

import numpy as np
from rich.console import Console

from common.files.keyed_table import write_csv_table
from latency.devices.registry import Processor, TimedDevice
from latency.models.regression import Quality
from nas.data.listing import DeviceRow, accuracy_rows, devices_table
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


def shown(table):
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_a_row_for_each_data_set_of_the_table(tmp_path):
    full = np.full(NAS_BENCH_201.size, 70.0)
    write_csv_table(
        tmp_path / "nb201_accuracy.csv",
        SPACE,
        {
            "cifar10_test": full,
            "cifar100_valid": full,
            "cifar100_epoch12_valid": full,
            "cifar100_train_s": full,
        },
    )

    assert list(accuracy_rows(SPACE, tmp_path)) == [
        ("table", "cifar10", "test @ 200", "15,625", "nb201_accuracy.csv"),
        ("table", "cifar100", "valid @ 200, valid @ 12", "15,625", "nb201_accuracy.csv"),
    ]


def test_an_empty_folder_has_no_rows(tmp_path):
    assert list(accuracy_rows(SPACE, tmp_path)) == []


def test_a_device_shows_all_that_it_holds():
    device = TimedDevice("board/fp32/b1", "source-board", "board", Processor.unknown, "a source")
    quality = Quality(r2=0.99, spearman=0.98, within_10_percent=0.97, median_error=0.02)
    row = DeviceRow(device, ("table", "regression"), 15_284, quality, ("341 cells missing",))

    text = shown(devices_table([row, row]))

    for cell in ("board/fp32/b1", "source-board", "table", "regression", "15,284", "0.990"):
        assert cell in text
    assert text.count("341 cells missing") == 1
    assert "1: 341 cells missing" in text


def test_a_device_without_measurements_shows_no_number():
    device = TimedDevice("board/fp32/b1", "source-board", "board", Processor.unknown, "a source")

    assert "None" not in shown(devices_table([DeviceRow(device, (), None, None, ())]))
