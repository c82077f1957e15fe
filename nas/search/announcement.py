"""The lines before the first trial: what is searched, and whether the limits can be met."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console

from edgenas_core.command.console import say
from nas.config.build import SearchExperiment
from nas.report.answer import Status
from nas.runs.announcement import beginning, doubts
from nas.trials.problem import RewardedProblem
from nas.trials.survey import describe_limit, describe_reward, require_complete


def announce(experiment: SearchExperiment, choices: Mapping[str, str], console: Console) -> None:
    """Print what is searched, and what is known of the limits beforehand.

    Raises:
      UserError: if no architecture meets the limit.
    """
    config, problem = experiment.config, experiment.problem
    aim = f"reward={choices['reward']}"
    if config.objectives is not None:
        aim = f"objectives=[{','.join(config.objectives)}]"
    how = f"{aim}, controller={choices['controller']}, seed {config.seed}, {config.budget:,} trials"
    warnings = (problem.reward.caveat, *doubts(problem))
    for line in (
        f"{beginning(problem)}, {how}",
        *_outlook(problem),
        *(f"warning: {warning}" for warning in warnings if warning),
    ):
        say(console, line)


def _outlook(problem: RewardedProblem) -> list[str]:
    """What the whole space holds, where that is known or can be estimated."""
    survey = problem.survey
    if survey is not None:
        require_complete(survey, problem.oracle.device)
        of_reward = describe_reward(survey, problem.reward)
        is_warning = of_reward.startswith("warning")
        return [describe_limit(survey, problem.oracle.device), *[of_reward][:is_warning]]
    share = problem.estimated_share
    lines = [] if share is None else [f"{share} is within {problem.limits.label}"]
    return [*lines, Status.unranked.value]
