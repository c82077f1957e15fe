"""What a network loses beside hogs, and what the best limit brings back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from runtime.bench.results import Row

_MOST_MB_PER_S = 1000.0
"""On a CPU: limits that leave the hogs no more than this."""
_LEAST_GB_PER_S = 1000.0
"""On a GPU: those that leave them this or more."""
_ABOUT = 0.97
"""Of a rate that a token bucket is to leave: it leaves no more than that."""


@final
@dataclass(frozen=True)
class Verdict:
    """Of one network: rows of its scenarios."""

    victim: str
    clock: str  # the column that compares with the network alone
    unprotected: Row
    protected: Row
    control: Row | None  # beside a spinner


def verdicts(rows: list[Row]) -> list[Verdict]:
    """Of each network that was measured under a limit."""
    networks = [row for row in rows if row.get("part") == "network" and "error" not in row]
    found = []
    for victim in dict.fromkeys(row["victim"] for row in networks):
        own = {row["scenario"]: row for row in networks if row["victim"] == victim}
        on_gpu = "none unlimited" in own
        clock = "against_solo" if on_gpu else "cpu_against_solo"
        unprotected = [row for name, row in own.items() if name.startswith(("corun", "none"))]
        limited = [row for row in own.values() if _counts(row, on_gpu=on_gpu)]
        if unprotected and limited:
            found.append(
                Verdict(
                    victim,
                    clock,
                    max(unprotected, key=lambda row: row[clock]),  # noqa: B023 - used at once
                    min(limited, key=lambda row: row[clock]),  # noqa: B023 - likewise
                    own.get("spin"),
                )
            )
    return found


def _counts(row: Row, *, on_gpu: bool) -> bool:
    way, _, limit = row["scenario"].partition(" ")
    if on_gpu:
        is_limit = way in {"budget", "fine_lock"} and limit != "unlimited"
        return is_limit and row["stolen_gb_per_s"] >= _ABOUT * _LEAST_GB_PER_S
    return way == "fine_lock" and float(limit) <= _MOST_MB_PER_S
