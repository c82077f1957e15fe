"""Tables of the experiment with hogs."""

from __future__ import annotations

from collections.abc import Callable

from runtime.experiments.contention.verdict import SPINNER, verdicts
from runtime.page.results import Row
from runtime.page.table_view import Shown

_P99 = "p99: 99 of 100 took no longer; of fewer than a hundred it is nearly the worst."
_IN_CACHE = "A spinner takes no bandwidth of the memory: what it stores stays in its cache."


def contention_tables(rows: list[Row]) -> list[Shown]:
    """Of each part that was measured."""
    known = [row for row in rows if "error" not in row]
    return [
        *_hogs([row for row in known if row["part"] == "hogs"]),
        *_verdicts(known),
        *_networks([row for row in known if "p99_ms" in row]),
        *_curves([row for row in known if row["part"] == "curve"]),
        *_pipelines([row for row in known if row["part"] == "pipeline"]),
        *_locks([row for row in known if row["part"] == "locks"]),
    ]


def _hogs(rows: list[Row]) -> list[Shown]:
    lines = [
        [
            row["hog"],
            str(row["hogs"]),
            "none" if row["limit_mb_per_s"] is None else f"{row['limit_mb_per_s']:,.0f}",
            *_achieved(row),
        ]
        for row in rows
    ]
    header = ["hog", "hogs", "limit MB/s", "achieved MB/s", "GB/s"]
    title = "Hogs alone (MB of 2^20 bytes, GB of 10^9)"
    return [Shown(title, header, lines, 1, _IN_CACHE)] if rows else []


def _achieved(row: Row) -> list[str]:
    """In MB/s and in GB/s, of memory."""
    if row["hog"] == SPINNER:
        return ["", ""]
    return [f"{row['achieved_mb_per_s']:,.1f}", f"{sum(row['gb_per_s']):.2f}"]


def _verdicts(rows: list[Row]) -> list[Shown]:
    lines = [
        [
            one.victim,
            f"{one.unprotected['scenario']}: {one.unprotected[one.clock]:.3f}",
            f"{one.protected['scenario']}: {one.protected[one.clock]:.3f}",
            f"{one.protected['stolen_gb_per_s']:.3f}",
            "" if one.control is None else f"{one.control[one.clock]:.3f}",
        ]
        for one in verdicts(rows)
    ]
    header = ["network", "unprotected", "protected", "left to hogs GB/s", "spinner"]
    title = "Latency to solo (on a CPU by processor time)"
    return [Shown(title, header, lines, 1)] if lines else []


def _networks(rows: list[Row]) -> list[Shown]:
    header = [
        "scenario",
        "median ms",
        "to solo",
        "CPU to solo",
        "p99 ms",
        "worst ms",
        "variance ms2",
    ]
    shown = []
    for part, victim in dict.fromkeys((row["part"], row["victim"]) for row in rows):
        own = [row for row in rows if (row["part"], row["victim"]) == (part, victim)]
        lines = [
            [
                row["scenario"],
                f"{row['ms']:.3f}",
                f"{row['against_solo']:.3f}",
                f"{row['cpu_against_solo']:.3f}",
                f"{row['p99_ms']:.3f}",
                f"{row['worst_ms']:.3f}",
                f"{row['variance_ms2']:.4g}",
                "" if row["scenario"] == SPINNER else f"{row['stolen_gb_per_s']:.2f}",
                str(row["n"]),
            ]
            for row in own
        ]
        title = f"{part}: {victim}, beside it hogs, and what they take of the memory"
        shown.append(Shown(title, [*header, "hogs GB/s", "n"], lines, 1, _P99))
    return shown


def _curves(rows: list[Row]) -> list[Shown]:
    lines = [
        [
            row["victim"],
            f"{row['per_gb_per_s']:.5f}",
            f"{row['saturation_gb_per_s']:.4g}",
            f"{100 * row['median_held_out_error']:.1f} %",
            f"{100 * row['largest_held_out_error']:.1f} %",
            str(len(row["slowdown"])),
        ]
        for row in rows
    ]
    header = ["network", "a per GB/s", "s GB/s", "held out, median", "largest", "levels"]
    title = "Slowdown over stolen bandwidth b, fitted: 1 + a b / (1 - b / s)"
    return [Shown(title, header, lines, 1)] if rows else []


def _pipelines(rows: list[Row]) -> list[Shown]:
    lines = [
        [
            row["scenario"],
            f"{row['ms']:.2f}",
            f"{row['against_solo']:.3f}",
            f"{100 * row['rate_against_corun']:+.0f} %",
            f"{row['stolen_gb_per_s']:.2f}",
        ]
        for row in rows
    ]
    header = ["scenario", "ms a picture", "to solo", "pictures/s to unprotected", "hogs GB/s"]
    title = "A picture prepared by the CPU, then the network: the coarse lock starves the first"
    return [Shown(title, header, lines, 1)] if rows else []


def _locks(rows: list[Row]) -> list[Shown]:
    number: Callable[[float], str] = "{:.1f}".format
    lines = [
        [row["lock"], str(row["held"]), *(number(row[name]) for name in ("us", "low_us", "p99_us"))]
        for row in rows
    ]
    header = ["lock", "hogs held", "median us", "quartile", "p99 us"]
    return [Shown("Taking and giving back a lock", header, lines, 1, _P99)] if rows else []
