"""The network that is to be trained, and its images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, final

from jaxtyping import Int64
from numpy import ndarray

from common.files.safe_yaml import load_settings
from common.types.errors import UserError
from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.images.open import SPLIT_SEED, open_images
from nas.accuracy.training.trained_folder import trained_folder
from nas.report.summary import Summary, read_summary
from nas.spaces.base import SearchSpace, architecture_named
from nas.spaces.registry import space_named
from nas.train.config import TrainConfig

_KINDS = {"data": (str, NoneType), "side": (int, NoneType)}
"""Types of the stored settings that a training takes over."""


@final
@dataclass(frozen=True)
class Subject:
    """An architecture, its images, and the folder that its trained network belongs in."""

    space: SearchSpace
    architecture: Int64[ndarray, "D"]
    data: str  # as `open_images` takes it; a path is absolute
    data_seed: int  # that missing splits were drawn with
    images: ImageSet
    folder: Path

    @property
    def arch(self) -> str:
        """The architecture as text."""
        return self.space.text(self.architecture)


def subject_of(config: TrainConfig) -> Subject:
    """Find the network and open its images.

    Raises:
      UserError: if the run has no such network or no images, or they cannot be opened.
    """
    run = None if config.run is None else Path(config.run).expanduser()
    begun = {} if run is None else _begun(run)
    settings = begun.get("values", {})
    summary = None if run is None else _summary(run)
    space = space_named(config.space if summary is None else summary.settings.space)
    if config.arch is not None:
        architecture = architecture_named(space, config.arch)
    elif summary is not None and summary.best is not None:
        architecture = space.parse(summary.best.arch)
    else:
        raise UserError(f"run={run} found no network within its limits; choose one with arch=")
    data = config.data or settings.get("data")
    if data is None:
        raise UserError(f"run={run} searched on a table, without images; choose them with data=")
    side = config.side or settings.get("side")
    images = open_images(str(data), side=side)
    searched_on = begun.get("sources", {}).get("data")
    if config.data is None and side == settings.get("side") and searched_on != images.digest:
        raise UserError(
            f"run={run} did not search on these images of {data}: they were changed, or an earlier "
            f"version split them otherwise; set data={data} to train on them all the same"
        )
    path = Path(str(data)).expanduser()
    folder = Path(config.runs) / f"train-{images.name}" if run is None else run
    return Subject(
        space,
        architecture,
        str(path.absolute()) if path.exists() else str(data),
        SPLIT_SEED,
        images,
        trained_folder(folder, space.text(architecture)),
    )


def _begun(run: Path) -> dict[str, dict[str, Any]]:
    """The settings (`values`) of a search and its `sources`, of its `config.yaml`."""
    path = run / "config.yaml"
    if not path.is_file():
        raise UserError(f"run={run} is not the folder of a run: it has no {path.name}")
    stored = load_settings(path)
    parts = {name: stored.get(name) for name in ("values", "sources")}
    found = {name: part for name, part in parts.items() if isinstance(part, dict)}
    values = found.get("values", {})
    if len(found) < len(parts) or not all(
        isinstance(values.get(name), kind) for name, kind in _KINDS.items()
    ):
        raise UserError(f"{path} is not the configuration of a search")
    return found


def _summary(run: Path) -> Summary:
    path = run / "summary.json"
    if not path.is_file():
        raise UserError(
            f"run={run} has not finished; go on with python -m nas.search resume={run}, then train"
        )
    return read_summary(path)
