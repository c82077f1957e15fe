"""The summary of a search on the terminal: the answer, its certainty, the next command, its sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.command.console import say, wrapped
from common.types.kind import FLAGGED, Kind
from latency.devices.registry import tail_in_words
from nas.accuracy.base import Split
from nas.report.summary import LimitResult, Network, OnDevice, Summary, TimedAgain
from nas.trials.limits import cost_text
from nas.trials.trajectory import WINDOW

_STEPS = 8  # of a front, between those that are printed


def print_summary(console: Console, summary: Summary, *, verbose: bool = False) -> None:
    """Print the answer and what must be known of it.

    `verbose` adds the optimum and the policy's mode as a table, and the facts of the search.
    """
    console.print()
    for line in _timed_again(summary.confirmation or (), verbose=verbose):
        say(console, line)
    best = summary.best
    if best is None:
        say(console, _nothing(summary))
    else:
        bounds = [f"T = {summary.T_ms:g} ms"]
        for symbol, limit in summary.limits.items():
            bounds.append(f"{symbol} = {cost_text(limit.limit, limit.unit, 6)}")
        unconfirmed = "UNCONFIRMED: " if best.is_disturbed else ""
        say(console, f"{unconfirmed}Best network within {', '.join(bounds)} on {summary.device}:")
        for name, text in _answer(summary, best).items():
            wrapped(console, text, f"  {name:<11}", " " * 13)
        console.print(Text(f"  {best.arch}"), soft_wrap=True)
        for on in best.on:
            say(console, f"it {on_device(on)}")
    answer = summary.answer
    if answer is not None and answer is not best:
        say(
            console,
            f"Answer: the {summary.optimum_name}, as the whole space was ranked; the search is a study of "
            f"how it would be found: {_accuracy(summary, answer)}, {_milliseconds(answer)}",
        )
        console.print(Text(f"  {answer.arch}"), soft_wrap=True)
    for line in certainty(summary):
        say(console, line)
    for line in _legend(summary):
        say(console, line)
    say(console, "; ".join(_facts(summary, verbose=verbose)))
    if verbose:
        console.print(_table(summary))


def _timed_again(times: Sequence[TimedAgain], *, verbose: bool) -> Iterator[str]:
    """A line for each network that was timed again, or one for all of them."""
    if not verbose and times:
        within = sum(one.within_T for one in times)
        disturbed = sum(one.disturbed for one in times)
        said = f", {disturbed:,} of the times disturbed: not confirmed" if disturbed else ""
        yield f"timed again: {within:,} of the best {len(times):,} were within T again{said}"
        return
    for one in times:
        within_again = "within T" if one.within_T else "not within T, so it does not win"
        within_again += ", but disturbed: not confirmed" if one.disturbed else ""
        again = "none" if one.latency_again_ms is None else f"{one.latency_again_ms:.3f} ms"
        yield f"timed again: {one.arch} {one.latency_ms:.3f} ms, now {again}: {within_again}"


def print_front(console: Console, summary: Summary) -> None:
    """Print a few steps of the front of the trials, the fastest and the most accurate among them."""
    count = len(summary.front)
    console.print()
    share = (
        ""
        if summary.front_share is None
        else f", {summary.front_share:.2%} of the true hypervolume"
    )
    say(console, f"Front of accuracy and latency: {count:,} networks{share}. Some of them:")
    for at in sorted({round(step * (count - 1) / _STEPS) for step in range(_STEPS + 1)}):
        one = summary.front[at]
        timed = "~" if Kind[one.latency_kind].is_predicted else ""
        guessed = "~" if Kind[one.accuracy_kind].is_predicted else ""
        figures = f"{timed}{one.latency_ms:.3f} ms".rjust(
            13
        ) + f"{guessed}{one.accuracy_searched:.2%}".rjust(9)
        console.print(Text(f"{figures}  {one.arch}"), soft_wrap=True)


def print_next(console: Console, summary: Summary, folder: Path, page: Path) -> None:
    """Print where the page is and what can be done next, then the sources of the numbers."""
    console.print()
    console.print(Text(f"page: {page}"), soft_wrap=True)
    answer = summary.answer
    if answer is not None:
        which = "" if answer is summary.best else " which=optimum"
        console.print(Text(f"next: python -m nas.export run={folder}{which}"), soft_wrap=True)
        if answer.latency_is_predicted:
            say(
                console,
                "to measure it: the same with latency=probe device=ssh://<board>",
            )
    sources = [
        f"accuracy {summary.accuracy_description}",
        f"latency {summary.latency_description}",
        *(f"{one.cost} {one.source}" for one in summary.limits.values()),
    ]
    say(console, f"sources: {'; '.join(sources)}")


def on_device(on: OnDevice) -> str:
    """Whether a network fits on one of the devices of `latency=mapped`, in words."""
    fits = "fits" if on.fits else "does not fit"
    marked = "~" if Kind[on.latency_kind].is_predicted else ""
    return f"{fits} on {on.device}: {marked}{on.latency_ms:.3f} ms of T = {on.T_ms:g} ms there"


def _answer(summary: Summary, best: Network) -> dict[str, str]:
    rows = {
        "accuracy": _accuracy(summary, best),
        "latency": f"{_milliseconds(best)}, {summary.T_ms - best.latency_ms:.2f} ms to spare",
    }
    for symbol, one in summary.limits.items():
        name = one.cost.removesuffix("_mj")
        rows[name] = f"{_cost(best, symbol, one)} of {cost_text(one.limit, one.unit, 6)}"
    rows["certainty"] = _certainty(summary, best)
    if best.index is not None:
        rows["network"] = f"number {best.index} of the space"
    return rows


def _accuracy(summary: Summary, best: Network) -> str:
    settings = summary.settings
    mark = "~" if best.accuracy_is_predicted else ""
    is_short = settings.epochs != settings.test_epochs
    length = f" after {settings.epochs} epochs" if is_short else ""
    searched = f"{mark}{best.accuracy_searched:.2%}{with_sd(best)}"
    if summary.split == Split.test.value:
        return f"{searched} on test images{length}, which were searched on"
    said = f"{searched} on validation images{length}"
    if best.accuracy_test is not None:
        length = f" after {settings.test_epochs} epochs" if is_short else ""
        said += f", {mark}{best.accuracy_test:.2%} on test images{length}"
    return said


def with_sd(best: Network) -> str:
    """The standard deviation of a predicted accuracy, as in ` ± 0.46 points`; else empty."""
    if not best.accuracy_is_predicted or best.accuracy_sd is None:
        return ""
    return f" \u00b1 {100 * best.accuracy_sd:.2g} points"


def _milliseconds(row: Network) -> str:
    flag = f", {row.latency_kind}" if Kind[row.latency_kind] in FLAGGED else ""
    return f"{'~' if row.latency_is_predicted else ''}{row.latency_ms:.2f} ms{flag}"


def _certainty(summary: Summary, best: Network) -> str:
    """Distance from the optimum, where that is known."""
    optimum = summary.optimum
    if best.is_disturbed:
        return (
            f"within T = {summary.T_ms:g} ms only while its device was disturbed; search again on a "
            f"quiet one"
        )
    if summary.gap is None or optimum is None or best.rank is None:
        return "the optimum is not known: asking for the whole space is not free"
    if best.rank == 1:
        return (
            f"this is the {summary.optimum_name}: nothing within {summary.label} is more accurate"
        )
    mark = "~" if optimum.accuracy_is_predicted else ""
    return (
        f"{summary.gap * 100:.2f} points below the {summary.optimum_name} "
        f"({mark}{optimum.accuracy_searched:.2%} at {_milliseconds(optimum)}); rank {best.rank:,} "
        f"within {summary.label}"
    )


def certainty(summary: Summary) -> Iterator[str]:
    """How sure it is that an answer with a predicted latency is within T; nothing if it was measured."""
    answer = summary.answer
    if answer is None or not answer.latency_is_predicted or answer.on:
        return
    ms = f"{answer.latency_ms:.2f} ms"
    if answer.latency_sd_ms is None or answer.within_T_probability is None:
        yield f"its latency of {ms} is a prediction of unknown error; measure it"
        return
    yield (
        f"its latency is predicted: {ms}, standard deviation {answer.latency_sd_ms:.2g} ms, "
        f"{summary.T_ms - answer.latency_ms:.2g} ms below T: truly within T with a probability of at least "
        f"{answer.within_T_probability:.0%}"
    )


def no_better_than_chance(summary: Summary) -> Iterator[str]:
    """Warns of an answer that does not tell the classes apart."""
    answer = summary.answer
    if answer is not None and answer.at_chance:
        yield (
            f"warning: {answer.accuracy_searched:.2%} is no better than chance; train longer (hours=, epochs=), "
            f"and check that the classes' images differ"
        )


def _table(summary: Summary) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    searched = "valid" if summary.split == Split.valid.value else "test, searched on"
    mark = "~" if summary.accuracy_is_predicted else ""
    rows = {
        f"best within {summary.label}": summary.best,
        summary.optimum_name: summary.optimum,
        "policy's mode": summary.mode,
    }
    costs = [limit.cost.removesuffix("_mj") for limit in summary.limits.values()]
    for column in ("", f"{mark}{searched}", f"{mark}test", "latency", *costs, "rank", "number"):
        table.add_column(column, justify="left" if column == "" else "right", overflow="fold")
    for name, row in rows.items():
        if row is None:
            continue
        table.add_row(
            name,
            f"{row.accuracy_searched:.2%}",
            "-" if row.accuracy_test is None else f"{row.accuracy_test:.2%}",
            _milliseconds(row) + (" > T" if row.latency_ms > summary.T_ms else ""),
            *(_cost(row, symbol, limit) for symbol, limit in summary.limits.items()),
            "-" if row.rank is None else str(row.rank),
            "-" if row.index is None else str(row.index),
        )
    return table


def _cost(row: Network, symbol: str, limit: LimitResult) -> str:
    cost = row.costs[limit.cost]
    return cost_text(cost, limit.unit) + (f" > {symbol}" if cost > limit.limit else "")


def _legend(summary: Summary) -> Iterator[str]:
    """Caveats about the latencies and the predictions of the answer."""
    if (words := tail_in_words(summary.device)) is not None:
        yield words
    yield from no_better_than_chance(summary)
    rows = [row for row in (summary.best, summary.optimum, summary.mode) if row is not None]
    latencies = [row.latency_kind for row in rows]
    latencies += [on.latency_kind for row in rows for on in row.on]
    by = _by("accuracy", [row.accuracy_kind for row in rows]) + _by("latency", latencies)
    if by:
        spread = " \u00b1 standard deviation" if any(with_sd(row) for row in rows) else ""
        yield f"~ predicted{spread}, not measured: {', '.join(by)}"
    if summary.penalty_share:
        yield (
            f"{summary.penalty_share:.1%} of the latencies are penalties: the device cannot run "
            f"these networks"
        )
    if summary.optimum_name == "partly predicted optimum":
        yield (
            f"the optimum and the ranks are among measured and predicted latencies: of the space, "
            f"{summary.space_latency_predicted:.1%} are predicted"
        )


def _by(what: str, kinds: Sequence[str]) -> list[str]:
    """Sources of the predicted numbers, as in `latency by regression`."""
    predicted = {Kind[name] for name in kinds if Kind[name].is_predicted}
    return [f"{what} {kind.words.removeprefix('predicted ')}" for kind in sorted(predicted)]


def _nothing(summary: Summary) -> str:
    if summary.confirmation:
        return (
            f"No network wins: no trial within T = {summary.T_ms:g} ms was within it again; is the "
            f"board quiet, are its clocks fixed?"
        )
    if summary.limits:
        return f"No network wins: no trial met {summary.label}; raise one or the budget."
    return f"No network wins: no trial met T = {summary.T_ms:g} ms; raise T or the budget."


def _facts(summary: Summary, *, verbose: bool) -> Iterator[str]:
    unfinished = {name: count for name, count in summary.states.items() if name != "done"}
    yield (
        f"{summary.samples:,} trials of {summary.distinct_networks:,} distinct networks in "
        f"{summary.seconds:.1f} s"
    )
    for name, count in unfinished.items():
        yield f"{count:,} {name}"
    them = "the others" if unfinished else "them"
    yield f"{summary.feasible_share:.1%} of {them} within {summary.label}"
    if verbose and not summary.stages:  # of stages, the latencies were known before a training
        yield _settled(summary)
    if summary.mode_gap is not None:
        yield policy_arrived(summary.mode_gap)
    yield from summary.flagged.values()


def policy_arrived(gap: float) -> str:
    """How far the policy's mode is from the maximum of its reward, in words."""
    if gap <= 0:
        return "the policy's mode is the maximum of its reward"
    return f"the reward of the policy's mode is {gap:.4f} below its maximum"


def _settled(summary: Summary) -> str:
    settled = summary.sample_within_T
    if settled is not None:
        return f"mean latency within T from trial {settled:,} on"
    if summary.samples < WINDOW:
        return f"{WINDOW} trials are needed to see whether the mean latency settles within T"
    return "mean latency not settled within T"
