"""Scripts of an export with the files that they read, and networks followed by what they answer, as ONNX."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import onnx
import torch
from jaxtyping import Float
from onnx import compose, helper
from torch import Tensor, nn

from edgenas_core.inference.formats.onnx_export import OPSET, onnx_bytes
from nas.export.accuracy import resize_images
from nas.export.config import ExportConfig, ExportForm, ExportFormat, ExportPrecision
from nas.export.probabilities import Probabilities
from nas.export.subject import ExportSubject
from nas.fit.data import pixels as decoder
from nas.fit.data.image_set import ImageSet, Target
from nas.fit.learners.base import Learner
from nas.fit.learners.data import LearnerData, has_classes
from nas.fit.learners.detection import KEPT, OVERLAP, SCORE, SURE, Detection, decoded

ANSWERS = "answers.onnx"
SAMPLE = "test_images.npz"
MOST_SAMPLES = 500
"""Test images in an export, to check a board with."""


def write_scripts(
    folder: Path,
    subject: ExportSubject,
    config: ExportConfig,
    forms: Sequence[ExportForm],
    network: nn.Module,
    *,
    probabilities: Mapping[ExportForm, Probabilities] | None = None,
) -> int:
    """Write the scripts and the files that they read; returns the number of test images in the export."""
    scripts = Path(__file__).parent / "on_board"
    shutil.copyfile(scripts / "check.py", folder / "check.py")
    images = subject.images
    if images is None:
        return 0
    if subject.is_labelled or subject.draws_answers:
        shutil.copyfile(Path(str(decoder.__file__)), folder / "pixels.py")
    is_labelled = isinstance(images, ImageSet)
    if is_labelled:
        shutil.copyfile(scripts / "infer.py", folder / "infer.py")
    named = _named_form(subject, config, forms)
    about: dict[str, Any] = {
        "network": named.file,
        "input": "input_0",
        "batch": config.fixed_batch,
        "cropped_to": images.side,
        "side": subject.side,
        "channels": images.channels.upper() if isinstance(images, ImageSet) else "RGB",
        "scale": 255,
        "limits": images.limits,
        "mean": images.mean,
        "sd": images.sd,
        "classes": images.outputs if isinstance(images, ImageSet) else images.classes,
        "task": images.target.value if isinstance(images, ImageSet) else images.name,
    }
    if probabilities:
        about["probabilities"] = {
            form.file: {"temperature": each.temperature, "none_below": each.none_below}
            for form, each in probabilities.items()
        }
    if isinstance(images, ImageSet) and images.target is Target.regression:
        about["unit"] = images.unit
    if subject.draws_answers and isinstance(images, LearnerData):
        shutil.copyfile(scripts / "infer_task.py", folder / "infer.py")
        if named.format is ExportFormat.onnx:
            content = (folder / named.file).read_bytes()
        else:
            content = onnx_bytes(network, [images.example], opset=config.opset, latest_opset=OPSET)
        about |= _write_answers(folder, images.learner, network, content)
    text = json.dumps(about, indent=2, ensure_ascii=False)
    (folder / "preprocessing.json").write_text(f"{text}\n", encoding="utf-8")
    if not has_classes(images):
        return 0
    count = min(MOST_SAMPLES, len(images.test)) if subject.is_trained else 0
    if count:
        pixels = resize_images(images.test.pixels[:count], subject.side)
        np.savez_compressed(folder / SAMPLE, pixels=pixels, labels=images.test.labels[:count])
    return count


def _named_form(
    subject: ExportSubject, config: ExportConfig, forms: Sequence[ExportForm]
) -> ExportForm:
    """The file that scripts run: of the precision that was asked for, or that was searched."""
    if config.precision is not None:
        return forms[-1]
    if subject.searched is None or not subject.searched.is_int8:
        return forms[0]
    return next((each for each in forms if each.precision is ExportPrecision.int8), forms[0])


def _write_answers(
    folder: Path, learner: Learner, network: nn.Module, content: bytes
) -> dict[str, Any]:
    """Write a network's ONNX file with what follows it; returns what `infer.py` needs to know of it."""
    is_detector = isinstance(learner, Detection)
    model = onnx.load_from_string(content)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value  # 0: any
    (opset,) = (each.version for each in model.opset_import if not each.domain)
    with torch.no_grad():
        outputs = network(learner.example_input().expand(batch or 1, -1, -1, -1))
    following = _Objects() if is_detector else _Classes()
    after = onnx.load_from_string(
        onnx_bytes(following, [outputs], opset=opset, dynamic_batch=not batch)
    )
    after = compose.add_prefix(after, "answers/")
    after.ir_version = model.ir_version
    joint = [(model.graph.output[0].name, after.graph.input[0].name)]
    model = compose.merge_models(model, after, io_map=joint)
    if is_detector:
        _suppress(model)
    (folder / ANSWERS).write_bytes(model.SerializeToString())
    task = "detection" if is_detector else "segmentation"
    return {"task": task, "answers": ANSWERS, "sure": SURE}


@final
class _Classes(nn.Module):
    def forward(self, outputs: Float[Tensor, "n classes h w"]) -> Tensor:
        """Class of each pixel."""
        return outputs.argmax(1).to(torch.int32)


@final
class _Objects(nn.Module):
    def forward(self, outputs: Float[Tensor, "n anchors classes_and_8"]) -> tuple[Tensor, Tensor]:
        """Boxes (n, anchors, 4) in pixels, and scores (n, classes, anchors) without the background."""
        boxes = decoded(outputs[..., -8:-4], outputs[..., -4:])
        return boxes, outputs[..., :-8].softmax(-1)[..., 1:].transpose(1, 2)


def _suppress(model: onnx.ModelProto) -> None:
    """Append NonMaxSuppression, whose result is `selected`: image, class, anchor."""
    graph = model.graph
    names = [each.name for each in graph.output]
    limits = {"most": (KEPT, onnx.TensorProto.INT64), "overlap": (OVERLAP, onnx.TensorProto.FLOAT)}
    limits["score"] = (SCORE, onnx.TensorProto.FLOAT)
    for name, (value, kind) in limits.items():
        graph.initializer.append(helper.make_tensor(name, kind, [1], [value]))
    graph.node.append(helper.make_node("NonMaxSuppression", [*names, *limits], ["selected"]))
    graph.output.append(
        helper.make_tensor_value_info("selected", onnx.TensorProto.INT64, [None, 3])
    )
