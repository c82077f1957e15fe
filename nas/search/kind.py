"""What makes a run a search: its settings, its lines and its strategy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from edgenas_core.command.console import say
from edgenas_core.types.errors import UserError
from nas.config.build import NAMES, SearchExperiment, build
from nas.config.moved_settings import GONE, is_fit
from nas.report.answer import Status
from nas.runs.announcement import beginning, doubts
from nas.runs.begin import RunKind
from nas.search.by_controller import ByController
from nas.trials.problem import RewardedProblem
from nas.trials.survey import describe_limit, describe_reward, require_complete


def announce(
    experiment: SearchExperiment, choices: Mapping[str, str], _command: str, console: Console
) -> None:
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


def _current(path: Path, stored: dict[str, Any]) -> dict[str, Any]:
    """Stored settings of a search, without those that are gone or are of a fit now.

    Raises:
      UserError: if they are of a fit.
    """
    if is_fit(stored["values"]):
        raise UserError(
            f"{path} is the folder of a fit; go on with python -m nas.fit resume={path}"
        )
    values = {name: value for name, value in stored["values"].items() if name not in GONE}
    return {**stored, "values": values}


SEARCH = RunKind[SearchExperiment](
    module="nas.search",
    file="search",
    groups=tuple(NAMES),
    build=build,
    announce=announce,
    strategy=ByController,
    current=_current,
)
"""A search by a controller."""
