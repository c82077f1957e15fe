"""A trained supernet as a file, and networks that inherit its weights in any process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import final

import torch
from jaxtyping import Int64
from numpy import ndarray
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from edgenas_core.files.atomic_file import replacing
from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.accuracy.base import Inherits, SharedNetwork
from nas.fit.learners.data import TrainingData
from nas.fit.starts.supernet.training import RECALIBRATED_ON, inherited, module_of, recalibrate


def save_supernet(path: Path, shared: SharedNetwork) -> None:
    """Write the weights, atomically.

    Raises:
      OSError: if they cannot be written.
    """
    weights = module_of(shared).state_dict()
    copies = {name: tensor.cpu().contiguous().clone() for name, tensor in weights.items()}
    content = save(copies)  # which refuses tensors that share memory
    with replacing(path) as file:
        file.write(content)


@lru_cache(maxsize=1)
def load_supernet(space: Inherits, task: Task, path: Path) -> SharedNetwork:
    """The supernet of a file, on the CPU; a process reads a file once.

    Raises:
      UserError: if it is corrupt, or of another space or task.
    """
    with torch.random.fork_rng(devices=[]):
        shared = space.supernet(task)
    try:
        require_regular(path)
        module_of(shared).load_state_dict(load_file(path))
    except (SafetensorError, OSError, RuntimeError) as error:
        raise UserError(
            f"{path} is not a supernet of space={space.name} for {task}: {error}"
        ) from error
    return shared


@final
@dataclass(frozen=True)
class Inheriting:
    """Builds the networks of a space with the weights of a supernet."""

    space: Inherits
    path: Path
    images: TrainingData | None = (
        None  # that give a network its own statistics; None: the supernet's
    )
    most: int = RECALIBRATED_ON  # of these images

    def __call__(self, architecture: Int64[ndarray, "D"], task: Task) -> nn.Module:
        """The network of an architecture, for the task's images."""
        shared = load_supernet(self.space, task, self.path)
        network = inherited(self.space, shared, architecture, task)
        if self.images is not None:
            recalibrate(network, self.images, most=self.most)
        return network
