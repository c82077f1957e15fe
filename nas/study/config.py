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
    `30%`. The product of `grid` is searched beside the defaults.
    """

    space: str = setting(MISSING, "Search space.", heading="What to search (lists: name=[a,b])")
    rewards: list[str] = setting(
        ["proposed", "mnasnet", "constrained"],
        'Rewards, each with settings that differ from its defaults: "mnasnet exponent_beyond=-1".',
    )
    controllers: list[str] = setting(["rnn"], 'Controllers, likewise: "rnn lr=0.002 batch_size=4".')
    devices: list[str] = setting(
        MISSING, "Device ids; `python -m nas.data list` shows those of the tables."
    )
    limits: list[str] = setting(
        ["17ms"], "Times, or shares of the architectures that meet them: 30%."
    )
    problems: list[str] = setting([], "In addition to devices x limits: help-gold-6226@11ms.")
    seeds: int = setting(32, "Searches of each setting.")
    budget: int = setting(5000, "Architectures that each search samples.")
    grid: list[str] = setting(
        [], "Settings to vary beside the defaults: 'grid=[\"controller.lr=0.001,0.01\"]'."
    )
    grid_devices: list[str] = setting([], "Devices of the grid; [] for all.")
    grid_rewards: list[str] = setting([], "Rewards of the grid; [] for all.")
    dataset: str = setting("auto", "Task of the space.")
    split: Split = setting(Split.auto, "Images that accuracies are of; auto: validation if known.")
    epochs: int = setting(MISSING, "Training length that accuracies are of.")
    accuracy: AccuracyConfig = setting(MISSING, "Source of the accuracies, as of nas.search.")
    latency: LatencyConfig = setting(MISSING, "Source of the latencies, as of nas.search.")
    scenario: str | None = setting(
        None, "Work beside the networks of every device, with latency=corun."
    )
    compare: Axis = setting(Axis.reward, "What is compared.", heading="What to compare")
    reference: str = setting(
        "proposed", "Reward or controller that the others are tested against; '' for none."
    )
    workers: int | None = setting(
        None, "Processes at once.", unset="one a processor", heading="Where and how"
    )
    name: str = setting("study", "Name in the folder's and on the page.")
    out: str | None = setting(
        None, "Folder of the study.", unset="runs/<date>/<time>-<name>", unit="path"
    )
    resume: str | None = setting(
        None,
        "Folder of a study to go on with; finished settings are not searched again.",
        unit="path",
    )


FREE = ("workers", "out", "resume")
"""Settings that change where and how fast a study runs, but not its results."""
