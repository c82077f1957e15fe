"""`python -m nas.search`: Hydra composes, one run follows; every error is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from yaml import YAMLError

from latency.base import UnmeasuredError
from nas.atomic_file import replacing
from nas.config import NAMES, build, register
from nas.errors import UserError
from nas.exit_status import reason
from nas.hydra_errors import one_line_hydra_errors
from nas.run import Run, announce
from nas.run_folder import RunFolder, interrupted_run_folder, new_run_folder


def main() -> None:
    """Run the command line's search."""
    register()
    with one_line_hydra_errors("nas.search"):
        _hydra_main()


@hydra.main(version_base="1.3", config_path="pkg://conf", config_name="search")
def _hydra_main(composed: DictConfig) -> None:
    with one_line_hydra_errors("nas.search"):
        try:
            _search(composed, Console(highlight=False))
        except UnmeasuredError as error:
            raise UserError(str(error)) from error


def _search(composed: DictConfig, console: Console) -> None:
    if composed.resume is None:
        choices = {group: str(HydraConfig.get().runtime.choices[group]) for group in NAMES}
        interrupted = None
    else:
        interrupted = interrupted_run_folder(Path(composed.resume))
        composed, choices = _load(interrupted)
    experiment = build(composed)
    announce(experiment, choices, console)
    if interrupted is None:
        folder = new_run_folder(
            Path(composed.runs), choices["reward"], composed.device, experiment.limit_ms
        )
        _save(composed, choices, folder)
    else:
        folder = interrupted
    try:
        with folder.held():
            Run(experiment, choices, folder, console).complete()
    except KeyboardInterrupt:
        console.print(f"go on with: python -m nas.search resume={folder.path}", soft_wrap=True)
        raise
    except OSError as error:
        raise UserError(
            f"{reason(error)}; what was sampled is kept, go on with resume={folder.path}"
        ) from error


def _save(composed: DictConfig, choices: dict[str, str], folder: RunFolder) -> None:
    values = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    with replacing(folder.config) as file:
        file.write(OmegaConf.to_yaml({"choices": choices, "values": values}).encode())


def _load(folder: RunFolder) -> tuple[DictConfig, dict[str, str]]:
    others = [text for text in HydraConfig.get().overrides.task if not text.startswith("resume=")]
    if others:
        raise UserError(
            f"resume goes on with the settings in {folder.config}; leave out {' '.join(others)}"
        )
    try:
        stored: Any = OmegaConf.to_container(OmegaConf.load(folder.config))
        choices = {group: str(stored["choices"][group]) for group in NAMES}
        composed = hydra.compose("search", [f"{group}={name}" for group, name in choices.items()])
        composed.merge_with(stored["values"])
    except (HydraException, OmegaConfBaseException, YAMLError, KeyError, TypeError) as error:
        raise UserError(f"{folder.config} does not fit this version: {error}") from error
    return composed, choices
