"""Kind of a number: measured, measured under load, predicted and by what, trained, a penalty, or missing."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from jaxtyping import Bool, Int8
from numpy import ndarray


class Kind(IntEnum):
    """Origin of a number, stored beside it and printed with it.

    The values are part of the files that runs leave: new kinds are appended.
    """

    missing = 0  # there is no number
    measured = 1  # on a device, or a benchmark's own training
    regression = 2  # predicted by a linear model of the same device
    transfer = 3  # predicted from a few networks of the device and many of other devices
    slowdown = 4  # predicted from the latency without other load
    surrogate = 5  # predicted by an embedded model of accuracy
    trained = 6  # on the user's images, to the fidelity of the trial
    penalty = 7  # a network that the device cannot run counts as this slow
    blocks = 8  # the sum of the measured latencies of the network's blocks
    own = 9  # by a function of the user's, of unknown origin
    disturbed = 10  # measured under load, or while the device drifted: not to be relied on
    supernet = (
        11  # accuracy with weights inherited from a supernet, of a network that was not trained
    )
    implausible = 12  # measured twice, both times far faster than other networks let expect
    layers = 13  # by a model of the layers of any network on the device
    published = 14  # by a model of times that others published of other networks on the device

    @property
    def is_predicted(self) -> bool:
        """Whether a model gave the number."""
        return self in _PREDICTED

    @property
    def words(self) -> str:
        """The kind as printed: `measured`, `predicted by regression`, ..."""
        if self is Kind.disturbed:
            return "measured under load, unreliable"
        if self is Kind.implausible:
            return "measured, implausibly fast"
        if self is Kind.published:
            return "predicted from published rows of other networks"
        return f"predicted by {_PREDICTED[self]}" if self in _PREDICTED else self.name


def is_predicted(kinds: Int8[ndarray, "*n"]) -> Bool[ndarray, "*n"]:
    """True where a model gave the number."""
    return np.asarray(_IS_PREDICTED[kinds])


FLAGGED = (Kind.disturbed, Kind.implausible)
"""Measurements that are marked wherever they are shown."""

_PREDICTED = {
    Kind.regression: "regression",
    Kind.transfer: "transfer",
    Kind.slowdown: "the scenario's slowdown",
    Kind.surrogate: "the surrogate",
    Kind.blocks: "the sum of its blocks",
    Kind.layers: "the sum of its layers",
    Kind.own: "your own function",
    Kind.published: "published rows of other networks",
}

_IS_PREDICTED = np.array([kind in _PREDICTED for kind in Kind])  # by the kind's value
