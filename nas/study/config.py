"""Settings of a study: rewards, controllers, devices, limits, seeds, and where to store it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import final

from omegaconf import MISSING

from latency.base import LatencyConfig
from nas.accuracy.base import AccuracyConfig, Split


class Axis(Enum):
    """The setting that a study compares; all others of two compared searches are equal."""

    reward = "reward"
    controller = "controller"


class ParallelBackend(Enum):
    """Back end by which joblib starts the worker processes."""

    loky = "loky"
    ray = "ray"


@final
@dataclass
class StudyConfig:
    """Everything that decides a study; conf/study.yaml holds the defaults.

    A reward or controller is its name, followed by settings that differ from its defaults:
    `rnn lr=0.002`. A limit is a time, or the share of the architectures that meet it on the device:
    `30%`. The product of `grid` is searched beside the defaults.
    """

    name: str  # in the folder's name and on the page
    rewards: list[str]
    controllers: list[str]
    devices: list[str]
    limits: list[str]
    problems: list[str]  # in addition to devices x limits: `help-gold-6226@11ms`
    seeds: int
    budget: int  # samples
    compare: Axis
    reference: str  # reward or controller that the others are tested against; none if empty
    space: str
    dataset: str  # a task of the space
    split: Split
    epochs: int
    grid: list[str]  # settings and their values: `controller.lr=0.001,0.01`
    grid_devices: list[str]  # all, if empty
    grid_rewards: list[str]  # all, if empty
    workers: int | None  # processes; by default, one for each processor
    backend: ParallelBackend
    runs: str
    folder: str | None
    resume: str | None
    scenario: str | None = None  # of every device, with latency=corun
    accuracy: AccuracyConfig = MISSING
    latency: LatencyConfig = MISSING


FREE = ("workers", "backend", "runs", "folder", "resume")
"""Settings that change where and how fast a study runs, but not its results."""
