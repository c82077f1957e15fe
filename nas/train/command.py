"""`python -m nas.train`: Hydra composes, a network is trained into its folder."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from nas.train.config import TrainConfig
from nas.train.subject import subject_of
from runtime.shell.errors import UserError
from runtime.shell.file_lock import held
from runtime.shell.hydra_command import quoted, typed_hydra_command


def main() -> None:
    """Run the command line's training."""
    sys.argv[1:] = [quoted(argument, "arch") for argument in sys.argv[1:]]
    typed_hydra_command("nas.train", "train", TrainConfig, _train)


def _train(config: TrainConfig) -> None:
    train_into_folder(config, Console(highlight=False, emoji=False))


def train_into_folder(config: TrainConfig, console: Console) -> Path:
    """Train a network, or go on with its training; returns its folder.

    Raises:
      UserError: if the settings cannot work, the training diverges, or memory is too small.
      OSError: if the folder cannot be written.
    """
    config.check()
    subject = subject_of(config)
    for sentence in subject.images.report:
        console.print(sentence, soft_wrap=True, markup=False)

    from nas.accuracy.training.evaluation import device_named  # noqa: PLC0415 - imports torch
    from nas.train.job import TrainingJob  # noqa: PLC0415 - imports torch

    try:
        device = device_named(config.device)
    except RuntimeError as error:
        raise UserError(
            f"device={config.device} is none of auto, cpu, cuda and cuda:<number>"
        ) from error
    subject.folder.mkdir(parents=True, exist_ok=True)
    lock = subject.folder / "lock"
    lock.touch()
    with held(lock):
        TrainingJob.of(config, subject, device, console).run()
    console.print(
        f"next: python -m nas.export weights={subject.folder}", soft_wrap=True, markup=False
    )
    return subject.folder
