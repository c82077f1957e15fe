"""The weights of an exported network, and what is done to them: initialised, compared, timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from numpy import ndarray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from nas.spaces.base import SearchSpace
from runtime.network.formats.onnx_session import OnnxSession
from runtime.network.task import Task
from runtime.shell.errors import UserError

IMAGES = 4
"""Number of images of noise on which the forms of a network are compared, one at a time."""

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


def onnx_error(
    session: OnnxSession,
    images: Float32[ndarray, "n 3 h w"],
    expected: Float32[ndarray, "n classes"],
) -> float:
    """Largest absolute difference of a logit in ONNX Runtime; NaN if either is."""
    outputs = np.concatenate([session(image[None]) for image in images])
    return float(np.abs(outputs - expected).max())


def images_of(
    space: SearchSpace, architecture: Int64[ndarray, "D"], task: Task
) -> Float[Tensor, "n 3 side side"]:
    """The noise that networks are compared on."""
    return space.example_input(architecture, task, IMAGES)
