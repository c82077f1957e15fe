"""Accuracy of a network on a split of images."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from nas.fit.data.image_set import Images, ImageSet
from nas.fit.learners.base import Metric
from nas.fit.learners.data import (
    LearnerData,
    LearnerSplit,
    TrainingData,
    TrainingSplit,
)
from nas.fit.learners.of_images import ImageLearner, learner_of
from nas.fit.training.batches import DeviceImages
from nas.fit.training.device import freed_memory_kept, has_many_shapes
from nas.fit.training.step import Normalised, normalised_for

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
    split: TrainingSplit,
    data: TrainingData,
    *,
    device: torch.device | str = "auto",
) -> float:
    """The metric of a split, top-1 accuracy for classes; the network is moved to the device."""
    return metric_of(network, split, data, device=device).value


@freed_memory_kept()
def metric_of(
    network: nn.Module,
    split: TrainingSplit,
    data: TrainingData,
    *,
    device: torch.device | str = "auto",
) -> Metric:
    """The metric of a split of the data, with its interval; the network is moved to the device."""
    device = device_named(device)
    if isinstance(split, LearnerSplit) or isinstance(data, LearnerData):
        if not (isinstance(split, LearnerSplit) and isinstance(data, LearnerData)):
            raise TypeError(f"the split is not of {data.name}")
        return learner_metric(Normalised(network, None, None, device), split, data, device)
    model = normalised_for(data, network, device)
    outputs = _outputs(model, DeviceImages([split], device), device)
    return learner_of(data).metric(nn.Identity(), outputs)  # outputs that were computed in batches


def learner_metric(
    model: Normalised, split: LearnerSplit, data: LearnerData, device: torch.device
) -> Metric:
    """The metric of a learner; the mode is as before."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        metric = data.judged(model, split.batches(device))
    model.train(was_training)
    return metric


def classes_of(
    network: nn.Module, images: Images, image_set: ImageSet, *, device: torch.device | str = "auto"
) -> Int64[Tensor, "n"]:
    """The most likely class of each image of a split; the network is moved to the device."""
    return logits_of(network, images, image_set, device=device).argmax(1)


@freed_memory_kept()
def logits_of(
    network: nn.Module, images: Images, image_set: ImageSet, *, device: torch.device | str = "auto"
) -> Float[Tensor, "n classes"]:
    """Outputs for each image of a split; the network is moved to the device."""
    device = device_named(device)
    model = normalised_for(image_set, network, device)
    return torch.cat(
        [logits for logits, _ in _outputs(model, DeviceImages([images], device), device)]
    )


def mean_worth(
    model: Normalised, source: DeviceImages, learner: ImageLearner, device: torch.device
) -> Float[Tensor, ""]:
    """The metric, of classes the mean over them where they differ much in size; the mode is as before."""
    worth = torch.zeros((), dtype=torch.float64, device=device)
    for outputs, labels in _outputs(model, source, device):
        worth += (learner.worth(outputs, labels) * source.class_weights[labels]).sum()
    return learner.in_split(worth / len(source), source.labels).clamp(learner.lowest, 1)


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
