"""What can be wrong with the weights themselves."""

from __future__ import annotations


class WeightFileError(OSError):
    """A file of weights is not what it was, or not what it should be; nothing of it was used."""
