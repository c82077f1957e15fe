"""What makes a run a fit: its settings, its lines and its strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.types.errors import UserError
from latency.probe.settings import BoardPrecision
from nas.accuracy.base import HasWeights
from nas.config.moved_settings import STARTS, is_fit
from nas.fit.build import FROM_SCRATCH, build_fit, no_weights
from nas.fit.config import Begun, FitConfig, FitExperiment
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import has_classes
from nas.fit.own_images import OwnImages
from nas.fit.run.context import Clock, FitContext
from nas.fit.run.fit import Fit
from nas.fit.run.own_network import InheritingSpace, OwnNetwork
from nas.fit.run.pretrained import Pretrained, SpaceWithWeights
from nas.fit.run.scratch import Scratch
from nas.fit.starts.elastic.space import ElasticSpace
from nas.runs.announcement import beginning, doubts
from nas.runs.begin import RunKind
from nas.runs.strategy import Strategy
from nas.trials.survey import require_complete


def announce(
    experiment: FitExperiment, _choices: Mapping[str, str], command: str, console: Console
) -> None:
    """Print the data, the candidates, and what is known of the limits beforehand.

    Raises:
      UserError: if no architecture meets the limit.
    """
    config, problem, images = experiment.config, experiment.problem, experiment.images
    lines = [*images.report]
    if isinstance(problem.space, HasWeights):
        lines.append(f"choosing among {problem.space.candidates}")
    if isinstance(problem.space, ElasticSpace):
        lines += problem.space.report
    lines.append(f"accuracy: {problem.accuracy.description}")
    has_photos = config.data != "digits" and has_classes(images)  # tasks take no weights=
    names_space = " space=" in command
    if not names_space and config.space == FROM_SCRATCH and has_photos:
        lines.append(f"networks begin with random initialisation: {no_weights()}")
    how = f"ranking by {problem.accuracy.source}, seed {config.seed}, hours={config.hours:g}"
    lines.append(f"{beginning(problem)}, {how}")
    if problem.survey is not None:
        require_complete(problem.survey, problem.oracle.device)
    elif problem.estimated_share is not None:
        lines.append(f"{problem.estimated_share} is within {problem.limits.label}")
    warnings = (*doubts(problem), _calibration_warning(experiment))
    lines += [f"warning: {warning}" for warning in warnings if warning]
    for line in lines:
        say(console, line)


def _calibration_warning(experiment: FitExperiment) -> str | None:
    if experiment.config.precision is not BoardPrecision.int8:
        return None
    from nas.export.int8 import calibration_warning  # noqa: PLC0415 - imports onnxruntime

    return calibration_warning(experiment.images)


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


def _current(path: Path, stored: dict[str, Any]) -> dict[str, Any]:
    """Stored settings of a fit; those of an earlier version are of a search on own images.

    Raises:
      UserError: if they are of a search on tables, or of what this version does not do.
    """
    values, choices = stored["values"], stored["choices"]
    if not is_fit(values):
        raise UserError(
            f"{path} is the folder of a search; go on with python -m nas.search resume={path}"
        )
    if "start" in values:
        return stored
    before = str(choices.get("accuracy", "auto"))
    if before not in {"auto", *STARTS}:
        raise UserError(f"{path} was begun with accuracy={before}, which was removed")
    rule = values.get("accuracy")
    recipe = rule.get("recipe", "auto") if isinstance(rule, dict) else "auto"
    names = {field.name for field in fields(FitConfig)}
    kept = {name: value for name, value in values.items() if name in names}
    kept |= {"start": STARTS.get(before, "auto"), "recipe": recipe}
    return {**stored, "values": kept}


FIT = RunKind[FitExperiment](
    module="nas.fit",
    file="fit",
    groups=("latency",),
    build=build_fit,
    announce=announce,
    strategy=strategy_of,
    current=_current,
)
"""A fit on the user's data."""
