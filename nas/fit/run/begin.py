"""The strategy of a fit, by what its networks begin with."""

from __future__ import annotations

from nas.fit.config import Begun
from nas.fit.data.image_set import ImageSet
from nas.fit.own_images import OwnImages
from nas.fit.run.context import Clock, FitContext
from nas.fit.run.fit import Fit
from nas.fit.run.own_network import InheritingSpace, OwnNetwork
from nas.fit.run.pretrained import Pretrained, SpaceWithWeights
from nas.fit.run.scratch import Scratch
from nas.runs.strategy import Strategy


def strategy_of(begun: Begun) -> Strategy:
    """A fit of pretrained networks, of parts of one network, or from scratch.

    Raises:
      TypeError: if the accuracies of the experiment are not those of a fit.
    """
    experiment = begun.experiment
    space, images, accuracy = (
        experiment.problem.space,
        experiment.images,
        experiment.problem.accuracy,
    )
    if not isinstance(accuracy, OwnImages):
        raise TypeError(f"{type(accuracy).__name__} is not of a fit")
    context = FitContext(begun, accuracy, images, Clock(begun.began_s))
    if isinstance(space, SpaceWithWeights) and isinstance(images, ImageSet):
        return Fit(context, Pretrained(context, space, images))
    if isinstance(space, InheritingSpace) and experiment.rule.inherits:
        return Fit(context, OwnNetwork(context, space))
    return Fit(context, Scratch(context))
