"""Accuracy of a network on a split of images."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from nas.accuracy.images.image_set import Images, ImageSet
from nas.accuracy.training.augmented.batches import DeviceImages
from nas.accuracy.training.optimization.kernels import has_many_shapes
from nas.accuracy.training.optimization.step import Normalised

_BATCH, _LARGE_BATCH = 256, 4096
"""Images at once; the larger on a GPU, for networks of few shapes."""


def device_named(device: torch.device | str) -> torch.device:
    """The device, a GPU with its index; `auto` is the GPU if there is one."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = torch.device(device)
    if chosen.type == "cuda" and chosen.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return chosen


def accuracy_of(
    network: nn.Module,
    images: Images,
    image_set: ImageSet,
    *,
    device: torch.device | str = "auto",
) -> float:
    """Top-1 accuracy, a fraction, on a split of `image_set`; the network is moved to the device."""
    answers = classes_of(network, images, image_set, device=device)
    return float((answers.cpu().numpy() == images.labels).mean())


def classes_of(
    network: nn.Module, images: Images, image_set: ImageSet, *, device: torch.device | str = "auto"
) -> Int64[Tensor, "n"]:
    """The most likely class of each image of a split; the network is moved to the device."""
    return logits_of(network, images, image_set, device=device).argmax(1)


def logits_of(
    network: nn.Module, images: Images, image_set: ImageSet, *, device: torch.device | str = "auto"
) -> Float[Tensor, "n classes"]:
    """Outputs for each image of a split; the network is moved to the device."""
    device = device_named(device)
    model = Normalised(network, image_set.mean, image_set.sd, device)
    return torch.cat(
        [logits for logits, _ in _outputs(model, DeviceImages([images], device), device)]
    )


def balanced_accuracy(
    model: Normalised, source: DeviceImages, device: torch.device
) -> Float[Tensor, ""]:
    """Accuracy, the mean over the classes where they differ much in size; the mode is as before."""
    right = torch.zeros((), dtype=torch.float64, device=device)
    for logits, labels in _outputs(model, source, device):
        right += ((logits.argmax(1) == labels) * source.class_weights[labels]).sum()
    return right / len(source)


def _outputs(
    model: Normalised, source: DeviceImages, device: torch.device
) -> Iterator[tuple[Float[Tensor, "b classes"], Int64[Tensor, "b"]]]:
    """Logits and true classes, a batch at a time; the mode is as before."""
    was_training, is_gpu = model.training, device.type == "cuda"
    model.eval()
    size = _LARGE_BATCH if is_gpu and not has_many_shapes(model.network) else _BATCH
    with torch.no_grad():
        for which, new in batches_of(len(source), size, equal=is_gpu):
            pixels, labels = source.gather(which)
            yield model(pixels)[-new:], labels[-new:]
    model.train(was_training)


def batches_of(images: int, size: int, *, equal: bool) -> Iterator[tuple[Int64[Tensor, "b"], int]]:
    """Positions of a batch's images, and how many of them, the last ones, are new.

    With `equal`, the last batch has images of the one before it: the kernels of another size would
    have to be found on a GPU, and copies of an image would change the statistics of a batch.
    """
    for start in range(0, images, size):
        end = min(start + size, images)
        first = max(0, end - size) if equal else start
        yield torch.arange(first, end), end - start
