"""Task of a network: its classes and the size of its images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Task:
    """A data set as a network sees it."""

    name: str  # in files and on the command line
    num_classes: int
    image_side: int  # pixels; a space whose architectures choose the side may differ from it
    channels: int = 3
    title: str = ""  # as papers write it; the name if empty
    epochs: int = 200  # of a full training
    shape: tuple[int, ...] = ()  # of an input that is no square image, channels first: 1 x 40 x 101

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, channels first."""
        return self.shape or (self.channels, self.image_side, self.image_side)

    def __str__(self) -> str:
        return self.title or self.name
