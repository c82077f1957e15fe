"""The latency of a new device, from a few architectures that were timed on it.

$ python -m nas.transfer choose=10 out=probes.csv
$ python -m nas.transfer probes=probes.csv out=my-board_ms.csv
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from latency.models.process import FEWEST_PROBES
from latency.models.sheet import read_probes, write_sheet
from latency.models.transferred import choose_probes, transfer_from, write_transferred
from nas.config.build import CONF
from runtime.shell.errors import UserError
from runtime.shell.hydra_errors import one_line_hydra_errors


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
    ConfigStore.instance().store(name="transfer_schema", node=TransferConfig)
    with one_line_hydra_errors("nas.transfer"):
        _hydra_main()


@hydra.main(version_base="1.3", config_path=CONF, config_name="transfer")
def _hydra_main(composed: DictConfig) -> None:
    with one_line_hydra_errors("nas.transfer"):
        for name in sorted(OmegaConf.missing_keys(composed)):
            raise UserError(f"{name} is not set; write {name}=<file>")
        config = OmegaConf.to_object(composed)
        if not isinstance(config, TransferConfig):
            raise TypeError(f"composed a {type(config).__name__}, not a TransferConfig")
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
