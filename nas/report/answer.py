"""The answer of a search, made once of its summary: every number with its unit, kind and certainty.

Terminal, pages, sweeps, the card of an export and `edgenas.Found` lay it out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import final

from edgenas_core.page.document import KeyFigure, Tone
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import FLAGGED, Kind
from edgenas_core.types.units import epochs_text
from latency.devices.registry import tail_in_words
from latency.probe.address import THIS_MACHINE
from nas.accuracy.base import Split
from nas.fit.training.trained_folder import Judged, balanced_accuracy
from nas.report.network import Network
from nas.report.number import FLAGS, PREDICTED, amount
from nas.report.summary import Int8Accuracy, Summary, predicted_shares
from nas.spaces.registry import space_named
from nas.trials.limits import cost_text, label_of, share_text
from nas.trials.survey import accuracy_text, wilson_interval

_SPLITS = {Split.valid.value: "validation", Split.test.value: "test"}
_WHY_FLAGGED = {
    Kind.disturbed: "taken while other work ran, the clock fell or the reference network drifted, so they are not "
    "reliable",
    Kind.implausible: "taken twice, both times far below what the other networks predict",
}


_CERTAIN = 1.1
"""Times under load that are below T by this factor confirm it, as other work rarely makes a network faster.

In the bundled tables the time without other work is above 1.1 times the one under load in 4 of 175 pairs of the EPYC
VM (2.3 %), and in none of 772 of the H200 (benchmarks/results/measuring.md).
"""


class Status(Enum):
    """State of the best network: whether it is confirmed, ranked, and the optimum."""

    none = "no trial met the limits"
    unconfirmed = "timed only while its device was under load"
    unranked = "the optimum is not known: asking for the whole space is not free"
    optimum = "the optimum of the space"
    below = "less accurate than the optimum"


@final
@dataclass(frozen=True)
class Answer:
    """Result of a search, with the certainty and the source of its numbers."""

    summary: Summary

    @property
    def best(self) -> Network | None:
        """The most accurate trial within every limit."""
        return self.summary.best

    @property
    def network(self) -> Network | None:
        """The network to use: the best, or the optimum of a ranked space if that is more accurate."""
        return self.summary.answer

    @property
    def is_ranked(self) -> bool:
        """Whether the network to use is the optimum of the ranked space instead of a trial."""
        return self.network is not None and self.network is not self.best

    @property
    def which(self) -> str:
        """Name of the network to use, as `which=` of an export."""
        return "optimum" if self.is_ranked else "best"

    @cached_property
    def networks(self) -> dict[str, Network]:
        """Every network that is reported, by its role."""
        unconfirmed = "" if self.status is not Status.unconfirmed else ", unconfirmed"
        roles = {
            f"best sample within {self.label}{unconfirmed}": self.best,
            f"{self.optimum_name} within {self.label}": self.summary.optimum,
            "the policy's mode": self.summary.mode,
        }
        return {role: network for role, network in roles.items() if network is not None}

    @cached_property
    def status(self) -> Status:
        """State of the best network."""
        best = self.best
        if best is None:
            return Status.none
        if best.is_disturbed and _CERTAIN * _slowest_ms(best) > self.summary.T_ms:
            return Status.unconfirmed
        if self.summary.gap is None or best.rank is None:
            return Status.unranked
        return Status.optimum if best.rank == 1 else Status.below

    @property
    def device(self) -> str:
        """Name of the device, and that it is this machine if it is."""
        device = self.summary.device
        is_here = f"({THIS_MACHINE})" in self.summary.latency_description
        return f"{THIS_MACHINE} ({device})" if is_here else device

    @property
    def label(self) -> str:
        """Symbols of all limits: T, or T, E and P."""
        return label_of(self.summary.limits)

    @property
    def limit(self) -> str:
        """The latency's limit with its name."""
        return f"T = {self.summary.T_ms:g} ms"

    @property
    def limits(self) -> str:
        """All limits with their names."""
        further = self.summary.limits.items()
        return ", ".join(
            [
                self.limit,
                *(f"{symbol} = {cost_text(cost.limit, cost.unit, 6)}" for symbol, cost in further),
            ]
        )

    @property
    def optimum_name(self) -> str:
        """Name of the best network of the whole space: exact, predicted or partly predicted."""
        summary = self.summary
        if summary.accuracy_is_predicted or summary.space_latency_predicted == 1:
            return "predicted optimum"
        return "partly predicted optimum" if summary.optimum_exact is False else "exact optimum"

    @property
    def expected_loss(self) -> str | None:
        """Expected distance of the true optimum above the predicted one, as text; None for an exact optimum."""
        summary, settings = self.summary, self.summary.settings
        if self.optimum_name == "exact optimum":
            return None
        losses = _expected_losses(settings.space).get(settings.dataset)
        if losses is None or summary.space_latency_predicted != 1:
            return "how much more accurate the true optimum is, is not known"
        loss = losses[0] if summary.accuracy_is_predicted else losses[1]
        return f"the true optimum is on average {loss:.1f} points more accurate"

    @property
    def front_name(self) -> str:
        """Name of the front of the whole space."""
        share = self.summary.space_latency_predicted
        if self.summary.accuracy_is_predicted or share == 1:
            return "predicted front"
        return "partly predicted front" if share else "true front"

    @property
    def dataset(self) -> str:
        """Name of the data set as papers write it."""
        return self.summary.settings.dataset_title

    @property
    def searched(self) -> str:
        """Name of the accuracy that was searched on."""
        return f"{_SPLITS[self.summary.split]} {self.metric}"

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self.summary.settings.metric

    @property
    def is_short(self) -> bool:
        """Whether the searched accuracies are from a shorter training than the test accuracies."""
        return self.summary.settings.epochs != self.summary.settings.test_epochs

    @property
    def accuracy_axis(self) -> str:
        """Title of an axis of the accuracy that was searched on."""
        length = f" after {epochs_text(self.summary.settings.epochs)}" if self.is_short else ""
        predicted = ", predicted" if self.summary.accuracy_is_predicted else ""
        return f"{self.searched}{length} (%){predicted}"

    @property
    def latency_axis(self) -> str:
        """Title of an axis of latencies."""
        shares = predicted_shares(self.summary.latency_kinds)
        kinds = [kind.words for kind, share in shares.items() if share == 1]
        return ", ".join(["latency (ms)", *kinds])

    @property
    def headline(self) -> str:
        """Sentence that introduces the best network, or says that there is none and what to do."""
        summary = self.summary
        if self.network is None or self.best is None:
            if summary.confirmation:
                return (
                    f"No network wins: no trial within {self.limit} was within it again; is the board "
                    f"quiet, are its clocks fixed?"
                )
            raised = f"{'one' if summary.limits else 'T'} or the budget"
            return f"No network wins: no trial met {self.limits}; raise {raised}."
        unconfirmed = "UNCONFIRMED: " if self.status is Status.unconfirmed else ""
        ranked = f", the {self.optimum_name} of the space" if self.is_ranked else ""
        return f"{unconfirmed}Best network within {self.limits} on {self.device}{ranked}"

    @cached_property
    def headline_figures(self) -> list[KeyFigure]:
        """The answer in a few lines: one accuracy, one latency, further limits, and a comparison."""
        network = self.network
        if network is None:
            return []
        return [
            self._headline_accuracy(network),
            *self._latency_figures(network),
            *self._cost_figures(network),
            *(self._found() if self.is_ranked else self._distance(network)),
            *self.baseline_figures,
        ]

    def _headline_accuracy(self, network: Network) -> KeyFigure:
        """The accuracy on test images, or else the one that was searched on."""
        summary, settings = self.summary, self.summary.settings
        if summary.int8 is not None and summary.int8.test is not None:
            test = summary.int8.test
            low, high = wilson_interval(test.fraction, test.images)
            in_int8 = f", in {test.images:,} of the int8 file"
            return KeyFigure(self.metric, *self._in_words(test.fraction, (low, high), in_int8))
        if network.test is None or summary.split == Split.test.value:
            return next(iter(self.accuracy_figures(network)))
        interval = self._test_interval(network)
        if network.accuracy.kind is Kind.trained and interval is not None:
            return KeyFigure(self.metric, *self._in_words(network.test.value / 100, interval))
        length = f", after {epochs_text(settings.test_epochs)}" if self.is_short else ""
        note = f"{_interval(interval)}test {settings.items} of {self.dataset}{length}"
        return KeyFigure(self.metric, network.test.text, note)

    def _test_interval(self, network: Network) -> tuple[float, float] | None:
        """95 % interval of the test metric; None of a network that was not trained here."""
        tested = sum(result.images for result in self.summary.by_class)
        if network is not self.best or network.test is None:
            return None
        if self.summary.test_interval is None and tested:
            return wilson_interval(network.test.value / 100, tested)
        return self.summary.test_interval

    def _in_words(
        self, fraction: float, interval: tuple[float, float], what: str = ""
    ) -> tuple[str, str]:
        """A test accuracy as of 100 images, with its interval; another metric as a share."""
        items, (low, high) = self.summary.settings.items, interval
        if self.metric != "accuracy":
            return f"{fraction:.1%}", f"95 % interval {low:.1%} to {high:.1%}; test {items}{what}"
        right = f"of 100 test {items}, {100 * fraction:.0f} are right"
        return (
            f"{fraction:.1%}",
            f"{right}; {100 * low:.0f} to {100 * high:.0f} (95 % interval){what}",
        )

    def _found(self) -> Iterator[KeyFigure]:
        """What the search itself came to, where the ranked space has a better network."""
        gap = 0.0 if self.summary.gap is None else self.summary.gap
        if self.best is None:
            yield KeyFigure("search", "none", f"no sample was within {self.label}")
            return
        note = f"below this {self.optimum_name}, by the best sample of the search: {self.best.line}"
        yield KeyFigure("search", f"{100 * gap:.2f} points", note)

    @cached_property
    def figures(self) -> list[KeyFigure]:
        """Numbers of the best network, and its gap to the optimum."""
        best = self.best
        if best is None:
            return []
        return [
            *self.accuracy_figures(best),
            *self._class_figures(),
            *self._int8_figures(),
            *self._latency_figures(best),
            *self._fp32_latency(),
            *self._cost_figures(best),
            *self._distance(best),
        ]

    @property
    def baseline_figures(self) -> list[KeyFigure]:
        """Numbers of the user's network and of the baseline, to compare the best network with."""
        figures = [
            KeyFigure("your network", f"{stage.accuracy:.2%}", stage.fidelity)
            for stage in self.summary.stages
            if stage.name == "original" and stage.accuracy is not None
        ]
        rule = self.summary.baseline
        if rule is None:
            return figures
        of_what = f"{_SPLITS[self.summary.split]} {self.metric}, {rule.fidelity}"
        is_answer = self.network is not None and rule.arch == self.network.arch
        which = "the same network" if is_answer else f"{rule.latency.text}; {rule.arch}"
        note = f"{of_what}; {which}"
        return [*figures, KeyFigure("baseline", rule.accuracy.text, note)]

    @cached_property
    def search_figures(self) -> list[KeyFigure]:
        """Counts and shares of the trials of the search."""
        summary = self.summary
        others = "".join(
            f", {count:,} {name}" for name, count in summary.states.items() if name != "done"
        )
        figures = [
            KeyFigure(
                "trials",
                f"{summary.samples:,}",
                f"{summary.distinct_networks:,} distinct networks, {summary.seconds:.1f} s{others}",
            ),
        ]
        if not summary.stages:  # of stages, the latencies were known before a training
            share = share_text(summary.feasible_share)
            figures += [KeyFigure(f"trials within {self.label}", share, self._space)]
        if summary.mode_gap is not None:
            gap = max(summary.mode_gap, 0.0)
            value = "the best reward" if gap == 0 else f"{gap:.2g} below the best reward"
            figures.append(
                KeyFigure("final policy", value, "reward of its most likely architecture")
            )
        figures += [
            KeyFigure(f"times {FLAGS[kind]}", f"{count:,}", _WHY_FLAGGED[kind], Tone.bad)
            for kind, count in summary.flagged.items()
        ]
        return figures

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Cautions about the numbers, one sentence each."""
        return tuple(self._notes())

    @property
    def sources(self) -> dict[str, str]:
        """Origin of each kind of number."""
        summary = self.summary
        return {
            self.metric: summary.accuracy_description,
            "latency": summary.latency_description,
            **{limit.cost: limit.source for limit in summary.limits.values()},
        }

    def accuracy_figures(self, network: Network) -> Iterator[KeyFigure]:
        """The accuracy that was searched on, and the test accuracy, if there is one."""
        summary, epochs = self.summary, self.summary.settings.epochs
        intervals = (summary.valid_interval, summary.test_interval)
        valid, test = intervals if network is self.best else (None, None)
        with_epochs = self.is_short or network.accuracy.kind is Kind.trained
        length = f", after {epochs_text(epochs)}" if with_epochs else ""
        searched_on = ", searched on" if self.summary.split == Split.test.value else ""
        items = f"{_SPLITS[self.summary.split]} {self.summary.settings.items}"
        note = f"{_interval(valid)}{items} of {self.dataset}{length}{searched_on}"
        yield KeyFigure(self.metric, network.accuracy.text_with_sd, note)
        if network.test is not None and self.summary.split == Split.valid.value:
            length = (
                f", after {epochs_text(self.summary.settings.test_epochs)}" if self.is_short else ""
            )
            note = f"{_interval(test)}never searched on{length}"
            yield KeyFigure(f"test {self.metric}", network.test.text, note)

    def _class_figures(self) -> Iterator[KeyFigure]:
        """Balanced test accuracy of the winner of a fit, if its classes differ much in size."""
        balanced = balanced_accuracy(self.summary.by_class)
        if balanced is not None:
            note = "mean over the classes, whose test images differ by three times or more"
            yield KeyFigure("balanced test accuracy", amount(100 * balanced, "%"), note)

    def _int8_figures(self) -> Iterator[KeyFigure]:
        int8 = self.summary.int8
        if int8 is not None and int8.test is not None:
            tone = Tone.bad if int8.is_slower else Tone.neutral
            share, _, interval = _with_interval(int8.test).partition(" ")
            yield KeyFigure("int8 test accuracy", share, f"{interval}; {_int8_note(int8)}", tone)

    def _latency_figures(self, network: Network) -> Iterator[KeyFigure]:
        latency, limit = network.latency, self.limit
        label = "int8 latency" if self.summary.int8 is not None else "latency"
        if network.on:  # the others are in milliseconds of the first device
            for place in network.on:
                tone = Tone.good if place.fits else Tone.bad
                fits = "fits" if place.fits else "does not fit"
                note = f"{fits} T = {place.T_ms:g} ms there"
                yield KeyFigure(f"latency on {place.device}", place.latency.text, note, tone)
            return
        if network.is_disturbed:
            times = [network.latency_first_ms, network.latency_again_ms, network.latency_ms]
            known = sorted(time for time in times if time is not None)
            between = f"{amount(known[0], 'ms')} to {amount(known[-1], 'ms')} while other work ran"
            if self.status is Status.unconfirmed:
                note = f"{between}; not confirmed to be within {limit}"
                yield KeyFigure(label, latency.text, note, Tone.bad)
            else:
                yield KeyFigure(label, latency.text, f"{between}, all within {limit}", Tone.good)
            return
        spare = amount(self.summary.T_ms - latency.value, "ms")
        notes = [f"{spare} to spare"]
        if network.latency_again_ms is not None and network.latency_first_ms is not None:
            notes.append(f"timed again, {amount(network.latency_first_ms, 'ms')} at first")
        probability = network.within_T_probability
        if latency.kind.is_predicted and probability is None:
            notes.append("a prediction of unknown error: measure it")
        elif latency.kind.is_predicted and probability is not None:
            percent = math.floor(100 * probability + 1e-9)
            notes.append(f"meets T with probability >= {percent} %")
        tone = Tone.neutral if latency.kind in FLAGGED else Tone.good
        yield KeyFigure(label, latency.text_with_sd, "; ".join(notes), tone)

    def _fp32_latency(self) -> Iterator[KeyFigure]:
        int8 = self.summary.int8
        if int8 is not None and int8.fp32_ms is not None and int8.int8_ms is not None:
            note = f"timed in turns with int8, which took {amount(int8.int8_ms, 'ms')}"
            yield KeyFigure("fp32 latency", amount(int8.fp32_ms, "ms"), note)

    def _cost_figures(self, network: Network) -> Iterator[KeyFigure]:
        for symbol, limit in self.summary.limits.items():
            cost = network.costs[limit.cost]
            bound = cost_text(limit.limit, limit.unit, 6)
            note = f"{cost / limit.limit:.0%} of {symbol} = {bound}"
            yield KeyFigure(_cost_name(limit.cost), cost_text(cost, limit.unit), note, Tone.good)

    def _distance(self, best: Network) -> Iterator[KeyFigure]:
        """Gap to the optimum in points of accuracy, if the optimum is known."""
        optimum = self.summary.optimum
        if self.status is Status.optimum:
            if self.expected_loss is None:
                note = f"this is the exact optimum: no network within {self.label} is more accurate"
                yield KeyFigure("gap", "none", note, Tone.good)
            else:
                note = f"this is the {self.optimum_name}, the best network by the predictors; {self.expected_loss}"
                yield KeyFigure("gap", f"{PREDICTED}none", note)
        elif self.status is Status.below and optimum is not None and self.summary.gap is not None:
            note = (
                f"below the {self.optimum_name} ({optimum.accuracy.text} at {optimum.latency.text}); "
                f"rank {best.rank:,} within {self.label}"
                f"{'' if self.expected_loss is None else f'; {self.expected_loss}'}"
            )
            yield KeyFigure("gap", f"{100 * self.summary.gap:.2f} points", note)
        elif self.status is Status.unranked and not self.summary.stages:
            yield KeyFigure("gap", "unknown", Status.unranked.value)

    @property
    def _space(self) -> str:
        share, interval = self.summary.space_feasible_share, self.summary.space_feasible_interval
        if share is None:
            return ""
        if interval is None:
            return f"{share_text(share)} of the space"
        low, high = map(share_text, interval)
        return f"about {share_text(share)} of the space ({low} to {high})"

    def _notes(self) -> Iterator[str]:
        summary, network = self.summary, self.network
        sources = (summary.device, summary.accuracy_description, summary.latency_description)
        if any("synthetic" in text.lower() for text in sources):
            yield "the data are synthetic: these numbers say nothing about real ones"
        if (words := tail_in_words(summary.device)) is not None:
            yield words
        if network is not None and network.at_chance:
            yield (
                f"warning: {network.accuracy.text} is no better than chance; train longer (hours=, epochs=), "
                f"and check that the classes' images differ"
            )
        if self.status is Status.unconfirmed:
            yield (
                "to confirm the latency, stop other work on the device and export the network, which measures it again"
            )
        if predicted := ", ".join(self._list_predictions()):
            numbers = [
                number
                for network in self.networks.values()
                for number in (network.accuracy, network.latency)
            ]
            is_spread = any(number.sd is not None and number.mark for number in numbers)
            spread = " \u00b1 standard deviation" if is_spread else ""
            yield f"{PREDICTED} predicted{spread}, not measured: {predicted}"
        if summary.penalty_share:
            yield (
                f"{summary.penalty_share:.1%} of the latencies are penalties: the device cannot run these "
                f"networks"
            )
        if summary.optimum_exact is False and (summary.space_latency_predicted or 0) < 1:
            yield (
                f"the optimum and the ranks are among measured and predicted latencies: of the space, "
                f"{summary.space_latency_predicted:.1%} are predicted"
            )
        yield from self._why_not_baseline()
        if failed := summary.states.get("failed", 0):
            yield f"{failed:,} of {summary.samples:,} trials failed; samples.parquet has their errors"
        if summary.split == Split.test.value:
            yield "the search was on test images, so its test accuracy is no unbiased estimate"

    def _why_not_baseline(self) -> Iterator[str]:
        """Why the winner is kept where the baseline is faster and no less accurate than noise can tell."""
        baseline, network = self.summary.baseline, self.best
        if baseline is None or network is None or baseline.arch == network.arch:
            return
        if baseline.latency_ms >= network.latency_ms:
            return
        noise = 2 * (network.accuracy_sd or 0.0)
        if abs(baseline.accuracy_searched - network.accuracy_searched) <= noise:
            yield (
                f"the baseline is faster, and as accurate within the noise of the validation images "
                f"({100 * noise:.1f} points); the winner is kept because both meet T"
            )

    def _list_predictions(self) -> Iterator[str]:
        """Texts that name the model behind each predicted number, and its share of the trials."""
        summary = self.summary
        networks = self.networks.values()
        reported = {
            "accuracy": [network.accuracy.kind for network in networks],
            "latency": [
                *(network.latency.kind for network in networks),
                *(place.latency.kind for network in networks for place in network.on),
            ],
        }
        for what, shares in (
            ("accuracy", summary.accuracy_kinds),
            ("latency", summary.latency_kinds),
        ):
            trials = predicted_shares(shares)
            kinds = {*trials, *(kind for kind in reported[what] if kind.is_predicted)}
            for kind in sorted(kinds):
                share = trials.get(kind, 0.0)
                of_trials = "" if share in {0.0, 1.0} else f" of {share:.1%} of the trials"
                yield f"{what}{of_trials} {kind.words.removeprefix('predicted ')}"


def _slowest_ms(network: Network) -> float:
    """The longest of the times of a network."""
    times = (network.latency_first_ms, network.latency_again_ms, network.latency_ms)
    return max(time for time in times if time is not None)


def _expected_losses(space: str) -> Mapping[str, tuple[float, float]]:
    try:
        named = space_named(space)
    except UserError:  # a run of a plug-in that is not installed here
        return {}
    losses: Mapping[str, tuple[float, float]] = getattr(named, "expected_loss", {})
    return losses


def _interval(interval: tuple[float, float] | None) -> str:
    """The beginning of a note: a 95 % interval, if there is one."""
    return "" if interval is None else f"95 % {interval[0]:.1%} to {interval[1]:.1%}; "


def int8_latencies(int8: Int8Accuracy) -> str:
    """Both latencies as text; empty without a live device."""
    if int8.fp32_ms is None or int8.int8_ms is None:
        return ""
    return f"{int8.int8_ms:.3f} ms in int8, {int8.fp32_ms:.3f} ms in fp32"


def int8_on_validation(int8: Int8Accuracy) -> str:
    """Both accuracies on the validation images with their intervals, as text."""
    exact = _with_interval(int8.valid_fp32)
    return f"{_with_interval(int8.valid)} in int8, {exact} in fp32, validation images"


def _int8_note(int8: Int8Accuracy) -> str:
    """Accuracies to compare the int8 test accuracy with: fp32, and both on the validation images."""
    exact = "" if int8.test_fp32 is None else f"{_with_interval(int8.test_fp32)} in fp32; "
    file = " of the .tflite file" if int8.in_tflite else ""
    valid = (
        f"{int8.valid.fraction:.2%}{file} and {int8.valid_fp32.fraction:.2%} on validation images"
    )
    mixed = f"; {len(int8.in_fp32)} layers stay in fp32" if int8.in_fp32 else ""
    slower = "; slower than fp32" if int8.is_slower else ""
    return f"{exact}{valid}{mixed}{slower}"


def _with_interval(accuracy: Judged) -> str:
    return accuracy_text(accuracy.fraction, accuracy.images)


def _cost_name(cost: str) -> str:
    return cost.removesuffix("_mj").removesuffix("_kb")


OVERVIEW = ("accuracy", "test", "latency", "gap, points", "within T")
"""Columns of `overview`."""


def overview(answer: Answer, network: Network | None) -> list[str]:
    """A row for one of a run's networks, where runs are compared."""
    summary = answer.summary
    share = share_text(summary.feasible_share)
    if network is None:
        return ["none", "-", "-", "-", share]
    gap = "-" if summary.gap is None else f"{100 * summary.gap:.2f}"
    test = "-" if network.test is None else network.test.text
    return [network.accuracy.text, test, network.latency.text, gap, share]


def network_columns(
    answer: Answer, networks: Sequence[Network], *, with_sample: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the numbers of networks, without columns that would be empty."""
    columns = {
        answer.searched: [network.accuracy.text for network in networks],
        f"test {answer.metric}": ["-" if n.test is None else n.test.text for n in networks],
        "latency": [
            _mark_beyond(network.latency.text, "T", network.latency_ms <= answer.summary.T_ms)
            for network in networks
        ],
    }
    for symbol, limit in answer.summary.limits.items():
        costs = [network.costs[limit.cost] for network in networks]
        columns[_cost_name(limit.cost)] = [
            _mark_beyond(cost_text(cost, limit.unit), symbol, cost <= limit.limit) for cost in costs
        ]
    columns["rank"] = ["-" if n.rank is None else f"{n.rank:,}" for n in networks]
    if with_sample:
        columns["first at sample"] = [f"{network.sample:,}" for network in networks]
    columns["number"] = ["-" if n.index is None else str(n.index) for n in networks]
    shown = {name: cells for name, cells in columns.items() if {*cells} != {"-"}}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def _mark_beyond(text: str, symbol: str, is_within: bool) -> str:
    return text if is_within else f"{text}, beyond {symbol}"


def margin_text(summary: Summary) -> str:
    """Sentence on the margin that `confidence` keeps below T; empty without a margin."""
    if not summary.margin:
        return ""
    below = 1 - math.exp(-summary.margin)
    return f" Predicted latencies must be at least {below:.1%} below T (confidence={summary.confidence:g})."
