"""The page of one search, as a reader sees it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from searched import BY_LATENCY, LATENCY_MS, TASK, Accuracy, Oracle, problem_of, searched

from common.types.kind import Kind
from controller.policy.rnn import RnnConfig
from latency.models.confidence import of_residuals
from nas.accuracy.base import Split
from nas.report.charts.front import front
from nas.report.summary import OnDevice, feasible_of
from nas.report.wording import Wording
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.limits import Limit, Limits
from nas.trials.trial import State


def text_of(made):
    """What a reader sees, without what charts hold."""
    body = re.search(r"<body>.*", made.page().html(), re.DOTALL).group()
    body = re.sub(r"<script.*?</script>", "", body, flags=re.DOTALL)
    text = unescape(re.sub(r"<wbr>|</?code>", "", body))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).replace("\u00a0", " ")


def percent(text):
    """As pages write it."""
    return text.replace("%", " %")


def test_the_answer_names_the_architecture_its_accuracy_its_latency_and_its_distance():
    made = searched(range(500))
    best, optimum = made.summary.best, made.summary.optimum

    text = text_of(made)

    start = text.index("The most accurate architecture found")
    said = text[start : start + 500]
    assert "within T = 17 ms on board" in said
    assert percent(f"{best.accuracy_searched:.2%} validation accuracy") in said
    assert f"takes {best.latency_ms:.2f} ms" in said
    assert f"exact optimum within T is {optimum.accuracy_searched * 100:.2f} %" in said
    assert f"{best.rank - 1:,} of the" in said
    assert best.arch in said
    for word in ("python -m nas.search T=17ms", "Python 3.11.7", "2026-11-21", "made up"):
        assert word in text


def test_a_network_for_several_devices_has_its_time_on_the_one_with_most_room():
    made = searched(range(500))
    core = OnDevice("core", 41.5, "regression", 50.0, fits=True)
    gpu = OnDevice("gpu", 23.0, "measured", 17.0, fits=False)
    best = replace(made.summary.best, on=(core, gpu))

    text = text_of(replace(made, summary=replace(made.summary, best=best)))

    assert re.search(r"takes 41.50 ms[^.]*predicted by regression[^.]* on core\. ", text)
    assert "fits on core: ~41.500 ms of T = 50 ms" in text
    assert "does not fit on gpu: 23.000 ms of T = 17 ms" in text
    assert "within T = 50 ms on core, 8.50 ms to spare" in text
    assert "fits on" not in text_of(made)


def test_a_search_that_found_the_optimum_says_so():
    text = text_of(searched(range(SPACE.size)))

    assert "That is the exact optimum" in text
    assert "Best sample within T" in text
    assert "Exact optimum within T" not in text  # its drawing would be the same


def test_a_measured_number_is_not_called_predicted():
    assert "predicted" not in text_of(searched(range(100)))


@pytest.mark.parametrize("kind", [Kind.regression, Kind.transfer, Kind.slowdown])
def test_a_predicted_number_says_by_what(kind):
    problem = problem_of(Oracle(kind=kind), Accuracy(kind=Kind.surrogate))

    text = text_of(searched(range(100), problem))

    assert "Accuracies are predicted by the surrogate" in text
    assert f"Latencies are {kind.words}" in text
    assert f"latency (ms), {kind.words}" in searched(range(100), problem).page().html()
    assert "predicted optimum" in text
    assert "exact" not in text
    assert re.search(
        rf"validation accuracy \(predicted by the surrogate\) on CIFAR-100 and takes [\d.]+ ms "
        rf"\({kind.words}\)",
        text,
    )


def test_a_share_of_predicted_latencies_is_named_and_a_penalty_is_called_one():
    kinds = np.full(SPACE.size, Kind.measured)
    kinds[:10], kinds[10:15] = Kind.transfer, Kind.penalty

    text = text_of(searched(range(50), problem_of(Oracle(kind=kinds))))

    assert "Latencies of 20.0 % of the samples are predicted by transfer" in text
    assert re.search(r"10.0 % of the samples [^.]*penalty", text)
    assert "latency (penalty)" in text_of(
        searched([3], problem_of(Oracle(kind=np.full(SPACE.size, Kind.penalty))))
    )


def test_a_disturbed_network_is_not_declared_within_the_limit():
    text = text_of(searched(range(15), problem_of(Oracle(kind=Kind.disturbed), limit_ms=41.0)))

    assert "UNCONFIRMED: the most accurate architecture that was timed" in text
    assert "measured while disturbed" in text
    assert "to spare" not in text
    assert "15 of 15 times disturbed" in text
    assert "unconfirmed" in text


def test_an_implausibly_fast_network_is_marked():
    text = text_of(searched(range(15), problem_of(Oracle(kind=Kind.implausible), limit_ms=41.0)))

    assert "to spare, measured, implausibly fast" in text
    assert "15 of 15 times implausible" in text


def test_failed_and_pruned_trials_are_counted():
    states = {1: State.failed, 2: State.pruned, 3: State.pruned}

    text = text_of(searched(range(50), states=states))

    assert re.search(r"1 of the 50 samples failed[^.]*samples\.parquet", text)
    assert "2 of the 50 samples were pruned" in text
    assert "All 47 samples" in text
    assert "failed" not in text_of(searched(range(50)))


def test_a_search_of_which_every_trial_failed_has_a_page():
    text = text_of(searched(range(3), states=dict.fromkeys(range(3), State.failed)))

    assert "3 of the 3 samples failed" in text
    assert "Raise T or the budget" in text


def test_synthetic_numbers_are_called_so():
    made = searched([0], problem_of(Oracle("synthetic-board")))

    assert "These numbers are synthetic" in text_of(made)


def test_a_search_on_the_test_split_or_on_short_trainings_says_so():
    made = searched(range(99), problem_of(accuracy=Accuracy(split=Split.test)))

    assert "searched on" in (text := text_of(made))
    assert "no unbiased estimate" in text
    assert "never searched on" not in text
    assert "accuracy after 12 epochs" in text_of(searched(range(99), epochs=12))


def test_without_a_feasible_sample_it_says_what_to_do_and_draws_the_fastest():
    text = text_of(searched(BY_LATENCY[-50:]))

    assert "None of the 50 samples met T = 17 ms" in text
    assert "Raise T or the budget" in text
    assert "Fastest sample, beyond T" in text
    assert "architectures of the space do, the best with" in text


def limits_on_parameters(bound):
    def of(architectures):
        return SPACE.costs(architectures, TASK)["parameters"]

    return Limits((Limit("P", "parameters", "", bound, "counted", of),))


def test_the_fastest_sample_is_beyond_t_or_beyond_another_limit():
    limits = limits_on_parameters(5_000.0)
    wording = Wording(searched(range(5), problem_of(limits=limits)).summary)

    assert wording.missed(17.5) == "beyond T"
    assert wording.missed(16.5) == "not within T and P"


def test_where_another_limit_is_in_the_way_the_page_names_it_and_by_how_much():
    limits = limits_on_parameters(5_000.0)
    made = searched(range(300), problem_of(limits=limits))
    within_t = int((made.trials.latency_ms <= 17).sum())
    beyond = percent(f"{made.trials.costs.min() / 5_000 - 1:.0%}")

    text = text_of(made)

    assert "None of the 300 samples met T = 17 ms, P = 5,000 together on board" in text
    assert f"T alone was met by {within_t}" in text
    assert f"P alone was met by 0, the nearest beyond it by {beyond}" in text
    assert "nearest sample" in text
    assert f"beyond P by {beyond}" in text
    assert "beyond T = 17 ms" not in text


def test_with_further_limits_the_page_shows_their_costs_and_when_each_settled():
    made = searched(range(1000), problem_of(limits=limits_on_parameters(400_000.0)))
    parameters = made.summary.best.costs["parameters"]

    html, text = made.page().html(), text_of(made)

    assert "<h1>CIFAR-100 on board within T = 17\u00a0ms, P = 0.4 M</h1>" in html
    assert f"{parameters / 1e6:.3g} M parameters" in text
    assert "mean latency settled" in text
    assert "mean parameters settled" in text
    assert percent(f"{parameters / 400_000:.0%} of P = 0.4 M") in text
    assert text.count("latency parameters rank") == 1
    assert text.count("latency parameters first at sample") == 1


def test_a_network_beyond_a_further_limit_is_marked_by_it_and_not_by_t():
    everything = SPACE.architectures(np.arange(SPACE.size))
    heavy = int(np.argmax(SPACE.costs(everything, TASK)["parameters"]))
    oracle = Oracle(ms=np.full(SPACE.size, 3.0))

    text = text_of(searched([5, heavy], problem_of(oracle, limits=limits_on_parameters(4e5))))

    assert "M, beyond P" in text
    assert "beyond T" not in text.split("Provenance")[0]


def test_the_found_front_is_of_samples_within_the_further_limits():
    limits = limits_on_parameters(100_000.0)
    made = searched(range(2000), problem_of(limits=limits))
    feasible = feasible_of(made.trials, made.problem)

    figure = front(made.trials, feasible, made.problem, Wording(made.summary))

    (found,) = (trace for trace in figure.data if trace["name"] == "found front")
    (true,) = (trace for trace in figure.data if trace["name"] == "true front")
    for latency_ms, accuracy in zip(found["x"], found["y"], strict=True):
        assert (
            accuracy <= true["y"][np.searchsorted(true["x"], latency_ms, side="right") - 1] + 1e-9
        )
    assert max(found["y"]) < 100 * made.trials.accuracy.max()


def test_without_the_whole_space_the_distance_is_unknown():
    text = text_of(searched(range(200), problem_of(Oracle(instant=False))))

    assert "unknown" in text
    assert "optimum within T" not in text


def test_architectures_of_the_space_without_a_latency_are_left_out():
    holes = np.where(np.arange(SPACE.size) < 1000, LATENCY_MS, np.nan)
    kinds = np.where(np.isnan(holes), Kind.missing, Kind.measured)

    html = searched(range(300), problem_of(Oracle(ms=holes, kind=kinds))).page().html()

    assert "of the 15,625 architectures of the space" in html
    assert "NaN" not in html[: html.index("<script>/**")]


@pytest.mark.parametrize("count", [1, 2, 19, 45, 201])
def test_few_samples_make_a_page(count):
    html = searched(range(count)).page().html()

    assert html.count('class="chart"') == 10
    assert html.count("<svg") >= 1


def test_samples_that_are_all_alike_make_a_page():
    text = text_of(searched([5] * 30, problem_of(Oracle(ms=np.full(SPACE.size, 12.5)))))

    assert "takes 12.50 ms" in text
    assert "All 30 samples, in steps of 0.2 ms" in text


def test_a_policy_shows_probabilities_and_random_search_the_shares_of_its_samples():
    rnn = RnnConfig(batch_size=1, lr=0.01, hidden_size=4, baseline_decay=0.9, entropy_weight=0.0)

    assert "probabilities" in text_of(searched(range(50), controller=rnn))
    assert "no policy" in text_of(searched(range(50)))


def test_the_same_search_gives_the_same_page():
    assert searched(range(300)).page().html() == searched(range(300)).page().html()


def test_a_large_search_is_thinned_out_and_says_so():
    html = searched(np.random.default_rng(0).integers(0, SPACE.size, 5000)).page().html()

    drawn, sampled = re.search(
        r"and ([\d,]+) of the ([\d,]+) distinct architectures sampled", html
    ).groups()
    assert int(drawn.replace(",", "")) <= 2000 < int(sampled.replace(",", ""))
    assert len(html) < 6_000_000


def test_a_browser_opens_it_without_an_error_and_without_a_request(visit, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(searched(range(300)).page().html(), encoding="utf-8")

    found = visit(path)

    assert found.console == []
    assert found.requests == []
    assert found.dom.count('class="plot-container plotly"') == 10


def test_the_page_answers_for_any_t_off_the_found_front_and_that_of_the_whole_space():
    made = searched(range(500))
    front = made.summary.front

    html, text = made.page().html(), text_of(made)

    assert '<input type="range"' in html
    within = [one for one in front if one.latency_ms <= made.summary.T_ms]
    assert f"{within[-1].arch}: {percent(f'{within[-1].accuracy_searched:.2%}')}" in text
    sliders = re.findall(r'aria-live="polite">.*?json">(.*?)</script>', html, re.DOTALL)
    steps, exact = ([arch.split(":")[0] for _, arch in json.loads(one)] for one in sliders)
    assert steps == [one.arch for one in front]
    survey = made.problem.survey
    rows = survey.space.architectures(survey.pareto_front)
    assert exact == [survey.space.text(row) for row in rows]
    share = percent(f"{made.summary.front_share:.2%}")
    assert f"{share} of the hypervolume of the true front" in text


def test_its_answer_for_another_t_keeps_the_margin_of_predictions():
    problem = problem_of(Predicting(kind=Kind.regression))
    made = searched(range(500), problem)

    html = made.page().html()

    sliders = re.findall(r'aria-live="polite">.*?json">(.*?)</script>', html, re.DOTALL)
    least_ms = [ms for ms, _ in json.loads(sliders[0])]
    front_ms = np.array([one.latency_ms for one in made.summary.front])
    np.testing.assert_allclose(least_ms, front_ms * np.exp(problem.margin), rtol=1e-6)
    shown = [ms for ms in least_ms if ms <= made.summary.T_ms]
    assert made.summary.best.latency_ms * np.exp(problem.margin) == pytest.approx(shown[-1])
    share = percent(f"{1 - np.exp(-problem.margin):.1%}")
    assert f"A predicted latency is {share} below T or more, for confidence=0.95" in text_of(made)


class Predicting(Oracle):
    """Its predictions are off by five per cent."""

    uncertainty = of_residuals(np.random.default_rng(0).normal(0, 0.05, 1000))
