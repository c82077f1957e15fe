"""Latencies of a new device, predicted from a few networks that were timed on it.

$ python -m nas.transfer choose=10 out=probes.csv
$ python -m nas.transfer probes=probes.csv out=my-board_ms.csv
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from rich.console import Console

from latency.base import EnumerableSpace, Space
from latency.models.calibration import read_calibration, write_calibration
from latency.models.process import FEWEST_NETWORKS
from latency.models.transferred import write_transferred
from latency.sources.transfer import choose_networks, require_known_devices, transfer_from
from nas.spaces.registry import space_named
from runtime.shell.errors import UserError
from runtime.shell.hydra_command import typed_hydra_command


@final
@dataclass
class TransferConfig:
    """Settings of the command; conf/transfer.yaml holds the defaults."""

    space: str
    choose: int | None
    probes: str | None
    out: str
    device: str | None


def main() -> None:
    """Run the command."""
    typed_hydra_command("nas.transfer", "transfer", TransferConfig, _transfer)


def _transfer(config: TransferConfig) -> None:
    transfer(config, Console(highlight=False, emoji=False, soft_wrap=True))


def transfer(config: TransferConfig, console: Console) -> Path:
    """Choose calibration networks, or predict from their times; returns the file written.

    Raises:
      UserError: if a setting cannot work, or a file is corrupt.
      OSError: if the file cannot be written.
    """
    space = space_named(config.space)
    if not Path(config.out).parent.is_dir():
        raise UserError(f"out={config.out}: there is no folder {Path(config.out).parent}")
    if config.choose is not None and config.probes is None:
        _choose(space, config.choose, Path(config.out), console)
    elif config.probes is not None and config.choose is None:
        listed = require_known_devices(space)
        _predict(listed, config, Path(config.probes), Path(config.out), console)
    else:
        raise UserError(
            "say what to do: choose=10 names architectures to time, probes=<file> predicts "
            "from their times; one of them, not both"
        )
    return Path(config.out)


def _choose(space: Space, count: int, out: Path, console: Console) -> None:
    if count < FEWEST_NETWORKS:
        raise UserError(f"choose={count} must be at least {FEWEST_NETWORKS}; 10 are good")
    write_calibration(out, space, choose_networks(space, count))
    then = (
        f"python -m nas.transfer probes={out} device=<its name> out=<table>.csv"
        if isinstance(space, EnumerableSpace)
        else f"python -m nas.search space={space.name} device=<its name> latency=transfer "
        f"latency.probes={out}"
    )
    console.print(f"{count} architectures to time -> {out}\nnext: fill in latency_ms, then {then}")


def _predict(
    space: EnumerableSpace, config: TransferConfig, probes: Path, out: Path, console: Console
) -> None:
    device = config.device or out.stem.removesuffix("_ms")
    found = transfer_from(space, device, read_calibration(probes, space))
    sidecar = write_transferred(out, found)
    console.print(
        f"{found.report} -> {out}, {sidecar}\n"
        f"next: python -m nas.search device={found.device} latency=transfer "
        f"latency.probes={probes}"
    )


if __name__ == "__main__":
    main()
