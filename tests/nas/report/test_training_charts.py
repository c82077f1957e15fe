"""What the page shows of a winner: its confusions, its worst images, its learning curves."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
from searched import searched

from edgenas_core.page.document import HtmlPage, Section
from nas.accuracy.slow import Fidelity
from nas.fit.data.image_set import Images
from nas.fit.training.trained_folder import (
    MOST_CLASSES,
    MOST_WRONG,
    Training,
    confusion_of,
    worst_of,
)
from nas.report.training_charts import TrainedWinner, candidates_chart

CLASSES = ("cat", "<img src=x onerror=alert(1)>")


def training(labels, probabilities):
    values = {each.name: "" for each in fields(Training)}
    values |= {"schema": 1, "data_seed": 0, "side": 8, "mean": (0.5,) * 3, "sd": (0.5,) * 3}
    values |= {"recipe": {}, "epochs": 2, "seed": 0, "valid": None, "test": None, "seconds": 1.0}
    values |= {"versions": {}, "by_class": (), "classes": CLASSES}
    values |= {"losses": (2.0, 1.0), "accuracies": (None, 0.75)}
    values |= {"metric": "accuracy", "class_metrics": (), "pictures": (), "values": ()}
    values |= {"unit": (0.0, 1.0)}
    values["confusion"] = confusion_of(labels, probabilities.argmax(1), len(CLASSES))
    values["worst"] = worst_of(CLASSES, labels, probabilities)
    return Training(**values)


def test_the_surest_wrong_answers_come_first():
    labels = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.3, 0.7]], np.float32)

    record = training(labels, probabilities)

    assert record.confusion == ((1, 1), (1, 1))
    assert [(each.index, each.taken_for) for each in record.worst] == [(2, "cat"), (1, CLASSES[1])]


def test_records_of_many_classes_and_mistakes_are_bounded():
    count = MOST_CLASSES + 1
    labels = np.arange(count)
    probabilities = np.roll(np.eye(count, dtype=np.float32), 1, axis=0)
    names = tuple(map(str, labels))

    assert confusion_of(labels, probabilities.argmax(1), count) == ()
    assert len(worst_of(names, labels, probabilities)) == MOST_WRONG


def test_names_of_classes_are_text_on_the_page():
    labels = np.zeros(3, np.int64)
    record = training(labels, np.tile(np.array([0.2, 0.8], np.float32), (3, 1)))
    winner = TrainedWinner(record, Images(np.zeros((3, 8, 8, 3), np.uint8), labels), Path())

    html = HtmlPage("", "", "", sections=[Section("The network", [*winner.charts()])]).html()

    body = html.partition("<body")[2]
    assert "<img src=x" not in body
    assert body.count("data:image/jpeg;base64,") == 3


RATES = {"3 epochs": 1.0, "3 epochs, 0.4 times the rate": 0.4}


def test_learning_rates_of_one_length_and_the_baseline_have_names_of_their_own():
    search = searched(range(6))
    fidelities = (
        Fidelity("frozen features", 0),
        *(Fidelity(name, 3, rate) for name, rate in RATES.items()),
        Fidelity("9 epochs", 9),
    )
    trials = replace(search.trials, fidelity=np.array([0, 0, 1, 1, 2, 3], np.int8))
    rule = replace(search.summary.best, fidelity="3 epochs")
    summary = replace(search.summary, baseline=rule)

    traces = candidates_chart(trials, fidelities, search.problem, summary).data

    names = [trace["name"] for trace in traces]
    assert names[:3] == [fidelity.name for fidelity in fidelities[:3]]
    assert names[3:] == ["the winner, 9 epochs", "the baseline, 3 epochs"]
    marks = {(trace["marker"]["symbol"], trace["marker"]["color"]) for trace in traces}
    assert len(marks) == len(traces)
