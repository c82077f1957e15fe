"""A file that cannot be cut is timed and quantised as it is."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image
from torch import nn

import nas.fit.command
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.tflite_export import tflite_bytes
from edgenas_core.types.errors import UserError
from nas.fit.starts.uncuttable import UncuttableFileError

pytestmark = pytest.mark.skipif(find_spec("onnx2torch") is None, reason="an extra")


@pytest.fixture
def photos(tmp_path):
    """Noise in two classes."""
    rng = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(30):
            pixels = rng.integers(0, 255, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    return tmp_path / "photos"


def network():
    torch.manual_seed(0)
    first = nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*first, nn.Linear(8, 2)).eval()


def refused(in_process, file, photos, tmp_path, *more):
    """What a fit prints of a file, and its last line."""
    words = [f"network={file}", f"data={photos}", "device=here", "T=1ms", f"out={tmp_path}/out"]
    status, printed, error = in_process(nas.fit.command.main, ["nas.fit", *words, *more])
    assert status == 2
    return printed, error


def test_a_graph_that_torch_lacks_has_its_time_memory_and_int8(in_process, photos, tmp_path):
    file = tmp_path / "odd.onnx"
    exported = onnx_bytes(network(), [torch.randn(1, 3, 16, 16)])
    file.write_bytes(with_last_node(exported, "LpNormalization"))

    printed, error = refused(in_process, file, photos, tmp_path, "mean=0.5", "std=0.5")

    assert "does not convert: LpNormalization" in error
    assert "odd.onnx: RAM " in printed
    assert "odd.onnx takes " in printed
    assert "top-1 agreement with the file" in printed
    assert "accuracy " in printed
    assert (tmp_path / "out" / "odd-int8.onnx").is_file()


def test_without_a_scaling_there_is_a_time_and_the_setting_that_int8_needs(
    in_process, photos, tmp_path
):
    file = tmp_path / "odd.onnx"
    exported = onnx_bytes(network(), [torch.randn(1, 3, 16, 16)], dynamic_batch=True)
    file.write_bytes(with_last_node(exported, "LpNormalization"))

    printed, _ = refused(in_process, file, photos, tmp_path)

    assert "odd.onnx takes " in printed
    assert "no int8 file: set mean= and std=" in printed


def test_a_tflite_file_has_its_time_memory_and_int8(in_process, photos, tmp_path):
    pytest.importorskip("litert_torch")
    file = tmp_path / "net.tflite"
    file.write_bytes(tflite_bytes(network(), torch.randn(1, 3, 16, 16)))

    printed, error = refused(in_process, file, photos, tmp_path, "mean=0.5", "std=0.5")

    assert "a .tflite file cannot be cut" in error
    assert "net.tflite: RAM " in printed
    assert "net.tflite takes " in printed
    assert "top-1 agreement with the file" in printed
    assert (tmp_path / "out" / "net-int8.tflite").is_file()


def with_last_node(exported, kind):
    """The network with its output through an operator that torch's converter lacks."""
    model = onnx.load_from_string(exported)
    output = model.graph.output[0]
    model.graph.node.append(helper.make_node(kind, [output.name], ["normalised"]))
    output.name = "normalised"
    assert output.type.tensor_type.elem_type == TensorProto.FLOAT
    return model.SerializeToString()


def test_the_error_of_such_a_file_is_one_of_the_user():
    assert issubclass(UncuttableFileError, UserError)
