"""Files with what follows a network's raw output, and the script that draws it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from scene_folder import SIDE, write_scenes
from torch import nn

import nas.export
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from edgenas_core.inference.formats.onnx_session import OnnxSession
from nas.export.accuracy import FileNetwork
from nas.export.network import half
from nas.export.scripts import ANSWERS, _write_answers
from nas.fit.data import pixels
from nas.fit.learners.detection import SURE, Detection, decoded
from nas.fit.learners.segmentation import Segmentation


class Boxes(nn.Module):
    """Anchors on a grid, whose logits are of the image's colours."""

    def __init__(self):
        super().__init__()
        at = torch.arange(0, SIDE, 12.0)
        left, top = (each.flatten() for each in torch.meshgrid(at, at, indexing="ij"))
        self.register_buffer("anchors", torch.stack([left, top, left + 20, top + 20], -1))
        self.logits = nn.Conv2d(3, 3, 12, 12)
        self.offsets = nn.Conv2d(3, 4, 12, 12)

    def forward(self, images):
        logits, offsets = (
            layer(images).flatten(2).transpose(1, 2) for layer in (self.logits, self.offsets)
        )
        return torch.cat([3 * logits, offsets, self.anchors.expand(offsets.shape)], -1)


@pytest.fixture
def scenes(tmp_path):
    return write_scenes(tmp_path / "scenes")


def _drawn(folder, about, scenes):
    """What `infer.py` prints of an image."""
    shutil.copyfile(
        Path(nas.export.__file__).parent / "on_board" / "infer_task.py", folder / "infer.py"
    )
    shutil.copyfile(pixels.__file__, folder / "pixels.py")
    about |= {
        "limits": None,
        "batch": None,
        "side": SIDE,
        "mean": (0.485, 0.456, 0.406),
        "sd": (0.229, 0.224, 0.225),
    }
    (folder / "preprocessing.json").write_text(json.dumps(about))
    words = [sys.executable, "infer.py", scenes / "images" / "0.png", "drawn.png"]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    assert (folder / "drawn.png").is_file()
    return done.stdout.splitlines()


def test_a_segmenters_file_gives_classes(scenes, tmp_path):
    torch.manual_seed(0)
    learner, network = Segmentation(str(scenes), SIDE), nn.Conv2d(3, 3, 1).eval()
    (images, _) = next(iter(learner.batches("valid")))

    about = _write_answers(
        tmp_path, learner, network, onnx_bytes(network, [learner.example_input()])
    )

    session = onnxruntime.InferenceSession(tmp_path / ANSWERS)
    (classes,) = session.run(None, {"input_0": images[:1].numpy()})
    assert np.array_equal(classes, network(images[:1]).argmax(1))
    lines = _drawn(tmp_path, about | {"classes": learner.classes}, scenes)
    assert sum(float(line.split("%")[0]) for line in lines[:-1]) == pytest.approx(100, abs=0.1)


def _int8(content):
    return quantised(
        content, iter([np.float32(np.random.default_rng(0).normal(size=(1, 3, SIDE, SIDE)))])
    )


def test_a_detectors_file_suppresses_as_the_metric_does(scenes, tmp_path):
    torch.manual_seed(0)
    learner, network = Detection(str(scenes), SIDE), Boxes().eval()
    (images, _) = next(iter(learner.batches("valid")))
    content = onnx_bytes(network, [learner.example_input()], dynamic_batch=True)

    about = _write_answers(tmp_path, learner, network, content)

    session = onnxruntime.InferenceSession(tmp_path / ANSWERS)
    boxes, scores, selected = session.run(None, {"input_0": images[:1].numpy()})
    kept = [
        (label + 1, scores[0, label, at], *boxes[0, at].clip(0, SIDE)) for _, label, at in selected
    ]
    kept = np.array(sorted(each for each in kept if each[1] > SURE))
    ours = learner.answers(network, images[:1])[0]
    wanted = np.array(
        sorted((label, score, *box) for *box, label, score in ours.tolist() if score > SURE)
    )
    assert len(wanted) > 1
    assert kept == pytest.approx(wanted, rel=1e-3)
    assert len(_drawn(tmp_path, about | {"classes": learner.classes}, scenes)) > 1


@pytest.mark.parametrize("changed", [half, _int8])
def test_answers_are_those_of_the_precision(scenes, tmp_path, changed):
    torch.manual_seed(0)
    learner, network = Detection(str(scenes), SIDE), Boxes().eval()
    (images, _) = next(iter(learner.batches("valid")))
    content = changed(onnx_bytes(network, [learner.example_input()]))

    _write_answers(tmp_path, learner, network, content)

    session = onnxruntime.InferenceSession(tmp_path / ANSWERS)
    boxes, *_ = session.run(None, {"input_0": images[:1].numpy()})
    outputs, exact = (each(images[:1]) for each in (FileNetwork(OnnxSession(content), 1), network))
    assert boxes == pytest.approx(decoded(outputs[..., -8:-4], outputs[..., -4:]).numpy(), rel=1e-4)
    assert not torch.equal(outputs, exact)
