"""The answer of a search on the terminal, the next command, and the sources of the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from edgenas_core.command.console import say, wrapped
from edgenas_core.page.document import KeyFigure
from edgenas_core.types.kind import Kind
from nas.report.answer import Answer, Status
from nas.report.network import Network
from nas.report.summary import Summary, TimedAgain
from nas.spaces.registry import is_object
from nas.spaces.trusted_code import export_command

_STEPS = 8  # of a front, between those that are printed
_CLASSES = 5  # whose results are printed
_LEAST_WIDTH = 11  # of the column of names


def print_summary(console: Console, summary: Summary) -> None:
    """Print the answer in a few lines: what it is, how accurate, how fast, compared with what."""
    answer = Answer(summary)
    console.print()
    for line in _timed_again(summary.confirmation or ()):
        say(console, line)
    say(console, answer.headline + (":" if answer.network is not None else ""))
    print_figures(console, answer.headline_figures)
    if answer.network is not None:
        _print_network(console, answer.network)


def print_details(console: Console, summary: Summary) -> None:
    """Print the winner's other accuracies and its start, cautions, and counts of the search."""
    answer = Answer(summary)
    shown = {(figure.label, figure.value) for figure in answer.headline_figures}
    own = [*answer.figures, *_winner(summary)] if summary.stages else []
    others = [figure for figure in own if (figure.label, figure.value) not in shown]
    if others:
        say(console, "details:")
        print_figures(console, others)
    for note in answer.notes:
        say(console, note)
    say(console, "; ".join(_sentence(figure) for figure in answer.search_figures))


def print_figures(console: Console, figures: Sequence[KeyFigure]) -> None:
    """Print a line for each figure: its name, its value and its note."""
    width = max([_LEAST_WIDTH, *(len(figure.label) + 2 for figure in figures)])
    for figure in figures:
        text = ", ".join(filter(None, (figure.value, figure.note)))
        wrapped(console, text, f"  {figure.label:<{width}}", " " * (width + 2))


def print_front(console: Console, summary: Summary) -> None:
    """Print a few steps of the front of the trials, the most accurate and the answer among them.

    Those of less than half the highest accuracy are left out: such a network is of no use.
    """
    count = len(summary.front)
    highest = max(network.accuracy_searched for network in summary.front)
    front = [network for network in summary.front if 2 * network.accuracy_searched >= highest]
    last = len(front) - 1
    steps = {round(step * last / _STEPS) for step in range(_STEPS + 1)}
    steps |= {
        at
        for at, network in enumerate(front)
        if network.arch == getattr(summary.best, "arch", None)
    }
    share = summary.front_share
    of_true = "" if share is None else f", {share:.2%} of the true hypervolume"
    console.print()
    say(console, f"Front of accuracy and latency: {count:,} networks{of_true}, among them:")
    for at in sorted(steps):
        network = front[at]
        numbers = f"{network.latency.text:>13}{network.accuracy.text:>9}"
        console.print(Text(f"{numbers}  {network.arch}"), soft_wrap=True)


def print_next(
    console: Console,
    summary: Summary,
    folder: Path,
    page: Path | None,
    *,
    data: str | None = None,
    is_exported: bool = False,
) -> None:
    """Print what can be done next, then details, the page, and the sources of the numbers.

    `data` is what networks were trained on.
    """
    answer = Answer(summary)
    if answer.network is not None and not (is_exported and answer.status is not Status.unconfirmed):
        named = {"run": str(folder), "which": answer.which if answer.is_ranked else ""}
        command = export_command(named, summary.settings.space, data)
        is_object_learner = (data or "").startswith("learner:object:")
        if is_object(summary.settings.space) or is_object_learner:  # no command knows it
            command = f"edgenas.export(run={str(folder)!r}, which={answer.which!r})"
        console.print(Text(f"next: {command}"), soft_wrap=True)
        if answer.network.latency.kind.is_predicted:
            way = "the same with latency=probe device=ssh://<board>"
            if answer.network.latency.kind is Kind.published:
                way = "add formats=[onnx,tflite] precision=int8, run board/ on the chip, and python -m nas.measure serial=<port>"
            say(console, f"to measure it: {way}")
    console.print()
    print_details(console, summary)
    if page is not None:
        console.print(Text(f"page: {page}"), soft_wrap=True)
    sources = [f"{name} {source}" for name, source in answer.sources.items()]
    say(console, f"sources: {'; '.join(sources)}")


def _print_network(console: Console, network: Network) -> None:
    number = "" if network.index is None else f"number {network.index}"
    name = ", ".join(filter(None, (number, network.size)))
    console.print(
        Text(f"  {name}: {network.arch}" if name else f"  {network.arch}"), soft_wrap=True
    )


def _winner(summary: Summary) -> Iterator[KeyFigure]:
    """Origin of the winner's weights, and its worst classes, on own images."""
    if summary.start:
        yield KeyFigure("start", summary.start)
    shares = {result: result.right / result.images for result in summary.by_class}
    below = [each for each in shares if shares[each] * len(shares) < sum(shares.values())]
    if worst := sorted(below, key=shares.__getitem__)[: min(_CLASSES, len(shares) // 2)]:
        texts = (f"{result.name}: {result.right} of {result.images}" for result in worst)
        yield KeyFigure("worst classes", ", ".join(texts), "test images")


def _sentence(figure: KeyFigure) -> str:
    note = f" ({figure.note})" if figure.note else ""
    return f"{figure.label} {figure.value}{note}"


def _timed_again(times: Sequence[TimedAgain]) -> Iterator[str]:
    """One line on the networks that were timed again; none where there are none."""
    if times:
        within = sum(timed.within_T for timed in times)
        disturbed = sum(timed.disturbed for timed in times)
        doubt = f"; {disturbed:,} measurements were taken under load" if disturbed else ""
        yield f"measured again: {within:,} of the best {len(times):,} networks were within T{doubt}"
