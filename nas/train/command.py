"""`python -m nas.train`: Hydra composes, a network is trained into its folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_core.command.json_output import add_result
from edgenas_core.files.atomic_file import remove_unfinished
from edgenas_core.files.file_lock import held
from edgenas_core.types.errors import UserError
from nas.spaces.trusted_code import export_command
from nas.train.config import TrainConfig
from nas.train.subject import subject_of

if TYPE_CHECKING:
    import torch


_ABOUT = """
Train a network to full accuracy on your images: the winner of a search, or any architecture.

  python -m nas.train run=runs/2026-11-21/09-00-00-jetson-nano-fp32-b1-T17ms
  python -m nas.train arch=6111 data=digits epochs=12

To continue an interrupted training from its last complete epoch, give the same command again. The folder
trained/<key of the architecture>/ in the folder of the run has weights.safetensors, training.json, the
checkpoint and TensorBoard's files.
"""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line's training."""
    typed_hydra_command("nas.train", "train", TrainConfig, _train, words=words, about=_ABOUT)


def _train(config: TrainConfig) -> None:
    add_result(folder=train_into_folder(config, PlainConsole()))


def train_into_folder(config: TrainConfig, console: Console) -> Path:
    """Train a network, or resume its training; returns its folder.

    Raises:
      UserError: if the settings cannot work, the training diverges, or memory is too small.
      OSError: if the folder cannot be written.
    """
    config.check()
    subject = subject_of(config)
    for line in subject.images.report:
        say(console, line)

    import torch  # noqa: PLC0415 - takes seconds

    from nas.fit.training.evaluation import device_named  # noqa: PLC0415 - imports torch
    from nas.train.job import TrainingJob  # noqa: PLC0415 - imports torch

    try:
        device = device_named(config.accelerator)
        torch.empty(0, device=device)  # is it there?
    except (RuntimeError, AssertionError) as error:
        raise UserError(
            f"accelerator={config.accelerator} is none of auto, cpu, cuda and cuda:<number>, or not there"
        ) from error
    subject.folder.mkdir(parents=True, exist_ok=True)
    lock = subject.folder / "lock"
    lock.touch()
    with held(lock):
        remove_unfinished(subject.folder)
        if config.processes == 1:
            TrainingJob(config, subject, device, console).run()
        else:
            from nas.train.replicated import in_processes  # noqa: PLC0415 - imports torch

            _require_room(config, device)
            in_processes(partial(_member, config), config.processes, console.print)
    command = export_command({"weights": str(subject.folder)}, subject.space.name, subject.data)
    say(console, f"next: {command}")
    return subject.folder


def _require_room(config: TrainConfig, device: torch.device) -> None:
    """Refuse more processes than there are GPUs, or cores where there is no GPU."""
    import torch  # noqa: PLC0415 - takes seconds

    if config.accelerator != "auto":
        raise UserError(f"processes={config.processes} choose their GPUs: leave accelerator= out")
    on_gpus = device.type == "cuda"
    most, what = (torch.cuda.device_count(), "GPUs") if on_gpus else (os.cpu_count() or 1, "cores")
    if config.processes > most:
        raise UserError(f"processes={config.processes}, but this machine has {most} {what}")


def _member(config: TrainConfig, rank: int) -> None:
    """Take part in a training of several processes; only the first one prints and writes."""
    import torch  # noqa: PLC0415 - takes seconds

    from nas.fit.training.evaluation import device_named  # noqa: PLC0415 - imports torch
    from nas.train.job import TrainingJob  # noqa: PLC0415 - imports torch

    if not torch.cuda.is_available():
        torch.set_num_threads(max(1, torch.get_num_threads() // config.processes))
    console = Console(highlight=False, emoji=False, quiet=rank > 0)
    TrainingJob(config, subject_of(config), device_named("auto"), console).run()
