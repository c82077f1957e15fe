"""Export of a schedule in Chrome's trace event format, for https://ui.perfetto.dev."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from common.files.atomic_file import write_whole
from runtime.scheduling.schedule import Schedule

_LANES, _NETWORKS = 1, 2
"""Two groups of tracks: the jobs of each lane, and the duration of each request."""


def write_trace(schedule: Schedule, path: Path) -> None:
    """Write the JSON file atomically, creating its folder if needed.

    Raises:
      OSError: if it cannot be written.
    """
    write_whole(path, json.dumps(trace_events(schedule), allow_nan=False))


def trace_events(schedule: Schedule) -> dict[str, Any]:
    """Return the content of the file, with times in microseconds."""
    events = [_name("process_name", _LANES, 0, "lanes")]
    events += [_name("thread_name", _LANES, i, lane.name) for i, lane in enumerate(schedule.lanes)]
    events.append(_name("process_name", _NETWORKS, 0, "requests"))
    for execution in schedule.executed:
        chain = schedule.chains[execution.job.network]
        events.append(
            {
                "ph": "X",
                "pid": _LANES,
                "tid": execution.lane,
                "ts": 1e3 * execution.start_ms,
                "dur": 1e3 * (execution.end_ms - execution.start_ms),
                "name": f"{chain.name} {execution.job.index}",
                "cat": chain.kinds[execution.job.index].value,
                "args": {"request": execution.job.request, "network": execution.job.network},
            }
        )
    for i, (request, end_ms) in enumerate(
        zip(schedule.requests, schedule.completion_ms, strict=True)
    ):
        if end_ms is not None:
            common = {
                "pid": _NETWORKS,
                "tid": request.network,
                "id": i,
                "cat": "request",
                "name": schedule.chains[request.network].name,
            }
            events.append({"ph": "b", "ts": 1e3 * request.arrival_ms, **common})
            events.append({"ph": "e", "ts": 1e3 * end_ms, **common})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _name(what: str, group: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": group, "tid": track, "name": what, "args": {"name": name}}
