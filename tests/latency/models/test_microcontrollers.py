"""Embedded models of microcontrollers, and the times that they predict of networks."""

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import UnmeasuredError
from latency.models.microcontrollers import chip_named, chips, is_chip
from latency.sources.published import PublishedLatencyConfig, cautions
from latency.sources.transfer import TransferLatencyConfig
from nas.spaces.residual import SPACE as RESIDUAL

H747, N6 = "stm32h747/cubeai/int8", "stm32n6/npu/int8"
TASK = RESIDUAL.tasks[RESIDUAL.default_task]


def test_a_clock_and_a_version_of_the_tool_scale_a_model():
    work = {"products": 100.0, "parameters": 1.0, "activations": 2.0}
    ms = chip_named(H747).predict_ms(work)

    assert chip_named("stm32h747@200MHz/cubeai/int8").predict_ms(work) == pytest.approx(2 * ms)
    older = chip_named("stm32h747/cubeai-7.3.0/int8")
    assert older.predict_ms(work) == pytest.approx(chips()[H747].versions["7.3.0"] * ms)
    slower = chip_named("stm32h747@200MHz/cubeai/int8")
    assert slower.uncertainty.sd > older.uncertainty.sd
    assert slower.interval[0] < older.interval[0] < older.interval[1] < slower.interval[1]
    assert (older.version, slower.mhz) == ("7.3.0", 200)
    assert " 7.3.0)" in older.card


@pytest.mark.parametrize(
    ("device", "line"),
    [
        ("stm32h747/cubeai-9/int8", r"version 9 .* 7\.3\.0"),
        ("stm32n6@100MHz/npu/int8", "no clock"),
        ("stm32h799/cubeai/int8", H747),
    ],
)
def test_what_no_row_is_of_is_refused(device, line):
    with pytest.raises(UserError, match=line):
        chip_named(device)


def test_boards_with_few_networks_are_named_so_and_have_wider_intervals():
    scaled = [chip for chip in chips().values() if chip.scaled_from]

    assert len(scaled) > 10
    for chip in scaled:
        base = chips()[chip.scaled_from]
        assert chip.scaled_from in chip.card
        assert chip.uncertainty.sd > base.uncertainty.sd
        assert chip.interval[0] < base.interval[0]


def test_a_network_that_may_fall_back_or_lies_beyond_the_rows_is_said_so():
    work = {"wide": 1.0, "kind RESIZE_BILINEAR": 1.0, "side": 900.0}

    said = cautions(chip_named(N6), work)

    assert "fall back" in said["fallback"]
    assert "RESIZE_BILINEAR" in said["unseen RESIZE_BILINEAR"]
    assert "900 pixels" in said["beyond side"]
    assert "four times the prediction" in said["rare ['wide']"]
    assert "fallback" not in cautions(chip_named(H747), work)


def test_an_operation_that_is_not_in_int8_is_refused(monkeypatch):
    oracle = PublishedLatencyConfig().build(H747, RESIDUAL, TASK)
    row = RESIDUAL.sample(np.random.default_rng(0), 1)
    work = {"kind DEQUANTIZE": 1.0, "kind native_layer_norm": 1.0}
    monkeypatch.setattr(type(RESIDUAL), "micro_work", lambda *_: work)

    assert not oracle.known(row)[0]
    with pytest.raises(UnmeasuredError, match="native_layer_norm, which stm32h747"):
        oracle.answer(row)


def test_timed_networks_correct_a_model_for_this_board(tmp_path):
    rows = RESIDUAL.sample(np.random.default_rng(1), 6)
    oracle = PublishedLatencyConfig().build(H747, RESIDUAL, TASK)
    published = oracle.answer(rows)
    probes = tmp_path / "probes.csv"
    times = [f"{RESIDUAL.text(row)},{3 * ms}" for row, ms in zip(rows, published.ms, strict=True)]
    probes.write_text("\n".join(["arch,latency_ms", *times[:4]]), encoding="utf-8")

    corrected = TransferLatencyConfig(probes=str(probes)).build(H747, RESIDUAL, TASK)

    assert (published.kind == Kind.published).all()
    np.testing.assert_allclose(corrected.answer(rows).ms, 3 * published.ms)
    assert "times 3.00, the median ratio of 4 networks timed on this board" in corrected.description
    assert corrected.uncertainty.sd < oracle.uncertainty.sd


def test_published_rows_are_met_as_the_card_says():
    folder = Path(os.environ.get("NAS_DATA", "none")) / "microcontrollers"
    if not folder.is_dir():
        pytest.skip("NAS_DATA has no published rows")
    with (folder / "features.csv").open(encoding="utf-8", newline="") as file:
        row = next(
            r
            for r in csv.DictReader(file)
            if r["net"] == "mobilenetv2_a035" and r["classes"] == "5"
        )
    names = {"macs": "products", "params": "parameters", "act": "activations"}
    work = {ours: float(row[theirs]) / 1e6 for theirs, ours in names.items()}

    assert chip_named("stm32h747/cubeai-10.0.0/int8").predict_ms(work) == pytest.approx(
        94.34, rel=0.05
    )
    assert is_chip(H747)
