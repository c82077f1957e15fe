"""The schedulability study beside what its source prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from runtime.experiments.schedulability.published_study import FEASIBLE, MEAN_SIZES
from runtime.experiments.schedulability.schedulability import Share

_Cells = Mapping[tuple[str, float], Sequence[Share]]


def published_size(scenario: str, column: str, threshold: float) -> float | None:
    """The mean number of networks that the source prints; None where it prints a cross."""
    row = MEAN_SIZES[scenario][column]
    at = round((threshold - 1) / 0.2)
    return row[at] if at < len(row) else None


def reach(cells: _Cells, scenario: str, column: str) -> float | None:
    """The highest threshold up to which all sets fit at each."""
    found = None
    for (name, threshold), shares in sorted(cells.items()):
        if name == scenario:
            share = next(one for one in shares if one.column == column)
            if share.feasible < share.sets:
                break
            found = threshold
    return found


def verdict(cells: _Cells) -> list[str]:
    """A line for each of what can be compared."""
    lines = []
    for (scenario, column, threshold), theirs in FEASIBLE.items():
        for share in cells.get((scenario, threshold), ()):
            if share.column == column:
                ours = share.feasible / share.sets
                lines.append(
                    f"{scenario}, {column} at {threshold}: {ours:.1%} of the sets fit "
                    f"(published {theirs:.0%})"
                )
    for scenario in dict.fromkeys(name for name, _ in cells):
        differences = _differences(cells, scenario)
        if differences:
            lines.append(
                f"{scenario}: mean number of networks off the published one by a median of "
                f"{median(differences):.1%}, {max(differences):.1%} at most, in "
                f"{len(differences)} places that both have"
            )
        column = [*MEAN_SIZES[scenario]][-1]
        published = 1 + 0.2 * (len(MEAN_SIZES[scenario][column]) - 1)
        last = max(
            (
                threshold
                for (name, threshold), shares in cells.items()
                if name == scenario and shares[-1].feasible
            ),
            default=None,
        )
        reached = reach(cells, scenario, column)
        lines.append(
            f"{scenario}, {column}: all sets fit up to {reached or 'no threshold'}, some up to "
            f"{last or 'none'} (published: some up to {published:.1f})"
        )
    unknown = sum(share.unknown for shares in cells.values() for share in shares)
    asked = sum(share.sets for shares in cells.values() for share in shares)
    lines.append(f"unknown for want of time: {unknown} of {asked:,}")
    return lines


def _differences(cells: _Cells, scenario: str) -> list[float]:
    found = []
    for (name, threshold), shares in cells.items():
        for share in shares if name == scenario else ():
            theirs = published_size(scenario, share.column, threshold)
            if share.mean_size is not None and theirs is not None:
                found.append(abs(share.mean_size / theirs - 1))
    return found
