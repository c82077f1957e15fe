"""A network with what follows its raw output, as ONNX: classes of pixels, or boxes that do not overlap."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import onnx
import torch
from jaxtyping import Float
from onnx import helper
from torch import Tensor, nn

from nas.accuracy.learners.base import Learner
from nas.accuracy.learners.detection import KEPT, OVERLAP, SCORE, SURE, Detection, decoded
from runtime.network.formats.onnx_export import onnx_bytes

ANSWERS = "answers.onnx"


def write_answers(folder: Path, learner: Learner, network: nn.Module) -> dict[str, Any]:
    """Write the file; returns what `infer.py` needs to know of it."""
    is_detector = isinstance(learner, Detection)
    answering = _Objects(network) if is_detector else _Classes(network)
    content = onnx_bytes(answering, [learner.example_input()])
    content = _with_suppression(content) if is_detector else content
    (folder / ANSWERS).write_bytes(content)
    task = "detection" if is_detector else "segmentation"
    return {"task": task, "answers": ANSWERS, "sure": SURE}


@final
class _Classes(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Tensor:
        """Class of each pixel."""
        classes: Tensor = self.network(images).argmax(1)
        return classes.to(torch.int32)


@final
class _Objects(nn.Module):
    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> tuple[Tensor, Tensor]:
        """Boxes (n, anchors, 4) in pixels, and scores (n, classes, anchors) without the background."""
        outputs = self.network(images)
        boxes = decoded(outputs[..., -8:-4], outputs[..., -4:])
        return boxes, outputs[..., :-8].softmax(-1)[..., 1:].transpose(1, 2)


def _with_suppression(content: bytes) -> bytes:
    """The network with NonMaxSuppression behind it, whose result is `selected`: image, class, anchor."""
    model = onnx.load_from_string(content)
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
    return bytes(model.SerializeToString())
