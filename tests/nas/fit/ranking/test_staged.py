"""The staged search on synthetic answers and a simulated clock: nothing is trained."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import Accuracy, Oracle, worth
from synthetic import problem as problem_of

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies
from latency.models.confidence import of_residuals
from nas.accuracy.slow import Evaluation, Fidelity
from nas.fit.ranking.candidates import LEAST_SCORED, MEASURED, candidates_of, draw, scored
from nas.fit.ranking.predictor import Predictor, log_rank
from nas.fit.ranking.proposer import StagedProposer
from nas.fit.ranking.stages import LONGER, Result, StageJob, Stages, stage_results
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous
from nas.trials.executor import Simulated
from nas.trials.limits import Limit, Limits
from nas.trials.trial import State, Trials

FIDELITIES = tuple(Fidelity(f"{n} epochs", n) for n in (1, 3, 12, 36))
ENDS_S = {"scores": 0.0, "short": 2400.0, "longer": 4000.0}
EPOCH_S = 10.0


def some_candidates(problem, draws=300):
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


class Search:
    """A staged search with trainings on a simulated clock."""

    def __init__(self, training, *, parallel=1, candidates=None, source=Simulated, asked=0):
        self._problem = problem_of(accuracy=Accuracy(instant=False))
        candidates = candidates or some_candidates(self._problem)
        self.source = source(training, FIDELITIES, source="trained", description="")
        self.stages = Stages(candidates, FIDELITIES, ENDS_S, parallel)
        self.proposer = StagedProposer(self.stages, 0, asked=asked)

    def trials(self, elapsed_s=0.0):
        loop = Asynchronous(self._problem, self.source, self.stages.parallel)
        for batch in loop.search(self.proposer, elapsed_s=elapsed_s):
            yield batch.replica(0)

    @property
    def results(self):
        return self.proposer.results

    def order(self):
        return self.stages.order(self.results)

    def stage_results(self):
        return stage_results(self.stages, self.results, SPACE)


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
    within = (drawn_ms <= 31) & (energy.cost_of(drawn) <= 1.5)
    groups = SPACE.groups(found.architectures)
    assert {*groups} == {*group[within]}
    assert found.latency_ms.tolist() == [drawn_ms[(group == one) & within].min() for one in groups]
    assert any(
        drawn_ms[group == one].min() < drawn_ms[(group == one) & within].min() for one in groups
    )


def test_draws_that_all_are_beyond_the_limit_are_one_clear_line():
    with pytest.raises(UserError, match=r"50 .*raise T"):
        draw(problem_of(limit_ms=0.5), 0, 50, np.inf)


def test_an_oracle_that_measures_is_not_asked_for_all_where_nothing_is_within():
    asked, oracle = [], Oracle(instant=False)
    answer, oracle.answer = oracle.answer, lambda rows: (asked.append(len(rows)), answer(rows))[1]
    ones = np.ones((1, 6), np.int64)

    with pytest.raises(UserError):
        draw(problem_of(oracle=oracle, limit_ms=0.5), 0, 2000, np.inf)
    assert sum(asked) == 2 * MEASURED

    found = draw(problem_of(oracle=oracle, limit_ms=11.5), 0, 20, np.inf, first=ones)
    assert (found.architectures[0] == 1).all()


def test_networks_beyond_another_limit_than_the_latency_are_not_timed():
    asked, oracle = [], Oracle(instant=False)
    answer, oracle.answer = oracle.answer, lambda rows: (asked.append(rows), answer(rows))[1]

    def draw_within(bound):
        ram = Limit("RAM", "ram_kb", "kB", bound, "the file", lambda rows: 2 - worth(rows))
        return draw(problem_of(oracle=oracle, limit_ms=31.0, limits=Limits((ram,))), 0, 200, np.inf)

    found = draw_within(1.5)

    assert len(found)
    assert 2 - worth(np.concatenate(asked)).min() <= 1.5
    asked.clear()
    with pytest.raises(UserError, match=r"smallest ram is .* beyond RAM = 0\.5 kB; raise that"):
        draw_within(0.5)
    assert not asked


def test_an_oracle_that_measures_is_asked_one_by_one_and_may_lack_some():
    live = problem_of(oracle=Oracle(instant=False, unmeasured_from_ms=15.0), limit_ms=17.0)

    found = draw(live, 0, 50, np.inf)

    assert found.drawn == 50
    assert (found.latency_ms < 15).all()
    assert draw(live, 0, 50, 0.0).drawn < 50


def test_a_live_device_is_asked_for_some_networks_and_a_model_predicts_others():
    live = problem_of(oracle=Oracle(instant=False))

    found = draw(live, 0, 2000, np.inf)

    measured = found.latency_kind == Kind.measured
    assert 0 < measured.sum() <= MEASURED < len(found)
    assert (found.latency_kind[~measured] == Kind.regression).all()
    truth_ms = live.oracle.answer(found.architectures).ms
    assert np.median(np.abs(np.log(found.latency_ms / truth_ms))) < 0.05
    late = draw(live, 0, 2000, 0.0)
    assert 0 < (late.latency_kind == Kind.regression).sum() <= MEASURED


def test_layers_of_the_device_are_the_prior_where_few_networks_were_timed(monkeypatch):
    live, lines = problem_of(oracle=Oracle(instant=False)), []

    def error():
        drawn = draw(live, 0, 400, np.inf, networks=6, say=lines.append)
        predicted = drawn.latency_kind == Kind.regression
        truth_ms = live.oracle.answer(drawn.architectures).ms
        assert predicted.sum() > 50
        return np.median(np.abs(np.log(drawn.latency_ms / truth_ms))[predicted])

    without = error()
    layers = SimpleNamespace(network_ms=lambda row: 3 * live.oracle.answer(row[None]).ms[0])
    monkeypatch.setattr("nas.fit.ranking.candidates.layers_of_live", lambda *_: layers)

    assert error() < 0.8 * without
    assert "30 by their layers" in lines[-1]


@pytest.mark.parametrize(
    ("fit_s", "answer_s", "timed"), [(None, 5, 20), (10, 5, 13), (10, 3, 30), (70, 5, 6)]
)
def test_a_prior_takes_a_quarter_of_the_time_where_fewer_than_20_can_be_timed(
    monkeypatch, fit_s, answer_s, timed
):
    oracle, clock_s, listed, answered = Oracle(instant=False), [0.0], [], []
    answer = oracle.answer

    def answer_slowly(rows):
        clock_s[0] += answer_s
        answered.append(rows)
        return answer(rows)

    def network_ms(row):
        clock_s[0] += 1 if listed else fit_s
        listed.append(row)
        return answer(row[None]).ms[0]

    oracle.answer = answer_slowly
    layers = fit_s and SimpleNamespace(network_ms=network_ms)
    monkeypatch.setattr("nas.fit.ranking.candidates.layers_of_live", lambda *_: layers)
    monkeypatch.setattr(
        "nas.fit.ranking.candidates.time", SimpleNamespace(monotonic=lambda: clock_s[0])
    )

    draw(problem_of(oracle=oracle), 0, 400, 100.0)

    assert len(answered) == timed
    assert len(listed) == {None: 0, 10: 1 + 25 * (timed < 20), 70: 1 + 25}[fit_s]
    assert clock_s[0] <= 100 or fit_s == 70  # when the fewest are timed


@pytest.mark.parametrize("refuses", [True, False])
def test_networks_whose_layers_cannot_be_listed_are_no_prior(monkeypatch, refuses):
    live = problem_of(oracle=Oracle(instant=False))
    first = SPACE.sample(np.random.default_rng(0), 400)[0]

    def network_ms(row):
        if refuses and (row != first).any():
            raise UserError("no layers")
        return float((row == first).all())

    drawn = [draw(live, 0, 400, np.inf, networks=6)]
    layers = SimpleNamespace(network_ms=network_ms)
    monkeypatch.setattr("nas.fit.ranking.candidates.layers_of_live", lambda *_: layers)
    drawn.append(draw(live, 0, 400, np.inf, networks=6))

    assert drawn[0].latency_ms.tolist() == drawn[1].latency_ms.tolist()


def test_networks_of_an_oracle_that_predicts_keep_its_margin():
    oracle = Oracle(instant=False)
    answer = oracle.answer
    oracle.answer = lambda rows: replace(
        answer(rows), kind=np.full(rows.shape[:-1], Kind.layers, np.int8)
    )
    oracle.uncertainty = of_residuals(np.linspace(-0.3, 0.3, 50))
    problem = problem_of(oracle=oracle)

    draws = draw(problem, 0, 2000, np.inf)

    latencies = Latencies(draws.latency_ms, draws.latency_kind)
    assert problem.margin > 0.1
    assert (problem.compared_ms(latencies) <= problem.limit_ms).all()


def test_predicted_networks_keep_the_margin_of_their_model():
    oracle = Oracle(instant=False)
    answer, weights = oracle.answer, np.array([1, 7, 31, 101, 331, 997])

    def answer_with_noise(rows):
        answered = answer(rows)
        return replace(answered, ms=answered.ms * np.exp(0.2 * np.sin(rows @ weights)))

    oracle.answer = answer_with_noise
    found = draw(problem_of(oracle=oracle), 0, 2000, np.inf)

    predicted = found.latency_kind == Kind.regression
    truth_ms = oracle.answer(found.architectures[predicted]).ms
    assert predicted.sum() > 50
    assert (truth_ms <= 30).mean() >= 0.95


def test_those_without_a_score_in_time_are_dropped_and_most_flops_come_first():
    drawn = draw(problem_of(), 0, 400, np.inf)

    found = scored(
        drawn, lambda rows: ([float(i)] for i in range(len(rows))), lambda c: -c[:, 0], 0.0
    )

    assert len(found) == LEAST_SCORED < len(drawn)
    last = drawn.architectures[[drawn.flops.argmin()]]
    assert found.flops[0] == drawn.flops.max()
    again = scored(drawn, lambda rows: [[0.0]] * len(rows), lambda c: c[:, 0], 0.0, first=last)
    assert (again.architectures[0] == last[0]).all()
    assert list(found.prior) == [-i for i in range(LEAST_SCORED)]


def test_what_has_no_path_from_the_images_to_the_output_is_no_candidate():
    found = draw(problem_of(), 0, 2000, np.inf)

    features = SPACE.features(found.architectures)
    assert features[:, SPACE.feature_names.index("connected")].all()


def test_candidates_come_back_from_a_journal():
    drawn = draw(problem_of(), 0, 100, np.inf)
    values = json.loads(json.dumps(drawn.values()))

    again = candidates_of(values, SPACE)

    np.testing.assert_equal(vars(again), vars(drawn))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("architectures", [[9] * 6]),
        ("architectures", []),
        ("prior", [0.0]),
        ("flops", None),
        ("within", 0),
        ("drawn", 1),
        ("draw_s", float("nan")),
    ],
)
def test_candidates_that_cannot_be_are_refused(name, value):
    values = draw(problem_of(), 0, 100, np.inf).values()

    with pytest.raises((ValueError, TypeError)):
        candidates_of({**values, name: value}, SPACE)


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
    search = Search(training, parallel=parallel)

    trials = Trials.joined(search.trials())

    epochs = [FIDELITIES[i].epochs for i in trials.fidelity]
    assert sorted(set(epochs)) == [1, 12, 36] or sorted(set(epochs)) == [1, 3, 12]
    assert epochs.count(max(epochs)) <= LONGER
    assert len(set(training.asked)) == len(training.asked)  # nothing is trained twice
    assert search.source.now_s() <= ENDS_S["longer"] + EPOCH_S * 36
    best = search.order()[0]
    trained = {job.candidate for job in search.results}
    rows = search.stages.candidates.architectures
    assert worth(rows[best]) >= max(worth(rows[list(trained)])) - 1e-9


def test_never_more_than_so_many_run_at_once():
    running, most = [0], [0]

    class Counted(Simulated):
        def submit(self, *arguments):
            running[0] += 1
            most[0] = max(most[0], running[0])
            return super().submit(*arguments)

        def wait(self, timeout_s):
            running[0] -= 1
            return super().wait(timeout_s)

    for _ in Search(Training(), parallel=3, source=Counted).trials():
        pass

    assert most == [3]


def test_a_failed_training_is_recorded_and_its_network_never_wins():
    favourite = some_candidates(problem_of()).flops.argmax()
    row = some_candidates(problem_of()).architectures[favourite]
    search = Search(Training(fails=lambda architecture: (architecture == row).all()))

    trials = Trials.joined(search.trials())

    failed = trials.rows(trials.state == State.failed)
    assert [str(one) for one in failed.error] == ["RuntimeError: diverged"]
    assert (failed.architectures == row).all()
    assert favourite not in search.order()
    assert sum(one.failed for one in search.stage_results()) == 1


def test_where_every_training_fails_there_is_no_order():
    search = Search(Training(fails=lambda _row: True), candidates=some_candidates(problem_of(), 3))

    trials = Trials.joined(search.trials())

    assert (trials.state == State.failed).all()
    assert not len(search.order())


def test_an_interrupted_search_goes_on_and_pays_for_nothing_twice():
    whole = Training()
    every = list(Search(whole).trials())
    before, after = Training(), Training()
    first = Search(before)
    part = [trial for trial, _ in zip(first.trials(), range(9), strict=False)]
    spent_s = sum(float(trial.seconds[0]) for trial in part)

    second = Search(after, asked=first.proposer.asked)
    for trial in part:
        second.proposer.learn(trial.as_batch())
    rest = list(second.trials(spent_s))

    assert not set(before.asked[: len(part)]) & set(after.asked)
    assert len(part) + len(rest) == len(every)
    assert [t.architectures.tobytes() for t in (*part, *rest)] == [
        t.architectures.tobytes() for t in every
    ]


def test_each_stage_says_what_it_cost_and_changed():
    search = Search(Training())
    for _ in search.trials():
        pass

    found = {one.name: one for one in search.stage_results()}

    assert list(found) == ["draw", "short", "longer"]
    assert found["draw"].kept == len(search.stages.candidates)
    assert found["short"].seconds + found["longer"].seconds == pytest.approx(
        sum(one.seconds for one in search.results.values())
    )
    assert found["short"].place_before > 1  # FLOPs alone would have chosen another
    names = [fidelity.name for fidelity in FIDELITIES]
    assert names.index(found["longer"].fidelity) > names.index(found["short"].fidelity)


def test_the_length_of_a_short_training_is_what_the_time_allows():
    candidates = some_candidates(problem_of())
    job = StageJob(0, 0)

    def chosen(seconds):
        stages = Stages(candidates, FIDELITIES, ENDS_S)
        flops = candidates.flops[0] / np.median(candidates.flops)
        results = {job: Result(0.1, seconds * flops), StageJob(1, 0): Result(0.1, 1e9)}
        return FIDELITIES[stages.short_fidelity(results)].epochs

    assert [chosen(seconds) for seconds in (1.0, 100.0, 1000.0)] == [12, 3, 1]


def test_candidates_are_trained_early_in_their_order_and_once():
    candidates = some_candidates(problem_of())
    best, last = int(np.argmax(candidates.prior)), len(candidates) - 1
    stages = Stages(candidates, FIDELITIES, ENDS_S, early=(last, best, last - 1))
    running = [StageJob(best, 0)]

    assert stages.next({}, running, 0.0) == StageJob(last, 0)
    results = {StageJob(each, 0): Result(0.5, 1.0) for each in (best, last)}
    short = stages.short_fidelity(results)
    results |= {StageJob(each, short): Result(0.5, 1.0) for each in (best, last)}
    assert stages.next(results, (), 0.0) == StageJob(last - 1, short)


def test_early_candidates_that_do_not_fit_into_the_time_left_are_passed_over():
    candidates = some_candidates(problem_of())
    cheap, second, dear = np.argsort(candidates.flops)[[0, 1, -1]].tolist()
    candidates = replace(candidates, prior=-candidates.flops)
    stages = Stages(candidates, FIDELITIES, {**ENDS_S, "longer": 2450.0}, early=(dear, second))
    result = Result(0.5, 300.0 * candidates.flops[cheap] / candidates.flops[dear])
    results = {StageJob(cheap, 0): result}

    assert stages.next(results, (), 2000.0) == StageJob(dear, 0)
    assert stages.next(results, (), 2200.0) == StageJob(second, 0)


def test_a_candidate_of_every_stage_is_trained_second_and_longer():
    candidates = some_candidates(problem_of())
    last = len(candidates) - 1
    stages = Stages(candidates, FIDELITIES, ENDS_S, always=(last,))
    results = {StageJob(last, 0): Result(0.1, 1.0), StageJob(0, 0): Result(0.9, 1.0)}
    short = stages.short_fidelity(results)

    first = stages.next({}, (), 0.0)
    assert first == StageJob(int(np.argmax(stages.prior)), 0)
    assert first.candidate != last
    assert stages.next({}, (first,), 0.0) == StageJob(last, 0)
    results |= {StageJob(each, short): Result(0.5, 1.0) for each in range(10)}
    results[StageJob(last, short)] = Result(0.1, 1.0)
    assert stages.next(results, (), ENDS_S["short"]) == StageJob(last, short + 1)
