"""The asynchronous loop, on synthetic answers whose order is simulated or real."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from dataclasses import replace

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Oracle, problem, worth

from controller.evolution import EvolutionConfig
from controller.local_search import LocalSearchConfig
from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from edgenas_core.types.kind import Kind
from nas.accuracy.slow import Evaluation, Fidelity
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous, ControllerProposer
from nas.trials.executor import Evaluated, Simulated, Workers
from nas.trials.loop import search
from nas.trials.trial import State, Trials

FULL = (Fidelity("200 epochs", 200),)
RNN = RnnConfig(batch_size=1, lr=0.05, entropy_weight=0.0)


def evaluate(architecture, _fidelity, _seed):
    """A second for each architecture, so that the order of ends is that of the beginnings."""
    return Evaluation(float(worth(architecture)), Kind.trained, 1.0)


def simulated(function=evaluate):
    return Simulated(function, FULL, source="synthetic", description="synthetic")


def searched(controller, source, *, parallel, trials, about=None, check=lambda: None, **options):
    about = about or problem()
    proposer = ControllerProposer(controller, about, trials, **options)
    return Asynchronous(about, source, parallel, check).search(proposer)


def uniform():
    return UniformConfig().build(SPACE, [0])


@pytest.mark.parametrize(
    "config",
    [
        UniformConfig(),
        RNN,
        EvolutionConfig(population_size=10),
        LocalSearchConfig(),
    ],
)
def test_one_worker_gives_the_samples_of_the_vectorised_loop_at_batch_1(config):
    one, other = (config.build(SPACE, [3]) for _ in range(2))

    found = list(searched(one, simulated(), parallel=1, trials=60))

    expected = list(search(other, problem(), budget=60, batch_size=1))
    for trial, step in zip(found, expected, strict=True):
        np.testing.assert_array_equal(trial.architectures, step.architectures)
        np.testing.assert_array_equal(trial.rewards, step.rewards)


@given(
    st.lists(st.floats(0.01, 100), min_size=1, max_size=40),
    st.integers(1, 6),
    st.sets(st.integers(0, 39)),
)
def test_trials_end_in_order_of_completion_and_each_ends_once(seconds, parallel, failing):
    running, most = [0], [0]

    def one(_architecture, _fidelity, seed):
        running[0] += 1
        most[0] = max(most[0], running[0])
        if seed in failing:
            raise RuntimeError(f"trial {seed} diverged")
        return Evaluation(0.5, Kind.trained, seconds[seed])

    source = simulated(one)
    ends, asked, trials = [], [], len(seconds)

    def on_asked(first, _rows):
        asked.append(first)

    for trial in searched(uniform(), source, parallel=parallel, trials=trials, on_asked=on_asked):
        running[0] -= 1
        ends.append((source.now_s(), trial))

    assert asked == list(range(len(seconds)))
    assert sorted(trial.first for _, trial in ends) == asked
    assert most[0] <= parallel
    assert [when for when, _ in ends] == sorted(when for when, _ in ends)
    for _, trial in ends:
        failed = trial.first in failing
        assert trial.failed[0, 0] == failed
        assert (f"trial {trial.first} diverged" in trial.error[0, 0]) == failed
        assert np.isnan(trial.rewards[0, 0]) == failed


def test_a_trial_without_a_latency_fails_without_being_evaluated():
    evaluated = []

    def one(architecture, fidelity, seed):
        evaluated.append(1 + 40 * worth(architecture))
        return evaluate(architecture, fidelity, seed)

    about = problem(oracle=Oracle(unmeasured_from_ms=20))
    found = list(searched(uniform(), simulated(one), parallel=2, trials=50, about=about))

    failed = [trial for trial in found if trial.failed[0, 0]]
    assert len(found) == 50
    assert failed
    assert len(evaluated) == 50 - len(failed)
    assert max(evaluated) < 20
    assert all("latency=auto" in trial.error[0, 0] for trial in failed)


@pytest.mark.parametrize("seconds", [np.nan, np.inf, -1.0])
def test_a_duration_that_is_none_is_taken_from_the_clock(seconds):
    def one(architecture, fidelity, seed):
        time.sleep(0.02)
        return replace(evaluate(architecture, fidelity, seed), seconds=seconds)

    found = list(searched(uniform(), real(one, Workers.threads, 1), parallel=1, trials=2))

    assert len(found) == 2
    assert all(0.02 <= trial.seconds[0, 0] < 600 for trial in found)


@pytest.mark.parametrize(("lost", "ends"), [({3, 4, 7}, None), ({3, 4, 5}, 6)])
def test_a_board_that_is_lost_fails_its_trial_and_one_that_stays_lost_ends_the_search(lost, ends):
    asked = []

    class Losing(Oracle):
        def answer(self, architectures):
            asked.append(architectures)
            if len(asked) - 1 in lost:
                raise ConnectionError("ssh://board ended")
            return super().answer(architectures)

    about, found = problem(oracle=Losing()), {}
    try:
        for trial in searched(uniform(), simulated(), parallel=3, trials=10, about=about):
            found[trial.first] = State(trial.state[0, 0])
    except ConnectionError:
        assert ends is not None

    assert sorted(found) == list(range(ends or 10))  # what was running has ended too
    assert {number for number, state in found.items() if state is State.failed} == lost


def test_a_search_is_left_while_it_waits_for_an_answer():
    answered = threading.Event()

    def never(_architecture, _fidelity, _seed):
        answered.wait()
        raise AssertionError

    def leave():
        raise KeyboardInterrupt

    source = real(never, Workers.threads, 1)

    with pytest.raises(KeyboardInterrupt):
        next(searched(uniform(), source, parallel=1, trials=1, check=leave))
    answered.set()


def test_what_was_running_is_submitted_again_before_anything_is_asked():
    controller = uniform()
    rows = controller.sample(3)[0]
    running = {1: rows[1], 2: rows[2]}

    found = list(searched(controller, simulated(), parallel=2, trials=5, asked=3, running=running))

    assert [trial.first for trial in found] == [1, 2, 3, 4]
    np.testing.assert_array_equal(found[0].architectures[0, 0], rows[1])


def crash_or_answer(architecture, fidelity, seed):
    """Every third trial ends its process."""
    if seed % 3 == 2:
        os._exit(9)
    return evaluate(architecture, fidelity, seed)


def slow(architecture, fidelity, seed):
    time.sleep(0.05)
    return evaluate(architecture, fidelity, seed)


def real(function, workers, slots, **options):
    return Evaluated(
        function,
        FULL,
        workers=workers,
        slots=slots,
        source="synthetic",
        description="synthetic",
        **options,
    )


def remember_slot(slot, slots):
    SLOT.number = slot, slots


SLOT = threading.local()


def slot_or_crash(_architecture, _fidelity, seed):
    """Every third trial ends its process; the answers of the others are the numbers of their slots."""
    if seed % 3 == 2:
        os._exit(9)
    slot, slots = SLOT.number
    return Evaluation(slot / slots, Kind.trained, 1.0)


def test_threads_answer_out_of_order():
    fourth_began = threading.Event()  # once the second or the third was answered

    def first_answers_late(architecture, fidelity, seed):
        if seed == 3:
            fourth_began.set()
        assert seed != 0 or fourth_began.wait(600)
        return evaluate(architecture, fidelity, seed)

    source = real(first_answers_late, Workers.threads, 3)

    trials = list(searched(uniform(), source, parallel=3, trials=12))

    numbers = [trial.first for trial in trials]
    assert sorted(numbers) == list(range(12))
    assert numbers != list(range(12))
    assert (Trials.joined(trial.replica(0) for trial in trials).state == State.done).all()


def test_a_process_that_crashes_takes_only_its_own_trial_along():
    source = real(crash_or_answer, Workers.processes, 2)

    trials = list(searched(uniform(), source, parallel=2, trials=6))

    failed = {trial.first: bool(trial.failed[0, 0]) for trial in trials}
    assert failed == {number: number in {2, 5} for number in range(6)}


def test_a_new_process_is_prepared_for_the_slot_of_the_one_that_crashed():
    source = real(slot_or_crash, Workers.processes, 2, prepare=remember_slot)
    slots = []
    for trial in range(3):
        future = source.submit(trial, SPACE.control(), 0, trial)
        assert source.wait() is future
        slots.append(None if future.exception() else future.result().accuracy)
    futures = [source.submit(trial, SPACE.control(), 0, trial) for trial in (3, 4)]
    both = {source.wait().result().accuracy for _ in futures}
    source.close()

    assert slots == [0, 0, None]
    assert both == {0, 0.5}


def test_each_thread_is_prepared_for_its_slot():
    source = real(slot_or_crash, Workers.threads, 2, prepare=remember_slot)
    for trial in (0, 1):
        source.submit(trial, SPACE.control(), 0, trial)

    both = {source.wait().result().accuracy for _ in range(2)}
    source.close()

    assert both == {0, 0.5}


def test_a_process_that_dies_while_it_is_idle_is_replaced():
    source = real(evaluate, Workers.processes, 1)
    source.submit(0, SPACE.control(), 0, 0)
    source.wait()
    ((_, executor),) = source._idle
    (process,) = executor._processes.values()
    process.kill()
    process.join()
    while not executor._broken:
        time.sleep(0.01)

    future = source.submit(1, SPACE.control(), 0, 0)

    assert source.wait() is future
    assert future.exception() is None
    source.close()


@pytest.mark.parametrize("config", [RNN, LocalSearchConfig()])
def test_an_accuracy_that_is_no_number_is_a_failed_trial(config):
    def diverging(architecture, fidelity, seed):
        found = evaluate(architecture, fidelity, seed)
        return replace(found, accuracy=np.nan) if architecture[0] == 0 else found

    source = simulated(diverging)
    found = list(searched(config.build(SPACE, [0]), source, parallel=2, trials=40))

    for trial in found:
        diverged = trial.architectures[0, 0, 0] == 0
        assert trial.failed[0, 0] == diverged
        assert ("nan" in trial.error[0, 0]) == diverged
        assert trial.seconds[0, 0] == 1.0
    assert any(trial.failed[0, 0] for trial in found)


def test_a_training_worse_than_a_constant_has_its_negative_r2():
    source = simulated(lambda _architecture, _fidelity, _seed: Evaluation(-2.5, Kind.trained, 1.0))

    trials = list(searched(uniform(), source, parallel=1, trials=3))

    assert [trial.accuracy.item() for trial in trials] == [-2.5] * 3


def test_a_search_that_is_left_ends_its_processes():
    others = set(multiprocessing.active_children())
    source = real(slow, Workers.processes, 2)
    trials = searched(uniform(), source, parallel=2, trials=100)
    next(trials)
    workers = set(multiprocessing.active_children()) - others
    processes = [psutil.Process(worker.pid) for worker in workers]

    trials.close()

    assert len(processes) == 2
    _, alive = psutil.wait_procs(processes, timeout=60)  # whichever thread of ours reaps them
    assert not alive
    with pytest.raises(RuntimeError, match="slot"):
        source.submit(0, SPACE.control(), 0, 0)
