"""Features of an architecture that latency is roughly linear in.

A block costs by its kernel, its expansion and the side of the image. The blocks of a stage after its
first have equal shapes, so they are counted together: there are ten groups, the first block and the
others of each stage. Each of the nine settings of kernel and expansion is counted in each group, once
as it is, for what a block costs whatever the image, and once weighted by the pixels that the group
computes. A library chooses its kernels by shape, so each side also has a step of its own: on a GPU in
bf16, a side may be 5 % faster than its neighbours, whatever the network.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_mobilenet_v3.layers import stage_sides
from edgenas_mobilenet_v3.space import (
    EXPANSIONS,
    KERNELS,
    SIDES,
    STAGES,
    settings_of,
)

_SETTINGS = tuple(f"k{kernel}e{expansion}" for kernel in KERNELS for expansion in EXPANSIONS)
_GROUPS = tuple(
    f"{which} of stage {stage}" for stage in range(1, STAGES + 1) for which in ("first", "others")
)

FEATURES = (
    *(f"{setting} in {group}" for group in _GROUPS for setting in _SETTINGS),
    *(f"pixels of {setting} in {group}" for group in _GROUPS for setting in _SETTINGS),
    "pixels",
    *(f"side {side}" for side in SIDES),
)

_PIXELS = np.array([[side**2 for side in stage_sides(image)] for image in SIDES], float)


def architecture_features(architectures: Int64[ndarray, "*n D"]) -> Float64[ndarray, "*n F"]:
    """The features, named by `FEATURES`; pixels are relative to those of the largest image."""
    chosen = settings_of(architectures)
    setting = chosen.kernel * len(EXPANSIONS) + chosen.expansion
    one_hot = (setting[..., None] == np.arange(len(_SETTINGS))) & chosen.on[..., None]
    counts = np.stack([one_hot[..., :1, :].sum(-2), one_hot[..., 1:, :].sum(-2)], axis=-2).astype(
        float
    )
    share = (_PIXELS / _PIXELS[-1])[chosen.side]
    weighted = counts * share[..., 1:, None, None]
    flat = (*counts.shape[:-3], len(_GROUPS) * len(_SETTINGS))
    steps = np.eye(len(SIDES))[chosen.side]
    groups = counts.reshape(flat), weighted.reshape(flat)
    return np.concatenate([*groups, share[..., :1], steps], axis=-1)
