"""A search with slow answers in a folder, to be killed: `python asynchronous_run.py FOLDER TRIALS`.

Every evaluation that ends is a line of `paid`, written by the worker.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from synthetic import problem, worth

from controller.local_search import LocalSearchConfig
from edgenas_core.types.kind import Kind
from nas.accuracy.slow import Evaluation, Fidelity
from nas.runs.journal import Journal, cut_journal, read_journal
from nas.search.replay import NOTHING, replay
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous, ControllerProposer
from nas.trials.executor import Evaluated, Workers
from nas.trials.statistics import ChoiceHistory


def main(folder: Path, trials: int) -> None:
    paid = os.open(folder / "paid", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def evaluate(architecture, _fidelity, seed):
        time.sleep(0.004 + 0.01 * float(worth(architecture)))
        if seed % 7 == 3:
            raise RuntimeError("diverged")
        os.write(paid, f"{seed}\n".encode())
        return Evaluation(float(worth(architecture)), Kind.trained, 0.01)

    about, path = problem(), folder / "journal.jsonl"
    controller = LocalSearchConfig().build(SPACE, [0])
    history = ChoiceHistory(controller, SPACE.num_choices, trials)
    before = NOTHING
    if path.exists():
        events = read_journal(path, about)
        cut_journal(path, len(events))
        before = replay(controller, about, events, history)
    source = Evaluated(
        evaluate,
        (Fidelity("1 epoch", 1),),
        workers=Workers.threads,
        slots=3,
        source="synthetic",
        description="synthetic",
    )
    with Journal(path, SPACE) as journal:

        def asked(first, architectures):
            journal.asked(first, architectures)
            history(first, architectures)

        proposer = ControllerProposer(
            controller, about, trials, 0, before.asked, dict(before.running), asked
        )
        (folder / "ready").touch()
        for trial in Asynchronous(about, source, 3).search(proposer):
            journal(trial)
    (folder / "finished").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
