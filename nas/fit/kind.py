"""What makes a run a fit: its settings, its lines and its strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console

from edgenas_core.types.errors import UserError
from nas.config.moved_settings import STARTS, is_fit
from nas.fit.announcement import announce
from nas.fit.build import build_fit
from nas.fit.config import FitConfig, FitExperiment
from nas.fit.run.begin import strategy_of
from nas.runs.begin import RunKind


def _announce(
    experiment: FitExperiment,
    _choices: Mapping[str, str],
    command: str,
    console: Console,
) -> None:
    announce(experiment, console, names_space=" space=" in command)


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
    announce=_announce,
    strategy=strategy_of,
    current=_current,
)
"""A fit on the user's data."""
