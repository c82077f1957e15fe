"""The latency of a new device, from a few architectures that were timed on it.

$ python -m nas.transfer choose=10 out=probes.csv
$ python -m nas.transfer probes=probes.csv out=my-board_ms.csv
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from rich.console import Console

from latency.models.process import FEWEST_PROBES
from latency.models.sheet import read_probes, write_sheet
from latency.models.transferred import choose_probes, transfer_from, write_transferred
from runtime.shell.errors import UserError
from runtime.shell.hydra_command import typed_hydra_command


@final
@dataclass
class TransferConfig:
    """What is asked for; conf/transfer.yaml holds the defaults."""

    choose: int | None
    probes: str | None
    out: str
    device: str | None


def main() -> None:
    """Run the command line's half of a transfer."""
    typed_hydra_command("nas.transfer", "transfer", TransferConfig, _transfer)


def _transfer(config: TransferConfig) -> None:
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    if config.choose is not None and config.probes is None:
        _choose(config.choose, Path(config.out), console)
    elif config.probes is not None and config.choose is None:
        _predict(config, Path(config.probes), Path(config.out), console)
    else:
        raise UserError(
            "say what to do: choose=10 names architectures to time, probes=<file> predicts "
            "from their times; one of them, not both"
        )


def _choose(count: int, out: Path, console: Console) -> None:
    if count < FEWEST_PROBES:
        raise UserError(f"choose={count} must be at least {FEWEST_PROBES}; 10 are good")
    write_sheet(out, choose_probes(count))
    console.print(
        f"{count} architectures to time -> {out}\n"
        f"next: fill in latency_ms, then python -m nas.transfer probes={out} "
        f"device=<its name> out=<table>.csv"
    )


def _predict(config: TransferConfig, probes: Path, out: Path, console: Console) -> None:
    found = transfer_from(config.device or out.stem.removesuffix("_ms"), read_probes(probes))
    sidecar = write_transferred(out, found)
    console.print(
        f"{found.told} -> {out}, {sidecar}\n"
        f"next: python -m nas.search device={found.device} latency=transfer "
        f"latency.probes={probes}"
    )


if __name__ == "__main__":
    main()
