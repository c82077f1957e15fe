"""Settings of a measurement, of this machine or of boards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from omegaconf import MISSING

from edgenas_core.command.settings import group, setting
from edgenas_core.inference.backend import Precision
from edgenas_core.machine.stability import OnDisturbance, StabilityConfig
from edgenas_core.machine.timing import MeasureTiming, Statistic
from edgenas_core.types.errors import UserError
from latency.probe.address import addresses
from latency.probe.config import BoardsConfig


@final
@dataclass
class MeasureConfig(StabilityConfig, BoardsConfig):
    """Settings of `python -m nas.measure`: the networks, the device, the timing."""

    space: str = setting(MISSING, "Search space.", heading="What to measure (name=value)")
    board: str | None = setting(
        None,
        "Name of the machine in the table, such as jetson-nano.",
        unset="the name that a board gives itself",
    )
    device: Any = setting(
        "cpu",
        "cpu or cuda: this machine; or the address of a board, ssh://[user@]host[:port] or "
        "cmd://<command>; [ssh://a,ssh://b]: several of one kind share the work.",
    )
    precision: Precision = setting(
        Precision.fp32,
        "Number format of weights, input and activations; int8: quantised as by nas.export, with "
        "runtime=onnxruntime.",
    )
    dataset: str = setting(
        "auto", "Data set of the space. It sets the size of the images and of the last layer."
    )
    batch_size: int = setting(1, "Images of one inference.")
    networks: int | None = setting(
        None, "Number of distinct networks, drawn by the seed.", unset="all, if they can be listed"
    )
    probes: int | None = setting(
        None, "In place of networks=: number of calibration networks, chosen to predict the others."
    )
    transfer: bool = setting(
        False, "Predict all other networks from these, marked as predicted; 10 probes by default."
    )
    layers: int | None = setting(
        None,
        "In place of networks=: measure networks until so many distinct layers were timed inside them, for "
        "latency=layers. It needs a board, cmd:// (this machine), or device=cuda runtime=graph.",
    )
    serial: str | None = setting(
        None,
        "In place of networks=: port of a microcontroller that runs board/ of an export, or a file with its output. The "
        "times are written to probes.csv in out=, for latency=transfer.",
        unit="path",
    )
    repeats: int | None = setting(
        None,
        "Networks that are measured twice, which shows the noise of the table.",
        unset="20; 3 of calibration networks",
    )
    minutes: float | None = setting(
        None,
        "Minutes after which no further network is measured; the same command continues.",
        unset="no limit",
    )
    seed: int = setting(0, "Seed of the drawn networks and of the order.")
    scenario: str | None = setting(
        None,
        "Work beside the networks: hog, hog_held, beside_nb201, drone and others, or a .yaml file; "
        "docs/how-to/when-the-board-is-busy.md.",
    )
    core: int | None = setting(
        None,
        "Processor to pin to.",
        unset="0; of a board none",
        heading="How",
    )
    threads: int = setting(1, "Threads within one operation, on this processor and the next ones.")
    statistic: Statistic = setting(Statistic.median, "Statistic of the times in the table.")
    on_disturbance: OnDisturbance = setting(
        OnDisturbance.stop,
        "What to do with a measurement under load: stop, or flag it and leave it out of the table.",
    )
    timing: MeasureTiming = group(MeasureTiming)
    out: str = setting(
        "measurements",
        "Folder of results; an interrupted measurement in it goes on.",
        heading="Where results go",
        unit="path",
    )

    @property
    def is_remote(self) -> bool:
        """Whether boards are measured, named by their addresses."""
        return "://" in self.addresses

    @property
    def addresses(self) -> str:
        """The device, or the addresses of the boards, separated by space."""
        return addresses(self.device)

    def require_quiet(
        self, drift: Sequence[str], disturbances: Sequence[str], measured: str
    ) -> None:
        """Stop at a disturbance of what is `measured`, if the settings say so.

        Raises:
          UserError: if there is one; it names the disturbance.
        """
        if (drift or disturbances) and self.on_disturbance is OnDisturbance.stop:
            raise UserError(
                f"{measured} is not quiet: {'; '.join((*drift, *disturbances))}; make it so and run the "
                f"same command again to go on, or take on_disturbance=flag"
            )
