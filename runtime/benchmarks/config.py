"""Settings of `python -m benchmarks`; benchmarks/conf/papers.yaml holds the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import final

import torch

from benchmarks.workloads import SMALL, Model, Scale
from edgenas_core.inference.backend import Device
from edgenas_runtime.network.decompose import Rule

_MOST_SCALE = 4.0
"""Largest accepted factor of the published width or image size."""

_NO_LIMIT = 1e6
"""Minutes of an experiment that ends by itself."""

_COUNTS = ("repeats", "streams", "cores", "jobs", "throttle", "iterations")
"""Settings of at least 1."""


class ExperimentName(Enum):
    """Names of the experiments."""

    qs = "qs"
    coschedule = "coschedule"
    simulator = "simulator"
    contention = "contention"
    stream = "stream"
    predictor = "predictor"
    memory = "memory"
    schedulability = "schedulability"


@final
@dataclass
class SchedulabilityConfig:
    """Settings of the schedulability study."""

    scenarios: list[str]
    thresholds: list[float]
    sets: int
    seed: int
    workers: int
    time_limit_s: float

    def check(self) -> None:
        """Refuse settings that cannot be computed; the study checks its names itself.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        for name, least in (("sets", 1), ("workers", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"studying.{name}={getattr(self, name)} must be at least {least}")
        if not 0 < self.time_limit_s < math.inf:
            raise ValueError(f"studying.time_limit_s={self.time_limit_s} must be above 0, seconds")


@final
@dataclass
class BenchConfig:
    """Settings of an experiment: its subject, its length, the folder of its results."""

    experiment: ExperimentName
    device: Device
    repeats: int
    inferences: int | None  # of each network in a run; None: 3 on a GPU, 1 on a CPU
    networks: int | None  # of a workload at most; None: as published on a GPU, 3 on a CPU
    width: float | None  # None: 1 on a GPU, 1/8 on a CPU
    image: float | None  # None: 1 on a GPU, 2/7 on a CPU
    workloads: list[str] | None  # None: all
    modes: list[str]
    slices: list[int]
    streams: int
    cores: int | None
    jobs: int | None  # NAS-Bench-201 inferences of coschedule; None: 256 on a GPU, 24 on a CPU
    layers: list[str]  # devices of `latency=layers`: coschedule's GPU and CPU; []: none
    throttle: float
    limits: list[float] | None  # of contention, MB/s; on a GPU GB/s; None: as published
    iterations: int | None  # of each network of contention; None: what lasts 0.3 s a turn
    profile: str | None  # of memory; None: this GPU's own, or those of the source's boards
    rule: str | None  # of Rule; None: fused, but whole networks for qs and coschedule on a GPU
    minutes: float | None  # None: 4 on a GPU, 2 on a CPU
    out: str
    studying: SchedulabilityConfig  # of schedulability

    @property
    def on_gpu(self) -> bool:
        """True if the device is a GPU."""
        return self.device is Device.cuda

    @property
    def scale(self) -> Scale:
        """Scale of networks and images."""
        width = self.width if self.width is not None else 1.0 if self.on_gpu else 0.125
        image = self.image if self.image is not None else 1.0 if self.on_gpu else 2 / 7
        return Scale(width, image)

    def scale_of(self, model: Model) -> Scale:
        """Scale of one network: small ones keep their images, and a quarter of their channels."""
        scale = self.scale
        return Scale(max(scale.width, 0.25)) if model in SMALL else scale

    @property
    def most_networks(self) -> int:
        """Largest number of networks of a workload."""
        return self.networks if self.networks is not None else 1000 if self.on_gpu else 3

    @property
    def rounds(self) -> int:
        """Number of inferences of each network in a run."""
        return self.inferences if self.inferences is not None else 3 if self.on_gpu else 1

    @property
    def cut(self) -> Rule:
        """Rule by which networks are cut into jobs."""
        if self.rule is not None:
            return Rule(self.rule)
        is_whole = self.on_gpu and self.experiment in {ExperimentName.qs, ExperimentName.coschedule}
        return Rule.WHOLE if is_whole else Rule.FUSED

    @property
    def most_minutes(self) -> float:
        """Minutes after which no step is begun, and the current one ends after its round."""
        if self.minutes is not None:
            return self.minutes
        if self.experiment is ExperimentName.schedulability:
            return _NO_LIMIT
        return 4.0 if self.on_gpu else 2.0

    def check(self) -> None:
        """Refuse settings that cannot be measured.

        Raises:
          ValueError: naming the value and what is allowed.
        """
        counts = {
            **{name: getattr(self, name) for name in _COUNTS},
            "inferences": self.rounds,
            "networks": self.most_networks,
        }
        for name, value in counts.items():
            if value is not None and not 1 <= value < math.inf:
                raise ValueError(f"{name}={value} must be at least 1")
        if any(sms < 1 for sms in self.slices):
            raise ValueError(f"slices={self.slices} must each have 1 multiprocessor at least")
        for name, factor in (("width", self.scale.width), ("image", self.scale.image)):
            if not 0 < factor <= _MOST_SCALE:
                raise ValueError(f"{name}={factor} must be above 0 and at most {_MOST_SCALE:g}")
        for name, values in (("minutes", [self.most_minutes]), ("limits", self.limits or [])):
            if not all(0 < value < math.inf for value in values):
                raise ValueError(f"{name}={values} must be above 0")
        if len(self.layers) not in {0, 2}:
            raise ValueError(
                f"layers={self.layers} must name the device of the GPU and that of the CPU"
            )
        self._check_names()
        self.studying.check()
        if self.on_gpu and not torch.cuda.is_available():
            raise ValueError(
                "device=cuda, but torch finds no CUDA device here; device=cpu is there"
            )

    def _check_names(self) -> None:
        rules = [rule.value for rule in Rule]
        if self.rule is not None and self.rule not in rules:
            raise ValueError(f"rule={self.rule} must be one of {', '.join(rules)}")
        if not self.modes or not {*self.modes} <= {"captured", "eager"}:
            raise ValueError(f"modes={self.modes} must name captured, eager or both")

    def chosen(self, names: list[str]) -> list[str]:
        """The workloads chosen by `workloads=`, in the order of `names`.

        Raises:
          ValueError: if one is unknown, or none is chosen.
        """
        if self.workloads is None:
            return names
        unknown = [name for name in self.workloads if name not in names]
        if unknown or not self.workloads:
            is_what = "is unknown" if unknown else "names none"
            raise ValueError(
                f"workloads={unknown} of experiment={self.experiment.value} {is_what}; "
                f"there are {', '.join(names)}"
            )
        return [name for name in names if name in self.workloads]
