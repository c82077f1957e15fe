"""One run: the loop with its consumers, in a folder, from start or from where it was cut off."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from nas.checkpoint import Checkpointer, load_checkpoint, save_checkpoint
from nas.environment import write_environment
from nas.landscape import survey
from nas.preflight import describe_limit, describe_reward
from nas.progress import ProgressBar
from nas.samples import Journal, cut_journal, read_journal, write_parquet
from nas.search import search
from nas.summary import print_summary, summarise, write_summary
from nas.tensorboard_log import TensorBoardLog
from nas.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from nas.config import Experiment
    from nas.landscape import Landscape
    from nas.run_folder import RunFolder


def run(
    experiment: Experiment, choices: Mapping[str, str], folder: RunFolder, console: Console
) -> dict[str, Any]:
    """Search to the end of the budget; returns the summary that it wrote.

    Raises:
      UserError: if the limit cannot be met, a source lacks an architecture, or files are corrupt.
      OSError: if the folder cannot be written.
    """
    config, limit_ms = experiment.config, experiment.limit_ms
    landscape = survey(experiment.accuracy, experiment.oracle, limit_ms)
    announce(experiment, landscape, folder, console)
    write_environment(folder.environment)
    done = _restore(experiment, folder)
    history = read_journal(folder.journal) if done else None
    tracker = Tracker(limit_ms, history)
    optimum = None if landscape is None else landscape.optimum
    log = TensorBoardLog(
        folder.tensorboard,
        tracker,
        limit_ms=limit_ms,
        budget=config.budget,
        optimum_accuracy=None if optimum is None else float(landscape.accuracy[optimum]),
    )
    started_s = time.perf_counter()
    with ExitStack() as stack:
        stack.enter_context(log)
        with ExitStack() as open_files:
            consumers = [
                open_files.enter_context(Journal(folder.journal)),
                Checkpointer(folder.checkpoint, experiment.controller),
                tracker,
                open_files.enter_context(ProgressBar(console, tracker, limit_ms, config.budget)),
                log,
            ]
            for step in search(
                experiment.controller,
                experiment.accuracy,
                experiment.oracle,
                experiment.reward,
                budget=config.budget,
                batch_size=config.controller.batch_size,
                done=done,
            ):
                for consume in consumers:
                    consume(step)
        seconds = time.perf_counter() - started_s
