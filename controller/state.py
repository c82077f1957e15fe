"""Check that a stored state belongs to the controller that restores it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy import ndarray


def require_shapes(
    state: Mapping[str, ndarray], shapes: Mapping[str, tuple[int | None, ...]]
) -> None:
    """Refuse a state that has not exactly these arrays; None stands for any length.

    Raises:
      ValueError: if a name or a shape differs.
    """
    if state.keys() != shapes.keys():
        raise ValueError(f"state holds {', '.join(sorted(state))}, not {', '.join(sorted(shapes))}")
    for name, shape in shapes.items():
        stored = np.shape(state[name])
        same_rank = len(stored) == len(shape)
        if not same_rank or any(n not in (None, m) for n, m in zip(shape, stored, strict=True)):
            raise ValueError(f"state has {name} of shape {stored}, but it should be {shape}")
