"""A study for TensorBoard: the curves of its page, median and interval over the seeds, and T as a line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgenas_core.page.chart import Values
from edgenas_core.page.parts import Figure
from nas.report.event_file import EventFile

_TAGS = ("gap", "latency_ms")
"""Of the first charts of a problem."""


def write_curves(folder: Path, charts: Mapping[tuple[str, float], Sequence[Figure]]) -> None:
    """Write each curve as a run of TensorBoard: `<name>`, and `<name> low` and `<name> high` of its interval.

    Args:
      folder: of the runs.
      charts: by device and T in ms, that of the gaps and that of the latencies first.
    """
    files: dict[str, EventFile] = {}

    def write(run: str, tag: str, x: Values, y: Values) -> None:
        if run not in files:
            files[run] = EventFile(folder / run)
        for step, value in zip(x, y, strict=True):
            if math.isfinite(value):
                files[run].scalar(tag, float(value), int(step))

    for (device, limit_ms), figures in charts.items():
        problem = f"{device.replace('/', '-')}-T{limit_ms:g}ms"
        for kind, figure in zip(_TAGS, figures, strict=False):
            ends = ["low", "high"]  # the edges of a band stand before its line
            for trace in figure.data:
                name = str(trace["legendgroup"])
                suffix = "" if "name" in trace else f" {ends.pop(0)}"
                ends = ends or ["low", "high"]
                write(f"{name}{suffix}", f"{problem}/{kind}", trace["x"], trace["y"])
            if kind == "latency_ms":
                steps = figure.data[-1]["x"]
                write("T", f"{problem}/{kind}", steps, [limit_ms] * len(steps))
    for file in files.values():
        file.close()
