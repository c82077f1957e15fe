"""The summary of a search as a table on the terminal, and what must be known of it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from latency.devices.registry import tail_in_words
from nas.accuracy.base import Split
from nas.report.summary import LimitResult, Network, OnDevice, Summary
from nas.trials.limits import cost_text
from nas.trials.trajectory import WINDOW
from runtime.shell.provenance import Kind


def print_summary(console: Console, summary: Summary) -> None:
    """Print the answer, the optimum and the policy's mode, and the facts of the search."""
    console.print(_table(summary))
    for line in _legend(summary):
        console.print(line, soft_wrap=True)
    for one in summary.confirmation or ():
        within = "within T" if one.within_T else "not within T, so it does not win"
        within += ", but disturbed: not confirmed" if one.disturbed else ""
        again = "none" if one.latency_again_ms is None else f"{one.latency_again_ms:.3f} ms"
        console.print(
            f"timed again: {one.arch} {one.latency_ms:.3f} ms, now {again}: {within}",
            soft_wrap=True,
            markup=False,
        )
    console.print(_verdict(summary), soft_wrap=True, markup=False)
    for on in () if summary.best is None else summary.best.on:
        console.print(f"it {on_device(on)}", soft_wrap=True, markup=False)
    console.print("; ".join(_facts(summary)), soft_wrap=True)


def on_device(on: OnDevice) -> str:
    """Whether a network fits on one of the devices of `latency=mapped`, in words."""
    fits = "fits" if on.fits else "does not fit"
    marked = "~" if Kind[on.latency_kind].is_predicted else ""
    return f"{fits} on {on.device}: {marked}{on.latency_ms:.3f} ms of T = {on.T_ms:g} ms there"


def _table(summary: Summary) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    searched = "valid" if summary.split == Split.valid.value else "test, searched on"
    settings = summary.settings
    columns = [searched, "test"]
    if settings.epochs != settings.test_epochs:
        columns = [f"{searched} @{settings.epochs} epochs", f"test @{settings.test_epochs} epochs"]
    if summary.accuracy_is_predicted:
        columns = [f"~{name}" for name in columns]
    rows = {
        f"best within {summary.label}": summary.best,
        summary.optimum_name: summary.optimum,
        "policy's mode": summary.mode,
    }
    numbered = any(row is not None and row.index is not None for row in rows.values())
    costs = [limit.cost.removesuffix("_mj") for limit in summary.limits.values()]
    ranked = ["rank"] if summary.optimum is not None else []
    for column in ("", *columns, "latency", *costs, *ranked, *(["number"] if numbered else [])):
        table.add_column(column, justify="left" if column == "" else "right", overflow="fold")
    for name, row in rows.items():
        if row is None:
            continue
        marked = "~" if row.latency_is_predicted else ""
        beyond = " > T" if row.latency_ms > summary.T_ms else ""
        table.add_row(
            name,
            f"{row.accuracy_searched:.2%}",
            "-" if row.accuracy_test is None else f"{row.accuracy_test:.2%}",
            f"{marked}{row.latency_ms:.2f} ms{', disturbed' if row.is_disturbed else ''}{beyond}",
            *(_cost(row, symbol, limit) for symbol, limit in summary.limits.items()),
            *(["-" if row.rank is None else str(row.rank)] if ranked else []),
            *([str(row.index)] if numbered else []),
        )
    return table


def _cost(row: Network, symbol: str, limit: LimitResult) -> str:
    cost = row.costs[limit.cost]
    return cost_text(cost, limit.unit) + (f" > {symbol}" if cost > limit.limit else "")


def _legend(summary: Summary) -> list[str]:
    """Caveats about the latencies and the predictions in the table."""
    words = tail_in_words(summary.device)
    lines = [] if words is None else [words]
    rows = [row for row in (summary.best, summary.optimum, summary.mode) if row is not None]
    latencies = [row.latency_kind for row in rows]
    latencies += [on.latency_kind for row in rows for on in row.on]
    by = _by("accuracy", [row.accuracy_kind for row in rows]) + _by("latency", latencies)
    if by:
        lines.append(f"~ predicted, not measured: {', '.join(by)}")
    if summary.penalty_share:
        lines.append(
            f"{summary.penalty_share:.1%} of the latencies are penalties: the device cannot run "
            f"these networks"
        )
    if summary.optimum_name == "partly predicted optimum":
        lines.append(
            f"the optimum and the ranks are among measured and predicted latencies: of the space, "
            f"{summary.space_latency_predicted:.1%} are predicted"
        )
    return lines


def _by(what: str, kinds: Sequence[str]) -> list[str]:
    """Sources of the predicted numbers, as in `latency by regression`."""
    predicted = {Kind[name] for name in kinds if Kind[name].is_predicted}
    return [f"{what} {kind.words.removeprefix('predicted ')}" for kind in sorted(predicted)]


def _verdict(summary: Summary) -> str:
    if summary.best is not None and summary.best.is_disturbed:
        return (
            f"UNCONFIRMED: architecture {summary.best.arch} was within T = {summary.T_ms:g} ms only "
            f"while its device was disturbed; search again on a quiet one"
        )
    if summary.best is not None:
        return f"best architecture {summary.best.arch}"
    if summary.confirmation:
        return (
            f"No network wins: no trial within T = {summary.T_ms:g} ms was within it again; is the "
            f"board quiet, are its clocks fixed?"
        )
    if summary.limits:
        return f"No network wins: no trial met {summary.label}; raise one or the budget."
    return f"No network wins: no trial met T = {summary.T_ms:g} ms; raise T or the budget."


def _facts(summary: Summary) -> list[str]:
    unfinished = {name: count for name, count in summary.states.items() if name != "done"}
    facts = [
        (
            f"{summary.samples:,} trials of {summary.distinct_networks:,} distinct networks in "
            f"{summary.seconds:.1f} s"
        ),
        *(f"{count:,} {name}" for name, count in unfinished.items()),
        f"{summary.feasible_share:.1%} of {'the others' if unfinished else 'them'} within {summary.label}",
    ]
    if not summary.stages:  # their latencies were known before a training
        facts.append(_settled(summary))
    if summary.disturbed:
        facts.append(summary.disturbed)
    if summary.gap is not None:
        facts.insert(0, f"gap to the {summary.optimum_name} {summary.gap * 100:.2f} points")
    return facts


def _settled(summary: Summary) -> str:
    settled = summary.sample_within_T
    if settled is not None:
        return f"mean latency within T from trial {settled:,} on"
    if summary.samples < WINDOW:
        return f"{WINDOW} trials are needed to see whether the mean latency settles within T"
    return "mean latency not settled within T"
