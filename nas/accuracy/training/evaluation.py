"""Accuracy of a network on a split of images."""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor, nn
from torch.nn import functional

from nas.accuracy.images.image_set import Images, ImageSet
from nas.accuracy.training.augmented.batches import Source, source_of
from nas.accuracy.training.optimization.step import Normalised

_BATCH = 256
"""Images at once: as in training, for which cuDNN has chosen its kernels already."""


def device_named(device: torch.device | str) -> torch.device:
    """The device, a GPU with its index; `auto` is the GPU if there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    found = torch.device(device)
    if found.type == "cuda" and found.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return found


def accuracy_of(
    network: nn.Module,
    images: Images,
    image_set: ImageSet,
    *,
    device: torch.device | str = "auto",
) -> float:
    """Top-1 accuracy, a fraction, on a split of `image_set`; the network is moved to the device."""
    device = device_named(device)
    model = Normalised(network, image_set.mean, image_set.sd, device)
    source = source_of([images], device)
    return right_answers(model, source, device).item() / len(source)


def right_answers(model: Normalised, source: Source, device: torch.device) -> Int64[Tensor, ""]:
    """Number of images whose most likely class is right, on the device; the mode is as before."""
    was_training = model.training
    model.eval()
    right = torch.zeros((), dtype=torch.int64, device=device)
    with torch.no_grad():
        for which in torch.arange(len(source)).split(_BATCH):
            missing = _BATCH - len(which) if device.type == "cuda" else 0
            pixels, labels = source.gather(functional.pad(which, (0, missing)))
            answers = model(pixels).argmax(1) == labels
            right += answers[: len(which)].sum()
    model.train(was_training)
    return right
