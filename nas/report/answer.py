"""The answer, before anything else: which architecture, how good, how fast, how far from the optimum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from common.page.document import KeyFigure, Tone
from common.page.parts import Note, Part
from common.types.kind import FLAGGED, Kind
from latency.devices.registry import tail_in_words
from nas.accuracy.base import Split
from nas.report.summary import Network, Summary, predicted_shares
from nas.report.terminal import certainty, no_better_than_chance, on_device, with_sd
from nas.report.wording import NO_BREAK, Wording, milliseconds, percent
from nas.trials.limits import cost_text
from nas.trials.problem import SearchProblem
from nas.trials.survey import Survey
from nas.trials.trajectory import WINDOW
from nas.trials.trial import Trials

_WHY_FLAGGED = {
    Kind.disturbed: "other work ran on {}, its clock fell or its control network drifted. Such times are no "
    "measurements of the networks.",
    Kind.implausible: "{} took them twice, and each time far below what the other networks let expect.",
}


def answer(
    summary: Summary, done: Trials, problem: SearchProblem, wording: Wording
) -> list[Part | str]:
    """A sentence or two, and what must be known about the numbers."""
    best = summary.best
    if best is None:
        text = _nothing(summary, done, problem, wording)
    else:
        accuracy = f"{wording.accuracy(best.accuracy_searched)}{with_sd(best)} {wording.searched}"
        if best.accuracy_is_predicted:
            accuracy += f" ({Kind[best.accuracy_kind].words})"
        took = _listed([f"takes {_time(best, wording)}{_twice(best)}", *_costs(best, wording)])
        found_ = "The most accurate architecture found"
        if best.is_disturbed:
            found_ = "UNCONFIRMED: the most accurate architecture that was timed"
        text = (
            f"{found_} within {wording.limits} on {summary.device} has "
            f"{accuracy} on {wording.dataset} and {took}. "
            f"{_distance(best, problem.survey, wording)}"
        )
    ranked = _ranked(summary, wording)
    found = [] if best is None else [f"`{best.arch}`"]
    found += [f"It {on_device(on)}." for on in (() if best is None else best.on)]
    found += [f"Of the answer, {line}." for line in certainty(summary)]
    return [*ranked, text, *found, *(Note(note) for note in _notes(summary, wording))]


def _ranked(summary: Summary, wording: Wording) -> list[Part | str]:
    """The optimum of the whole space, where it was ranked and the search did not find it."""
    optimum = summary.optimum
    if optimum is None or summary.answer is not optimum:
        return []
    accuracy = f"{wording.accuracy(optimum.accuracy_searched)} {wording.searched}"
    text = (
        f"The answer is the {wording.optimum}, as the whole space was ranked: {accuracy}, "
        f"{_time(optimum, wording)}. The search is a study of how it would be found."
    )
    return [text, f"`{optimum.arch}`"]


def key_figures(
    summary: Summary, done: Trials, problem: SearchProblem, wording: Wording
) -> list[KeyFigure]:
    """The answer's numbers."""
    best = summary.best
    if best is None:
        figures = [_nearest(done, problem, wording)] if len(done) else []
    else:
        figures = [
            *accuracy_figures(best, wording),
            latency_figure(best, wording),
            *_further(best, wording),
        ]
        if summary.gap is not None and summary.optimum is not None:
            optimum = wording.accuracy(summary.optimum.accuracy_searched)
            figures.append(
                KeyFigure(
                    f"below the {wording.optimum}",
                    f"{summary.gap * 100:.2f} points",
                    f"which is {optimum}; rank {best.rank:,}",
                )
            )
    figures.append(
        KeyFigure(
            f"samples within {wording.label}",
            percent(summary.feasible_share, 1),
            _of_space(summary),
        )
    )
    figures.append(_settled("latency", "T", len(done), summary.sample_within_T))
    for name, (symbol, one) in zip(wording.cost_columns, summary.limits.items(), strict=True):
        figures.append(_settled(name, symbol, len(done), one.sample_within))
    return figures


def _of_space(summary: Summary) -> str:
    share, interval = summary.space_feasible_share, summary.space_feasible_interval
    if share is None:
        return ""
    if interval is None:
        return f"of the whole space, {percent(share, 1)}"
    low, high = (percent(end, 1) for end in interval)
    return f"of the whole space, about {percent(share, 1)} ({low} to {high})"


def _time(best: Network, wording: Wording) -> str:
    """The latency; with `latency=mapped` that on the device with most room, in its own time."""
    for on in best.on[:1]:
        return f"{wording.latency(on.latency_ms, Kind[on.latency_kind])} on {on.device}"
    return wording.latency_of(best)


def _twice(best: Network) -> str:
    """Clause with the first time of a network that a live device timed again; else empty."""
    if best.latency_again_ms is None or best.latency_first_ms is None:
        return ""
    return f" (timed again; {best.latency_first_ms:.2f} ms at first)"


def _settled(name: str, symbol: str, samples: int, settled: int | None) -> KeyFigure:
    title = f"mean {name} settled"
    if settled is not None:
        note = f"samples; within {symbol} from there on"
        return KeyFigure(title, f"at {settled:,}", note, Tone.good)
    if samples < WINDOW:
        note = f"known from {WINDOW} samples on"
    else:
        note = f"that of the last {WINDOW} samples is beyond {symbol}"
    return KeyFigure(title, "not yet", note, Tone.bad)


def _nearest(done: Trials, problem: SearchProblem, wording: Wording) -> KeyFigure:
    """The sample that breaks its worst limit by least, and what it breaks."""
    shares: Float64[ndarray, "n M"] = done.ratios
    at = int(np.lexsort((shares.sum(axis=1), shares.max(axis=1)))[0])
    limits = problem.limits
    broken = [
        f"{symbol} by {_beyond(share)}"
        for symbol, share in zip(("T", *limits.symbols), shares[at].tolist(), strict=True)
        if share > 1
    ]
    latency = milliseconds(float(done.latency_ms[at]))
    costs = [
        limit.text(cost) for limit, cost in zip(limits.each, done.costs[at].tolist(), strict=True)
    ]
    note = f"beyond {_listed(broken)}" if broken else "not within T when timed again"
    if not limits:
        note = f"beyond {wording.limit}" if broken else note
        return KeyFigure("fastest sample", latency, note, Tone.bad)
    return KeyFigure("nearest sample", ", ".join([latency, *costs]), note, Tone.bad)


def _beyond(share: float) -> str:
    """Excess over a limit as a percentage, given the cost divided by the limit."""
    return percent(share - 1, 0 if share >= 1.1 else 2)


def _listed(texts: Sequence[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def _costs(best: Network, wording: Wording) -> list[str]:
    """The further costs as ends of a sentence: 4.2 mJ of energy, 0.86 M parameters."""
    return [
        f"{cost} of {name}" if name == "energy" else f"has {cost} {name}"
        for name, cost in zip(wording.cost_columns, wording.costs(best.costs), strict=True)
    ]


def _further(best: Network, wording: Wording) -> list[KeyFigure]:
    figures = []
    for name, cost, (symbol, one) in zip(
        wording.cost_columns,
        wording.costs(best.costs),
        wording.summary.limits.items(),
        strict=True,
    ):
        bound = cost_text(one.limit, one.unit, 6).replace(" ", NO_BREAK)
        used = percent(best.costs[one.cost] / one.limit, 0)
        figures.append(KeyFigure(name, cost, f"{used} of {symbol} = {bound}", Tone.good))
    return figures


def accuracy_figures(best: Network, wording: Wording) -> list[KeyFigure]:
    """The searched accuracy of a network and its test accuracy, if there is one."""
    summary = wording.summary
    kind = Kind[best.accuracy_kind]
    predicted = [kind.words] if kind.is_predicted else []
    is_said = wording.is_short or kind is Kind.trained
    length = [f"after {summary.settings.epochs} epochs"] if is_said else []
    searched = KeyFigure(
        wording.searched,
        f"{wording.accuracy(best.accuracy_searched)}{with_sd(best)}",
        ", ".join([wording.dataset, *length, "searched on", *predicted]),
    )
    if summary.split == Split.test.value or best.accuracy_test is None:
        return [searched]
    note = ", ".join(["never searched on", *predicted])
    return [searched, KeyFigure("test accuracy", wording.accuracy(best.accuracy_test), note)]


def latency_figure(best: Network, wording: Wording) -> KeyFigure:
    """The latency of a network, and what T leaves."""
    latency_ms, kind = best.latency_ms, Kind[best.latency_kind]
    limit_ms, limit = wording.summary.T_ms, wording.limit
    for on in best.on[:1]:  # the device with most room, in its own time
        latency_ms, kind, limit_ms = on.latency_ms, Kind[on.latency_kind], on.T_ms
        limit = f"T = {limit_ms:g} ms on {on.device}"
    if kind is Kind.disturbed:
        note = f"not confirmed to be within {limit}: {kind.words}"
        return KeyFigure("latency", milliseconds(latency_ms), note, Tone.bad)
    note = f"within {limit}, {milliseconds(limit_ms - latency_ms)} to spare"
    if kind is not Kind.measured:
        note += f", {kind.words}"
    tone = Tone.neutral if kind in FLAGGED else Tone.good
    return KeyFigure("latency", milliseconds(latency_ms), note, tone)


def _distance(best: Network, survey: Survey | None, wording: Wording) -> str:
    summary = wording.summary
    if best.is_disturbed:
        return "Search again on a quiet device before relying on it."
    if survey is None or summary.gap is None or summary.optimum is None or best.rank is None:
        return (
            "How far that is from the optimum is unknown: asking for the whole space is not free."
        )
    feasible = int(survey.feasible.sum())
    if best.rank == 1:
        return (
            f"That is the {wording.optimum}: no other of the {feasible:,} architectures within "
            f"{wording.label} is more accurate."
        )
    optimum = wording.accuracy(summary.optimum.accuracy_searched)
    return (
        f"The {wording.optimum} within {wording.label} is {optimum}: {summary.gap * 100:.2f} points "
        f"more; {best.rank - 1:,} of the {feasible:,} architectures within {wording.label} "
        f"{'is' if best.rank == 2 else 'are'} more accurate."
    )


def _nothing(summary: Summary, done: Trials, problem: SearchProblem, wording: Wording) -> str:
    survey = problem.survey
    met = " together" if problem.limits else ""
    why = _why(done, problem) if len(done) else "none was evaluated"
    text = (
        f"None of the {summary.samples:,} samples met {wording.limits}{met} on {summary.device}: "
        f"{why}. "
    )
    if survey is not None and summary.optimum is not None:
        feasible = int(survey.feasible.sum())
        text += (
            f"{feasible:,} of the {len(survey.accuracy):,} architectures of the space do, the best "
            f"with {wording.accuracy(summary.optimum.accuracy_searched)} {wording.searched}. "
        )
    return text + f"Raise {'one of them' if problem.limits else 'T'} or the budget."


def _why(done: Trials, problem: SearchProblem) -> str:
    """Name the limit that is exceeded, and by how much."""
    fastest = f"the fastest took {milliseconds(float(done.latency_ms.min()))}"
    if not problem.limits:
        return fastest
    said = []
    for symbol, share in zip(("T", *problem.limits.symbols), done.ratios.T, strict=True):
        met = int((share <= 1).sum())
        nearest = "" if met else f", the nearest beyond it by {_beyond(float(share.min()))}"
        said.append(f"{symbol} alone was met by {met:,}{nearest}")
    return "; ".join(said)


def _notes(summary: Summary, wording: Wording) -> list[str]:
    notes = []
    said = (summary.device, summary.accuracy_description, summary.latency_description)
    if any("synthetic" in text.lower() for text in said):
        notes.append("These numbers are synthetic: they say nothing about real networks.")
    if (words := tail_in_words(summary.device)) is not None:
        notes.append(f"{words[0].upper()}{words[1:]}.")
    notes += [f"{one[0].upper()}{one[1:]}." for one in no_better_than_chance(summary)]
    notes += _kinds(summary)
    space = summary.space_latency_predicted
    if summary.optimum_exact is False and space and space < 1:
        notes.append(
            f"The optimum and the ranks are among measured and predicted latencies: of the space, "
            f"{percent(space, 1)} are predicted."
        )
    failed, pruned = (summary.states.get(name, 0) for name in ("failed", "pruned"))
    if failed:
        notes.append(
            f"{failed:,} of the {summary.samples:,} samples failed; their errors are in samples.parquet."
        )
    if pruned:
        notes.append(
            f"{pruned:,} of the {summary.samples:,} samples were pruned: their latency was so far "
            f"beyond T that their accuracy was not asked for."
        )
    if summary.split == Split.test.value:
        notes.append(
            "The search was on the test split, so its test accuracy is no unbiased estimate."
        )
    if wording.is_short:
        settings = summary.settings
        notes.append(
            f"The search was on accuracy after {settings.epochs} epochs; test accuracy is that "
            f"after {settings.test_epochs}."
        )
    return notes


def _kinds(summary: Summary) -> list[str]:
    """Name what was predicted and by what, and what is a penalty."""
    notes = []
    for kind, share in predicted_shares(summary.accuracy_kinds).items():
        notes.append(f"{_share('Accuracies', share)} {kind.words}, not measured by training.")
    for kind, share in predicted_shares(summary.latency_kinds).items():
        notes.append(
            f"{_share('Latencies', share)} {kind.words}, not measured on {summary.device}."
        )
    for kind, count in summary.flagged.items():
        notes.append(f"{count}: {_WHY_FLAGGED[kind].format(summary.device)}")
    if summary.penalty_share:
        notes.append(
            f"{percent(summary.penalty_share, 1)} of the samples are networks that the device "
            f"cannot run; their latency is a penalty beyond T, not a measurement."
        )
    return notes


def _share(what: str, share: float) -> str:
    """The subject of a note: all of them, or a share of the samples'."""
    return f"{what} are" if share == 1 else f"{what} of {percent(share, 1)} of the samples are"
