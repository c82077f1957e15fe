"""The tests of a study as a LaTeX table, for the package booktabs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
