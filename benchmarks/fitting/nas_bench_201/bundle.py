"""Puts a measurement into the package: `python -m benchmarks.fitting.nas_bench_201.bundle MEASUREMENT_ms.json ...`.

Reads the origin that `python -m nas.measure` wrote and the journals beside it; writes the table and
the origin that `latency.devices.bundled` reads. Disturbed measurements are left out; an architecture that
was measured several times counts with the median of them. Where a board stands, by its address and by
its name in a network, and where files lie on the machine that measured, is left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fitting.nas_bench_201.bundled_table import write_bundled
from edgenas_core.command.exit_status import one_line_errors
from edgenas_core.files.atomic_file import replacing
from edgenas_core.machine.stability import MOST_DRIFT, StabilityConfig
from edgenas_core.machine.timing import Statistic
from edgenas_core.types.errors import UserError
from latency.devices.bundled import TABLE_SUFFIX, read_bundled
from latency.measuring.folder import rows_of
from nas.spaces.nas_bench_201 import plugin
from nas.spaces.nas_bench_201.plugin import SPACE

FOLDER = Path(plugin.__file__).with_name("measured")

_MACHINE_ONLY = ("out", "core", "shard", "on_disturbance", "minutes")
"""Settings that say nothing of the times."""
_PLACES = ("ssh_config", "python", "env")
"""Settings that are paths on the board or on this machine."""


@one_line_errors()
def main(origins: Sequence[str] | None = None) -> None:
    """Convert each measurement named on the command line."""
    for origin in map(Path, sys.argv[1:] if origins is None else origins):
        table = ship(origin, FOLDER)
        sys.stdout.write(f"{origin} -> {table}, {table.stat().st_size / 1000:.0f} kB\n")


def ship(origin: Path, folder: Path) -> Path:
    """Write a measurement's table and origin to a folder; returns the table.

    Raises:
      UserError: if it is no origin of `nas.measure`, or the journals beside it hold nothing.
      OSError: if a file cannot be read or written.
    """
    slug = origin.name.removesuffix("_ms.json")
    facts, quiet = _read(origin)
    taken: dict[int, list[list[float]]] = {}
    if facts["settings"].get("correct_drift"):  # of earlier versions
        raise UserError(f"{origin} was measured with correct_drift=true; measure it again without")
    for row in rows_of(origin.parent, slug, quiet):
        if not row["disturbances"]:
            times_ms = [float(row[name]) for name in ("median_ms", "p95_ms", "p99_ms")]
            number = int(SPACE.numbers(SPACE.parse(row["arch"])))
            taken.setdefault(number, []).append(times_ms)
    if not taken:
        raise UserError(
            f"no {slug}*.journal.csv beside {origin} holds an undisturbed measurement; leave the "
            f"origin in the folder where nas.measure wrote it, under its name"
        )
    table = folder / f"{slug}{TABLE_SUFFIX}"
    if table.exists() and len(read_bundled(table).index) > len(taken):
        raise UserError(
            f"{table} has more cells than the {len(taken)} of {origin}; remove it first if these shall "
            f"replace it"
        )
    with replacing(table) as file:
        write_bundled(
            file, ((index, *np.median(times_ms, axis=0)) for index, times_ms in taken.items())
        )
    facts["rows_measured"] = len(taken)
    with replacing(table.with_name(f"{slug}.json")) as file:
        file.write((json.dumps(facts, indent=2) + "\n").encode())
    return table


def _read(origin: Path) -> tuple[dict[str, Any], StabilityConfig]:
    """Read the origin, less what does not concern the times, and the rows that count as disturbed."""
    try:
        facts = dict(json.loads(origin.read_text(encoding="utf-8")))
        facts = _nameless(facts)
        settings = {
            k: v for k, v in facts["settings"].items() if k not in (*_MACHINE_ONLY, *_PLACES)
        }
        tolerance = settings.get("tolerance")
        if tolerance is None:  # earlier versions had a limit for each
            tolerance = settings.get("quiet", settings)["control_drift"] / MOST_DRIFT
        quiet = StabilityConfig(float(tolerance))
        statistic, _ = Statistic(facts["statistic"]), str(facts["device"])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise UserError(
            f"{origin} is not the origin of a table of nas.measure ({type(error).__name__}: "
            f"{error}); name the ..._ms.json that it wrote"
        ) from error
    if statistic is not Statistic.median:
        raise UserError(
            f"{origin} is of {statistic.value}; name the origin of the median, whose table in the "
            f"package holds p95 and p99 too"
        )
    if settings.get("scenario") is not None:
        # what stands beside the settings says all of it
        settings["scenario"] = Path(settings["scenario"]).stem
    if "latency" in settings:
        settings["latency"] = {k: v for k, v in settings["latency"].items() if k not in _PLACES}
    return {**facts, "settings": settings}, quiet


def _nameless(facts: dict[str, Any]) -> dict[str, Any]:
    """With boards that are numbered: neither address nor name in a network is left."""
    boards = facts.get("boards")
    if boards is None:
        return facts
    numbers = {address: f"board {k}" for k, address in enumerate(boards, start=1)}
    numbered = {
        of: {numbers[address]: fact for address, fact in facts.get(of, {}).items()}
        for of in ("boards", "states_at_the_end")
    }
    for board in numbered["boards"].values():
        board.pop("host", None)
    return {
        **facts,
        **numbered,
        "settings": {**facts["settings"], "device": ", ".join(numbers.values())},
    }


if __name__ == "__main__":
    main()
