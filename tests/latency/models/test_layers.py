"""Layers in words, their model, and its file."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from edgenas_core.types.errors import UserError
from latency.models import layer_table as tables
from latency.models.layers import LayerModel, fit_layers, kind_of

_US_PER_MILLION = 50.0


def linear(channels, out):
    return f"Gemm float[1,{channels}] float[{out},{channels}] float[{out}] > float[1,{out}]"


def linear_us(channels, out):
    return 2 + channels * out * _US_PER_MILLION / 1e6


@pytest.fixture
def networks():
    """Twelve networks of three linear layers, whose times are theirs and a microsecond each less."""
    sizes = np.random.default_rng(0).integers(100, 3000, (12, 4))
    networks = []
    for number, row in enumerate(sizes.tolist()):
        pairs = list(pairwise(row))
        layers = [(linear(*pair), linear_us(*pair)) for pair in pairs]
        ms = sum(us - 1 for _, us in layers) / 1e3
        networks.append(tables.ProfiledNetwork(str(number), ms, layers))
    return networks


@pytest.mark.parametrize(
    ("layer", "kind"),
    [
        ("Conv.nchwc float[1,16,8,8] float[16,1,3,3] float[16] > float[1,16,8,8]", "depthwise"),
        ("Conv.nchwc float[1,3,8,8] float[16,3,3,3] float[16] > float[1,16,8,8]", "larger"),
        ("Conv float[1,16,8,8] float[16,8,1,1] > float[1,16,8,8]", "grouped"),
        ("QLinearConv(3x3:24) uint8[1,9,9,24] float[] > uint8[1,9,9,24]", "depthwise"),
        ("QLinearConv(1x1:1) uint8[1,9,9,24] float[] > uint8[1,9,9,48]", "1x1"),
        ("QLinearConv(1x1:1) uint8[1,1,1,24] float[] > uint8[1,1,1,48]", "1x1 pixel"),
        ("Gemm float[1,24] float[48] > float[1,48]", "row"),
        ("Gemm float[49,24] float[48] > float[49,48]", "float"),
    ],
)
def test_the_kind_of_a_layer_follows_from_its_tensors_or_its_kernel(layer, kind):
    assert kind_of(layer).endswith(f" {kind}")


def test_layers_between_those_of_the_fit_are_predicted_and_unseen_kinds_roughly():
    pairs = np.random.default_rng(1).integers(100, 3000, (60, 2)).tolist()
    model = fit_layers([linear(*pair) for pair in pairs], np.array([linear_us(*p) for p in pairs]))

    predicted = model.predict_us([linear(1500, 2000), linear(1500, 2000).replace("Gemm", "MatMul")])

    assert predicted == pytest.approx(linear_us(1500, 2000), rel=0.05)


def test_no_layer_is_slower_than_the_slowest_of_its_kind_but_for_its_size():
    sides = [*range(4, 64)]
    copies = [f"cat float[1,{side}] > float[1,{side}]" for side in sides]
    kind = fit_layers(copies, np.array(sides, float)).kinds["cat float"]
    hundredfold = DummyRegressor(strategy="constant", constant=np.log(100)).fit([[0]], [0])

    slowed = LayerModel({"cat float": replace(kind, trees=[hundredfold])})
    small, large = slowed.predict_us([copies[30], "cat float[1,630] > float[1,630]"])

    assert (small, large) == pytest.approx((63, 630))


def test_a_layer_of_more_weights_and_fewer_operations_may_be_slower_than_the_slowest():
    sizes = [(batch, 10 + batch * 7 % 53) for batch in range(2, 62)]
    layers = [f"Gemm float[{n},{c}] float[{c},{c}] > float[{n},{c}]" for n, c in sizes]
    us = np.array([c * c / 10 for _, c in sizes])
    kind = fit_layers(layers, us).kinds["Gemm float"]
    hundredfold = DummyRegressor(strategy="constant", constant=np.log(100)).fit([[0]], [0])

    slowed = LayerModel({"Gemm float": replace(kind, trees=[hundredfold])})

    (predicted_us,) = slowed.predict_us(["Gemm float[2,120] float[120,120] > float[2,120]"])
    assert predicted_us == pytest.approx(120 * 120 / 10)


def test_few_layers_of_a_kind_are_predicted_without_those_of_other_kinds():
    pairs = np.random.default_rng(1).integers(100, 3000, (60, 2)).tolist()
    sides = [*range(4, 60, 4)]  # 14 layers, 20 times as fast as a product with as many elements
    copies = [f"cat float[1,64,{side},{side}] > float[1,64,{side},{side}]" for side in sides]
    copies_us = [1.6 + side**2 / 1e3 for side in sides]
    layers = [*(linear(*pair) for pair in pairs), *copies]
    us = np.array([*(linear_us(*pair) for pair in pairs), *copies_us])
    is_seen = np.arange(len(us)) % 5 > 0

    for trees in (0, 40):
        model = fit_layers(np.array(layers)[is_seen].tolist(), us[is_seen], trees=trees)
        predicted = model.predict_us(np.array(copies)[~is_seen[60:]].tolist())
        assert predicted == pytest.approx(us[60:][~is_seen[60:]], rel=0.05)


def test_held_out_networks_are_predicted_and_the_file_predicts_alike(networks, tmp_path):
    table = tables.layer_table("a/onnxruntime/fp32/b1", networks)
    path = tmp_path / "a_layers.csv.gz"

    tables.write_layer_table(path, table, {})
    read = tables.read_layer_table(path)

    assert table.quality.spearman > 0.95
    assert table.quality.median_error < 0.1
    layers = [layer for layer, _ in networks[0].layers]
    assert read.predict_ms(layers) == pytest.approx(networks[0].ms, rel=0.1)
    assert (read.networks, read.quality) == (12, table.quality)
    assert read.uncertainty == table.uncertainty


def test_too_few_networks_are_refused(networks):
    with pytest.raises(UserError, match="9 networks"):
        tables.layer_table("a", networks[:9])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [("a.json", '"networks"', '"n"'), ("a.json", "{", ""), ("a.csv.gz", "", None)],
)
def test_a_damaged_file_is_refused_by_its_name(networks, tmp_path, name, before, after):
    table = tables.layer_table("a", networks)
    tables.write_layer_table(tmp_path / "a.csv.gz", table, {})
    damaged = tmp_path / name
    if after is None:
        damaged.write_bytes(damaged.read_bytes()[:40])
    else:
        damaged.write_text(damaged.read_text().replace(before, after, 1))

    with pytest.raises(UserError, match=r"a\.csv\.gz"):
        tables.read_layer_table(tmp_path / "a.csv.gz")


def test_a_device_without_layers_is_refused_by_its_name():
    with pytest.raises(UserError, match="device=none"):
        tables.open_layer_table("none/onnxruntime/fp32/b1")


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        ("epyc-vm/onnxruntime/fp32/b1", "Conv.nchwc float depthwise"),
        ("xeon-vm/onnxruntime/int8/b1", "QLinearConv uint8 depthwise"),
        ("h200/torch-graph/fp32/b1", "Conv float32 depthwise"),
    ],
)
def test_layers_of_the_embedded_tables_are_predicted_from_others(device, kind):
    table = tables.open_layer_table(device)
    layers, us = zip(
        *(
            (layer, us)
            for layer, us in zip(table.layers, table.us, strict=True)
            if kind_of(layer) == kind
        ),
        strict=True,
    )
    seen = np.arange(len(us)) % 5 > 0

    model = fit_layers(np.array(layers)[seen].tolist(), np.array(us)[seen], trees=10)

    predicted = model.predict_us(np.array(layers)[~seen].tolist())
    assert np.median(np.abs(predicted / np.array(us)[~seen] - 1)) < 0.25
    assert 0 < table.uncertainty.margin(0.9) < 1
