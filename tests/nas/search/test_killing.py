"""An asynchronous search that is killed loses no finished trial, and pays for none of them twice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from synthetic import problem

from controller.local_search import LocalSearchConfig
from nas.runs.journal import Asked, read_journal
from nas.search.replay import replay
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.statistics import ChoiceHistory
from nas.trials.trial import State

HERE = Path(__file__).parent
TRIALS = 300


def start(folder):
    path = os.pathsep.join(map(str, (Path.cwd(), HERE.parent / "trials")))
    return subprocess.Popen(
        [sys.executable, str(HERE / "asynchronous_run.py"), str(folder), str(TRIALS)],
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.slow)])
def test_kills_at_random_moments_lose_nothing_that_was_answered(tmp_path, kills):
    moments = np.random.default_rng(0)
    told_before = {}
    for _ in range(kills):
        (tmp_path / "ready").unlink(missing_ok=True)
        process = start(tmp_path)
        while process.poll() is None and not (tmp_path / "ready").exists():
            time.sleep(0.01)
        time.sleep(moments.uniform(0, 0.9 * TRIALS * 0.011 / 3 / kills))
        process.kill()
        process.wait()
        events = read_journal(tmp_path / "journal.jsonl", problem())
        told = {int(e.number[0]): e for e in events if not isinstance(e, Asked)}
        for number, trial in told_before.items():
            np.testing.assert_array_equal(told[number].architectures, trial.architectures)
            np.testing.assert_array_equal(told[number].accuracy, trial.accuracy)
        told_before = told
    assert start(tmp_path).wait() == 0

    controller = LocalSearchConfig().build(SPACE, [0])
    history = ChoiceHistory(controller, SPACE.num_choices, TRIALS)
    events = read_journal(tmp_path / "journal.jsonl", problem())
    replayed = replay(controller, problem(), events, history)
    assert sorted(replayed.trials.number.tolist()) == list(range(TRIALS))
    assert replayed.running == {}
    failed = replayed.trials.number[replayed.trials.state == State.failed]
    assert failed.tolist() == [n for n in replayed.trials.number.tolist() if n % 7 == 3]
    # only what ran while it was killed, three trials at most, may be paid a second time
    paid = Counter(int(line) for line in (tmp_path / "paid").read_text().split())
    assert sum(paid.values()) - len(paid) <= 3 * kills
    assert len(paid) == TRIALS - len(failed)
