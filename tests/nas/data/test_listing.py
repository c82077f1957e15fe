"""`list`: lines of the accuracies and devices that a search can use."""

import numpy as np

from edgenas_core.files.keyed_table import write_csv_table
from latency.devices.registry import Processor, TimedDevice
from latency.models.regression import Quality
from nas.data.listing import DeviceRow, accuracy_lines, device_lines
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201


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

    assert list(accuracy_lines(SPACE, tmp_path)) == [
        "accuracy table of cifar10: test @ 200; 15,625 cells in nb201_accuracy.csv",
        "accuracy table of cifar100: valid @ 200, valid @ 12; 15,625 cells in nb201_accuracy.csv",
    ]


def test_an_empty_folder_has_no_rows(tmp_path):
    assert list(accuracy_lines(SPACE, tmp_path)) == []


def test_a_device_shows_all_that_it_holds_and_its_id_is_never_broken():
    name = f"board/fp32/b1|{100 * 'x'}"
    device = TimedDevice(name, "source-board", "board", Processor.unknown, "a source")
    quality = Quality(r2=0.99, spearman=0.98, within_10_percent=0.97, median_error=0.02)
    full = DeviceRow(device, ("table", "regression"), 15_284, quality, ("341 cells missing",))

    assert device_lines([full, DeviceRow(device, (), None, None, ())]) == [
        name,
        "  source-board: table, regression; 15,284 measured; R2 0.990; flaws 1",
        name,
        "  source-board: no latencies",
        "1: 341 cells missing",
    ]
