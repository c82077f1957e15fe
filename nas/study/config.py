"""Settings of a study: rewards, controllers, devices, limits, seeds, and where to store it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final

from omegaconf import MISSING

from edgenas_core.command.settings import setting
from latency.base import LatencyConfig
from nas.accuracy.base import AccuracyConfig, Split


class Axis(Enum):
    """The setting that a study compares; all others of two compared searches are equal."""

    reward = "reward"
    controller = "controller"


@final
@dataclass
class StudyConfig:
    """Settings of `python -m nas.study`.

    A reward or controller is its name, followed by settings that differ from its defaults:
    `rnn lr=0.002`. A limit is a time, or the share of the architectures that meet it on the device:
    `30%`; it goes with every device that has none of its own, as in `jetson-nano/fp32/b1@17ms`. The
    product of `grid` is searched beside the defaults.
    """

    space: str = setting(MISSING, "Search space.", heading="What to search (lists: name=[a,b])")
    rewards: list[str] = setting(
        ["proposed", "mnasnet", "constrained"],
        'Rewards, each with settings that differ from its defaults: "mnasnet exponent_beyond=-1".',
    )
    controllers: list[str] = setting(
        ["rnn"],
        'Controllers, each with settings that differ from its defaults: "rnn lr=0.002 batch_size=4".',
    )
    devices: list[str] = setting(
        MISSING,
        "Device ids, which `python -m nas.data list` shows; one may have its own limit: help-gold-6226@11ms.",
    )
    limits: list[str] = setting(
        ["17ms"],
        "Limits of the other devices: times, or shares of the architectures that meet them: 30%.",
    )
    seeds: int = setting(32, "Searches of each setting.")
    budget: int = setting(5000, "Architectures that each search samples.")
    grid: list[str] = setting(
        [], "Settings to vary beside the defaults: 'grid=[\"controller.lr=0.001,0.01\"]'."
    )
    dataset: str = setting("auto", "Data set of the space.")
    split: Split = setting(
        Split.auto, "Images on which accuracies were measured; auto: validation images if known."
    )
    epochs: int = setting(MISSING, "Number of epochs after which accuracies were measured.")
    accuracy: AccuracyConfig = setting(MISSING, "Source of the accuracies, as of nas.search.")
    latency: LatencyConfig = setting(MISSING, "Source of the latencies, as of nas.search.")
    scenario: str | None = setting(
        None, "Other work during the measurements of every device's table, as of nas.search."
    )
    reference: str | None = setting(
        None,
        "Reward or controller with which the others are compared; '' for none. If it is a controller, or if there is one "
        "reward, controllers are compared, and otherwise rewards.",
        unset="the first",
        heading="What to compare",
    )
    workers: int | None = setting(
        None,
        "Number of processes at once.",
        unset="one for each processor",
        heading="Where and how",
    )
    name: str = setting("study", "Name of the study, for its folder and its page.")
    out: str | None = setting(
        None, "Folder of the study.", unset="runs/<date>/<time>-<name>", unit="path"
    )
    resume: str | None = setting(
        None,
        "Folder of a study to go on with; finished settings are not searched again.",
        unit="path",
    )

    @property
    def compare(self) -> Axis:
        """What is compared: controllers if the reference is one, or if there is one reward, which it is not."""
        names_reward = len(self.rewards) > 1 or self.reference in self.rewards
        is_reward = names_reward and self.reference not in self.controllers
        return Axis.reward if is_reward else Axis.controller

    @property
    def compared(self) -> list[str]:
        """The rewards or controllers that are compared."""
        return self.controllers if self.compare is Axis.controller else self.rewards

    @property
    def tested_against(self) -> str:
        """The reference; empty if there is none."""
        return self.compared[0] if self.reference is None else self.reference


FREE = ("workers", "out", "resume")
"""Settings that change where and how fast a study runs, but not its results."""
