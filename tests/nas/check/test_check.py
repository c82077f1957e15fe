"""Two files on the same photos: what differs, and why."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from edgenas_core.command.exit_status import run_command
from edgenas_core.inference.formats.onnx_quantisation import quantised
from edgenas_core.types.errors import UserError
from nas.check import command
from nas.check.comparison import paired_difference
from nas.check.network_file import open_network
from nas.check.photos import Photos

SIDE = 24


def stored(name, values):
    return numpy_helper.from_array(np.asarray(values, np.float32), name)


@pytest.fixture(scope="module")
def network():
    """Two convolutions, the second depthwise, and three classes; weights of a seed."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["input_0", "w1"], ["c1"], "first/Conv", strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "second/Conv", group=8),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3"], ["output_0"], "last/Gemm"),
    ]
    weights = [
        stored("w1", rng.normal(size=(8, 3, 3, 3))),
        stored("w2", rng.normal(size=(8, 1, 3, 3))),
        stored("w3", rng.normal(size=(8, 3))),
    ]
    image = helper.make_tensor_value_info("input_0", TensorProto.FLOAT, [1, 3, SIDE, SIDE])
    output = helper.make_tensor_value_info("output_0", TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph(nodes, "network", [image], [output], weights)
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


@pytest.fixture
def placed(tmp_path):
    """Writes a file beside its preprocessing.json; returns its path."""

    def place(name, content, **changes):
        folder = tmp_path / name
        folder.mkdir()
        about = {"mean": [0.4, 0.5, 0.6], "sd": [0.2, 0.25, 0.3], "cropped_to": SIDE}
        (folder / "preprocessing.json").write_text(json.dumps(about | changes))
        (folder / "network.onnx").write_bytes(content)
        return folder / "network.onnx"

    return place


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Coloured noise in three classes, wider than high."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(1)
    for number in range(40):
        coarse = rng.integers(0, 255, (4, 6, 3)) * rng.uniform(0.2, 1, 3)
        path = folder / "abc"[number % 3] / f"{number}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(coarse.astype(np.uint8)).resize((48, 32)).save(path)
    return folder


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"channels": "BGR"}, "BGR"),
        ({"mean": [0] * 3, "sd": [1] * 3}, "mean"),
        ({"crop": "stretch"}, "crop"),
    ],
)
def test_photos_prepared_otherwise_are_found_and_named(network, placed, photos, changes, cause):
    a, b = placed("a", network), placed("b", network, **changes)

    found = command.check(a, b, Photos.of(photos, 40))

    assert not found.is_same
    assert found.causes[0].name == cause
    assert found.first_different.a == "first/Conv"


def test_too_short_ranges_are_named_calibration_and_sound_ones_are_the_same(
    network, placed, photos
):
    a = placed("a", network)
    read = Photos.of(photos, 40)
    prepared = command.Preparation.beside(a)[0]
    inputs = [prepared(image, open_network(a).form) for image in read.images]
    dark = [np.full_like(inputs[0], -0.5)]

    short = command.check(a, placed("b", quantised(network, dark)), read)
    sound = command.check(a, placed("c", quantised(network, inputs)), read)

    assert short.causes[0].name == "calibration"
    assert sound.is_same
    assert sound.causes == []


def test_wrong_weights_are_found_in_their_layer(network, placed, photos):
    model = onnx.load_from_string(network)
    model.graph.initializer[1].CopyFrom(stored("w2", np.ones((8, 1, 3, 3))))
    other = placed("b", model.SerializeToString())

    found = command.check(placed("a", network), other, Photos.of(photos, 40))

    assert found.first_different.number == 2
    assert found.causes == []
    assert any("likely cause: not found" in line for line in found.lines())


def test_outputs_that_are_no_numbers_agree_with_nothing_and_their_layer_is_named(
    network, placed, photos
):
    model = onnx.load_from_string(network)
    model.graph.initializer[2].CopyFrom(stored("w3", np.full((8, 3), np.nan)))
    other = placed("b", model.SerializeToString())

    found = command.check(placed("a", network), other, Photos.of(photos, 40))

    assert (found.agreement.same, found.agreement.decibels) == (0, -120)
    assert found.first_different.number == 3
    assert found.causes[0].name == "not finite"
    assert "40 of 40" in found.causes[0].text


def test_a_network_of_grey_photos_is_compared(network, placed, photos):
    model = onnx.load_from_string(network)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    model.graph.initializer[0].CopyFrom(
        stored("w1", np.random.default_rng(2).normal(size=(8, 1, 3, 3)))
    )
    grey = {"channels": "GREY", "mean": [0.5], "sd": [0.25]}
    a, b = (placed(name, model.SerializeToString(), **grey) for name in "ab")

    found = command.check(a, b, Photos.of(photos, 40))

    assert (found.agreement.same, found.is_same) == (1, True)


def test_a_network_of_several_images_at_once_is_refused_in_a_line(network, tmp_path):
    model = onnx.load_from_string(network)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
    onnx.save(model, tmp_path / "four.onnx")

    with pytest.raises(UserError, match=r"four\.onnx takes 4 images at once"):
        open_network(tmp_path / "four.onnx")


def test_the_command_ends_with_1_where_files_differ(
    network, placed, photos, monkeypatch, in_process
):
    monkeypatch.setattr(command, "_times", lambda _: iter(()))
    a, b = placed("a", network), placed("b", network, channels="BGR")

    statuses = [
        in_process(command.main, ["nas.check", str(a), str(other), str(photos)])[0]
        for other in (a, b)
    ]

    assert statuses == [0, 1]


def test_json_has_the_verdict_and_the_causes(network, placed, photos, monkeypatch, capfd):
    monkeypatch.setattr(command, "_times", lambda _: iter(()))
    a, b = placed("a", network), placed("b", network, channels="BGR")

    with pytest.raises(SystemExit) as ended:
        run_command("nas.check.command", [str(a), str(b), str(photos), "--json"])

    document = json.loads(capfd.readouterr().out)
    (result,) = document["results"]
    assert ended.value.code == document["status"] == 1
    assert document["error"] == "the files differ"
    assert (result["is_same"], result["photos"]) == (False, 40)
    assert result["causes"][0]["name"] == "BGR"
    assert result["first_different_layer"] == "first/Conv"


def test_what_is_no_network_is_refused_in_a_line(tmp_path):
    for name, content in (("a.onnx", b"junk"), ("a.bin", b""), ("b.onnx", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=name):
            open_network(tmp_path / name)


def test_the_interval_of_a_paired_difference_is_agresti_and_mins():
    a = np.array([True] * 60 + [False] * 40)
    b = np.array([True] * 50 + [False] * 10 + [True] * 2 + [False] * 38)

    difference, low, high = paired_difference(a, b)

    # Wald's interval of the counts 50.5, 10.5, 2.5 and 38.5
    assert difference == pytest.approx(-0.08)
    assert (low, high) == pytest.approx((-0.07843 - 0.06759, -0.07843 + 0.06759), abs=1e-4)
