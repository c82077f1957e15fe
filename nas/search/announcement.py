"""The lines before the first trial: what is searched, and whether the limits can be met."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Console

from edgenas_core.command.console import say
from latency.base import Doubtful
from latency.probe.settings import BoardPrecision
from nas.accuracy.base import HasWeights
from nas.config.build import FROM_SCRATCH, Experiment, no_weights
from nas.fit.data.image_set import ImageSet
from nas.report.answer import Status
from nas.trials.problem import RewardedProblem
from nas.trials.survey import describe_limit, describe_reward, require_complete


def announce(
    experiment: Experiment, choices: Mapping[str, str], console: Console, *, by_default: bool
) -> None:
    """Print what is searched, and what is known of the limits beforehand.

    `verbose=true` adds the sources of the numbers and the reward's maximum; `by_default` if no space was
    named.

    Raises:
      UserError: if no architecture meets the limit.
    """
    config, problem = experiment.config, experiment.problem
    further = "".join(f"{limit}, " for limit in problem.limits.each)
    aim = f"reward={choices.get('reward')}"
    if config.objectives is not None:
        aim = f"objectives=[{','.join(config.objectives)}]"
    how = f"{aim}, controller={choices.get('controller')}, seed {config.seed}, {config.budget:,} trials"
    if problem.margin:
        allowed_ms = problem.limit_ms * math.exp(-problem.margin)
        further += f"predictions up to {allowed_ms:.3g} ms (confidence {problem.confidence:g}), "
    if experiment.images is not None:
        how = f"ranking by {problem.accuracy.source}, seed {config.seed}, hours={config.hours:g}"
        for sentence in experiment.images.report:
            say(console, sentence)
        if isinstance(problem.space, HasWeights):
            say(console, f"choosing among {problem.space.candidates}")
        if not config.verbose:
            say(console, f"accuracy: {problem.accuracy.description}")
        has_photos = config.data != "digits" and isinstance(experiment.images, ImageSet)
        if by_default and config.space == FROM_SCRATCH and has_photos:
            say(console, f"networks begin with new weights: {no_weights()}")
    lines = [
        *(_each_source(problem) if config.verbose else ()),
        (
            f"searching {problem.task.name} on {problem.oracle.device}, T = {problem.limit_ms:g} ms, "
            f"{further}{how}"
        ),
        *_outlook(problem, verbose=config.verbose, is_own=experiment.images is not None),
    ]
    doubts = problem.oracle.warnings if isinstance(problem.oracle, Doubtful) else ()
    warnings = (problem.reward.caveat, *doubts, _few_calibrated(experiment))
    lines += [f"warning: {warning}" for warning in warnings if warning]
    for line in lines:
        say(console, line)


def _few_calibrated(experiment: Experiment) -> str | None:
    if experiment.images is None or experiment.config.precision is not BoardPrecision.int8:
        return None
    from nas.export.int8 import few_calibrated  # noqa: PLC0415 - imports onnxruntime

    return few_calibrated(experiment.images)


def _outlook(problem: RewardedProblem, *, verbose: bool, is_own: bool) -> list[str]:
    survey = problem.survey
    if survey is not None:
        require_complete(survey, problem.oracle.device)
        of_reward = describe_reward(survey, problem.reward)
        is_said = verbose or of_reward.startswith("warning")
        return [describe_limit(survey, problem.oracle.device), *[of_reward][:is_said]]
    share = problem.estimated_share
    lines = [] if share is None else [f"{share} is within {problem.limits.label}"]
    return [*lines, *([] if is_own else [Status.unranked.value])]


def sources(problem: RewardedProblem) -> str:
    """Sources of the numbers, in one line."""
    return "; ".join(_each_source(problem))


def _each_source(problem: RewardedProblem) -> list[str]:
    return [
        f"accuracy {problem.accuracy.description}",
        f"latency {problem.oracle.description}",
        *(f"{limit.title} {limit.source}" for limit in problem.limits.each),
    ]
