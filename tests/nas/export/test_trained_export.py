"""A trained network with its accuracy, its scripts and its checks."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from rich.console import Console
from safetensors.torch import load_file
from torch import nn

from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.inference.formats.tflite_export import in_fp32, tflite_bytes, tflite_quantised
from edgenas_core.types.errors import UserError
from latency.probe.settings import Runtime
from nas.export.accuracy import resize_images
from nas.export.command import export
from nas.export.config import ExportForm, ExportFormat, ExportPrecision, Precisions
from nas.export.content import _dynamic_batch_error
from nas.export.forms import written_forms
from nas.export.int8 import calibration_warning
from nas.export.latency import Latency, tflite_session, timed_on_board
from nas.export.network import in_unit, logits_of, with_weights
from nas.export.notes import INT8_TFLITE, memory_notes, not_faster_in_int8
from nas.export.on_board.check import normalised
from nas.export.subject import subject_of
from nas.fit.data.decode import decode
from nas.fit.data.image_set import Images
from nas.fit.data.pixels import cropped, rgb, upright
from nas.fit.training.evaluation import accuracy_of
from nas.fit.training.network import resized as in_training
from nas.fit.training.step import Normalised
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trained_folder import read_training
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.train.command import train_into_folder
from nas.train.config import TrainConfig

CELL = ("none", "nor_conv_3x3", "none", "skip_connect", "none", "skip_connect")

FP32_ONNX = ExportForm(ExportPrecision.fp32)
INT8_ONNX = ExportForm(ExportPrecision.int8)


@pytest.fixture
def own_export(trained_export, tmp_path):
    """A copy, to be spoilt."""
    return shutil.copytree(trained_export[0], tmp_path / "export")


def run_script(folder, script, *arguments):
    """Run a script of an export as its user does: elsewhere, without our folder on the path."""
    return subprocess.run(
        [sys.executable, "-I", folder / script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )


def test_a_regression_is_exported_in_the_unit_of_its_names(config, tmp_path):
    rng = np.random.default_rng(0)
    for value in range(1, 7):
        folder = tmp_path / "data" / f"{10_000 * value}"
        folder.mkdir(parents=True)
        for number in range(8):
            grey = np.clip(rng.normal(40 * value, 5, (16, 16)), 0, 255).astype(np.uint8)
            Image.fromarray(grey).save(folder / f"{number}.png")
    settings = TrainConfig(
        run=None, space=SPACE.name, arch=SPACE.text(SPACE.from_operations(CELL)),
        data=str(tmp_path / "data"), task="regression", side=8, recipe="from_scratch", epochs=8,
        hours=None, images=TrainOn.train, seed=0, accelerator="cpu", out=str(tmp_path / "runs"),
    )  # fmt: skip
    trained = train_into_folder(settings, Console(quiet=True))
    chosen = config(weights=str(trained), out=str(tmp_path / "export"), precision=Precisions.fp32)

    folder = export(chosen, Console(quiet=True))

    (form,) = json.loads((folder / "export.json").read_text())["forms"]
    assert form["accuracy"]["value"] == pytest.approx(
        read_training(trained).test.fraction, abs=1e-3
    )
    image = tmp_path / "data" / "60000" / "0.png"
    printed = float(run_script(folder, "infer.py", str(image)).stdout)
    session = OnnxSession((folder / "network.onnx").read_bytes())
    about = json.loads((folder / "preprocessing.json").read_text())
    (answer,) = logits_of(session, normalised(decode(image, 8).pixels[None], about), 1)[0]
    assert printed == pytest.approx(float(answer), rel=1e-4)
    assert 30_000 < printed < 90_000


@pytest.mark.parametrize("ends_linear", [True, False])
def test_a_networks_last_layer_takes_the_unit_or_leaves_it(ends_linear):
    torch.manual_seed(0)
    end = nn.Identity() if ends_linear else nn.Sigmoid()
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 1), end).eval()
    images = torch.randn(3, 3, 2, 2)
    before = network(images)

    mean, sd = in_unit(network, (1000.0, 50.0), images)

    torch.testing.assert_close(mean + sd * network(images), 1000 + 50 * before)
    assert (mean, sd) == ((0, 1) if ends_linear else (1000, 50))


def test_every_file_is_there_and_has_its_hash(trained_export):
    folder, _, record = trained_export

    names = {file.name for file in folder.iterdir()}
    assert names - {"export.json"} == set(record["sha256"])
    assert names >= {"network-fp16.onnx", "network-int8.onnx", "infer.py", "test_images.npz"}
    for name, digest in record["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


@pytest.mark.usefixtures("one_thread")
def test_the_accuracy_of_the_card_is_that_of_the_weights_on_the_test_images(
    trained_export, trained, digits
):
    folder, printed, record = trained_export
    architecture = SPACE.parse(read_training(trained).arch)
    network = with_weights(SPACE, architecture, digits.task, folder / "weights.safetensors")

    expected = accuracy_of(network, digits.test, digits, device="cpu")

    fp32 = record["forms"][0]["accuracy"]
    assert expected > 0.5
    assert fp32["right"] / fp32["images"] == pytest.approx(expected)
    assert fp32["interval"][0] < expected < fp32["interval"][1]
    card = (folder / "README.md").read_text()
    assert "| input_0 (1, 3, 8, 8) fp32, output (1, 10) |" in card
    assert f"{expected:.2%} of {len(digits.test)} test images" in card
    for counts in record["training"]["confusion"]:
        assert f"| {' | '.join(map(str, counts))} |" in card
    assert f"{expected:.2%} [" in printed
    assert "UNTRAINED" not in card
    assert all(
        torch.equal(ours, theirs)
        for ours, theirs in zip(
            load_file(folder / "weights.safetensors").values(),
            load_file(trained / "weights.safetensors").values(),
            strict=True,
        )
    )


def test_int8_has_its_scales_per_channel_and_loses_at_most_a_point_or_the_card_says_so(
    trained_export,
):
    folder, _, record = trained_export
    fp32, _, int8 = (form["accuracy"]["right"] for form in record["forms"])
    lost = (fp32 - int8) / record["forms"][0]["accuracy"]["images"]

    model = onnx.load(folder / "network-int8.onnx")
    scales = [
        node for node in model.graph.node if node.op_type == "DequantizeLinear" and node.attribute
    ]
    assert scales
    assert (folder / "network-int8.onnx").stat().st_size < 0.5 * record["forms"][0]["size"]
    assert lost <= 0.01 or any("int8.onnx loses" in note for note in record["notes"])


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("batch", ["dynamic", 4])
def test_images_in_a_batch_get_the_logits_of_single_ones(batch, trained, config, monkeypatch):
    monkeypatch.setattr("nas.export.forms.CALIBRATED_ON", 8)
    settings = config(weights=str(trained), batch=batch, precision=Precisions.int8)
    subject = subject_of(settings)
    network = with_weights(SPACE, subject.architecture, subject.task, subject.weights)
    noise = np.random.default_rng(0).standard_normal((7, 3, 8, 8)).astype(np.float32)
    expected = network(torch.from_numpy(noise)).detach().numpy()

    files, *_ = written_forms(network, subject, settings, noise)

    sessions = {precision: OnnxSession(content) for precision, content in files.items()}
    results = logits_of(
        sessions[ExportForm(ExportPrecision.fp32)], noise, settings.fixed_batch or 1
    )
    np.testing.assert_allclose(results, expected, atol=1e-4)
    error = _dynamic_batch_error(sessions[ExportForm(ExportPrecision.fp32)], noise, settings)
    assert (error is None) == (batch == 4)
    shape = (
        onnx.load_from_string(files[ExportForm(ExportPrecision.int8)])
        .graph.input[0]
        .type.tensor_type.shape
    )
    assert (shape.dim[0].dim_param, shape.dim[0].dim_value) == (
        ("batch", 0) if batch == "dynamic" else ("", 4)
    )


def test_the_script_names_the_class_of_a_picture(trained_export, digits, tmp_path):
    folder, _, _ = trained_export
    network = OnnxSession(folder / "network.onnx")
    pixels = digits.test.pixels[0]
    Image.fromarray(pixels).save(tmp_path / "image.png")
    images = ((pixels / 255 - digits.mean) / digits.sd).transpose(2, 0, 1)[None]
    logits = network(images.astype(np.float32))[0]

    done = run_script(folder, "infer.py", tmp_path / "image.png")

    assert done.returncode == 0, done.stderr
    about = json.loads((folder / "preprocessing.json").read_text())["probabilities"]
    powers = np.exp(logits / about["network.onnx"]["temperature"])
    expected = float((powers / powers.sum()).max())
    *before, first, _, _ = done.stdout.splitlines()
    probability, name = first.split()
    assert name == digits.classes[int(logits.argmax())]
    assert float(probability.rstrip("%")) == pytest.approx(100 * expected, abs=0.01)
    is_none = expected < about["network.onnx"]["none_below"]
    assert before == [f"none of these ({expected:.2f})"] * is_none


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "required: image"),
        (["nowhere.png"], "'nowhere.png'"),
        ([__file__], "image file"),
        (["nowhere.png", "other.onnx"], "'other.onnx'"),
    ],
)
def test_the_script_refuses_what_is_no_picture_in_one_line(trained_export, arguments, reason):
    done = run_script(trained_export[0], "infer.py", *arguments)

    assert done.returncode == 2
    assert reason in done.stderr.splitlines()[-1]


def test_the_script_scales_a_deep_picture_as_the_training_did(own_export, tmp_path):
    about = json.loads((own_export / "preprocessing.json").read_text())
    grey = np.random.default_rng(0).integers(1000, 1900, (8, 8)).astype(np.uint16)
    Image.fromarray(grey).save(tmp_path / "deep.png")
    plain = np.rint(np.clip((grey - 1000.0) / 800 * 255, 0, 255)).astype(np.uint8)
    Image.fromarray(plain).save(tmp_path / "plain.png")
    (own_export / "preprocessing.json").write_text(json.dumps(about | {"limits": [1000, 1800]}))

    deep, plain = (
        run_script(own_export, "infer.py", tmp_path / name) for name in ("deep.png", "plain.png")
    )

    assert deep.returncode == 0, deep.stderr
    assert deep.stdout == plain.stdout


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize(("mode", "kind"), [("RGB", "jpg"), ("L", "jpg"), ("RGBA", "png")])
def test_a_photo_has_equal_numbers_in_training_in_the_script_and_in_the_check(
    mode, kind, orientation, tmp_path
):
    rng = np.random.default_rng(0)
    exif = Image.Exif()
    exif[0x0112] = orientation
    photo = Image.fromarray(rng.integers(0, 256, (480, 640, 4)).astype(np.uint8), "RGBA")
    photo.convert(mode).save(tmp_path / f"photo.{kind}", exif=exif)
    about = {"mean": (0.485, 0.456, 0.406), "sd": (0.229, 0.224, 0.225)}

    decoded = decode(tmp_path / f"photo.{kind}", 96)
    pixels = cropped(rgb(upright(tmp_path / f"photo.{kind}", 96)), 96)

    assert decoded.size == ((480, 640) if orientation == 6 else (640, 480))
    np.testing.assert_array_equal(pixels, decoded.pixels)
    network = Normalised(torch.nn.Flatten(), about["mean"], about["sd"], torch.device("cpu"))
    trained_on = network(torch.from_numpy(decoded.pixels.copy())[None]).reshape(3, 96, 96).numpy()
    np.testing.assert_array_equal(normalised(pixels[None], about)[0], trained_on)


def test_the_check_agrees_with_the_card_and_needs_no_torch(own_export):
    done = run_script(own_export, "check.py")
    lines = done.stdout.splitlines()

    accuracies = [line for line in lines if "images right (card" in line]
    assert len(accuracies) == 3, done.stdout + done.stderr
    assert "NOT" not in "".join(line.split("ms (card")[0] for line in lines if "ok" in line)
    wanted = "import runpy, sys; runpy.run_path(sys.argv[1]); print({'torch', 'PIL', 'nas'} & {*sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-I", "-c", wanted, own_export / "check.py"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "set()\n"


def test_the_check_finds_other_weights(own_export):
    for name in ("network-fp16.onnx", "network-int8.onnx"):
        (own_export / name).unlink()  # a board may get one of them
    model = onnx.load(own_export / "network.onnx")
    for tensor in model.graph.initializer:
        if tensor.dims == [10, 64]:
            tensor.raw_data = bytes(len(tensor.raw_data))
    onnx.save(model, own_export / "network.onnx")

    done = run_script(own_export, "check.py")

    assert done.returncode == 1
    changed, accuracy = done.stdout.splitlines()
    assert changed.startswith("NOT network.onnx:")
    assert accuracy.startswith("NOT network.onnx:")
    assert "OTHER ACCURACY" in accuracy


def test_the_check_takes_other_images(own_export, digits, tmp_path):
    np.savez(tmp_path / "own.npz", pixels=digits.train.pixels[:3], labels=digits.train.labels[:3])

    done = run_script(own_export, "check.py", tmp_path / "own.npz")

    assert "of 3 images" in done.stdout, done.stderr


def test_images_of_another_side_are_what_training_makes_of_them(digits):
    pixels = digits.test.pixels[:20]
    trained_on = in_training(torch.from_numpy(pixels.copy()).permute(0, 3, 1, 2).float(), 5)

    exported = resize_images(pixels, 5)

    assert exported.shape == (20, 5, 5, 3)
    difference = torch.from_numpy(exported).permute(0, 3, 1, 2) - trained_on
    assert difference.abs().max() <= 1  # of 255: Pillow rounds


def test_preprocessing_is_what_the_network_was_trained_with(trained_export, digits):
    folder, _, _ = trained_export
    about = json.loads((folder / "preprocessing.json").read_text())

    assert about["side"] == 8
    assert about["mean"] == list(digits.mean)
    assert about["classes"] == list(digits.classes)
    stored = np.load(folder / "test_images.npz", allow_pickle=False)
    np.testing.assert_array_equal(stored["pixels"], digits.test.pixels)


def test_latency_is_measured_on_a_board(trained, trained_export, config):
    folder, _, record = trained_export
    settings = config(weights=str(trained), batch="dynamic", device="cmd://", board="mine")
    files = {
        item: (folder / item.file).read_bytes()
        for item in map(ExportForm, (ExportPrecision.fp32, ExportPrecision.int8))
    }

    results = timed_on_board(files, "cmd://", subject_of(settings), settings, [].append)

    assert [item.device for item in results.values()] == [
        "mine/onnxruntime/fp32/b1",
        "mine/onnxruntime/int8/b1",
    ]
    assert all(item.samples == 5 and item.median_ms > 0 for item in results.values())
    assert results[ExportForm(ExportPrecision.int8)].board == record["forms"][0]["latency"]["board"]


def test_a_board_whose_runtime_reads_no_such_files_is_refused(trained, config):
    settings = config(weights=str(trained), device="cmd://", runtime=Runtime.tensorrt)

    with pytest.raises(UserError, match=r"runtime=tensorrt .* onnxruntime"):
        timed_on_board({}, "cmd://", subject_of(settings), settings, pytest.fail)


def test_tflite_files_are_exported_checked_and_run_by_the_scripts(
    trained, config, digits, tmp_path
):
    pytest.importorskip("litert_torch")
    pytest.importorskip("ai_edge_litert")
    formats = [ExportFormat.onnx, ExportFormat.tflite]
    settings = config(
        weights=str(trained), out=str(tmp_path / "out"), formats=formats, precision=Precisions.int8
    )

    folder = export(settings, Console(file=StringIO()))

    forms = {
        form["file"]: form for form in json.loads((folder / "export.json").read_text())["forms"]
    }
    assert [*forms] == [
        "network.onnx", "network-int8.onnx", "network.tflite", "network-int8.tflite",
    ]  # fmt: skip
    assert forms["network.tflite"]["max_abs_error"] <= 1e-4
    assert forms["network.tflite"]["accuracy"]["as_fp32"] == 1
    assert forms["network-int8.tflite"]["size"] < 0.5 * forms["network.tflite"]["size"]
    assert forms["network-int8.tflite"]["accuracy"]["as_fp32"] > 0.8
    assert forms["network-int8.tflite"]["latency"]["device"].endswith("/litert/int8/b1")
    computed = SPACE.memories(subject_of(settings).architecture, digits.task)
    taken = json.loads((folder / "export.json").read_text())["memory"]
    assert taken == pytest.approx(computed, rel=0.02)
    assert taken[1] == forms["network-int8.tflite"]["size"]
    done = run_script(folder, "check.py")
    assert done.stdout.count("images right (card") == 4, done.stderr
    Image.fromarray(digits.test.pixels[0]).save(tmp_path / "picture.png")
    named = run_script(folder, "infer.py", tmp_path / "picture.png", "network-int8.tflite")
    assert len(named.stdout.splitlines()) == 3, named.stderr
    on_board = timed_on_board(
        {form: (folder / form.file).read_bytes() for form in (INT8_TFLITE, FP32_ONNX)},
        "cmd://", subject_of(settings), settings, [].append,
    )  # fmt: skip
    assert [item.device.split("/")[1] for item in on_board.values()] == ["litert", "onnxruntime"]


def test_a_converter_that_is_missing_is_named(trained, config, tmp_path, monkeypatch):
    monkeypatch.setattr("edgenas_core.inference.formats.tflite_export.find_spec", lambda _: None)
    settings = config(
        weights=str(trained), out=str(tmp_path / "out"), formats=[ExportFormat.tflite]
    )

    with pytest.raises(UserError, match=r"tflite\]"):
        export(settings, Console(file=StringIO()))


@pytest.mark.parametrize(
    ("int8_ms", "is_noted"), [((1.9, 2.1), True), ((0.9, 1.2), True), ((0.4, 0.6), False)]
)
def test_an_int8_file_that_is_not_faster_is_noted(int8_ms, is_noted):
    fp32 = Latency("device", "board", "runtime", 1.0, (0.95, 1.05), 1.0, 5, ())
    int8 = replace(fp32, median_ms=sum(int8_ms) / 2, median_interval_ms=int8_ms)

    lines = [*not_faster_in_int8({FP32_ONNX: fp32, INT8_ONNX: int8})]

    assert len(lines) == is_noted
    assert all(line.startswith(INT8_ONNX.file) for line in lines)


def test_too_few_images_to_calibrate_on_are_noted(digits):
    few = replace(digits, train=Images(digits.train.pixels[:9], digits.train.labels[:9]))

    assert "32" in calibration_warning(few)
    assert calibration_warning(digits) is None


@pytest.mark.parametrize(
    ("memory", "limits_kb", "lines"),
    [
        ((9e3, 5e4), {"RAM": 10.0, "flash": 60.0}, 0),
        ((9e3, 5e4), {"RAM": 8.0, "flash": 40.0}, 2),
        ((10e3, 5e4), {}, 1),
    ],
)
def test_a_file_beyond_what_was_limited_or_computed_is_noted(memory, limits_kb, lines):
    assert len([*memory_notes(memory, (9e3, 5e4), limits_kb)]) == lines


def test_an_operation_that_is_not_quantised_is_named():
    pytest.importorskip("litert_torch")
    layers = nn.Conv2d(3, 4, 3), nn.ELU(), nn.Conv2d(4, 4, 1)
    images = torch.randn(1, 3, 8, 8)

    fp32 = tflite_bytes(nn.Sequential(*layers).eval(), images)

    (operation,) = in_fp32(tflite_quantised(fp32, [images.numpy()]))
    assert operation.startswith("ELU (")


@pytest.mark.parametrize("slope", [0.01, 0.3, 1.5])
def test_a_leaky_relu_is_quantised_and_answers_as_in_fp32(slope):
    pytest.importorskip("litert_torch")
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.LeakyReLU(slope), nn.Conv2d(4, 4, 1), nn.LeakyReLU(slope)
    network, batches = nn.Sequential(*layers).eval(), torch.randn(9, 1, 3, 8, 8)
    with torch.no_grad():
        expected = network(batches[0]).numpy()

    int8 = tflite_quantised(tflite_bytes(network, batches[0]), batches.numpy())

    assert in_fp32(int8) == []
    answered = tflite_session(int8)(batches[0].numpy())
    assert np.abs(answered - expected).max() < 0.04 * np.abs(expected).max()


def test_weights_that_are_not_contiguous_are_converted_each():
    pytest.importorskip("litert_torch")
    torch.manual_seed(0)
    network = nn.Sequential(*(nn.Conv2d(16, 16, 3, padding=1) for _ in range(6))).eval()
    images = torch.randn(1, 16, 8, 8)
    with torch.no_grad():
        expected = network(images).numpy()

    session = tflite_session(tflite_bytes(network.to(memory_format=torch.channels_last), images))

    np.testing.assert_allclose(session(images.numpy()), expected, atol=1e-5)


def test_biases_of_channels_without_weights_do_not_saturate_in_tflite():
    pytest.importorskip("litert_torch")
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3)).eval()
    images = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        network[0].weight[0] = 1e-12
        network[0].bias[0] = 2.0
        expected = network(images).numpy()

    int8 = tflite_quantised(tflite_bytes(network, images), [images.numpy()])

    outputs = tflite_session(int8)(images.numpy())
    np.testing.assert_allclose(outputs, expected, atol=0.05)


class Sorted(nn.Module):
    """A layer that the converter writes and LiteRT lacks."""

    def forward(self, inputs):
        return inputs.sort(2)[0]


def test_a_layer_that_litert_cannot_run_is_named_with_the_way_out():
    pytest.importorskip("litert_torch")
    pytest.importorskip("ai_edge_litert")
    network = nn.Sequential(nn.Conv2d(3, 4, 3), Sorted(), nn.Flatten(), nn.Linear(144, 10))

    with pytest.raises(ValueError, match=r"no STABLEHLO_SORT \(.*Sorted.*\[onnx\]"):
        tflite_bytes(network.eval(), torch.zeros(1, 3, 8, 8))
