"""A new classifier of a supernet that was trained before, on frozen features of the user's images."""

from __future__ import annotations

import numpy as np

from nas.accuracy.base import SharedNetwork
from nas.fit.data.image_set import ImageSet
from nas.fit.starts.fine_tuning.frozen import frozen_features, frozen_result
from nas.fit.starts.fine_tuning.tuning import set_classifier
from nas.fit.starts.supernet.training import module_of
from nas.fit.training.evaluation import device_named

_ON_GPU, _ON_CPU = 4000, 600
"""Images of each split, at most."""


def fit_classifier(shared: SharedNetwork, images: ImageSet) -> None:
    """Fit the last linear layer on what the chosen network computes before it."""
    device = device_named("auto")
    most = _ON_CPU if device.type == "cpu" else _ON_GPU
    splits = [split.first(most) for split in (images.train, images.valid)]
    network = module_of(shared)
    features = frozen_features(network, splits, images, device)
    labels = [np.asarray(split.labels) for split in splits]
    result = frozen_result((features[0], labels[0]), (features[1], labels[1]), len(images.classes))
    set_classifier(network.cpu(), result.weight, result.bias)
