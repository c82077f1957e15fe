"""Latencies of a new device, predicted from a few networks that were timed on it.

$ python -m nas.transfer choose=10 out=probes.csv
$ python -m nas.transfer choose=10 export=to-time
$ python -m nas.transfer probes=probes.csv out=my-board_ms.csv
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from jaxtyping import Int64
from numpy import ndarray
from omegaconf import MISSING
from rich.console import Console

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.exit_status import run_command
from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_core.command.json_output import add_result
from edgenas_core.command.settings import setting
from edgenas_core.files.atomic_file import replacing
from edgenas_core.types.architectures import Enumerable
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from latency.base import EnumerableSpace
from latency.models.calibration import read_calibration, write_calibration
from latency.models.process import FEWEST_NETWORKS
from latency.models.transferred import require_ours, write_transferred
from latency.probe.config import exported
from latency.sources.transfer import choose_networks, require_known_devices, transfer_from
from nas.spaces.base import SearchSpace, task_named
from nas.spaces.registry import space_named


@final
@dataclass
class TransferConfig:
    """Settings of `python -m nas.transfer`."""

    space: str = setting(MISSING, "Search space.", heading="What to do (name=value)")
    choose: int | None = setting(
        None,
        "Number of calibration networks to choose, at least 3; the first n of more are the best n.",
    )
    probes: str | None = setting(
        None,
        "CSV file with the columns arch and latency_ms; any architectures will do.",
        unit="path",
    )
    export: str | None = setting(
        None,
        "With choose: folder for these networks as ONNX files, 01.onnx and so on.",
        unit="path",
    )
    dataset: str = setting("auto", "Data set of the space, for these files.")
    device: str | None = setting(
        None, "Name of the device in the table.", unset="the name of the file"
    )
    out: str | None = setting(
        None,
        "File to write: the calibration networks, or the table with a .json beside it.",
        unset="probes.csv in the folder export=",
        heading="Where results go",
        unit="path",
    )


_ABOUT = """
Predict all latencies of a new device from a few that you time on it.

  python -m nas.transfer choose=10 out=probes.csv
  (time these architectures on the device, fill in the column latency_ms)
  python -m nas.transfer choose=10 export=to-time
  (copy its ten ONNX files to a board without SSH, time them, fill in its probes.csv)
  python -m nas.transfer probes=probes.csv device=my-board out=my-board_ms.csv

Then:  python -m nas.search device=my-board latency=transfer latency.probes=probes.csv
"""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    typed_hydra_command(
        "nas.transfer", "transfer", TransferConfig, _transfer, words=words, about=_ABOUT
    )


def _transfer(config: TransferConfig) -> None:
    add_result(file=transfer(config, PlainConsole()))


def transfer(config: TransferConfig, console: Console) -> Path:
    """Choose calibration networks, or predict from their times; returns the file written.

    Raises:
      UserError: if a setting cannot work, or a file is corrupt.
      OSError: if the file cannot be written.
    """
    space = space_named(config.space)
    if (config.choose is None) is (config.probes is None):
        raise UserError(
            "say what to do: choose=10 names architectures to time, probes=<file> predicts "
            "from their times; one of them, not both"
        )
    if config.out is None and (config.export is None or config.choose is None):
        raise UserError("out is not set; write out=<file>.csv")
    if config.out is not None and not Path(config.out).parent.is_dir():
        raise UserError(f"out={config.out}: there is no folder {Path(config.out).parent}")
    folder = None if config.export is None else Path(config.export)
    out = Path(config.out) if config.out is not None else (folder or Path()) / "probes.csv"
    if config.choose is not None:
        _choose(space, task_named(space, config.dataset), config.choose, out, folder, console)
    elif config.probes is not None:
        if folder is not None:
            raise UserError(f"export={folder} is for choose=; leave it out")
        listed = require_known_devices(space)
        _predict(listed, config, Path(config.probes), out, console)
    return out


def _choose(  # noqa: PLR0917 - called in one place
    space: SearchSpace, task: Task, count: int, out: Path, folder: Path | None, console: Console
) -> None:
    if count < FEWEST_NETWORKS:
        raise UserError(f"choose={count} must be at least {FEWEST_NETWORKS}; 10 are good")
    chosen = choose_networks(space, count)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    write_calibration(out, space, chosen)
    if folder is not None:
        _export(space, task, chosen, folder, console)
    then = (
        f"python -m nas.transfer probes={out} device=<its name> out=<table>.csv"
        if isinstance(space, Enumerable)
        else f"python -m nas.search space={space.name} device=<its name> latency=transfer "
        f"latency.probes={out}"
    )
    say(console, f"{count} architectures to time -> {out}\nnext: fill in latency_ms, then {then}")


def _export(
    space: SearchSpace, task: Task, chosen: Int64[ndarray, "n D"], folder: Path, console: Console
) -> None:
    """Write each network, untrained, as ONNX of batch 1, numbered like the lines of the file."""
    for number, architecture in enumerate(chosen, 1):
        with replacing(folder / f"{number:02d}.onnx") as file:
            file.write(exported(space, task, 1, space.text(architecture), "onnx"))
    say(
        console,
        f"their networks, untrained, for {task.name} at batch 1 -> {folder}/01.onnx to {len(chosen):02d}.onnx, "
        f"in the order of the lines\n"
        f"on the board: trtexec --onnx=01.onnx, onnxruntime_perf_test or benchmark_model",
    )


def _predict(
    space: EnumerableSpace, config: TransferConfig, probes: Path, out: Path, console: Console
) -> None:
    device = config.device or out.stem.removesuffix("_ms")
    require_ours(out, device, space)
    transferred = transfer_from(space, device, read_calibration(probes, space))
    sidecar = write_transferred(out, transferred)
    say(
        console,
        f"{transferred.report} -> {out}, {sidecar}\n"
        + (
            transferred.quality.doubt
            or f"next: python -m nas.search device={transferred.device} latency=transfer "
            f"latency.probes={probes}"
        ),
    )


if __name__ == "__main__":
    run_command("nas.transfer")
