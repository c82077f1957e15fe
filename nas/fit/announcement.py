"""The lines before the first training: the data, the candidates, and what is ranked how."""

from __future__ import annotations

from rich.console import Console

from edgenas_core.command.console import say
from latency.probe.settings import BoardPrecision
from nas.accuracy.base import HasWeights
from nas.fit.build import FROM_SCRATCH, no_weights
from nas.fit.config import FitExperiment
from nas.fit.learners.data import has_classes
from nas.fit.starts.elastic.space import ElasticSpace
from nas.runs.announcement import beginning, doubts
from nas.trials.survey import require_complete


def announce(experiment: FitExperiment, console: Console, *, names_space: bool) -> None:
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
