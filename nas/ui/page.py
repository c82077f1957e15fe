"""The page over the runs as HTML; every text of a run is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from urllib.parse import quote

from common.page.document import document
from common.types.kind import Kind
from nas.report.summary import Network, Summary
from nas.report.wording import Wording, milliseconds
from nas.ui.runs import FoundRun

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'"
)
_HEADER = (
    "run",
    "accuracy",
    "latency",
    "limit",
    "certainty",
    "gap of the search",
    "device",
    "searched by",
    "trials",
    "figure",
)
_NUMBERS = {"accuracy", "latency", "gap of the search", "trials"}


def runs_page(runs: Iterable[FoundRun], folder: str) -> str:
    """The whole page: a row a run, the newest first."""
    rows = "".join(map(_row, runs))
    sides = [' class="number"' if name in _NUMBERS else "" for name in _HEADER]
    head = "".join(
        f'<th scope="col"{side}>{name}</th>' for name, side in zip(_HEADER, sides, strict=True)
    )
    body = (
        '<p><input type="search" id="filter" placeholder="filter: jetson 17 guided" '
        'aria-label="Filter the runs by words"> <span id="count" role="status"></span></p>\n'
        '<div class="scroll"><table class="wide" id="runs">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table></div>\n"
    )
    script = files("nas.ui").joinpath("runs.js").read_text("utf-8")
    subtitle = "Newest first. A click on a title sorts; the page follows runs that go on."
    return document(f"Runs in `{folder}`", subtitle, body, policy=POLICY, after=script)


def _row(run: FoundRun) -> str:
    cells = _finished(run, run.summary) if run.summary is not None else _unfinished(run)
    tags = "".join(
        f'<td{" class=number" * (name in _NUMBERS)} data-label="{name}">{cell}</td>'
        for name, cell in zip(_HEADER, cells, strict=True)
    )
    return f'<tr data-run="{escape(run.name)}">{tags}</tr>\n'


def _finished(run: FoundRun, summary: Summary) -> list[str]:
    wording, answer, settings = Wording(summary), summary.answer, summary.settings
    accuracy, latency = "none", "-"
    if answer is not None:
        # the validation accuracy that was searched on, and the test accuracy, if there is one
        guessed = "~" if answer.accuracy_is_predicted else ""
        accuracy = f"{guessed}{wording.accuracy(answer.accuracy_searched)}"
        if answer.accuracy_test is not None and summary.split == "valid":
            accuracy += f" (test {guessed}{wording.accuracy(answer.accuracy_test)})"
        latency = f"{'~' if answer.latency_is_predicted else ''}{milliseconds(answer.latency_ms)}"
    figure = ""
    if "curves.png" in run.files:
        source = _address(run, "curves.png")
        figure = (
            f'<a href="{source}"><img src="{source}" alt="curves" width="120" loading="lazy"></a>'
        )
    return [
        _name(run),
        escape(accuracy),
        escape(latency),
        escape(wording.limits),
        escape(_certainty(answer)),
        escape(_gap(summary)),
        escape(f"{summary.device}, {settings.dataset_title}"),
        escape(f"{settings.controller}, {settings.reward}, seed {settings.seed}"),
        f"{summary.samples:,}",
        figure,
    ]


def _certainty(answer: Network | None) -> str:
    """Kinds of the answer's numbers."""
    if answer is None:
        return "no network met the limits"
    kinds = {"accuracy": answer.accuracy_kind, "latency": answer.latency_kind}
    return "; ".join(f"{what} {Kind[name].words}" for what, name in kinds.items())


def _gap(summary: Summary) -> str:
    """Points of accuracy that the search's best is below that of the space, where that is known."""
    if summary.gap is None:
        return "-"
    return f"{summary.gap * 100:.2f} points below the {summary.optimum_name}"


def _unfinished(run: FoundRun) -> list[str]:
    said = escape(run.wrong) if run.wrong else f"not finished, last answer {_ago(run.changed_s)}"
    asked = f"{run.asked:,}" if run.asked else "-"
    return [_name(run), "-", "-", "-", said, "-", "-", "-", asked, ""]


def _ago(since_s: float) -> str:
    seconds = max(0.0, time.time() - since_s)
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


def _name(run: FoundRun) -> str:
    name = escape(run.name).replace("-", "-<wbr>")
    if "report.html" not in run.files:
        return name
    more = f' <a href="{_address(run, "summary.json")}">json</a>'
    return f'<a href="{_address(run, "report.html")}">{name}</a>{more if run.summary else ""}'


def _address(run: FoundRun, file: str) -> str:
    return escape(quote(f"/run/{run.name}/{file}", safe="/"))
