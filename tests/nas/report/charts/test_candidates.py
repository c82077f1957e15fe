"""Candidates of a search on own images: each fidelity and the rule of thumb are told apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from searched import searched

from nas.accuracy.slow import Fidelity
from nas.report.charts.candidates import candidates_chart

RATES = {"3 epochs": 1.0, "3 epochs, 0.4 times the rate": 0.4}


def test_learning_rates_of_one_length_and_the_rule_of_thumb_have_names_of_their_own():
    search = searched(range(6))
    fidelities = (
        Fidelity("frozen features", 0),
        *(Fidelity(name, 3, rate) for name, rate in RATES.items()),
        Fidelity("9 epochs", 9),
    )
    trials = replace(search.trials, fidelity=np.array([0, 0, 1, 1, 2, 3], np.int8))
    rule = replace(search.summary.best, fidelity="3 epochs")
    summary = replace(search.summary, rule_of_thumb=rule)

    traces = candidates_chart(trials, fidelities, search.problem, summary).data

    names = [trace["name"] for trace in traces]
    assert names[:3] == [fidelity.name for fidelity in fidelities[:3]]
    assert names[3:] == ["the winner, 9 epochs", "the rule of thumb, 3 epochs"]
    marks = {(trace["marker"]["symbol"], trace["marker"]["color"]) for trace in traces}
    assert len(marks) == len(traces)
