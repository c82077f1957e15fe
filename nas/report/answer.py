"""The answer, before anything else: which cell, how good, how fast, how far from the optimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nas.accuracy.base import Split
from nas.accuracy.training_length import FULL_EPOCHS
from nas.landscape import Landscape
from nas.report.wording import Wording, milliseconds, percent
from nas.samples import Samples
from nas.trajectory import WINDOW
from runtime.page.document import KeyFigure, Tone
from runtime.page.parts import Note, Part


def answer(samples: Samples, landscape: Landscape | None, wording: Wording) -> list[Part | str]:
    """A sentence or two, and what must be known about the numbers."""
    summary = wording.summary
    best = summary["best"]
    if best is None:
        text = _nothing(samples, landscape, wording)
    else:
        accuracy = f"{wording.accuracy(best['accuracy_searched'])} {wording.searched}"
        if best["accuracy_predicted"]:
            accuracy += " (predicted)"
        took = wording.latency(best["latency_ms"], predicted=best["latency_predicted"])
        text = (
            f"The most accurate cell found within {wording.limits} on {summary['device']} has "
            f"{accuracy} on {wording.dataset} and takes {took}. "
            f"{_distance(best, landscape, wording)}"
        )
    cell = [] if best is None else [f"`{best['arch']}`"]
    return [text, *cell, *(Note(note) for note in _notes(wording))]


def key_figures(samples: Samples, landscape: Landscape | None, wording: Wording) -> list[KeyFigure]:
    """The answer's numbers."""
    summary = wording.summary
    best = summary["best"]
    if best is None:
        fastest = float(samples.latency_ms.min())
        figures = [
            KeyFigure("fastest sample", milliseconds(fastest), wording.missed(fastest), Tone.bad)
        ]
    else:
        figures = [*_accuracies(best, wording), _latency(best, wording)]
        if summary["gap"] is not None:
            optimum = wording.accuracy(summary["optimum"]["accuracy_searched"])
            figures.append(
                KeyFigure(
                    f"below the {wording.optimum}",
                    f"{summary['gap'] * 100:.2f} points",
                    f"which is {optimum}; rank {best['rank']:,}",
                )
            )
    share = percent(summary["feasible_share"], 1)
    of_space = "" if landscape is None else percent(landscape.feasible_share, 1)
    figures.append(
        KeyFigure(
            f"samples within {wording.label}", share, of_space and f"of the whole space, {of_space}"
        )
    )
    settled = summary["sample_within_T"]
    figures.append(
        KeyFigure(
            "mean latency settled",
            "not yet" if settled is None else f"at {settled:,}",
            _settling(len(samples), settled),
            Tone.bad if settled is None else Tone.good,
        )
    )
    return figures


def _settling(samples: int, settled: int | None) -> str:
    if settled is not None:
        return "samples; within T from there on"
    if samples < WINDOW:
        return f"it takes {WINDOW} samples to tell"
    return f"that of the last {WINDOW} samples is beyond T"


def _accuracies(best: Mapping[str, Any], wording: Wording) -> list[KeyFigure]:
    epochs = wording.summary["epochs"]
    predicted = ["predicted"] if best["accuracy_predicted"] else []
    length = [] if epochs == FULL_EPOCHS else [f"after {epochs} epochs"]
    searched = KeyFigure(
        wording.searched,
        wording.accuracy(best["accuracy_searched"]),
        ", ".join([wording.dataset, *length, "searched on", *predicted]),
    )
    if wording.summary["split"] == Split.test.value or best["accuracy_test"] is None:
        return [searched]
    note = ", ".join(["never searched on", *predicted])
    return [searched, KeyFigure("test accuracy", wording.accuracy(best["accuracy_test"]), note)]


def _latency(best: Mapping[str, Any], wording: Wording) -> KeyFigure:
    spare = wording.summary["T_ms"] - best["latency_ms"]
    note = f"within {wording.limit}, {milliseconds(spare)} to spare"
    if best["latency_predicted"]:
        note += ", predicted"
    return KeyFigure("latency", milliseconds(best["latency_ms"]), note, Tone.good)


def _distance(best: Mapping[str, Any], landscape: Landscape | None, wording: Wording) -> str:
    gap = wording.summary["gap"]
    if landscape is None or gap is None:
        return (
            "How far that is from the optimum is unknown: asking for the whole space is not free."
        )
    feasible = int(landscape.feasible.sum())
    if best["rank"] == 1:
        return f"That is the {wording.optimum}: no other of the {feasible:,} cells within {wording.label} is more accurate."
    optimum = wording.accuracy(wording.summary["optimum"]["accuracy_searched"])
    return (
        f"The {wording.optimum} within {wording.label} is {optimum}: {gap * 100:.2f} points more; "
        f"{best['rank'] - 1:,} of the {feasible:,} cells within {wording.label} are more accurate."
    )


def _nothing(samples: Samples, landscape: Landscape | None, wording: Wording) -> str:
    summary = wording.summary
    text = (
        f"None of the {len(samples):,} samples met {wording.limits} on {summary['device']}: the "
        f"fastest took {milliseconds(float(samples.latency_ms.min()))}. "
    )
    if landscape is not None and landscape.feasible.any():
        feasible = int(landscape.feasible.sum())
        text += (
            f"{feasible:,} of the {len(landscape.accuracy):,} cells of the space do, the best with "
            f"{wording.accuracy(summary['optimum']['accuracy_searched'])} {wording.searched}. "
        )
    return text + f"Raise {'T' if wording.label == 'T' else 'one of them'} or the budget."


def _notes(wording: Wording) -> list[str]:
    summary = wording.summary
    notes = []
    said = (summary["device"], summary["accuracy_description"], summary["latency_description"])
    if any("synthetic" in text.lower() for text in said):
        notes.append("These numbers are synthetic: they say nothing about real networks.")
    if wording.accuracy_is_predicted:
        notes.append(
            "Accuracies are predicted by the embedded surrogate, not measured by training; the "
            "optimum is that of the predictions."
        )
    share = wording.predicted_share
    if share > 0:
        which = (
            "Latencies are"
            if share == 1
            else f"{percent(share, 1)} of the samples have latencies that are"
        )
        notes.append(f"{which} predicted by a regression, not measured on {summary['device']}.")
    if summary["split"] == Split.test.value:
        notes.append(
            "The search was on the test split, so its test accuracy is no unbiased estimate."
        )
    if summary["epochs"] != FULL_EPOCHS:
        notes.append(
            f"The search was on accuracy after {summary['epochs']} epochs; test accuracy is that "
            f"after {FULL_EPOCHS}."
        )
    return notes
