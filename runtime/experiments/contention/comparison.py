"""What a network loses beside hogs, and what a limit brings back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from runtime.page.results import Row

_LIMIT = 1000.0
"""On a CPU the fine lock's largest limit up to this, MB/s; on a GPU the token bucket's least one from
this on, GB/s. Chosen beforehand: the best of many limits would be the luckiest as well."""

SPINNER = "spin"
"""A hog, and the scenario that has it alone: what it stores stays in its core's cache."""

_WAY = {False: "fine_lock", True: "budget"}


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
        limits = [
            float(limit)
            for way, _, limit in (name.partition(" ") for name in own)
            if way == _WAY[on_gpu] and limit != "unlimited"
        ]
        allowed = [one for one in limits if (one >= _LIMIT if on_gpu else one <= _LIMIT)]
        if unprotected and allowed:
            limit = min(allowed) if on_gpu else max(allowed)
            found.append(
                Verdict(
                    victim,
                    clock,
                    max(unprotected, key=lambda row: row[clock]),
                    own[f"{_WAY[on_gpu]} {limit:g}"],
                    own.get(SPINNER),
                )
            )
    return found
