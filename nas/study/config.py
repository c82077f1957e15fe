"""The settings of a study: which rewards, controllers, devices, limits and seeds, and where to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final

from omegaconf import MISSING

from latency.sources.table_source import LatencyConfig
from nas.accuracy.base import AccuracyConfig, Split
from nas.spaces.base import task_named
from nas.spaces.registry import space_named
from runtime.network.task import Task


class Axis(Enum):
    """What a study compares: everything else of two searches is the same."""

    reward = "reward"
    controller = "controller"


class Backend(Enum):
    """How joblib starts the worker processes."""

    loky = "loky"
    ray = "ray"


@final
@dataclass
class StudyConfig:
    """Everything that decides a study; conf/study.yaml holds the defaults.

    A reward or controller is its name, with settings of its own behind it where they are not the
    defaults: `rnn lr=0.002`. A limit is a time, or the share of the device's cells that meet it:
    `30%`. The product of `grid` is searched beside the defaults.
    """

    name: str  # in the folder's name and on the page
    rewards: list[str]
    controllers: list[str]
    devices: list[str]
    limits: list[str]
    problems: list[str]  # more of them, beside devices x limits: `help-gold-6226@11ms`
    boards: list[str]  # devices of which any may run it: `h200/b1@0.6ms,0.8ms or xeon/b1@2ms`
    seeds: int
    first_seed: int
    budget: int  # samples
    compare: Axis
    reference: str  # the reward or controller that the others are tested against; none if empty
    thesis: bool  # set the published figures beside the study's
    space: str
    dataset: str  # a task of the space
    split: Split
    epochs: int
    grid: list[str]  # settings and their values: `controller.lr=0.001,0.01`
    grid_devices: list[str]  # all, if empty
    grid_rewards: list[str]  # all, if empty
    workers: int | None  # processes; by default, one for each processor
    backend: Backend
    worker: int  # numbers the jobs of a launcher
    runs: str
    folder: str | None
    resume: str | None
    scenario: str | None = None  # of every device, with latency=corun
    accuracy: AccuracyConfig = MISSING
    latency: LatencyConfig = MISSING

    @property
    def task(self) -> Task:
        """What the networks are trained for.

        Raises:
          UserError: if the space has no such task.
        """
        return task_named(space_named(self.space), self.dataset)


FREE = ("workers", "backend", "worker", "runs", "folder", "resume")
"""Settings that decide where and how fast, and not what is found."""
