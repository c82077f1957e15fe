"""The forms of an exported network: in torch, initialised or read, elsewhere, and in ONNX Runtime."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.fit.training.network import classifiers, renew_statistics
from nas.spaces.base import SearchSpace

Session = Callable[[Float32[ndarray, "b c h w"]], Float32[ndarray, "b ..."]]
"""A file in its runtime: images to logits."""

IMAGES = 4
"""Number of images on which the forms of a network are compared, one at a time."""

_NORMALISED_ON = 32
"""Images of noise whose statistics the batch normalisations get."""

_ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from network import Network
from safetensors.torch import load_file, save_file
torch.set_num_threads(1)
network = Network()
network.load_state_dict(load_file(sys.argv[1] + "/weights.safetensors"))
network.eval()
images = load_file(sys.argv[2])["images"]
with torch.inference_mode():
    outputs = torch.cat([network(image[None]) for image in images])
ours = {"nas", "runtime", "latency", "controller", "rewards"} & {*sys.modules}
assert not ours, ours
save_file({"outputs": outputs}, sys.argv[3])
"""


def initialise(space: SearchSpace, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
    """The untrained network, in evaluation mode; the same one each time.

    Torch's initialisation, then the statistics of a batch of noise in the batch normalisations:
    without them signals die out on the way through many layers, the logits are those of the
    classifier's bias, and to compare them would compare nothing.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = space.network(architecture, task)
        noise = space.example_input(architecture, task, _NORMALISED_ON)
    renew_statistics(network, [noise])
    return network


def with_weights(
    space: SearchSpace, architecture: Int64[ndarray, "D"], task: Task, file: Path
) -> nn.Module:
    """The network with weights of a safetensors file, in evaluation mode.

    Raises:
      UserError: if the file is corrupt, or holds the weights of another network.
    """
    network = space.network(architecture, task)
    try:
        require_regular(file)
        weights = load_file(file)
    except (SafetensorError, OSError) as error:
        raise UserError(f"weights={file} is not a safetensors file: {error}") from error
    stored = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    wanted = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    for name in sorted(wanted.keys() | stored.keys()):
        if stored.get(name) != wanted.get(name):
            raise UserError(
                f"weights={file}: {name} is of shape {stored.get(name, 'none')}, and the network's is "
                f"{wanted.get(name, 'none')}: it is another network, or has other classes"
            )
        if not bool(torch.isfinite(weights[name]).all()):
            raise UserError(f"weights={file}: {name} holds numbers that are not finite")
    network.load_state_dict(weights)
    return network.eval()


def in_unit(
    network: nn.Module, unit: tuple[float, float], images: Float[Tensor, "n c h w"]
) -> tuple[float, float]:
    """Let a network's last linear layers convert its outputs to a unit: mean + sd * output.

    Returns:
      The conversion that is left to whoever reads the outputs: 0 and 1, or `unit` where the network does not
      end in such a layer.
    """
    mean, sd = unit
    layers = [network.get_submodule(name) for name in classifiers(network)]
    if unit == (0, 1) or not all(isinstance(each, nn.Linear) for each in layers):
        return unit
    with torch.inference_mode():
        expected = mean + sd * network(images)
    before = deepcopy(network.state_dict())
    with torch.no_grad():
        for layer in layers:
            if isinstance(layer, nn.Linear) and isinstance(layer.bias, Tensor):
                layer.weight *= sd
                layer.bias.mul_(sd).add_(mean)
        is_equal = bool(((network(images) - expected).abs() <= 1e-4 * (abs(mean) + sd)).all())
    if not is_equal:
        network.load_state_dict(before)
    return (0.0, 1.0) if is_equal else unit


def outputs_of(network: nn.Module, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n ..."]:
    """Logits of images that come one at a time."""
    with torch.inference_mode():
        return torch.cat([network(image[None]) for image in images])


def require_same_elsewhere(
    folder: Path, images: Float[Tensor, "n c h w"], expected: Float[Tensor, "n ..."]
) -> None:
    """Import `network.py` in a fresh interpreter, load the weights, compare every bit.

    Raises:
      UserError: if an output differs.
      RuntimeError: if the file does not run; then it is wrong, whoever calls.
    """
    inputs, results = folder / "images.tmp", folder / "outputs.tmp"
    try:
        save_file({"images": images}, inputs)
        done = subprocess.run(  # noqa: S603 - this Python, on the file written just now
            [sys.executable, "-B", "-c", _ELSEWHERE, str(folder), str(inputs), str(results)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"network.py does not run by itself: {done.stderr}")
        outputs = load_file(results)["outputs"]
    finally:
        inputs.unlink(missing_ok=True)
        results.unlink(missing_ok=True)
    if not torch.equal(outputs, expected):
        worst = float((outputs - expected).abs().max())
        raise UserError(
            f"network.py differs from the network that was searched by {worst:.3g} on this "
            f"machine, where they must be equal; nothing was exported"
        )


def logits_of(
    session: Session, images: Float32[ndarray, "n c h w"], batch_size: int
) -> Float32[ndarray, "n ..."]:
    """Logits of a file, a batch at a time; the last one is filled up with its own images."""
    logits = []
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size]
        logits.append(session(np.resize(batch, (batch_size, *batch.shape[1:])))[: len(batch)])
    return np.concatenate(logits)


def half(onnx: bytes) -> bytes:
    """The network in fp16, between casts of its input and output."""
    import onnx as onnx_format  # noqa: PLC0415 - only where fp16 is asked for
    from onnxruntime.transformers.float16 import convert_float_to_float16  # noqa: PLC0415 - loaded when needed
    from onnxruntime.transformers.onnx_model import OnnxModel  # noqa: PLC0415 - loaded when needed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of each weight too small for fp16, which becomes 1e-7
        half_model = convert_float_to_float16(
            onnx_format.load_from_string(onnx), keep_io_types=True
        )
    model = OnnxModel(half_model)
    model.topological_sort()  # the casts stand last
    content: bytes = model.model.SerializeToString()
    return content


def with_batch(onnx: bytes, batch_size: int) -> bytes:
    """The network with this number of images a batch, where it takes any."""
    import onnx as onnx_format  # noqa: PLC0415 - only for boards

    model = onnx_format.load_from_string(onnx)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch_size
    content: bytes = model.SerializeToString()
    return content
