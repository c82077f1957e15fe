from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from latency.sources.lookup import TableLatency
from nas.accuracy.base import Split
from nas.accuracy.tabular import TabularAccuracy
from nas.report.front import front
from nas.report.run_page import Evidence, run_page
from nas.report.summary import summarise
from nas.report.wording import Wording
from nas.spaces.nas_bench_201.costs import parameters
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201, TASKS
from nas.trials.choice_history import OperationHistory
from nas.trials.limits import NO_FURTHER_LIMITS, Limit, Limits
from nas.trials.survey import Landscape, survey
from nas.trials.trial import Samples
from runtime.shell.provenance import Kind

GRID = NAS_BENCH_201.num_choices
ROWS = tuple(NAS_BENCH_201.rows.T)
KINDS = {"table": Kind.measured, "surrogate": Kind.surrogate}
ACCURACY = np.random.default_rng(0).uniform(0.1, 0.7, GRID)
LATENCY_MS = np.random.default_rng(1).uniform(2, 40, GRID)
BY_LATENCY = np.argsort(LATENCY_MS[tuple(NAS_BENCH_201.rows.T)])
MACHINE = {
    "date": "2026-11-21T09:00:00+00:00",
    "python": "3.11.7",
    "platform": "Linux",
    "processors": 2,
    "packages": {"edgenas": "0.1.0", "numpy": "2.4.6"},
}


def evidence_of(
    indices,
    *,
    source="table",
    split=Split.valid,
    predicted=False,
    limit_ms=17.0,
    epochs=200,
    tests=True,
    knows_space=True,
    latency_ms=LATENCY_MS,
    device="board",
    controller=None,
    limits=NO_FURTHER_LIMITS,
):
    """Of synthetic numbers."""
    tested = ACCURACY - 0.01 if tests else np.full(GRID, np.nan)
    accuracy = TabularAccuracy(
        SPACE, source, "made up", KINDS[source], split, ACCURACY[ROWS], tested[ROWS]
    )
    kind = np.full(SPACE.size, Kind.regression if predicted else Kind.measured, np.int8)
    official_ms = latency_ms[tuple(NAS_BENCH_201.rows.T)]
    oracle = TableLatency(SPACE, device, "table", "made up", official_ms, kind)
    architectures = NAS_BENCH_201.rows[np.asarray(indices)]
    latencies = oracle.answer(architectures).ms
    samples = Samples(architectures, accuracy(architectures), latencies, latencies)
    landscape = survey(accuracy, oracle, limit_ms, limits) if knows_space else None
    searcher = (controller or UniformConfig(batch_size=1)).build(SPACE, [0])
    history = OperationHistory(searcher, len(samples))
    for first, row in enumerate(architectures):
        searcher.sample(1)
        history.record(first, row[None, None])
    settings = {
        "reward": "proposed",
        "controller": "rnn",
        "dataset": "cifar100",
        "epochs": epochs,
        "seed": 3,
        "budget": len(samples),
    }
    summary = summarise(
        samples,
        architectures[-1],
        accuracy,
        oracle,
        landscape,
        limit_ms=limit_ms,
        settings=settings,
        seconds=1.0,
        resumed_at=0,
        limits=limits,
    )
    return Evidence(
        summary,
        samples,
        accuracy.test(architectures),
        oracle.answer(architectures).is_predicted,
        (samples.latency_ms <= limit_ms) & limits.met(architectures),
        landscape,
        history,
        limits,
    )


def html_of(evidence):
    return run_page(evidence, MACHINE, "python -m nas.search T=17ms", "T: 17ms\n").html()


def text_of(evidence):
    """What a reader sees, without what charts hold."""
    body = re.search(r"<body>.*", html_of(evidence), re.DOTALL).group()
    body = re.sub(r"<script.*?</script>", "", body, flags=re.DOTALL)
    text = unescape(re.sub(r"<wbr>|</?code>", "", body))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)).replace("\u00a0", " ")


def test_the_answer_names_the_cell_its_accuracy_its_latency_and_its_distance():
    evidence = evidence_of(range(500))
    best, optimum = evidence.summary["best"], evidence.summary["optimum"]

    text = text_of(evidence)

    start = text.index("The most accurate cell found within T = 17 ms on board has")
    said = text[start : start + 500]
    assert f"{best['accuracy_searched']:.2%}".replace("%", " % validation accuracy") in said
    assert f"takes {best['latency_ms']:.2f} ms" in said
    assert f"exact optimum within T is {optimum['accuracy_searched'] * 100:.2f} %" in said
    assert f"{best['rank'] - 1:,} of the" in said
    assert best["arch"] in said
    for word in ("python -m nas.search T=17ms", "Python 3.11.7", "2026-11-21", "made up"):
        assert word in text


def test_a_cell_for_several_devices_is_told_by_its_time_on_the_one_with_most_room():
    evidence = evidence_of(range(500))
    core = {"device": "core", "latency_ms": 41.5, "latency_predicted": True, "T_ms": 50.0}
    gpu = {"device": "gpu", "latency_ms": 23.0, "latency_predicted": False, "T_ms": 17.0}
    on = [{**core, "fits": True}, {**gpu, "fits": False}]
    several = replace(
        evidence, summary={**evidence.summary, "best": {**evidence.summary["best"], "on": on}}
    )

    text = text_of(several)

    assert re.search(r"takes 41.50 ms[^.]* on core\. ", text)
    assert "It fits on core: ~41.500 ms of T = 50 ms there." in text
    assert "It does not fit on gpu: 23.000 ms of T = 17 ms there." in text
    assert "within T = 50 ms on core, 8.50 ms to spare" in text
    assert "It fits on" not in text_of(evidence)


def test_a_search_that_found_the_optimum_says_so():
    everything = evidence_of(range(15625))

    text = text_of(everything)

    assert "That is the exact optimum" in text
    assert "Best sample within T" in text
    assert "Exact optimum within T" not in text  # its drawing would be the same


def test_a_measured_number_is_not_marked_and_a_predicted_one_is():
    assert "predicted" not in text_of(evidence_of(range(100)))

    text = text_of(evidence_of(range(100), source="surrogate", predicted=True))

    assert "Accuracies are predicted by the embedded surrogate" in text
    assert "Latencies are predicted by a regression" in text
    assert "predicted optimum" in text
    assert "exact" not in text
    assert re.search(
        r"validation accuracy \(predicted\) on CIFAR-100 and takes [\d.]+ ms \(pred", text
    )


def test_synthetic_numbers_are_called_so():
    assert "These numbers are synthetic" in text_of(evidence_of([0], device="synthetic-board"))


def test_a_search_on_the_test_split_or_on_short_trainings_says_so():
    assert "searched on" in (text := text_of(evidence_of(range(99), split=Split.test)))
    assert "no unbiased estimate" in text
    assert "never searched on" not in text

    assert "accuracy after 12 epochs" in text_of(evidence_of(range(99), epochs=12))


def test_without_a_feasible_sample_it_says_what_to_do_and_draws_the_fastest():
    text = text_of(evidence_of(BY_LATENCY[-50:]))

    assert "None of the 50 samples met T = 17 ms" in text
    assert "Raise T or the budget" in text
    assert "Fastest sample, beyond T" in text
    assert "cells of the space do, the best with" in text


def test_the_fastest_sample_is_beyond_t_or_beyond_another_limit():
    summary = {"T_ms": 17.0, "limits": {"E": {}, "P": {}}}

    assert Wording(summary, 0.0).missed(17.5) == "beyond T"
    assert Wording(summary, 0.0).missed(16.5) == "not within T, E and P"


def limits_on_parameters(bound):
    counts = parameters(NAS_BENCH_201.rows, TASKS["cifar100"]).astype(float)
    return Limits((Limit("P", "parameters", "", bound, "counted", counts),))


def test_where_another_limit_is_in_the_way_the_page_names_it_and_by_how_much():
    limits = limits_on_parameters(5_000.0)
    evidence = evidence_of(range(300), limits=limits)
    within_t = int((evidence.samples.latency_ms <= 17).sum())
    least = float(limits.each[0].costs[:300].min())

    text = text_of(evidence)

    assert (
        f"None of the 300 samples met T = 17 ms, P = 5,000 together on board: T alone was met by {within_t}"
        in text
    )
    assert (
        f"P alone was met by 0, the nearest beyond it by {least / 5_000 - 1:.0%}".replace("%", " %")
        in text
    )
    assert "nearest sample" in text
    assert f"beyond P by {least / 5_000 - 1:.0%}".replace("%", " %") in text
    assert "beyond T = 17 ms" not in text


def test_with_further_limits_the_page_shows_their_costs_and_when_each_settled():
    evidence = evidence_of(range(1000), limits=limits_on_parameters(400_000.0))
    best = evidence.summary["best"]

    html, text = html_of(evidence), text_of(evidence)

    assert "<h1>CIFAR-100 on board within T = 17\u00a0ms, P = 0.4 M</h1>" in html
    assert f"{best['parameters'] / 1e6:.3g} M parameters" in text
    assert "mean latency settled" in text
    assert "mean parameters settled" in text
    assert f"{best['parameters'] / 400_000:.0%} of P = 0.4 M".replace("%", " %") in text
    assert text.count("latency parameters rank") == 1
    assert text.count("latency parameters first at sample") == 1


def test_a_cell_beyond_a_further_limit_is_marked_by_it_and_not_by_t():
    heavy = int(np.argmax(limits_on_parameters(1.0).each[0].costs))
    latency_ms = np.full(GRID, 3.0)
    evidence = evidence_of([5, heavy], latency_ms=latency_ms, limits=limits_on_parameters(4e5))

    text = text_of(evidence)

    assert "M, beyond P" in text
    assert "beyond T" not in text.split("Provenance")[0].replace("is beyond T", "")


def test_the_found_front_is_of_samples_within_the_further_limits():
    limits = limits_on_parameters(100_000.0)
    evidence = evidence_of(range(2000), limits=limits)
    wording = Wording(evidence.summary, 0.0)
    met = limits.met(evidence.samples.architectures)

    figure = front(
        evidence.samples,
        evidence.feasible,
        met,
        evidence.landscape,
        evidence.latency_predicted,
        limit_ms=17.0,
        wording=wording,
    )

    (found,) = (trace for trace in figure.data if trace["name"] == "found front")
    (true,) = (trace for trace in figure.data if trace["name"] == "true front")
    for latency_ms, accuracy in zip(found["x"], found["y"], strict=True):
        assert (
            accuracy <= true["y"][np.searchsorted(true["x"], latency_ms, side="right") - 1] + 1e-9
        )
    assert max(found["y"]) < 100 * evidence.samples.accuracy.max()


def test_without_the_whole_space_the_distance_is_unknown():
    text = text_of(evidence_of(range(200), knows_space=False))

    assert "unknown" in text
    assert "optimum within T" not in text


def test_cells_of_the_space_that_were_not_measured_are_left_out():
    holes = LATENCY_MS.copy()
    holes[tuple(NAS_BENCH_201.rows[1000:].T)] = np.nan
    evidence = evidence_of(range(300))
    landscape = Landscape(evidence.landscape.accuracy, holes[tuple(NAS_BENCH_201.rows.T)], 17.0)

    html = html_of(Evidence(**{**vars(evidence), "landscape": landscape}))

    assert "of the 15,625 cells of the space" in html
    assert "NaN" not in html[: html.index("<script>/**")]


@pytest.mark.parametrize("count", [1, 2, 19, 45, 201])
def test_few_samples_make_a_page(count):
    html = html_of(evidence_of(range(count)))

    assert html.count('class="chart"') == 10
    assert html.count("<svg") >= 1


def test_samples_that_are_all_alike_make_a_page():
    text = text_of(evidence_of([5] * 30, latency_ms=np.full(GRID, 12.5)))

    assert "takes 12.50 ms" in text
    assert "All 30 samples, in steps of 0.2 ms" in text


def test_a_policy_shows_probabilities_and_random_search_the_shares_of_its_samples():
    rnn = RnnConfig(batch_size=1, lr=0.01, hidden_size=4, baseline_decay=0.9, entropy_weight=0.0)

    assert "probabilities that they were drawn with" in text_of(
        evidence_of(range(50), controller=rnn)
    )
    assert "This searcher has no policy" in text_of(evidence_of(range(50)))


def test_the_same_evidence_gives_the_same_page():
    assert html_of(evidence_of(range(300))) == html_of(evidence_of(range(300)))


def test_a_large_search_is_thinned_out_and_says_so():
    html = html_of(evidence_of(np.random.default_rng(0).integers(0, 15625, 5000)))

    drawn, sampled = re.search(
        r"and ([\d,]+) of the ([\d,]+) distinct cells sampled", html
    ).groups()
    assert int(drawn.replace(",", "")) <= 2000 < int(sampled.replace(",", ""))
    assert len(html) < 6_000_000


def test_a_browser_opens_it_without_an_error_and_without_a_request(visit, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(html_of(evidence_of(range(300))), encoding="utf-8")

    found = visit(path)

    assert found.console == []
    assert found.requests == []
    assert found.dom.count('class="plot-container plotly"') == 10
