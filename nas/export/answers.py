"""A network with what follows its raw output, as ONNX: classes of pixels, or boxes that do not overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import onnx
import torch
from jaxtyping import Float
from onnx import compose, helper
from torch import Tensor, nn

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from nas.fit.learners.base import Learner
from nas.fit.learners.detection import KEPT, OVERLAP, SCORE, SURE, Detection, decoded

ANSWERS = "answers.onnx"


def write_answers(
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
