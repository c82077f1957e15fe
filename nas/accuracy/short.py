"""What short trainings and untrained networks are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from nas.accuracy.images.image_set import ImageSet

if TYPE_CHECKING:
    from torch import Tensor


def tse_ema(losses: Sequence[float]) -> float:
    """Training speed as the moving average of an epoch's mean training loss: e <- 0.1 e + 0.9 loss.

    Lower is better (Ru et al., "Speedy performance estimation for NAS", NeurIPS 2021, TSE-EMA).
    """
    average = losses[0]
    for loss in losses[1:]:
        average = 0.1 * average + 0.9 * loss
    return average


def proxy_batch(images: ImageSet, count: int) -> Float[Tensor, "n c h w"]:
    """The first training images, which are in random order, normalised."""
    import torch  # noqa: PLC0415 - slow to import

    pixels = np.asarray(images.train.pixels[:count], np.float32) / 255
    mean, sd = (np.array(one, np.float32) for one in (images.mean, images.sd))
    return torch.from_numpy((pixels - mean) / sd).permute(0, 3, 1, 2).contiguous()
