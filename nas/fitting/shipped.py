"""Puts a measurement into the package: `python -m nas.fitting.shipped MEASUREMENT_ms.json ...`.

Reads the origin that `python -m nas.measure` wrote and the journals beside it; writes the table and
the origin that `latency.shipped` reads. Disturbed measurements are left out; an architecture that
was measured several times counts with the median of them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from latency.shipped import FOLDER, TABLE_SUFFIX, write_shipped
from nas.exit_status import one_line_errors
from nas.measurement_folder import rows_of
from runtime.quiet import QuietConfig

_MACHINE_ONLY = ("out", "core", "shard", "on_disturbance")  # settings that say nothing of the times


@one_line_errors()
def main(origins: Sequence[str] | None = None) -> None:
    """Convert each measurement named on the command line."""
    for origin in map(Path, sys.argv[1:] if origins is None else origins):
        table = ship(origin, FOLDER)
        sys.stdout.write(f"{origin} -> {table}, {table.stat().st_size / 1000:.0f} kB\n")


def ship(origin: Path, folder: Path) -> Path:
    """Write a measurement's table and origin to a folder; returns the table."""
    slug = origin.name.removesuffix("_ms.json")
    facts = json.loads(origin.read_text(encoding="utf-8"))
    facts["settings"] = {
        name: value for name, value in facts["settings"].items() if name not in _MACHINE_ONLY
    }
    taken: dict[int, list[list[float]]] = {}
    for row in rows_of(origin.parent, slug, QuietConfig(**facts["settings"]["quiet"])):
        if not row["disturbances"]:
            times_ms = [float(row[name]) for name in ("median_ms", "p95_ms", "p99_ms")]
            taken.setdefault(int(row["index"]), []).append(times_ms)
    table = folder / f"{slug}{TABLE_SUFFIX}"
    write_shipped(
        table, ((index, *np.median(times_ms, axis=0)) for index, times_ms in taken.items())
    )
    facts["rows_measured"] = len(taken)
    text = json.dumps(facts, indent=2) + "\n"
    table.with_name(f"{slug}.json").write_text(text, encoding="utf-8")
    return table


if __name__ == "__main__":
    main()
