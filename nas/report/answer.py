"""The answer, before anything else: which cell, how good, how fast, how far from the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from latency.devices.registry import tail_in_words
from nas.accuracy.base import Split
from nas.report.summary import on_device
from nas.report.wording import NO_BREAK, Wording, milliseconds, percent
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.spaces.nas_bench_201.training_length import FULL_EPOCHS
from nas.trials.limits import Limits, cost_text
from nas.trials.survey import Landscape
from nas.trials.trajectory import WINDOW
from nas.trials.trial import Samples
from runtime.page.document import KeyFigure, Tone
from runtime.page.parts import Note, Part


def answer(
    samples: Samples, landscape: Landscape | None, limits: Limits, wording: Wording
) -> list[Part | str]:
    """A sentence or two, and what must be known about the numbers."""
    summary = wording.summary
    best = summary["best"]
    if best is None:
        text = _nothing(samples, landscape, limits, wording)
    else:
        accuracy = f"{wording.accuracy(best['accuracy_searched'])} {wording.searched}"
        if best["accuracy_predicted"]:
            accuracy += " (predicted)"
        took = _listed([f"takes {_time(best, wording)}{_twice(best)}", *_costs(best, wording)])
        text = (
            f"The most accurate cell found within {wording.limits} on {summary['device']} has "
            f"{accuracy} on {wording.dataset} and {took}. "
            f"{_distance(best, landscape, wording)}"
        )
    cell = [] if best is None else [f"`{best['arch']}`"]
    cell += [f"It {on_device(on)}." for on in (best or {}).get("on", ())]
    return [text, *cell, *(Note(note) for note in _notes(wording))]


def _time(best: dict[str, Any], wording: Wording) -> str:
    """The latency; with `latency=mapped` that on the device with most room, in its own time."""
    for on in best.get("on", ())[:1]:
        latency = wording.latency(on["latency_ms"], predicted=on["latency_predicted"])
        return f"{latency} on {on['device']}"
    return wording.latency(best["latency_ms"], predicted=best["latency_predicted"])


def _twice(best: dict[str, Any]) -> str:
    """That a live device was asked twice, and what it said first."""
    if best.get("latency_again_ms") is None:
        return ""
    return f" (timed again; {best['latency_first_ms']:.2f} ms at first)"


def key_figures(
    samples: Samples, landscape: Landscape | None, limits: Limits, wording: Wording
) -> list[KeyFigure]:
    """The answer's numbers."""
    summary = wording.summary
    best = summary["best"]
    if best is None:
        figures = [_nearest(samples, limits, wording)]
    else:
        figures = [*_accuracies(best, wording), _latency(best, wording), *_further(best, wording)]
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
    figures.append(_settled("latency", "T", len(samples), summary["sample_within_T"]))
    for name, (symbol, one) in zip(
        wording.cost_columns, summary.get("limits", {}).items(), strict=True
    ):
        figures.append(_settled(name, symbol, len(samples), one["sample_within"]))
    return figures


def _settled(name: str, symbol: str, samples: int, settled: int | None) -> KeyFigure:
    title = f"mean {name} settled"
    if settled is not None:
        note = f"samples; within {symbol} from there on"
        return KeyFigure(title, f"at {settled:,}", note, Tone.good)
    if samples < WINDOW:
        note = f"it takes {WINDOW} samples to tell"
    else:
        note = f"that of the last {WINDOW} samples is beyond {symbol}"
    return KeyFigure(title, "not yet", note, Tone.bad)


def _shares_of(samples: Samples, limits: Limits, wording: Wording) -> Float64[ndarray, "n limits"]:
    """What each sample takes of each limit, T first: at most 1 is within it."""
    latency = samples.latency_ms[:, None] / wording.summary["T_ms"]
    return np.concatenate([latency, limits.ratios(samples.architectures)], axis=1)


def _nearest(samples: Samples, limits: Limits, wording: Wording) -> KeyFigure:
    """The sample that breaks its worst limit by least, and what it breaks."""
    shares = _shares_of(samples, limits, wording)
    at = int(np.lexsort((shares.sum(axis=1), shares.max(axis=1)))[0])
    broken = [
        f"{symbol} by {_beyond(share)}"
        for symbol, share in zip(("T", *limits.symbols), shares[at], strict=True)
        if share > 1
    ]
    latency = milliseconds(float(samples.latency_ms[at]))
    index = NAS_BENCH_201.numbers(samples.architectures[at])
    costs = [limit.text(float(limit.costs[index])) for limit in limits.each]
    note = f"beyond {_listed(broken)}" if broken else "not within T when timed again"
    if not limits:
        note = f"beyond {wording.limit}" if broken else note
        return KeyFigure("fastest sample", latency, note, Tone.bad)
    return KeyFigure("nearest sample", ", ".join([latency, *costs]), note, Tone.bad)


def _beyond(share: float) -> str:
    """By how much a limit is broken."""
    return percent(share - 1, 0 if share >= 1.1 else 2)


def _listed(texts: Sequence[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _costs(best: Mapping[str, Any], wording: Wording) -> list[str]:
    """The further costs as ends of a sentence: 4.2 mJ of energy, 0.86 M parameters."""
    return [
        f"{cost} of {name}" if name == "energy" else f"has {cost} {name}"
        for name, cost in zip(wording.cost_columns, wording.costs(best), strict=True)
    ]


def _further(best: Mapping[str, Any], wording: Wording) -> list[KeyFigure]:
    figures = []
    for name, cost, (symbol, one) in zip(
        wording.cost_columns,
        wording.costs(best),
        wording.summary.get("limits", {}).items(),
        strict=True,
    ):
        bound = cost_text(one["limit"], one["unit"], 6).replace(" ", NO_BREAK)
        used = percent(best[one["cost"]] / one["limit"], 0)
        figures.append(KeyFigure(name, cost, f"{used} of {symbol} = {bound}", Tone.good))
    return figures


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
    latency_ms, limit_ms, limit = best["latency_ms"], wording.summary["T_ms"], wording.limit
    for on in best.get("on", ())[:1]:  # the device with most room, in its own time
        latency_ms, limit_ms = on["latency_ms"], on["T_ms"]
        limit = f"T = {limit_ms:g} ms on {on['device']}"
    note = f"within {limit}, {milliseconds(limit_ms - latency_ms)} to spare"
    if best["latency_predicted"]:
        note += ", predicted"
    return KeyFigure("latency", milliseconds(latency_ms), note, Tone.good)


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


def _nothing(
    samples: Samples, landscape: Landscape | None, limits: Limits, wording: Wording
) -> str:
    summary = wording.summary
    met = "" if not limits else " together"
    text = (
        f"None of the {len(samples):,} samples met {wording.limits}{met} on {summary['device']}: "
        f"{_why(samples, limits, wording)}. "
    )
    if landscape is not None and landscape.feasible.any():
        feasible = int(landscape.feasible.sum())
        text += (
            f"{feasible:,} of the {len(landscape.accuracy):,} cells of the space do, the best with "
            f"{wording.accuracy(summary['optimum']['accuracy_searched'])} {wording.searched}. "
        )
    return text + f"Raise {'T' if wording.label == 'T' else 'one of them'} or the budget."


def _why(samples: Samples, limits: Limits, wording: Wording) -> str:
    """Which limit is in the way, by how much."""
    fastest = f"the fastest took {milliseconds(float(samples.latency_ms.min()))}"
    if not limits:
        return fastest
    shares = _shares_of(samples, limits, wording)
    said = []
    for symbol, share in zip(("T", *limits.symbols), shares.T, strict=True):
        met = int((share <= 1).sum())
        nearest = "" if met else f", the nearest beyond it by {_beyond(float(share.min()))}"
        said.append(f"{symbol} alone was met by {met:,}{nearest}")
    return "; ".join(said)


def _notes(wording: Wording) -> list[str]:
    summary = wording.summary
    notes = []
    said = (summary["device"], summary["accuracy_description"], summary["latency_description"])
    if any("synthetic" in text.lower() for text in said):
        notes.append("These numbers are synthetic: they say nothing about real networks.")
    if (words := tail_in_words(summary["device"])) is not None:
        notes.append(f"{words[0].upper()}{words[1:]}.")
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
    space = summary["space_latency_predicted"]
    if summary["optimum_exact"] is False and space and space < 1:
        notes.append(
            f"The optimum and the ranks are among measured and predicted cells: of the space, "
            f"{percent(space, 1)} of the latencies are predicted."
        )
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
