"""`python -m nas.figures`: the charts of a run's or a study's page as SVG and PDF, and a study's tests for LaTeX.

The LaTeX table is for the package booktabs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from omegaconf import MISSING
from rich.console import Console

from edgenas_core.command.console import PlainConsole
from edgenas_core.command.hydra_command import typed_hydra_command
from edgenas_core.command.json_output import add_result
from edgenas_core.command.settings import setting
from edgenas_core.files.atomic_file import write_whole
from edgenas_core.files.safe_file import read_text
from edgenas_core.types.errors import UserError
from nas.figures.charts import charts_of
from nas.figures.drawing import FORMATS, WIDTH_MM, draw

_ESCAPED = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def tests_table(results: Mapping[str, Any]) -> str:
    """Each test of a study's `results.json`: who against whom, medians, improvement, p and verdict."""
    settings = {each["key"]: each for each in results["settings"]}
    titles = {each["name"]: each["title"] for each in results["measures"]}
    lines = [
        r"\begin{tabular}{lllrrrrl}",
        r"\toprule",
        r"problem & measure & against & median & other & $P(\mathrm{better})$ & $p$ (Holm) & verdict \\",
        r"\midrule",
    ]
    for test in results["comparisons"]:
        first, other, measure = (
            settings[test["reference"]],
            settings[test["other"]],
            test["measure"],
        )
        cells = [
            _escaped(f"{other['device']}, {other['limit_ms']:g} ms"),
            _escaped(titles[measure]),
            _escaped(f"{_name(first, other)} : {_name(other, first)}"),
            _median(first, measure),
            _median(other, measure),
            _interval(test["probability_of_improvement"]),
            f"{test['p_holm']:.2g}",
            _escaped(test["verdict"]),
        ]
        lines.append(" & ".join(cells) + r" \\")
    caption = "% Wilcoxon's signed-rank test, paired by seed, Holm-corrected for each measure; brackets are 95 % intervals"
    return "\n".join([caption, *lines, r"\bottomrule", r"\end{tabular}", ""])


def _name(setting: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What differs between two settings: the reward, the controller, or both."""
    parts = [setting[part] for part in ("reward", "controller") if setting[part] != other[part]]
    return " ".join([*parts, *setting["overrides"]]) or setting["reward"]


def _median(setting: Mapping[str, Any], measure: str) -> str:
    median = setting["medians"].get(measure)
    return "--" if median is None else _interval(median)


def _interval(interval: Mapping[str, float | None]) -> str:
    middle, low, high = (_number(interval[end]) for end in ("middle", "low", "high"))
    return middle if interval["low"] is None or low == high else f"{middle} [{low}, {high}]"


def _number(value: float | None) -> str:
    if value is None:
        return r"$\infty$"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _escaped(text: str) -> str:
    return "".join(_ESCAPED.get(letter, letter) for letter in text)


_ABOUT = f"""
Write the charts of a run or a study for a paper: SVG and PDF, {WIDTH_MM:g} mm wide, and a study's tests as LaTeX.

  python -m nas.figures run=runs/2026-11-21/09-00-00-thesis out=figures/
"""


@final
@dataclass
class FiguresConfig:
    """Settings of `python -m nas.figures`."""

    run: str = setting(
        MISSING,
        "Folder of a finished run or study.",
        unit="path",
        heading="What to do (name=value)",
    )
    out: str = setting("figures", "Folder for the files.", unit="path")


def main(words: Sequence[str] | None = None) -> None:
    """Run the command."""
    typed_hydra_command(
        "nas.figures", "figures", FiguresConfig, _figures, words=words, about=_ABOUT
    )


def _figures(config: FiguresConfig) -> None:
    files = write_figures(Path(config.run), Path(config.out), PlainConsole())
    add_result(folder=config.out, files=files)


def write_figures(run: Path, out: Path, console: Console) -> list[Path]:
    """Write the figures and tables; returns their paths.

    Raises:
      UserError: if the folder holds no finished run or study, or matplotlib is not installed.
      OSError: if a file cannot be written.
    """
    page, results = run / "report.html", run / "results.json"
    if not page.is_file():
        raise UserError(
            f"run={run} holds no report.html; name the folder of a finished run or study"
        )
    charts = charts_of(page)
    out.mkdir(parents=True, exist_ok=True)
    files = []
    for chart in charts:
        try:
            files += draw(chart, out)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise UserError(
                f"{page}: chart {chart.name} cannot be drawn: {error!r:.200}"
            ) from error
        console.print(f"{out / chart.name}.{{{','.join(FORMATS)}}}: {chart.title}", soft_wrap=True)
    if results.is_file():
        try:
            table = tests_table(json.loads(read_text(results)))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{results} holds no results of a study: {error}") from error
        files.append(out / "tests.tex")
        write_whole(files[-1], table)
        console.print(f"{files[-1]}: tests, for \\input; needs booktabs", soft_wrap=True)
    return files
