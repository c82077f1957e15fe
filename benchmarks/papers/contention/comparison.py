"""Slowdown of a network beside hogs, without and with a bandwidth limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from benchmarks.papers.results import Row

_LIMIT = 1000.0
"""The compared limit: on a CPU the largest of the fine lock up to this, MB/s; on a GPU the smallest of
the token bucket from this on, GB/s. It is fixed beforehand: the best of many limits would be biased."""

SPINNER = "spin"
"""Name of a hog that stays in its core's cache, and of the scenario that has only it."""

_WAY = {False: "fine_lock", True: "budget"}


@final
@dataclass(frozen=True)
class Verdict:
    """Rows of one network: alone, unprotected and protected."""

    victim: str
    clock: str  # the column that compares with the network alone
    unprotected: Row
    protected: Row
    control: Row | None  # beside a spinner


def verdicts(rows: list[Row]) -> list[Verdict]:
    """The comparison for each network that was measured under a limit."""
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
        allowed = [limit for limit in limits if (limit >= _LIMIT if on_gpu else limit <= _LIMIT)]
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
