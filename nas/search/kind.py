"""What makes a run a search: its settings, its lines and its strategy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from edgenas_core.types.errors import UserError
from nas.config.build import NAMES, SearchExperiment, build
from nas.config.moved_settings import GONE, is_fit
from nas.runs.begin import RunKind
from nas.search.announcement import announce
from nas.search.by_controller import ByController


def _announce(
    experiment: SearchExperiment,
    choices: Mapping[str, str],
    _command: str,
    console: Console,
) -> None:
    announce(experiment, choices, console)


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
    announce=_announce,
    strategy=ByController,
    current=_current,
)
"""A search by a controller."""
