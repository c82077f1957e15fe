"""The weights of an exported network: initialised or read, and compared between its forms."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from numpy import ndarray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from common.types.errors import UserError
from common.types.task import Task
from nas.spaces.base import SearchSpace
from runtime.network.formats.onnx_session import OnnxSession

IMAGES = 4
"""Number of images on which the forms of a network are compared, one at a time."""

_NORMALISED_ON = 32
"""Images of noise whose statistics the batch normalisations get."""

_ELSEWHERE = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from network import Network
from safetensors import SafetensorError, safe_open
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


def initialised(
    space: SearchSpace, architecture: Int64[ndarray, "D"], task: Task, seed: int
) -> nn.Module:
    """The untrained network of a seed, in evaluation mode.

    Torch's initialisation, then the statistics of a batch of noise in the batch normalisations:
    without them signals die out on the way through many layers, the logits are those of the
    classifier's bias, and to compare them would compare nothing.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = space.network(architecture, task)
        noise = space.example_input(architecture, task, _NORMALISED_ON)
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    usual = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None  # the statistics become those of the batch, not a tenth of them
    with torch.no_grad():
        network.train()(noise)
    for norm, momentum in zip(norms, usual, strict=True):
        norm.momentum = momentum
    return network.eval()


def with_weights(
    space: SearchSpace, architecture: Int64[ndarray, "D"], task: Task, file: Path
) -> nn.Module:
    """The network with weights of a safetensors file, in evaluation mode.

    Raises:
      UserError: if the file is corrupt, or holds the weights of another network.
    """
    network = space.network(architecture, task)
    wanted = network.state_dict()
    try:
        with safe_open(file, "pt") as stored:
            names = set(stored.keys())
            _require_same_names(file, names, set(wanted))
            for name, tensor in wanted.items():
                shape = tuple(stored.get_slice(name).get_shape())
                if shape != tuple(tensor.shape):
                    raise UserError(
                        f"weights={file}: {name} is of shape {shape}, and the network's is "
                        f"{tuple(tensor.shape)}: it is another network, or has other classes"
                    )
            weights = {name: stored.get_tensor(name) for name in wanted}
    except (SafetensorError, OSError) as error:
        raise UserError(f"weights={file} is not a safetensors file: {error}") from error
    for name, tensor in weights.items():
        if not bool(torch.isfinite(tensor).all()):
            raise UserError(f"weights={file}: {name} holds numbers that are not finite")
    network.load_state_dict(weights)
    return network.eval()


def _require_same_names(file: Path, names: set[str], wanted: set[str]) -> None:
    for name in sorted(wanted - names):
        raise UserError(f"weights={file} has no {name}: it is of another network")
    for name in sorted(names - wanted):
        raise UserError(f"weights={file} has {name}, and the network has not: it is of another one")


def outputs_of(network: nn.Module, images: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n classes"]:
    """Logits of images that come one at a time."""
    with torch.inference_mode():
        return torch.cat([network(image[None]) for image in images])


def require_same_elsewhere(
    folder: Path, images: Float[Tensor, "n 3 h w"], expected: Float[Tensor, "n classes"]
) -> None:
    """Import `network.py` in a fresh interpreter, load the weights, compare every bit.

    Raises:
      UserError: if an output differs.
      RuntimeError: if the file does not run; then it is wrong, whoever calls.
    """
    given, gotten = folder / "images.tmp", folder / "outputs.tmp"
    try:
        save_file({"images": images}, given)
        done = subprocess.run(  # noqa: S603 - this Python, on the file written just now
            [sys.executable, "-B", "-c", _ELSEWHERE, str(folder), str(given), str(gotten)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"network.py does not run by itself: {done.stderr}")
        outputs = load_file(gotten)["outputs"]
    finally:
        given.unlink(missing_ok=True)
        gotten.unlink(missing_ok=True)
    if not torch.equal(outputs, expected):
        worst = float((outputs - expected).abs().max())
        raise UserError(
            f"network.py differs from the network that was searched by {worst:.3g} on this "
            f"machine, where they must be equal; nothing was exported"
        )


def logits_of(
    session: OnnxSession, images: Float32[ndarray, "n 3 h w"], batch_size: int
) -> Float32[ndarray, "n classes"]:
    """Logits in ONNX Runtime, a batch at a time; the last one is filled up with its own images."""
    found = []
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size]
        found.append(session(np.resize(batch, (batch_size, *batch.shape[1:])))[: len(batch)])
    return np.concatenate(found)


def images_of(
    space: SearchSpace, architecture: Int64[ndarray, "D"], task: Task, count: int = IMAGES
) -> Float[Tensor, "n 3 side side"]:
    """Noise in the place of images."""
    return space.example_input(architecture, task, count)
