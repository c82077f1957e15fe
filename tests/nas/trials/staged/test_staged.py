"""The staged search on synthetic answers and a simulated clock: nothing is trained."""

from dataclasses import replace

import numpy as np
import pytest
from synthetic import Accuracy, Oracle, worth
from synthetic import problem as problem_of

from common.types.errors import UserError
from common.types.kind import Kind
from nas.accuracy.slow import Evaluation, Fidelity
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.executor import Simulated
from nas.trials.limits import Limit, Limits
from nas.trials.staged.candidates import (
    LEAST_SCORED,
    draw,
    load_candidates,
    save_candidates,
    scored,
)
from nas.trials.staged.loop import StagedLoop
from nas.trials.staged.predictor import Predictor, log_rank
from nas.trials.staged.stage_result import stage_results
from nas.trials.staged.stages import LONGER, Job, Result, Stages
from nas.trials.trial import State, Trials

FIDELITIES = tuple(Fidelity(f"{n} epochs", n) for n in (1, 3, 12, 36))
ENDS_S = {"scores": 0.0, "short": 2400.0, "longer": 4000.0}
EPOCH_S = 10.0


def candidates_of(problem, draws=300):
    drawn = draw(problem, 0, draws, np.inf)
    return replace(drawn, prior=drawn.flops)


class Training:
    """Accuracy grows with the worth of an architecture and with epochs; some trainings fail."""

    def __init__(self, fails=lambda _row: False):
        self.asked = []
        self._fails = fails

    def __call__(self, architecture, fidelity, seed):
        del seed
        self.asked.append((architecture.tobytes(), fidelity.epochs))
        if self._fails(architecture):
            raise RuntimeError("diverged")
        accuracy = float(worth(architecture)) * (1 - 0.5 / fidelity.epochs)
        return Evaluation(accuracy, Kind.trained, EPOCH_S * fidelity.epochs)


def loop_of(training, *, parallel=1, fidelities=FIDELITIES, candidates=None):
    problem = problem_of(accuracy=Accuracy(instant=False))
    source = Simulated(training, fidelities, source="trained", description="")
    stages = Stages(candidates or candidates_of(problem), fidelities, ENDS_S, parallel)
    return StagedLoop(problem, source, stages, 0)


def test_candidates_are_the_fastest_of_those_that_compute_the_same_and_within_the_limit():
    problem = problem_of(limit_ms=12.0)

    found = draw(problem, 0, 500, np.inf)

    assert len(found) == found.within < found.distinct < found.drawn == 500
    assert (found.latency_ms <= 12).all()
    drawn = SPACE.sample(np.random.default_rng(0), 500)
    drawn_ms, group = problem.oracle.answer(drawn).ms, SPACE.groups(drawn)
    groups = SPACE.groups(found.architectures)
    assert len(np.unique(groups)) == len(groups)
    fastest_ms = [drawn_ms[group == one].min() for one in groups]
    assert found.latency_ms.tolist() == fastest_ms


def test_of_networks_that_compute_the_same_the_fastest_within_every_limit_is_kept():
    energy = Limit("E", "energy_mj", "mJ", 1.5, "a formula", lambda rows: 2 - worth(rows))
    problem = problem_of(limit_ms=31.0, limits=Limits((energy,)))

    found = draw(problem, 0, 500, np.inf)

    drawn = SPACE.sample(np.random.default_rng(0), 500)
    drawn_ms, group = problem.oracle.answer(drawn).ms, SPACE.groups(drawn)
    within = (drawn_ms <= 31) & (energy.of(drawn) <= 1.5)
    groups = SPACE.groups(found.architectures)
    assert {*groups} == {*group[within]}
    assert found.latency_ms.tolist() == [drawn_ms[(group == one) & within].min() for one in groups]
    assert any(
        drawn_ms[group == one].min() < drawn_ms[(group == one) & within].min() for one in groups
    )


def test_draws_that_all_are_beyond_the_limit_are_one_clear_line():
    with pytest.raises(UserError, match=r"none of 50 uniform draws is within T on board; the fast"):
        draw(problem_of(limit_ms=0.5), 0, 50, np.inf)


def test_an_oracle_that_measures_is_asked_one_by_one_and_may_lack_some():
    live = problem_of(oracle=Oracle(instant=False, unmeasured_from_ms=10.0), limit_ms=17.0)

    found = draw(live, 0, 200, np.inf)

    assert found.drawn == 200
    assert (found.latency_ms < 10).all()
    assert draw(live, 0, 200, 0.0).drawn < 200


def test_those_without_a_score_in_time_are_dropped_and_most_flops_come_first():
    drawn = draw(problem_of(), 0, 400, np.inf)

    found = scored(
        drawn, lambda rows: ([float(i)] for i in range(len(rows))), lambda c: -c[:, 0], 0.0
    )

    assert len(found) == LEAST_SCORED < len(drawn)
    assert found.flops[0] == drawn.flops.max()
    assert list(found.prior) == [-i for i in range(LEAST_SCORED)]


def test_what_has_no_path_from_the_images_to_the_output_is_no_candidate():
    found = draw(problem_of(), 0, 2000, np.inf)

    features = SPACE.features(found.architectures)
    assert features[:, SPACE.feature_names.index("connected")].all()


def test_candidates_come_back_from_their_file(tmp_path):
    drawn = draw(problem_of(), 0, 100, np.inf)
    save_candidates(tmp_path / "candidates.npz", drawn)

    again = load_candidates(tmp_path / "candidates.npz", SPACE)

    np.testing.assert_equal(vars(again), vars(drawn))
    (tmp_path / "candidates.npz").write_bytes(b"PK")
    with pytest.raises(UserError, match="remove it"):
        load_candidates(tmp_path / "candidates.npz", SPACE)


def test_the_predictor_learns_what_the_proxies_do_not_know():
    rows = SPACE.sample(np.random.default_rng(0), 400)
    accuracy = worth(rows)
    useless = log_rank(np.random.default_rng(1).permutation(400).astype(float))

    predicted = Predictor(rows, useless).after(np.arange(80), accuracy[:80])

    unseen = np.corrcoef(log_rank(predicted)[80:], log_rank(accuracy)[80:])[0, 1]
    assert unseen > 0.25
    assert abs(np.corrcoef(useless[80:], log_rank(accuracy)[80:])[0, 1]) < 0.1


@pytest.mark.parametrize("parallel", [1, 4])
def test_the_stages_shorten_the_list_and_end_in_time(parallel):
    training = Training()
    loop = loop_of(training, parallel=parallel)

    trials = Trials.joined(loop.search(0.0))

    epochs = [FIDELITIES[i].epochs for i in trials.fidelity]
    assert sorted(set(epochs)) == [1, 12, 36] or sorted(set(epochs)) == [1, 3, 12]
    assert epochs.count(max(epochs)) <= LONGER
    assert len(set(training.asked)) == len(training.asked)  # nothing is trained twice
    assert loop.source.now_s() <= ENDS_S["longer"] + EPOCH_S * 36
    best = loop.stages.order(loop.results)[0]
    trained = {job.candidate for job in loop.results}
    rows = loop.stages.candidates.architectures
    assert worth(rows[best]) >= max(worth(rows[list(trained)])) - 1e-9


def test_never_more_than_so_many_run_at_once():
    loop = loop_of(Training(), parallel=3)
    running = []
    submit, wait = loop.source.submit, loop.source.wait
    most = []

    def counted(*arguments):
        future = submit(*arguments)
        running.append(future)
        most.append(len(running))
        return future

    def ended(timeout_s=np.inf):
        future = wait(timeout_s)
        running.remove(future)
        return future

    loop.source = type("Counted", (), {
        "submit": staticmethod(counted), "wait": staticmethod(ended),
        "now_s": loop.source.now_s, "close": loop.source.close,
        "source": loop.source.source, "description": loop.source.description,
        "fidelities": loop.source.fidelities,
    })()  # fmt: skip
    for _ in loop.search(0.0):
        pass

    assert max(most) == 3


def test_a_failed_training_is_recorded_and_its_network_never_wins():
    favourite = candidates_of(problem_of()).flops.argmax()
    row = candidates_of(problem_of()).architectures[favourite]
    loop = loop_of(Training(fails=lambda architecture: (architecture == row).all()))

    trials = Trials.joined(loop.search(0.0))

    failed = trials.rows(trials.state == State.failed)
    assert [str(one) for one in failed.error] == ["RuntimeError: diverged"]
    assert (failed.architectures == row).all()
    assert favourite not in loop.stages.order(loop.results)
    assert sum(one.failed for one in stage_results(loop, SPACE)) == 1


def test_where_every_training_fails_there_is_no_order():
    loop = loop_of(Training(fails=lambda _row: True), candidates=candidates_of(problem_of(), 3))

    trials = Trials.joined(loop.search(0.0))

    assert (trials.state == State.failed).all()
    assert not len(loop.stages.order(loop.results))


def test_an_interrupted_search_goes_on_and_pays_for_nothing_twice():
    whole = Training()
    every = list(loop_of(whole).search(0.0))
    before, after = Training(), Training()
    first = loop_of(before)
    part = [trial for trial, _ in zip(first.search(0.0), range(9), strict=False)]
    spent_s = sum(float(trial.seconds[0]) for trial in part)

    second = loop_of(after)
    second.replay(Trials.joined(part), first.asked)
    rest = list(second.search(spent_s))

    assert not set(before.asked[: len(part)]) & set(after.asked)
    assert len(part) + len(rest) == len(every)
    assert [t.architectures.tobytes() for t in (*part, *rest)] == [
        t.architectures.tobytes() for t in every
    ]


def test_each_stage_says_what_it_cost_and_changed():
    loop = loop_of(Training())
    for _ in loop.search(0.0):
        pass

    found = {one.name: one for one in stage_results(loop, SPACE)}

    assert list(found) == ["draw", "short", "longer"]
    assert found["draw"].kept == len(loop.stages.candidates)
    assert found["short"].seconds + found["longer"].seconds == pytest.approx(
        sum(one.seconds for one in loop.results.values())
    )
    assert found["short"].place_before > 1  # FLOPs alone would have chosen another
    assert found["longer"].epochs > found["short"].epochs


def test_the_length_of_a_short_training_is_what_the_time_allows():
    candidates = candidates_of(problem_of())
    job = Job(0, 0)

    def chosen(seconds):
        stages = Stages(candidates, FIDELITIES, ENDS_S)
        flops = candidates.flops[0] / np.median(candidates.flops)
        results = {job: Result(0.1, seconds * flops), Job(1, 0): Result(0.1, 1e9)}
        return FIDELITIES[stages.short_fidelity(results)].epochs

    assert [chosen(seconds) for seconds in (1.0, 100.0, 1000.0)] == [12, 3, 1]
