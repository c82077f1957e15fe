"""The stages of a search on own images, on the terminal and as a table of a page."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from common.command.console import say
from common.page.parts import Table
from nas.report.wording import percent
from nas.trials.staged.stage_result import StageResult

_TITLES = {
    "draw": "latencies",
    "proxies": "proxies",
    "supernet": "supernet",
    "short": "short trainings",
    "longer": "longer trainings",
    "full": "the winner",
}


def print_stage(console: Console, stage: StageResult) -> None:
    """Print what a stage did, its cost and what it changed."""
    say(console, f"{_TITLES[stage.name]}: {', '.join(_facts(stage))}")


def stages_table(stages: tuple[StageResult, ...]) -> Table:
    """A row a stage; the favourite is the network that the stage puts first."""
    return Table(
        [
            "stage",
            "networks",
            "go on",
            "epochs",
            "seconds",
            "favourite",
            "its place before",
            "its accuracy",
        ],
        [
            [
                _TITLES[one.name],
                f"{one.networks:,}" + (f", {one.failed} failed" if one.failed else ""),
                f"{one.kept:,}",
                "-" if one.epochs is None else str(one.epochs),
                f"{one.seconds:.1f}",
                "-" if one.favourite is None else f"`{one.favourite}`",
                "-" if one.place_before is None else f"{one.place_before:,}",
                "-" if one.accuracy is None else percent(one.accuracy, 2),
            ]
            for one in stages
        ],
        "The favourite of the proxies has a score and no accuracy; its place before is that by FLOPs. "
        "Accuracies are on validation images, after that many epochs; that of the supernet is with inherited "
        "weights, of a network that was not trained by itself. Seconds of trainings are summed.",
    )


def _facts(stage: StageResult) -> Iterator[str]:
    if stage.name == "draw":
        yield f"{stage.networks:,} draws"
        yield f"{stage.kept:,} networks within the limits"
    else:
        trained = (
            "scored"
            if stage.epochs is None
            else f"trained for {stage.epochs} epoch{'s'[: stage.epochs > 1]}"
        )
        yield f"{stage.networks:,} {trained}"
    if stage.failed:
        yield f"{stage.failed} failed"
    yield f"{stage.seconds:.1f} s"
    if stage.favourite is not None:
        yield f"first is {stage.favourite}"
    if stage.place_before is not None and stage.name != "full":
        yield f"place {stage.place_before:,} before"
    if stage.accuracy is not None:
        inherited = " with inherited weights" if stage.name == "supernet" else ""
        yield f"{stage.accuracy:.2%} on validation images{inherited}"
