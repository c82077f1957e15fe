"""Claim: `edgenas check` finds planted faults of a file, names most of their causes, and passes sound files.

    $ python -m benchmarks.checked_files --seeds 1 2 3

A small network with depthwise layers learns made photos (synthetic) of each seed; its ONNX file is a. Twenty faults are planted
in b, in the file or in its preprocessing.json; six sound files (fp16, int8, another opset, ...) count false
alarms. Thresholds were chosen on seed 0. Prints a line a fault: found, the cause that was planted and the one
named first.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import nn

from benchmarks.made_photos import write
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from nas.check.command import check
from nas.check.photos import Photos
from nas.export.network import half
from nas.fit.data.pixels import cropped

SIDE, CLASSES = 48, 6
MEAN, SD = (0.45, 0.44, 0.43), (0.24, 0.23, 0.25)


def network():
    """Depthwise and pointwise layers, as in MobileNet."""
    layers, width = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for out, stride in ((32, 1), (48, 2), (64, 2), (64, 1)):
        depthwise = nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False)
        layers += [depthwise, nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
        width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def trained(seed, photos):
    """The network after some epochs, with depthwise channels of unequal size, as of long trainings."""
    torch.manual_seed(seed)
    model = network()
    pixels = np.stack([cropped(image, SIDE) for image in photos.images]).astype("float32") / 255
    inputs = torch.from_numpy(((pixels - MEAN) / SD).astype("float32").transpose(0, 3, 1, 2))
    labels = torch.tensor([int(folder[-1]) for folder in photos.folders])
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(25):
        for batch in torch.randperm(len(labels)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
            optimiser.step()
    model.eval()
    with torch.no_grad():  # ReLU lets a channel be scaled, and the next layer undo it
        for at in (3, 9):
            scale = torch.exp(torch.linspace(-1, 1, model[at].out_channels))
            model[at + 1].weight.mul_(scale)
            model[at + 1].bias.mul_(scale)
            model[at + 3].weight.div_(scale[None, :, None, None])
    return model, inputs


def before(content, nodes, constants=()):
    """The file with operations before its input."""
    model = onnx.load_from_string(content)
    for node in model.graph.node:
        node.input[:] = ["x_0" if name == "input_0" else name for name in node.input]
    for node in reversed(nodes):
        model.graph.node.insert(0, node)
    model.graph.initializer.extend(constants)
    return model.SerializeToString()


def after(content, nodes, constants=()):
    """The file with operations after its output, from `y_0`."""
    model = onnx.load_from_string(content)
    name = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["y_0" if each == name else each for each in node.output]
    nodes[-1].output[:] = [name]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)
    return model.SerializeToString()


def constant(name, values):
    """A stored tensor."""
    return numpy_helper.from_array(np.asarray(values), name)


class _Batches(CalibrationDataReader):
    def __init__(self, batches):
        self._batches = iter([{"input_0": batch} for batch in batches])

    def get_next(self):
        return next(self._batches, None)


def per_tensor(content, batches):
    """Int8 with one scale for all weights of a layer."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "a.onnx", Path(folder) / "b.onnx"
        source.write_bytes(content)
        quant_pre_process(source, source, skip_symbolic_shape=True)
        quantize_static(
            source,
            target,
            _Batches(batches),
            quant_format=QuantFormat.QDQ,
            per_channel=False,
            weight_type=QuantType.QInt8,
        )
        return target.read_bytes()


def changed(content, at, change):
    """The file with other weights of its layer of this number."""
    model = onnx.load_from_string(content)
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    name = convolutions[at].input[1]
    for each in model.graph.initializer:
        if each.name == name:
            each.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(each)), name))
    return model.SerializeToString()


def without_relu(content, at):
    """The file without its ReLU of this number."""
    model = onnx.load_from_string(content)
    node = [each for each in model.graph.node if each.op_type == "Relu"][at]
    for other in model.graph.node:
        other.input[:] = [node.input[0] if each == node.output[0] else each for each in other.input]
    model.graph.node.remove(node)
    return model.SerializeToString()


def faults(content, batches, logits):
    """Name, planted cause, file, changes of preprocessing.json."""
    rng = np.random.default_rng(0)
    mean, sd = (np.float32(each).reshape(1, 3, 1, 1) for each in (MEAN, SD))
    top = float(np.quantile(logits.max(1), 0.3))
    twice = [
        helper.make_node("Sub", ["input_0", "mean"], ["s_0"]),
        helper.make_node("Div", ["s_0", "sd"], ["x_0"]),
    ]
    swap = helper.make_node("Gather", ["input_0", "order"], ["x_0"], axis=1)
    turn = helper.make_node("Transpose", ["input_0"], ["x_0"], perm=[0, 1, 3, 2])
    order = helper.make_node("Reshape", ["input_0", "flat"], ["r_0"])
    last = helper.make_node("Transpose", ["r_0"], ["x_0"], perm=[0, 3, 1, 2])
    flat = constant("flat", np.array([1, SIDE, SIDE, 3]))
    clip = helper.make_node("Clip", ["y_0", "low", "high"], [""])
    ends = [constant("low", np.float32(-top)), constant("high", np.float32(top))]
    scale = [constant("s", np.float32(top / 127)), constant("z", np.int8(0))]
    eight = [
        helper.make_node("QuantizeLinear", ["y_0", "s", "z"], ["q_0"]),
        helper.make_node("DequantizeLinear", ["q_0", "s", "z"], [""]),
    ]
    mixed = helper.make_node("Gather", ["y_0", "order"], [""], axis=1)
    darkest = sorted(batches, key=lambda batch: float(batch.std()))
    own = before(content, twice, [constant("mean", mean), constant("sd", sd)])
    yield "mean subtracted twice", "mean", own, {}
    yield "values 0 to 1", "mean", content, {"mean": [0] * 3, "sd": [1] * 3}
    yield "values 0 to 255", "mean", content, {"mean": [0] * 3, "sd": [1 / 255] * 3}
    yield "values -1 to 1", "mean", content, {"mean": [0.5] * 3, "sd": [0.5] * 3}
    bgr = constant("order", np.array([2, 1, 0]))
    yield "BGR in the file", "BGR", before(content, [swap], [bgr]), {}
    yield "BGR in preprocessing.json", "BGR", content, {"channels": "BGR"}
    yield "calibrated on 1 photo", "calibration", quantised(content, darkest[:1]), {}
    yield "calibrated on 2 photos", "calibration", quantised(content, darkest[:2]), {}
    noise = [np.full_like(batches[0], 0.1), np.zeros_like(batches[0])]
    yield "calibrated on grey", "calibration", quantised(content, noise), {}
    yield "per tensor", "per-tensor depthwise", per_tensor(content, batches), {}
    yield "per tensor, fewer photos", "per-tensor depthwise", per_tensor(content, batches[:40]), {}
    yield "height and width swapped", "axes", before(content, [turn]), {}
    yield "channels last in the file", "axes", before(content, [order, last], [flat]), {}
    yield "clipped logits", "clipped outputs", after(content, [clip], ends), {}
    yield "8 bits too short for logits", "clipped outputs", after(content, eight, scale), {}
    yield "stretched", "crop", content, {"crop": "stretch"}
    yield "letterbox", "crop", content, {"crop": "letterbox"}
    yield "middle alone", "crop", content, {"crop": "centre"}
    classes = constant("order", np.roll(np.arange(CLASSES), 2))
    yield "classes in another order", "order of classes", after(content, [mixed], [classes]), {}
    wrong = changed(content, 4, lambda w: w + rng.normal(0, w.std(), w.shape).astype(w.dtype))
    yield "wrong weights of layer 5", "layer 5", wrong, {}


def sound(model, content, batches):
    """Files that are the same network."""
    example = [torch.from_numpy(batches[0])]
    yield "the same", content
    yield "fp16", half(content)
    yield "another opset", onnx_bytes(model, example, opset=11)
    yield "any batch", onnx_bytes(model, example, dynamic_batch=True)
    yield "int8, 256 photos", quantised(content, batches)
    yield "int8, 7 bits", quantised(content, batches, in_7_bits=True)


def about(folder, **changes):
    """Write preprocessing.json."""
    folder.mkdir(exist_ok=True)
    classes = [f"class{at}" for at in range(CLASSES)]
    content = {"mean": MEAN, "sd": SD, "cropped_to": SIDE, "channels": "RGB", "classes": classes}
    (folder / "preprocessing.json").write_text(json.dumps(content | changes))


def main(seeds, count):
    """Plant every fault in a network of each seed."""
    totals = Counter()
    for seed in seeds:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            learnt = Photos.of(write(folder / "learnt", seed=seed, count=900, hard=0.1), 900)
            shown = write(folder / "shown", seed=seed, count=count, hard=0.1, first=5000)
            photos = Photos.of(shown, count)
            model, inputs = trained(seed, learnt)
            batches = [each[None].numpy() for each in inputs[:256]]
            content = onnx_bytes(model, [torch.from_numpy(batches[0])])
            logits = model(inputs[:256]).detach().numpy()
            a, b = folder / "a", folder / "b"
            about(a)
            (a / "a.onnx").write_bytes(content)
            for title, cause, other, changes in faults(content, batches, logits):
                about(b, **changes)
                (b / "b.onnx").write_bytes(other)
                found = check(a / "a.onnx", b / "b.onnx", photos)
                first, layer = next(iter(found.causes), None), found.first_different
                named = "none" if first is None else first.name
                if first is None and layer is not None:
                    named = f"layer {layer.number}"
                totals["faults"] += 1
                is_found = not found.is_same or bool(found.causes)
                totals["found"] += is_found
                totals["named"] += named == cause
                print(
                    f"seed {seed}: {title}: {'found' if is_found else 'MISSED'}, {cause}, named {named}; "
                    f"{found.agreement.text}"
                )
            for title, other in sound(model, content, batches):
                about(b)
                (b / "b.onnx").write_bytes(other)
                found = check(a / "a.onnx", b / "b.onnx", photos)
                totals["sound"] += 1
                totals["false alarms"] += not found.is_same or bool(found.causes)
                named = [each.name for each in found.causes]
                print(
                    f"seed {seed}: sound, {title}: {found.agreement.text}, same: {found.is_same}, named {named}; "
                    f"{found.accuracy}"
                )
    print(", ".join(f"{name} {count}" for name, count in totals.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--photos", type=int, default=200)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    sys.exit(main(chosen.seeds, chosen.photos))
