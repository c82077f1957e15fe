"""`python -m benchmarks experiment=variants`: a study of boards with several units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf

from benchmarks.variants.boards import BoardLatencyConfig, problems_of
from benchmarks.variants.page import VARIANTS
from nas.study.command import main as study

CONF = Path(__file__).parents[1] / "conf"


def register_boards() -> None:
    """Tell Hydra the names that the study may use in addition to those of `nas.study`."""
    OmegaConf.register_new_resolver("problems_of", problems_of, replace=True)
    store = ConfigStore.instance()
    store.store(group="latency", name="boards", node=BoardLatencyConfig)
    experiment = OmegaConf.load(CONF / "studies" / "variants.yaml")
    store.store(group="experiment", name="variants", node=experiment, package="_global_")


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's study."""
    register_boards()
    study(words, [VARIANTS], command="benchmarks")
