"""The page of one search, as a reader sees it."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest
from searched import BY_LATENCY, LATENCY_MS, TASK, Accuracy, Oracle, problem_of, searched

from controller.policy.rnn import RnnConfig
from edgenas_core.page.parts import Drawing, Slider
from edgenas_core.types.kind import Kind
from latency.models.confidence import of_residuals
from nas.report.answer import Answer
from nas.report.search_charts import front
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.limits import Limit, Limits
from nas.trials.trial import State


class Predicting(Oracle):
    """Its predictions are off by five per cent."""

    uncertainty = of_residuals(np.random.default_rng(0).normal(0, 0.05, 1000))


def text_of(made):
    """What a reader sees, a line an element, without what charts hold."""
    body = re.search(r"<body>.*", made.page().html(), re.DOTALL).group()
    body = re.sub(r"<script.*?</script>|<svg.*?</svg>", "", body, flags=re.DOTALL)
    body = re.sub(r"<wbr>|</?code>|</?strong>", "", body)
    lines = unescape(re.sub(r"<[^>]+>", "\n", body)).replace("\u00a0", " ").splitlines()
    return "".join(f"{line.strip()}\n" for line in lines if line.strip())


def parts_of(made, kind):
    """Parts of a page, those beside each other too."""
    parts = [part for section in made.page().sections for part in section.parts]
    parts += [inner for part in parts for inner in getattr(part, "parts", ())]
    return [part for part in parts if isinstance(part, kind)]


def limits_on_parameters(bound):
    def of(architectures):
        return SPACE.costs(architectures, TASK)["parameters"]

    return Limits((Limit("P", "parameters", "", bound, "counted", of),))


def test_the_whole_of_it(golden):
    problem = problem_of(
        Predicting(kind=Kind.regression),
        Accuracy(kind=Kind.surrogate),
        limits=limits_on_parameters(400_000.0),
    )

    golden("run_page.txt", text_of(searched(range(500), problem)))


def test_a_search_that_found_the_optimum_draws_it_once():
    titles = [drawing.title for drawing in parts_of(searched(range(SPACE.size)), Drawing)]

    assert titles == ["Best sample within T"]


def test_a_search_of_which_every_trial_failed_has_a_page():
    page = searched(range(3), states=dict.fromkeys(range(3), State.failed)).page()

    assert "3 of 3 trials failed" in page.html()


def test_without_a_feasible_sample_the_fastest_is_drawn_and_the_nearest_named():
    made = searched(BY_LATENCY[-50:])
    fastest_ms = made.trials.latency_ms.min()

    figure, *_ = made.page().key_figures

    assert figure.value == f"{fastest_ms:.2f} ms"
    assert f"T by {fastest_ms / 17 - 1:.2%}" in figure.note
    assert parts_of(made, Drawing)[0].title == "Fastest sample, beyond T"


def test_where_another_limit_is_in_the_way_the_page_names_it_and_by_how_much():
    made = searched(range(300), problem_of(limits=limits_on_parameters(5_000.0)))
    within_t = int((made.trials.latency_ms <= 17).sum())

    figure, *_ = made.page().key_figures

    assert f"P by {made.trials.costs.min() / 5_000 - 1:.2%}" in figure.note
    assert f"T alone {within_t}, P alone 0" in figure.note
    assert parts_of(made, Drawing)[0].title.startswith("Fastest sample, ")


def test_a_network_beyond_a_further_limit_is_marked_by_it_and_not_by_t():
    everything = SPACE.architectures(np.arange(SPACE.size))
    heavy = int(np.argmax(SPACE.costs(everything, TASK)["parameters"]))
    oracle = Oracle(ms=np.full(SPACE.size, 3.0))

    text = text_of(searched([5, heavy], problem_of(oracle, limits=limits_on_parameters(4e5))))

    assert "M, beyond P" in text
    assert "beyond T" not in text


def test_the_found_front_is_of_samples_within_the_further_limits():
    limits = limits_on_parameters(100_000.0)
    made = searched(range(2000), problem_of(limits=limits))
    feasible = made.problem.feasible(made.trials)

    figure = front(made.trials, feasible, made.problem, Answer(made.summary))

    (sampled,) = (trace for trace in figure.data if trace["name"] == "found front")
    (true,) = (trace for trace in figure.data if trace["name"] == "true front")
    for latency_ms, accuracy in zip(sampled["x"], sampled["y"], strict=True):
        assert (
            accuracy <= true["y"][np.searchsorted(true["x"], latency_ms, side="right") - 1] + 1e-9
        )
    assert max(sampled["y"]) < 100 * made.trials.accuracy.max()


def test_architectures_of_the_space_without_a_latency_are_left_out():
    holes = np.where(np.arange(SPACE.size) < 1000, LATENCY_MS, np.nan)
    kinds = np.where(np.isnan(holes), Kind.missing, Kind.measured)

    html = searched(range(300), problem_of(Oracle(ms=holes, kind=kinds))).page().html()

    assert "of the 15,625 architectures of the space" in html
    assert "NaN" not in html[: html.index("<noscript>")]


@pytest.mark.parametrize("count", [1, 2, 19, 45, 201])
def test_few_samples_make_a_page(count):
    html = searched(range(count)).page().html()

    assert html.count('class="chart"') == 9
    assert html.count("<svg") >= 1


@pytest.mark.parametrize("controller", [RnnConfig, None])
def test_a_policy_shows_probabilities_and_random_search_the_shares_of_its_samples(controller):
    if controller is not None:
        controller = controller(batch_size=1, lr=0.01, entropy_weight=0.0)

    html = searched(range(50), controller=controller).page().html()

    assert ("probability (%)" in html) is (controller is not None)
    assert ("share of the samples (%)" in html) is (controller is None)


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

    visited = visit(path)

    assert visited.console == []
    assert visited.requests == []
    assert visited.dom.count('class="plot-container plotly"') == 9


def test_the_page_answers_for_any_t_off_the_found_front_and_that_of_the_whole_space():
    made = searched(range(500))
    trials = made.summary.front

    sampled, space = parts_of(made, Slider)

    within = [trial for trial in trials if trial.latency_ms <= made.summary.T_ms]
    assert sampled.text.startswith(f"{within[-1].arch}: {within[-1].accuracy_searched:.2%}")
    assert [text.split(":")[0] for _, text in sampled.steps] == [trial.arch for trial in trials]
    survey = made.problem.survey
    rows = survey.space.architectures(survey.pareto_front)
    assert [text.split(":")[0] for _, text in space.steps] == [survey.space.text(r) for r in rows]
    assert f"{made.summary.front_share:.2%}" in sampled.caption
    json_steps = re.findall(r'live="polite">.*?json">(.*?)</script>', made.page().html(), re.DOTALL)
    assert [list(step) for step in sampled.steps] == json.loads(json_steps[0])


def test_its_answer_for_another_t_keeps_the_margin_of_predictions():
    problem = problem_of(Predicting(kind=Kind.regression))
    made = searched(range(500), problem)

    sampled, _ = parts_of(made, Slider)

    least_ms = [ms for ms, _ in sampled.steps]
    front_ms = np.array([trial.latency_ms for trial in made.summary.front])
    np.testing.assert_allclose(least_ms, front_ms * np.exp(problem.margin), rtol=1e-6)
    shown = [ms for ms in least_ms if ms <= made.summary.T_ms]
    assert made.summary.best.latency_ms * np.exp(problem.margin) == pytest.approx(shown[-1])
    assert f"{1 - np.exp(-problem.margin):.1%}" in sampled.caption
    assert "confidence=0.95" in sampled.caption
